"""Answers of the non-resource paths, such as discovery and OpenAPI."""

from __future__ import annotations

from typing import Any

import orjson

from gitsync.sandbox import errors
from gitsync.sandbox.http import checks, discovery
from gitsync.sandbox.http.negotiation import discovery_version
from gitsync.sandbox.http.openapi import OpenApi
from gitsync.sandbox.http.route import Route
from gitsync.sandbox.http.transport.messages import TEXT, Request, Response, json_response, text_response
from gitsync.sandbox.registry.resources import Registry

VERSION = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.2+gitsync",
    "gitCommit": "0000000000000000000000000000000000000000",
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "gc",
    "platform": "linux/amd64",
}
"""What ``/version`` says: the API it speaks, and that it is this sandbox."""


class Documents:
    """Answer requests for documents. ``address`` is where the sandbox is served, as discovery tells it."""

    def __init__(self, registry: Registry, openapi: OpenApi) -> None:
        self.address = ""
        self._registry = registry
        self._openapi = openapi

    def answer(self, request: Request, route: Route | None) -> Response:
        """Return the document of a path, or the 404 in plain text."""
        path = request.path
        registry = self._registry
        if path in checks.PATHS:
            self._require_get(request)
            return text_response(checks.verbose(path) if "verbose" in request.query else "ok")
        if path.rstrip("/") == "/version":
            self._require_get(request)
            return json_response(VERSION)
        wants = discovery_version(request.headers.get("accept", ""))
        if path.rstrip("/") in ("/api", "/apis"):
            core = path.rstrip("/") == "/api"
            if wants:
                document = discovery.aggregated(registry, wants, core=core)
                return json_response(document, content_type=discovery.AGGREGATED.format(wants))
            return json_response(discovery.core_versions(self.address) if core else discovery.group_list(registry))
        if path == "/":
            return json_response(discovery.paths(registry))
        if path.startswith("/openapi/v3"):
            return self._openapi_document(request)
        found: dict[str, Any] | None = None
        if route is not None:
            found = discovery.resource_list(registry, route.group, route.version)
        elif path.startswith("/apis/") and path.count("/") in (2, 3):
            found = discovery.group(registry, path.split("/")[2])
        if found is None:
            return text_response("404 page not found\n", 404)
        self._require_get(request)
        return json_response(found)

    def _openapi_document(self, request: Request) -> Response:
        path = request.path.removeprefix("/openapi/v3").strip("/")
        if not path:
            return Response(200, orjson.dumps(self._openapi.index()), TEXT)
        document = self._openapi.document(path)
        if document is None:
            return Response(404, b"", TEXT)
        wanted = request.query.get("hash")
        if wanted is not None and wanted != self._openapi.hash_of(path):
            return Response(301, b"", TEXT, {"Location": self._openapi.url(path)})
        return Response(200, document)

    def _require_get(self, request: Request) -> None:
        if request.method not in ("GET", "HEAD"):
            raise errors.method_not_allowed()
