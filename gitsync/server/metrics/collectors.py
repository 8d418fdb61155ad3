"""Metrics of what the engine knows, worked out when asked. No names of applications: the page may be open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from gitsync.objects.conditions import SOURCE_READY, find_condition
from gitsync.objects.manifest import at
from gitsync.ports import BOUNDS, ApplicationView, StateReader
from gitsync.server.backend import Backend
from gitsync.server.pending import needs_approval


class Applications(Collector):
    """Gauges and totals over all applications, by their statuses."""

    def __init__(self, engine: Backend) -> None:
        self._engine = engine

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        views = self._engine.view.applications()
        for label in ("sync", "health", "phase"):
            states = Counter(str(view.status.get(label, "Unknown")) for view in views)
            yield _by(f"gitsync_applications_{label}", f"Applications by {label}", label, states)
        sources = Counter({"True": 0, "False": 0, "Unknown": 0})
        sources.update(str(find_condition(view.status, SOURCE_READY).get("status", "Unknown")) for view in views)
        text = "Applications by the status of their condition SourceReady"
        yield _by("gitsync_source_ready", text, "status", sources)
        corrected = sum(int(at(view.status, "drift", "correctedTotal", default=0)) for view in views)
        yield CounterMetricFamily("gitsync_drift_corrected", "Objects put back to what Git says", value=corrected)
        now = self._engine.clock.now()
        looks = [max((now - view.seen).total_seconds(), 0.0) for view in views]
        for name, text, value in (
            (
                "applications_awaiting_approval",
                "Applications whose plan waits for a person",
                sum(map(needs_approval, views)),
            ),
            ("applications_behind_git", "Applications whose newest commit is not applied", sum(map(_is_behind, views))),
            ("oldest_look_seconds", "Seconds since the oldest observation", max(looks, default=0.0)),
        ):
            yield GaugeMetricFamily(f"gitsync_{name}", text, value=value)


class Process(Collector):
    """Gauges and totals of what one controller process works on and keeps."""

    def __init__(self, view: StateReader, queue_length: Callable[[], int]) -> None:
        self._view = view
        self._queue_length = queue_length

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        sizes = self._view.sizes()
        resources = Counter(str(item.sync) for view in self._view.applications() for item in view.resources)
        yield _by("gitsync_resources", "Objects by sync state", "sync", resources)
        yield _by("gitsync_cached_objects", "Live objects that are kept in memory", "resource", sizes.objects)
        yield _by("gitsync_cache_entries", "Entries of other caches", "cache", sizes.entries)
        yield self._stages()
        text = "Requests to the API server for Applications, without watches"
        yield CounterMetricFamily("gitsync_application_api_requests", text, value=self._view.api_requests())
        text = "Applications that wait for a worker"
        yield GaugeMetricFamily("gitsync_queue_length", text, value=self._queue_length())

    def _stages(self) -> Metric:
        """Return how long the stages of reconciles took."""
        text = "How long each stage of a reconcile took, with the time in the queue"
        family = HistogramMetricFamily("gitsync_reconcile_stage_seconds", text, labels=["stage"])
        for stage, found in sorted(self._view.stage_durations().items()):
            limits = (*map(str, BOUNDS), "+Inf")
            family.add_metric([stage], list(zip(limits, accumulate(found.counts), strict=True)), found.seconds)
        return family


def _by(name: str, text: str, label: str, counts: Mapping[str, int]) -> Metric:
    gauge = GaugeMetricFamily(name, text, labels=[label])
    for value, count in sorted(counts.items()):
        gauge.add_metric([value], count)
    return gauge


def _is_behind(view: ApplicationView) -> bool:
    revision = view.status.get("revision") or {}
    return bool(revision.get("fetched") != revision.get("applied"))
