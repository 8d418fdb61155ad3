"""
Metrics of what the engine knows, worked out when asked. Names of applications only on request: the page may be open.

Further controller processes import this module, and have no dashboard: it must not import FastAPI, which takes 7 MiB.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate, starmap

from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar

from gitsync import __version__, ports
from gitsync.errors import RecordUnavailable
from gitsync.objects.conditions import SOURCE_READY, find_condition
from gitsync.objects.manifest import at
from gitsync.ports import BOUNDS, ApplicationView, ProcessReport
from gitsync.server.backend import Backend
from gitsync.server.queries.waiting import needs_approval


class Applications(Collector):
    """Gauges and totals over all applications, by their statuses; ``by_name`` adds those of each."""

    def __init__(self, engine: Backend, *, by_name: bool = False) -> None:
        self._engine = engine
        self._by_name = by_name

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        views = self._engine.view.applications()
        if self._engine.is_replica:
            # each by one replica: the sum of all would count an Application twice
            views = tuple(view for view in views if self._engine.owns(view.key))
        if self._by_name:
            yield from _each(views)
        for label in ("sync", "health", "phase"):
            states = Counter(str(view.status.get(label, "Unknown")) for view in views)
            yield _by(f"gitsync_applications_{label}", f"Applications by {label}", label, states)
        # all of them from the start: a missing series is not a zero for Prometheus
        sources = Counter({"True": 0, "False": 0, "Unknown": 0})
        sources.update(str(find_condition(view.status, SOURCE_READY).get("status", "Unknown")) for view in views)
        text = "Applications by the status of their condition SourceReady"
        yield _by("gitsync_source_ready", text, "status", sources)
        corrected = sum(int(at(view.status, "drift", "correctedTotal", default=0)) for view in views)
        yield CounterMetricFamily("gitsync_drift_corrected", "Objects put back to what Git says", value=corrected)
        now = self._engine.clock.now()
        # the clock may have been set back
        looks = [max((now - view.seen).total_seconds(), 0.0) for view in views]
        for name, text, value in (
            (
                "applications_awaiting_approval",
                "Applications whose plan waits for a person",
                sum(map(needs_approval, views)),
            ),
            # one whose revision the Git server does not have fails too, and is counted by the source alone
            (
                "applications_failed",
                "Applications that fail for another reason than their source",
                sum(str(view.status.get("phase")) == "Failed" and not _has_no_source(view) for view in views),
            ),
            ("applications_behind_git", "Applications whose newest commit is not applied", sum(map(_is_behind, views))),
            ("oldest_look_seconds", "Seconds since the oldest reconcile that succeeded", max(looks, default=0.0)),
            ("ready", "Whether /readyz answers that it can sync", float(not readiness_problem(self._engine))),
            # windows, approvals and certificates go by this clock, and Prometheus has one to compare it with
            ("clock_seconds", "The clock of the controller, in seconds since 1970", now.timestamp()),
        ):
            yield GaugeMetricFamily(f"gitsync_{name}", text, value=value)


def readiness_problem(engine: Backend) -> str:
    """Return why a controller cannot sync now, empty where it can."""
    try:
        # one row: shows that the database answers
        engine.records.history(limit=1)
    except RecordUnavailable as error:
        return str(error)
    return "; ".join(engine.problems())


class ProcessMetrics(Collector):
    """Gauges and totals of what one controller process works on and keeps."""

    def __init__(self, engine: Backend) -> None:
        self._engine = engine
        self._view = engine.view

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        build = GaugeMetricFamily("gitsync_build_info", "The version of gitsync; its value is 1", labels=["version"])
        build.add_metric([__version__], 1)
        yield build
        sizes = self._view.sizes()
        views = (view for view in self._view.applications() if self._engine.owns(view.key))
        resources = Counter(str(item.sync) for view in views for item in view.resources)
        yield _by("gitsync_resources", "Objects by sync state", "sync", resources)
        yield _by("gitsync_cached_objects", "Live objects that are kept in memory", "resource", sizes.objects)
        yield _by("gitsync_cache_entries", "Entries of other caches", "cache", sizes.entries)
        # absent while it does not answer: a zero would look like an empty one
        if sizes.database is not None:
            yield GaugeMetricFamily("gitsync_database_bytes", "Size of the history database", value=sizes.database)
        if sizes.disk is not None:
            text = "Size of the file system of the data folder"
            yield GaugeMetricFamily("gitsync_data_size_bytes", text, value=sizes.disk.size)
            text = "What can still be written to the data folder"
            yield GaugeMetricFamily("gitsync_data_available_bytes", text, value=sizes.disk.available)
        yield self._stages()
        yield from self._drift()
        text = "Restarts of the containers of watched Pods, by why each ended last"
        yield _by("gitsync_container_restarts", text, "reason", self._view.restarts())
        text = "Requests to the API server for Applications, without watches"
        yield CounterMetricFamily("gitsync_application_api_requests", text, value=self._view.api_requests())
        text = "Applications that wait for a worker"
        yield GaugeMetricFamily("gitsync_queue_length", text, value=self._engine.requests.queue_length())

    def _drift(self) -> Iterator[Metric]:
        """Yield what others changed, and how soon it was restored."""
        totals = self._view.drift_totals()
        text = "Objects that others changed, by kind and the first field manager"
        detected = CounterMetricFamily("gitsync_drift", text, labels=["kind", "manager"])
        for labels, count in sorted(totals.detected.items()):
            detected.add_metric(labels, count)
        yield detected
        limits = (*map(str, BOUNDS), "+Inf")
        heals = HistogramMetricFamily("gitsync_heal_seconds", "Time from an edit to its repair")
        # buckets of Prometheus are cumulative, those of the engine are not
        heals.add_metric([], list(zip(limits, accumulate(totals.heals.counts), strict=True)), totals.heals.seconds)
        yield heals
        yield CounterMetricFamily("gitsync_heals_failed", "Repairs that failed", value=totals.failed)

    def _stages(self) -> Metric:
        """Return how long the stages of reconciles took."""
        text = "How long each stage of a reconcile took, with the time in the queue"
        family = HistogramMetricFamily("gitsync_reconcile_stage_seconds", text, labels=["stage"])
        for stage, durations in sorted(self._view.stage_durations().items()):
            limits = (*map(str, BOUNDS), "+Inf")
            rows = zip(limits, accumulate(durations.counts), durations.exemplars, strict=True)
            family.add_metric([stage], list(starmap(_bucket, rows)), durations.seconds)
        return family


def _bucket(limit: str, count: int, exemplar: ports.Exemplar | None) -> tuple[str, float] | tuple[str, float, Exemplar]:
    """Return a bucket of a histogram with its cumulative count, as the library takes it."""
    if exemplar is None:
        return limit, count
    return limit, count, Exemplar({"trace_id": exemplar.trace}, exemplar.seconds, exemplar.time)


def _each(views: Iterable[ApplicationView]) -> Iterator[Metric]:
    """Yield the state of each application, and when it was reconciled: three series for each."""
    states = ("sync", "health", "phase")
    text = "1, with the states of an application as labels"
    info = GaugeMetricFamily("gitsync_application_info", text, labels=["application", *states])
    seen = GaugeMetricFamily(
        "gitsync_application_seen_seconds", "Time of its last reconcile that succeeded", labels=["application"]
    )
    heals = CounterMetricFamily(
        "gitsync_application_drift_corrected", "Objects of it put back to what Git says", labels=["application"]
    )
    for view in views:
        info.add_metric([view.key, *(str(view.status.get(state, "Unknown")) for state in states)], 1)
        seen.add_metric([view.key], view.seen.timestamp())
        heals.add_metric([view.key], int(at(view.status, "drift", "correctedTotal", default=0)))
    yield from (info, seen, heals)


def _by(name: str, text: str, label: str, counts: Mapping[str, int]) -> Metric:
    gauge = GaugeMetricFamily(name, text, labels=[label])
    for value, count in sorted(counts.items()):
        gauge.add_metric([value], count)
    return gauge


def _has_no_source(view: ApplicationView) -> bool:
    return find_condition(view.status, SOURCE_READY).get("status") == "False"


def _is_behind(view: ApplicationView) -> bool:
    revision = view.status.get("revision") or {}
    return bool(revision.get("fetched") != revision.get("applied"))


FIRST = "1"
"""The process with the dashboard."""


Encoder = Callable[[Collector], bytes]
"""Write metrics in a format of Prometheus: its text, or OpenMetrics, which has exemplars."""


def process_text(
    engine: Backend, *, has_applications: bool, by_name: bool = False, encode: Encoder = generate_latest
) -> str:
    """
    Return the metrics of this process, with those of Applications where no other process reports them.

    ``by_name`` adds series for each Application.
    """
    # not the default registry, which refuses a second application of one process, as in tests
    registry = CollectorRegistry()
    if has_applications:
        registry.register(Applications(engine, by_name=by_name))
    registry.register(ProcessMetrics(engine))
    # the default registry has the memory and the descriptors of the process
    registry.register(_Default())
    return encode(registry).decode()


class _Default(Collector):
    """What libraries measure."""

    def collect(self) -> Iterable[Metric]:
        return REGISTRY.collect()


def with_others(own: str, others: Iterable[ProcessReport], encode: Encoder = generate_latest) -> str:
    """Return the metrics of this process and of others, each with a label; the texts have no exemplars."""
    reports = (ProcessReport(FIRST, own), *others)
    registry = CollectorRegistry()
    registry.register(_Labelled({report.name: report.metrics for report in reports}))
    registry.register(_Up({report.name: report.is_up for report in reports}))
    return encode(registry).decode()


class _Labelled(Collector):
    """The samples of each process with its name, in one family for all, as the format requires."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for process, text in self._texts.items():
            for family in text_string_to_metric_families(text):
                into = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                into.samples += [
                    sample._replace(labels={**sample.labels, "process": process}) for sample in family.samples
                ]
        yield from families.values()


class _Up(Collector):
    """Whether each process answered."""

    def __init__(self, processes: Mapping[str, bool]) -> None:
        self._processes = processes

    def collect(self) -> Iterator[Metric]:
        text = "Whether a controller process of this machine answers; without, its other metrics are missing"
        gauge = GaugeMetricFamily("gitsync_process_up", text, labels=["process"])
        for name, is_up in self._processes.items():
            gauge.add_metric([name], float(is_up))
        yield gauge
