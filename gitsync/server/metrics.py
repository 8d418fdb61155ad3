"""Metrics of what the engine knows, worked out when asked. No names of applications: the page may be open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from gitsync.objects.conditions import SOURCE_READY, find_condition
from gitsync.objects.manifest import at
from gitsync.ports import BOUNDS, ApplicationView
from gitsync.server.backend import Backend
from gitsync.server.pending import needs_approval


class Applications(Collector):
    """Gauges and totals over all applications."""

    def __init__(self, engine: Backend) -> None:
        self._engine = engine

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        views = self._engine.view.applications()
        for label in ("sync", "health", "phase"):
            gauge = GaugeMetricFamily(f"gitsync_applications_{label}", f"Applications by {label}", labels=[label])
            for state, count in sorted(Counter(str(view.status.get(label, "Unknown")) for view in views).items()):
                gauge.add_metric([state], count)
            yield gauge
        ready = GaugeMetricFamily(
            "gitsync_source_ready", "Applications by the status of their condition SourceReady", labels=["status"]
        )
        sources = Counter(str(find_condition(view.status, SOURCE_READY).get("status", "Unknown")) for view in views)
        for status in ("True", "False", "Unknown"):
            ready.add_metric([status], sources[status])
        yield ready
        resources = GaugeMetricFamily("gitsync_resources", "Objects by sync state", labels=["sync"])
        for state, count in sorted(Counter(item.sync for view in views for item in view.resources).items()):
            resources.add_metric([state], count)
        yield resources
        yield self._stages()
        corrected = sum(int(at(view.status, "drift", "correctedTotal", default=0)) for view in views)
        yield CounterMetricFamily("gitsync_drift_corrected", "Objects put back to what Git says", value=corrected)
        now = self._engine.clock.now()
        looks = [max((now - view.seen).total_seconds(), 0.0) for view in views]
        for name, text, value in (
            ("queue_length", "Applications that wait for a worker", self._engine.requests.queue_length()),
            (
                "applications_awaiting_approval",
                "Applications whose plan waits for a person",
                sum(map(needs_approval, views)),
            ),
            ("applications_behind_git", "Applications whose newest commit is not applied", sum(map(_is_behind, views))),
            ("oldest_look_seconds", "Seconds since the oldest observation", max(looks, default=0.0)),
        ):
            yield GaugeMetricFamily(f"gitsync_{name}", text, value=value)

    def _stages(self) -> Metric:
        """Return how long the stages of reconciles took."""
        text = "How long each stage of a reconcile took, with the time in the queue"
        family = HistogramMetricFamily("gitsync_reconcile_stage_seconds", text, labels=["stage"])
        for stage, found in sorted(self._engine.view.stage_durations().items()):
            limits = (*map(str, BOUNDS), "+Inf")
            family.add_metric([stage], list(zip(limits, accumulate(found.counts), strict=True)), found.seconds)
        return family


def _is_behind(view: ApplicationView) -> bool:
    revision = view.status.get("revision") or {}
    return bool(revision.get("fetched") != revision.get("applied"))
