"""Evaluation of a limit over successive readings."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from gitsync.objects.application import MetricQuery
from gitsync.objects.conditions import Condition
from gitsync.ports import MetricResult, Sample
from gitsync.sync.post_sync import CONDITION, Measurement, final_condition, measure, to_condition

NOW = datetime(2026, 11, 20, 10, tzinfo=UTC)
RATE = MetricQuery(name="error rate", query="sum(rate(errors[5m]))", max="0.05")
LASTING = MetricQuery(name="error rate", query="sum(rate(errors[5m]))", max="0.05", for_seconds="2m")


def reading(*values: float) -> MetricResult:
    return MetricResult(tuple(Sample(value, f'{{pod="{index}"}}') for index, value in enumerate(values)))


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def test_a_number_up_to_the_limit_is_within_it() -> None:
    assert measure(RATE, reading(0.05, -1), NOW, after(60)) == Measurement(RATE)


def test_one_series_above_the_limit_is_enough_and_is_named() -> None:
    found = measure(RATE, reading(0.01, 0.31234, 0.02), None, NOW)
    assert found.verdict == 'error rate 0.3123 {pod="1"} is over 0.05'


def test_a_number_above_the_limit_may_have_to_last() -> None:
    first = measure(LASTING, reading(0.3), None, NOW)
    assert (first.over, first.verdict) == (NOW, "")
    second = measure(LASTING, reading(0.3), first.over, after(119))
    assert (second.over, second.verdict) == (NOW, "")
    third = measure(LASTING, MetricResult((Sample(0.31),)), second.over, after(120))
    assert third.verdict == "error rate 0.31 is over 0.05 for 2m"


@pytest.mark.parametrize("between", [reading(0.0), MetricResult(problem="the query gives NaN")])
def test_a_break_begins_the_time_anew(between: MetricResult) -> None:
    broken = measure(LASTING, between, NOW, after(60))
    assert (broken.over, broken.verdict) == (None, "")
    assert measure(LASTING, reading(0.3), broken.over, after(121)).verdict == ""


def test_an_answer_on_its_way_changes_nothing() -> None:
    found = measure(LASTING, None, NOW, after(300))
    assert (found.over, found.verdict, found.is_pending) == (NOW, "", True)
    before = {"status": "False", "reason": "OverLimit", "message": "as before"}
    assert to_condition((found,), NOW, before) == Condition(CONDITION, "False", "OverLimit", "as before")
    assert to_condition((found,), NOW, {}) == Condition(CONDITION, "Unknown", "Watching", "Prometheus is queried")


def test_what_weighs_most_is_said() -> None:
    within, over = Measurement(RATE), Measurement(LASTING, NOW)
    unknown, verdict = (
        Measurement(RATE, problem="error rate: no data"),
        Measurement(RATE, NOW, "error rate 1 is over 0.05"),
    )
    for findings, status, text in (
        ((within, over, unknown, verdict), "False", "error rate 1 is over 0.05"),
        ((within, over, unknown), "False", "error rate has exceeded 0.05 since 10:00:00 UTC; it fails after 2m"),
        ((within, unknown), "Unknown", "error rate: no data"),
        ((within, within), "True", "2 within limits until 10:01:00 UTC"),
        ((within,), "True", "error rate is within its limit until 10:01:00 UTC"),
    ):
        found = to_condition(findings, after(60), {})
        assert (found.status, found.message) == (status, text)


def test_in_the_end_what_nobody_could_tell_is_said() -> None:
    assert final_condition((Measurement(RATE),), 600) == Condition(
        CONDITION, "True", "Watched", "error rate is within its limit after 10m"
    )
    unknown = final_condition((Measurement(RATE, problem="error rate: no data"),), 600)
    assert (unknown.status, unknown.message) == ("Unknown", "error rate: no data; good by its health alone")
