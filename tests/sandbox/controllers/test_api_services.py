"""Availability of APIServices: each check of kube-aggregator, and the way back to available."""

from __future__ import annotations

import base64
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.http.transport.tls import make_certificate
from tests.sandbox.controllers.cluster import NAMESPACE, World, pod

GROUP = "apiregistration.k8s.io"
NAME = "v1.metrics.example.com"


def api_service(port: int = 443, **spec: Any) -> Manifest:
    given = {"group": "metrics.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100}
    where = {"service": {"name": "metrics", "namespace": NAMESPACE, "port": port}}
    metadata = {"name": NAME}
    spec = {**given, **where, "insecureSkipTLSVerify": True, **spec}
    return {"apiVersion": f"{GROUP}/v1", "kind": "APIService", "metadata": metadata, "spec": spec}


def service(**spec: Any) -> Manifest:
    ports = [{"name": "https", "port": 443, "targetPort": 8443, "protocol": "TCP"}]
    given = {"ports": ports, "type": "ClusterIP", "selector": {"app": "web"}, **spec}
    metadata = {"name": "metrics", "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": given}


def available(world: World) -> tuple[str, str, str]:
    (found,) = world.get(GROUP, "APIService", NAME, "")["status"]["conditions"]
    assert found["type"] == "Available"
    return found["status"], found["reason"], found["message"]


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/apis/metrics.example.com/v1" else 404)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing."""


@pytest.fixture
def server() -> Iterator[tuple[int, str]]:
    """The port of an API server on loopback, and the bundle that signed its certificate."""
    certificate = make_certificate()
    http = HTTPServer(("127.0.0.1", 0), Handler)
    http.socket = certificate.server_context().wrap_socket(http.socket, server_side=True)
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    yield http.server_port, base64.b64encode(certificate.authority.encode()).decode()
    http.shutdown()
    thread.join()
    http.server_close()


def test_a_local_one_is_always_available(world: World) -> None:
    world.create(api_service(service=None, insecureSkipTLSVerify=False))
    world.advance(1)
    assert available(world) == ("True", "Local", "Local APIServices are always available")


def test_each_missing_part_is_named_until_a_pod_is_ready(world: World) -> None:
    world.create(api_service())
    world.advance(0.1)
    assert available(world) == ("False", "ServiceNotFound", f'service/metrics in "{NAMESPACE}" is not present')
    world.create(service())
    world.advance(0.1)
    missing = f'endpointslices for service/metrics in "{NAMESPACE}" have no addresses with port name "https"'
    assert available(world) == ("False", "MissingEndpoints", missing)
    world.create(pod())
    world.advance(2)
    assert available(world) == ("True", "Passed", "all checks passed")


def test_a_service_without_endpoint_slices_or_the_port_is_named(world: World) -> None:
    world.create(service(selector=None))
    world.create(api_service())
    world.advance(0.1)
    none = f'cannot find endpointslices for service/metrics in "{NAMESPACE}"'
    assert available(world) == ("False", "EndpointsNotFound", none)
    world.patch(GROUP, "APIService", NAME, {"spec": {"service": {"port": 8443}}}, "")
    world.advance(0.1)
    no_port = f'service/metrics in "{NAMESPACE}" is not listening on port 8443'
    assert available(world) == ("False", "ServicePortError", no_port)


def test_the_time_of_the_condition_changes_with_its_status_only(world: World) -> None:
    world.create(api_service())
    world.advance(0.1)
    since = world.get(GROUP, "APIService", NAME, "")["status"]["conditions"][0]["lastTransitionTime"]
    world.advance(10)
    world.create(service())
    world.advance(0.1)
    (found,) = world.get(GROUP, "APIService", NAME, "")["status"]["conditions"]
    assert (found["reason"], found["lastTransitionTime"]) == ("MissingEndpoints", since)


def test_an_unchanged_verdict_is_not_written_again(world: World) -> None:
    world.create(api_service())
    world.advance(1)
    before = world.writes
    world.advance(60)
    assert world.writes == before


def test_a_server_on_loopback_has_to_answer(world: World, server: tuple[int, str]) -> None:
    port, _ = server
    world.create(service(type="ExternalName", externalName="localhost", selector=None))
    world.create(api_service(port))
    world.advance(0.1)
    assert available(world) == ("True", "Passed", "all checks passed")


def test_a_port_that_refuses_is_named_and_checked_again(world: World) -> None:
    world.create(service(type="ExternalName", externalName="localhost", selector=None))
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        port = bound.getsockname()[1]
        world.create(api_service(port))
        world.advance(0.1)
    url = f"https://localhost:{port}/apis/metrics.example.com/v1"
    refused = f'Get "{url}": dial tcp 127.0.0.1:{port}: connect: connection refused'
    message = f"failing or missing response from {url}: {refused}"
    assert available(world) == ("False", "FailedDiscoveryCheck", message)


def test_another_status_than_success_is_named(world: World, server: tuple[int, str]) -> None:
    port, _ = server
    world.create(service(type="ExternalName", externalName="localhost", selector=None))
    wrong = {**api_service(port, version="v2"), "metadata": {"name": "v2.metrics.example.com"}}
    world.create(wrong)
    world.advance(0.1)
    (found,) = world.get(GROUP, "APIService", "v2.metrics.example.com", "")["status"]["conditions"]
    url = f"https://localhost:{port}/apis/metrics.example.com/v2"
    assert found["message"] == f"failing or missing response from {url}: bad status from {url}: 404"


def test_a_bundle_without_a_certificate_fails_the_check(world: World, server: tuple[int, str]) -> None:
    world.create(service(type="ExternalName", externalName="localhost", selector=None))
    world.create(api_service(server[0], caBundle="/////w==", insecureSkipTLSVerify=False))
    world.advance(0.1)
    assert available(world)[:2] == ("False", "FailedDiscoveryCheck")


def test_a_certificate_for_another_name_is_refused(world: World, server: tuple[int, str]) -> None:
    port, bundle = server
    world.create(service(type="ExternalName", externalName="localhost", selector=None))
    world.create(api_service(port, caBundle=bundle, insecureSkipTLSVerify=False))
    world.advance(0.1)
    status, reason, message = available(world)
    assert (status, reason) == ("False", "FailedDiscoveryCheck")
    assert "tls: failed to verify certificate" in message


@pytest.mark.parametrize("host", ["metrics.example.com", "127.example.com"])
def test_only_loopback_is_connected_to(world: World, host: str) -> None:
    world.create(service(type="ExternalName", externalName=host, selector=None))
    world.create(api_service())
    world.advance(0.1)
    assert available(world)[1:] == (
        "FailedDiscoveryCheck",
        f"failing or missing response from https://{host}:443/apis/metrics.example.com/v1: "
        f'Get "https://{host}:443/apis/metrics.example.com/v1": dial tcp: lookup {host}: no such host',
    )
