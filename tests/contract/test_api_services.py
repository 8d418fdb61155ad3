"""Aggregated API servers: one that does not answer delays the health of its Application, and nothing else."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.http.transport.tls import make_certificate
from tests.contract.manifests import config_map, manifest
from tests.contract.stage import Stage, eventually

API = "apiregistration.k8s.io/v1"


class Discovery(BaseHTTPRequestHandler):
    """Answers the discovery of every group version with a list of no resources."""

    def do_GET(self) -> None:
        group_version = self.path.removeprefix("/apis/")
        body = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": []}
        content = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing."""


class ApiServer:
    """An aggregated API server on loopback whose port is taken at once, and which answers once it is started."""

    def __init__(self) -> None:
        self._http = HTTPServer(("127.0.0.1", 0), Discovery, bind_and_activate=False)
        self._http.server_bind()
        self._thread = threading.Thread(target=self._http.serve_forever)

    @property
    def port(self) -> int:
        """The port, which refuses connections before ``start``."""
        return self._http.server_port

    def start(self) -> None:
        """Listen and answer."""
        self._http.socket = make_certificate().server_context().wrap_socket(self._http.socket, server_side=True)
        self._http.server_activate()
        self._thread.start()

    def close(self) -> None:
        """End the server, if it was started."""
        if self._thread.is_alive():
            self._http.shutdown()
            self._thread.join()
        self._http.server_close()


@pytest.fixture
def server() -> Iterator[ApiServer]:
    """An API server that is not started."""
    made = ApiServer()
    yield made
    made.close()


def behind_localhost(stage: Stage, port: int) -> tuple[Manifest, Manifest]:
    """Return an APIService of the test's own group, and a Service that sends its requests to a port of loopback."""
    group = f"{stage.system}.example.com"
    service = manifest("v1", "Service", "metrics", spec={"type": "ExternalName", "externalName": "localhost"})
    spec = {
        "group": group,
        "version": "v1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "insecureSkipTLSVerify": True,
        "service": {"name": "metrics", "namespace": stage.namespace, "port": port},
    }
    stage.remember("APIService", f"v1.{group}", API)
    return manifest(API, "APIService", f"v1.{group}", spec=spec), service


def ready(stage: Stage) -> str:
    """Return why the Application is not ready."""
    return next((each["message"] for each in stage.status()["conditions"] if each["type"] == "Ready"), "")


def test_an_api_service_is_healthy_once_its_server_answers(stage: Stage, server: ApiServer) -> None:
    made, service = behind_localhost(stage, server.port)
    stage.sync({"api.yaml": [made, service], "config.yaml": config_map("config", a="1")})
    name = made["metadata"]["name"]
    eventually(stage, lambda: f"APIService {name}: FailedDiscoveryCheck: " in ready(stage))
    assert "connection refused" in ready(stage)
    assert stage.status()["health"] == "Progressing"
    assert stage.plan_writes() == []
    stage.patch("ConfigMap", "config", {"data": {"a": "2"}})
    eventually(stage, lambda: stage.live("ConfigMap", "config")["data"]["a"] == "1")
    server.start()
    eventually(stage, lambda: stage.status().get("health") == "Healthy")
    assert stage.plan_writes() == []
    stage.synced(stage.commit({"api.yaml": service}))
    eventually(stage, lambda: stage.get("APIService", name, namespace="", api=API) is None)
