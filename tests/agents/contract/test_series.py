"""Probes beside rollouts: when the next one is due, and what their reports mean."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gitsync.agents.contract.series import ProbeResult, ProbeSeries, behaviour_result, contract_result

NOW = datetime(2026, 1, 1, 3, 0, 30, tzinfo=UTC)
DRIFT = {"class": "Dangerous", "count": 1, "differences": [{"place": "tools.a"}]}


def series(
    last: Mapping[str, Any] | None = None, *, lock: str = "l1", schedule: str | None = None, after: float = 0
) -> ProbeSeries:
    return ProbeSeries((lock, "a-1"), last or {}, schedule, NOW + timedelta(seconds=after))


def test_a_subject_is_probed_once_without_a_schedule() -> None:
    first = series()
    assert (first.is_due, first.is_known, first.requeue_after) == (True, False, None)
    last = first.ended(ProbeResult.UNCHANGED, {"count": 0}, is_complete=True)
    assert not series(last, after=86400).is_due
    assert series(last, after=86400).requeue_after is None
    other = series(last, lock="l2")
    assert (other.is_due, other.is_known, other.id != first.id) == (True, False, True)


def test_each_time_of_the_schedule_is_one_probe() -> None:
    hourly = {"schedule": "0 * * * *"}
    first = series(**hourly)
    last = first.ended(ProbeResult.UNCHANGED, {}, is_complete=True)
    waiting = series(last, after=60, **hourly)
    assert (waiting.is_due, waiting.requeue_after) == (False, 3600 - 90)
    due = series(last, after=3600, **hourly)
    assert (due.is_due, due.id != first.id) == (True, True)
    # The same while it runs, whatever the minute.
    assert series(last, after=3900, **hourly).id == due.id


def test_a_probe_without_a_result_is_repeated_later_and_later() -> None:
    last = series().ended(ProbeResult.INCONCLUSIVE, {"message": "quota"}, is_complete=False)
    ids = {series().id}
    for delay in (60, 120, 240):
        assert not series(last, after=delay - 1).is_due
        assert series(last, after=delay - 1).requeue_after == 1
        again = series(last, after=delay)
        assert again.is_due
        ids.add(again.id)
        # The clock of the test begins again with each report.
        last = {**again.ended(ProbeResult.INCONCLUSIVE, {}, is_complete=False), "finishedAt": last["finishedAt"]}
    assert len(ids) == 4
    done = series(last, after=480).ended(ProbeResult.UNCHANGED, {}, is_complete=True)
    assert not series(done, after=10**6).is_due


def test_an_outage_does_not_end_known_drift() -> None:
    last = series().ended(ProbeResult.DRIFTED, DRIFT, is_complete=True)
    hourly = series(last, schedule="0 * * * *", after=3600)
    outage = hourly.ended(ProbeResult.INCONCLUSIVE, {"count": 0, "unreachable": ["a: gone"]}, is_complete=False)
    assert (outage["result"], outage["class"], outage["unreachable"]) == ("Drifted", "Dangerous", ["a: gone"])
    # Of another lock it says nothing.
    other = series(last, lock="l2").ended(ProbeResult.INCONCLUSIVE, {"count": 0}, is_complete=False)
    assert (other["result"], "class" in other) == ("Inconclusive", False)


@pytest.mark.parametrize(
    ("report", "result"),
    [
        ({"count": 0, "differences": [], "unreachable": []}, (ProbeResult.UNCHANGED, True)),
        (DRIFT, (ProbeResult.DRIFTED, True)),
        ({**DRIFT, "unreachable": ["b"]}, (ProbeResult.DRIFTED, False)),
        ({"count": 0, "unreachable": ["b"]}, (ProbeResult.INCONCLUSIVE, False)),
        ({"message": "exceeded quota"}, (ProbeResult.INCONCLUSIVE, False)),
    ],
)
def test_a_report_of_a_comparison_has_a_result(report: Mapping[str, Any], result: tuple[ProbeResult, bool]) -> None:
    assert contract_result(report) == result


@pytest.mark.parametrize(
    ("verdict", "result"),
    [
        ("Passed", (ProbeResult.UNCHANGED, True)),
        ("Failed", (ProbeResult.DRIFTED, True)),
        ("Inconclusive", (ProbeResult.INCONCLUSIVE, False)),
        (None, (ProbeResult.INCONCLUSIVE, False)),
    ],
)
def test_failed_cases_are_drift(verdict: str | None, result: tuple[ProbeResult, bool]) -> None:
    assert behaviour_result({"result": verdict}) == result
