"""Values of a monitoring system."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Sample:
    """One number, never NaN, and the labels of its series, also as text; empty where it has none."""

    value: float
    labels: str = ""
    series: Mapping[str, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class MetricResult:
    """The result of a query: at least one number, or the reason why there is none."""

    samples: tuple[Sample, ...] = ()
    problem: str = ""


class MetricsProvider(Protocol):
    """
    Query a monitoring system. Never raises: a failure is a MetricResult that reports it.

    Called by the post-sync analysis at each pass while a newly applied commit is judged, by canaries of Agents, and for
    the tokens that the dashboard shows.
    """

    def read(self, query: str, max_age: float) -> MetricResult | None:
        """Return the result of a query, at most ``max_age`` seconds old; None while the request is pending."""
        ...
