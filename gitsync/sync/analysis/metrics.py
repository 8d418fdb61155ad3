"""Evaluate post-sync metric queries against their limits. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from gitsync.objects.application import MetricQuery
from gitsync.objects.conditions import Condition
from gitsync.objects.parsing import duration
from gitsync.ports import MetricResult

CONDITION = "WithinLimits"


@dataclass(frozen=True, slots=True)
class Measurement:
    """
    The result of one metric query.

    ``over`` is the time since which the limit is exceeded; ``verdict`` is the message once that has lasted too long.
    ``problem`` is why the value is unknown. A pending query changes nothing.
    """

    limit: MetricQuery
    over: datetime | None = None
    verdict: str = ""
    problem: str = ""
    is_pending: bool = False


def measure(limit: MetricQuery, reading: MetricResult | None, over: datetime | None, now: datetime) -> Measurement:
    """
    Return the measurement of a limit that the previous reading exceeded since ``over``.

    Only consecutive readings above the limit count: an unknown value resets the time. Of several series the highest
    decides.
    """
    if reading is None:
        return Measurement(limit, over, is_pending=True)
    if reading.problem:
        return Measurement(limit, problem=f"{limit.name}: {reading.problem}")
    worst = max(reading.samples, key=lambda sample: sample.value)
    if worst.value <= limit.max:
        return Measurement(limit)
    since = over or now
    verdict = ""
    if (now - since).total_seconds() >= limit.for_seconds:
        labels = f" {worst.labels}" if worst.labels else ""
        lasting = f" for {duration(limit.for_seconds)}" if limit.for_seconds else ""
        verdict = f"{limit.name} {worst.value:.4g}{labels} is over {limit.max:g}{lasting}"
    return Measurement(limit, since, verdict)


def to_condition(findings: tuple[Measurement, ...], until: datetime, before: Mapping[str, str]) -> Condition:
    """Return the condition that summarizes the findings; while a query is pending, the condition ``before``."""
    verdicts = [finding.verdict for finding in findings if finding.verdict]
    if verdicts:
        return Condition(CONDITION, "False", "OverLimit", "; ".join(verdicts))
    if any(finding.is_pending for finding in findings):
        return Condition(
            CONDITION,
            before.get("status", "Unknown"),
            before.get("reason", "Watching"),
            before.get("message", "Prometheus is queried"),
        )
    over = [_exceeded_message(finding.limit, finding.over) for finding in findings if finding.over]
    if over:
        return Condition(CONDITION, "False", "OverLimit", "; ".join(over))
    problems = [finding.problem for finding in findings if finding.problem]
    if problems:
        return Condition(CONDITION, "Unknown", "NoVerdict", "; ".join(problems))
    return Condition(CONDITION, "True", "Watching", f"{_count(findings)} until {until:%H:%M:%S} UTC")


def final_condition(findings: tuple[Measurement, ...], timeout: float) -> Condition:
    """Return the condition of a commit whose analysis has ended without a failure: it is good."""
    problems = [finding.problem for finding in findings if finding.problem]
    if problems:
        return Condition(CONDITION, "Unknown", "NoVerdict", "; ".join([*problems, "good by its health alone"]))
    return Condition(CONDITION, "True", "Watched", f"{_count(findings)} after {duration(timeout)}")


def _exceeded_message(limit: MetricQuery, since: datetime | None) -> str:
    allowed = duration(limit.for_seconds)
    return f"{limit.name} has exceeded {limit.max:g} since {since:%H:%M:%S} UTC; it fails after {allowed}"


def _count(findings: tuple[Measurement, ...]) -> str:
    return f"{findings[0].limit.name} is within its limit" if len(findings) == 1 else f"{len(findings)} within limits"
