"""For machines: liveness, readiness, metrics."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CollectorRegistry, generate_latest

from gitsync.errors import RecordUnavailable
from gitsync.ports import OtherProcesses
from gitsync.server.auth.access import METRICS, SCRAPER, current_user
from gitsync.server.backend import Backend
from gitsync.server.metrics.collectors import Applications
from gitsync.server.metrics.processes import process_text, with_others

_HIDDEN = (
    "The metrics count all Applications, and a policy names viewers: send GITSYNC_METRICS_TOKEN as a bearer token, or "
    "sign in as a user who sees every Application."
)


def router(engine: Backend, others: OtherProcesses) -> APIRouter:
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

    @routes.get(METRICS)
    def metrics(request: Request) -> Response:
        user = current_user(request)
        if user != SCRAPER and not engine.policies.sees_all(user):
            raise HTTPException(403, _HIDDEN)
        own = generate_latest(registry).decode() + process_text(engine.view, engine.requests.queue_length)
        return Response(with_others(own, others()), media_type="text/plain; version=0.0.4; charset=utf-8")

    return routes
