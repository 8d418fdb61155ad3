"""For machines: liveness, readiness, metrics."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest

from gitsync.errors import RecordUnavailable
from gitsync.server.auth.access import METRICS, SCRAPER, current_user
from gitsync.server.backend import Backend
from gitsync.server.metrics import Applications, Process

_HIDDEN = (
    "The metrics count all Applications, and a policy names viewers: send GITSYNC_METRICS_TOKEN as a bearer token, or "
    "sign in as a user who sees every Application."
)


def router(engine: Backend) -> APIRouter:
    """Return ``/healthz``, ``/readyz`` and ``/metrics``."""
    routes = APIRouter()
    registry = CollectorRegistry()
    registry.register(Applications(engine))
    registry.register(Process(engine.view, engine.requests.queue_length))

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

    @routes.get(METRICS)
    def metrics(request: Request) -> Response:
        user = current_user(request)
        if user != SCRAPER and not engine.policies.sees_all(user):
            raise HTTPException(403, _HIDDEN)
        text = generate_latest(registry) + generate_latest(REGISTRY)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    return routes
