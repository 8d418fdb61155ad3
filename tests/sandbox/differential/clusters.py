"""The two sides of the differential test: HTTP connections to a cluster, and the objects both start with."""

from __future__ import annotations

import base64
import json
import ssl
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.sandbox.differential.compare import Answer
from tests.sandbox.differential.requests import Request


class ClusterClient:
    """An HTTP client of one API server as its administrator."""

    def __init__(self, url: str, token: str, authority: str = "") -> None:
        verify: ssl.SSLContext | bool = ssl.create_default_context(cadata=authority) if authority else False
        headers = {"Authorization": f"Bearer {token}", "User-Agent": "diff-agent/1"}
        self._http = httpx.Client(base_url=url, headers=headers, verify=verify, timeout=30)

    def send(self, request: Request) -> Answer:
        """Send a request and return its answer; the events of a watch are a list."""
        headers = {"Accept": request.accept}
        content = None
        if request.body is not None:
            content = json.dumps(request.body, separators=(",", ":")).encode()  # as Go: raw data keeps its spaces
            if request.media:
                headers["Content-Type"] = request.media
        try:
            response = self._http.request(request.method, request.path, content=content, headers=headers)
        except httpx.RemoteProtocolError:
            return Answer(0, "the server closed the connection without an answer")
        warnings = tuple(response.headers.get_list("warning"))
        try:
            body: Any = response.json()
        except ValueError:
            body = response.text
        return Answer(response.status_code, body, tuple(", ".join(warnings).split(", 299 ")))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


def real_cluster(kubeconfig: Path) -> ClusterClient:
    """Return a client of the current context's cluster; only token credentials are supported."""
    config = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    by_name = {
        section: {entry["name"]: entry for entry in config[section]} for section in ("contexts", "clusters", "users")
    }
    context = by_name["contexts"][config["current-context"]]["context"]
    cluster, user = by_name["clusters"][context["cluster"]]["cluster"], by_name["users"][context["user"]]["user"]
    authority = base64.b64decode(cluster.get("certificate-authority-data", "")).decode()
    return ClusterClient(cluster["server"], user["token"], authority)
