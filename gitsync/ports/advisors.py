"""What comments on plans and commits from outside: a reasoner, and a monitoring system."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from gitsync.objects.application import Application
from gitsync.objects.change import Plan, Risk


@dataclass(frozen=True, slots=True)
class Advice:
    """What a reasoner adds to the explanation of a plan, and the class that it suggests, with its reason."""

    explanation: str = ""
    risk: Risk = Risk.SAFE
    reason: str = ""


class Reasoner(Protocol):
    """
    Comment on plans. Never raises: a failure is an Advice that reports it and changes nothing.

    Called by a reconcile before the gate decides, again at each pass until there is an answer.
    """

    # a model may take long to answer, and a worker reconciles other Applications meanwhile
    def advise(self, app: Application, plan: Plan, key: str) -> Advice | None:
        """Return the advice on a plan, requested once; None while the request is pending. Never blocks."""
        ...


class AdviceCache(Protocol):
    """
    Answers of reasoners, stored so that one plan is not paid for twice; only the newest are kept.

    Called by the reasoner before a request is sent and after it was answered.
    """

    def advice(self, digest: str, asked: str) -> Advice | None:
        """Return the advice on a plan by the endpoint whose hash is ``asked``, None when there is none."""
        ...

    def keep_advice(self, digest: str, asked: str, advice: Advice) -> None:
        """Keep an answer."""
        ...


@dataclass(frozen=True, slots=True)
class Sample:
    """One number, never NaN, and the labels of its series, also as text; empty where it has none."""

    value: float
    labels: str = ""
    # ``labels`` has them too, so that they need not be compared again
    series: Mapping[str, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class MetricResult:
    """The result of a query: at least one number, or the reason why there is none."""

    samples: tuple[Sample, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class MetricSeries:
    """The values of a query, oldest first, each with its time in seconds since the epoch; or why there are none."""

    points: tuple[tuple[float, float], ...] = ()
    problem: str = ""


class MetricsHistory(Protocol):
    """
    Query a monitoring system for values over time. Never raises: a failure is a MetricSeries that reports it.

    Called by the page of an Agent.
    """

    def read_series(self, query: str, period: float, max_age: float) -> MetricSeries | None:
        """Return the values of the last ``period`` seconds, ``max_age`` seconds old at most; None while it is asked."""
        ...


class MetricsProvider(Protocol):
    """
    Query a monitoring system. Never raises: a failure is a MetricResult that reports it.

    Called by the post-sync analysis at each pass while a newly applied commit is judged, by canaries of Agents, and for
    the tokens that the dashboard shows.
    """

    # a reading from before a commit was applied says nothing about it
    def read(self, query: str, max_age: float) -> MetricResult | None:
        """Return the result of a query, at most ``max_age`` seconds old; None while the request is pending."""
        ...
