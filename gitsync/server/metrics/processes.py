"""Metrics of several controller processes as one page: each sample has the label ``process``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from gitsync.ports import ProcessReport, StateReader
from gitsync.server.metrics.collectors import Process

FIRST = "1"
"""The process with the dashboard."""


def process_text(view: StateReader, queue_length: Callable[[], int]) -> str:
    """Return the metrics of this process alone."""
    registry = CollectorRegistry()
    registry.register(Process(view, queue_length))
    return (generate_latest(registry) + generate_latest(REGISTRY)).decode()


def with_others(own: str, others: Iterable[ProcessReport]) -> str:
    """Return the metrics of this process and of others; those of one process alone get no label."""
    reports = (ProcessReport(FIRST, own), *others)
    if len(reports) == 1:
        return own
    registry = CollectorRegistry()
    registry.register(_Labelled({one.name: one.metrics for one in reports}))
    registry.register(_Up({one.name: one.is_up for one in reports}))
    return generate_latest(registry).decode()


class _Labelled(Collector):
    """The samples of each process with its name, in one family for all, as the format requires."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for process, text in self._texts.items():
            for found in text_string_to_metric_families(text):
                into = families.setdefault(found.name, Metric(found.name, found.documentation, found.type))
                into.samples += [one._replace(labels={**one.labels, "process": process}) for one in found.samples]
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
