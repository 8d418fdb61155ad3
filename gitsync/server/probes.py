"""For machines: liveness, readiness, metrics."""

from __future__ import annotations

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest

from gitsync.errors import RecordUnavailable
from gitsync.server.backend import Backend
from gitsync.server.metrics import Applications


def router(engine: Backend) -> APIRouter:
    """Return ``/healthz``, ``/readyz`` and ``/metrics``."""
    routes = APIRouter()
    registry = CollectorRegistry()
    registry.register(Applications(engine))

    @routes.get("/healthz")
    def healthz() -> Response:
        return Response("ok\n", media_type="text/plain")

    @routes.get("/readyz")
    def readyz() -> Response:
        try:
            engine.records.history(limit=1)
        except RecordUnavailable as error:
            return JSONResponse({"ready": False, "reason": str(error)}, 503)
        return JSONResponse({"ready": True})

    @routes.get("/metrics")
    def metrics() -> Response:
        text = generate_latest(registry) + generate_latest(REGISTRY)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    return routes
