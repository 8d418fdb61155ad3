"""Charts: coordinates, the limit, marks, and the sentence for readers."""

from __future__ import annotations

import pytest

from gitsync.ports import MetricSeries
from gitsync.server.queries.charts import chart, figure_charts

POINTS = ((0.0, 10.0), (60.0, 20.0), (120.0, 0.0))


def test_the_newest_is_right_and_the_highest_is_at_the_top() -> None:
    made = chart("CPU", POINTS, "{:.0f}m".format)
    assert made is not None
    assert made.line == "3.0,20.0 120.0,3.0 237.0,37.0"
    assert (made.value, made.limit, made.marks) == ("0m", None, ())
    assert made.text == "CPU: 0m now, between 0m and 20m since 1970-01-01 00:00 UTC"


@pytest.mark.parametrize("points", [(), ((0.0, 1.0),)], ids=["none", "one"])
def test_less_than_two_numbers_are_not_a_chart(points: tuple[tuple[float, float], ...]) -> None:
    assert chart("CPU", points, "{:.0f}".format) is None


@pytest.mark.parametrize(("limit", "drawn"), [(40.0, 3.0), (20.0, 3.0), (10.0, 20.0), (201.0, None)])
def test_a_limit_is_drawn_where_the_line_is_still_seen(limit: float, drawn: float | None) -> None:
    made = chart("CPU", POINTS, "{:.0f}m".format, limit)
    assert made is not None
    assert made.limit == drawn
    assert made.text.endswith(f"limit {limit:.0f}m")


def test_a_line_of_zeros_lies_at_the_bottom() -> None:
    made = chart("Errors", ((0.0, 0.0), (60.0, 0.0)), "{:.0%}".format)
    assert made is not None
    assert made.line == "3.0,37.0 237.0,37.0"


def test_each_commit_in_the_period_has_a_mark() -> None:
    series = {"latency": MetricSeries(POINTS), "tokens": MetricSeries(((0.0, 1.0),))}
    revisions = [
        ("1970-01-01T00:01:00Z", "a" * 40),
        ("1970-01-01T00:09:00Z", "b" * 40),
        ("no time", "c" * 40),
    ]
    (made,) = figure_charts(series, revisions)
    assert made.name == "Latency, 95 %"
    assert [(mark.x, mark.text) for mark in made.marks] == [(120.0, "aaaaaaa")]
    assert made.text.endswith("; commits aaaaaaa")
