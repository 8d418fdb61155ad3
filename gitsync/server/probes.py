"""For machines: liveness, readiness, metrics."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gitsync.errors import RecordUnavailable
from gitsync.server.engine import Engine


def router(engine: Engine) -> APIRouter:
    """Return ``/healthz``, ``/readyz`` and ``/metrics``."""
    routes = APIRouter()
    registry = CollectorRegistry()
    registry.register(_Applications(engine))

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
        return Response(generate_latest(registry), media_type="text/plain; version=0.0.4; charset=utf-8")

    return routes


class _Applications(Collector):
    """Gauges of what the engine knows, worked out when asked."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges."""
        views = self._engine.view.applications()
        for label in ("sync", "health", "phase"):
            gauge = GaugeMetricFamily(f"gitsync_applications_{label}", f"Applications by {label}", labels=[label])
            for state, count in sorted(Tally(str(view.status.get(label, "Unknown")) for view in views).items()):
                gauge.add_metric([state], count)
            yield gauge
        resources = GaugeMetricFamily("gitsync_resources", "Objects by sync state", labels=["sync"])
        for state, count in sorted(Tally(item.sync for view in views for item in view.resources).items()):
            resources.add_metric([state], count)
        yield resources
        yield GaugeMetricFamily("gitsync_queue_length", "Applications that wait for a worker",
                                value=self._engine.requests.queue_length())  # fmt: skip
