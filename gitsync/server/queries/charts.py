"""
Small charts of numbers over time, as coordinates of an SVG that the templates draw. Pure.

They need no script, and a text for readers has what they show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ObjectRef
from gitsync.ports import MetricSeries
from gitsync.server.backend import Backend
from gitsync.server.formatting import parse_time, short_revision
from gitsync.server.queries.object_details import usage_limits, usage_sample
from gitsync.services.usage import PodMetrics

WIDTH: Final = 240
HEIGHT: Final = 40
_MARGIN: Final = 3
"""Space for the stroke of a line at the edges."""
Points = Sequence[tuple[float, float]]
"""Numbers over time: seconds since the epoch, and the number."""
Form = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class ChartMark:
    """A moment on the axis of time, such as the commit that was applied then."""

    x: float
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """One line: its name, the newest value, a sentence for readers, and coordinates of the SVG."""

    name: str
    value: str
    text: str
    line: str
    limit: float | None = None
    """The y of the limit, None where there is none or where it is far above the line."""
    marks: tuple[ChartMark, ...] = ()


@dataclass(frozen=True, slots=True)
class _Axes:
    """Where a time and a number are in the SVG."""

    begin: float
    end: float
    top: float

    def x(self, time: float) -> float:
        return round(_MARGIN + (WIDTH - 2 * _MARGIN) * (time - self.begin) / max(self.end - self.begin, 1e-9), 1)

    def y(self, number: float) -> float:
        # from zero: a line that fills the height would make a small change look large
        return round(HEIGHT - _MARGIN - (HEIGHT - 2 * _MARGIN) * max(number, 0) / self.top, 1)


def chart(
    name: str, points: Points, form: Form, limit: float | None = None, moments: Iterable[tuple[float, str]] = ()
) -> Chart | None:
    """
    Return the chart of at least two numbers, None of less; ``moments`` are marked where they are in its period.

    A limit is drawn where it is at most ten times the highest number: else the line would lie at the bottom.
    """
    if len(points) < 2:
        return None
    high = max(number for _, number in points)
    drawn_limit = limit if limit is not None and limit <= 10 * high else None
    axes = _Axes(points[0][0], points[-1][0], max(high, drawn_limit or 0, 1e-9))
    marks = tuple(ChartMark(axes.x(time), text) for time, text in moments if axes.begin <= time <= axes.end)
    return Chart(
        name,
        form(points[-1][1]),
        _sentence(name, points, form, limit, marks),
        " ".join(f"{axes.x(time)},{axes.y(number)}" for time, number in points),
        axes.y(drawn_limit) if drawn_limit is not None else None,
        marks,
    )


def _sentence(name: str, points: Points, form: Form, limit: float | None, marks: Sequence[ChartMark]) -> str:
    numbers = [number for _, number in points]
    since = f"{datetime.fromtimestamp(points[0][0], UTC):%Y-%m-%d %H:%M} UTC"
    bounds = f"{name}: {form(numbers[-1])} now, between {form(min(numbers))} and {form(max(numbers))} since {since}"
    parts = [bounds]
    parts += [f"limit {form(limit)}"] if limit is not None else []
    parts += [f"commits {', '.join(mark.text for mark in marks)}"] if marks else []
    return "; ".join(parts)


def usage_charts(backend: Backend, ref: ObjectRef, pods: Sequence[Manifest], metrics: PodMetrics) -> list[Chart]:
    """Return the charts of what the Pods of an object used in the last hour, as far as its page was opened then."""
    if not pods:
        return []
    samples = backend.pod_usage.history.add(ref, usage_sample(pods, metrics, backend.clock.now()))
    cpu_limit, memory_limit = usage_limits(pods)
    rows = (
        ("CPU", [sample.millicores for sample in samples], "{:.0f}m".format, cpu_limit),
        ("Memory", [sample.mebibytes for sample in samples], "{:.0f}Mi".format, memory_limit),
        ("Restarts", [sample.restarts for sample in samples], "{:.0f}".format, None),
    )
    charts = []
    for name, numbers, form, limit in rows:
        times = (sample.time.timestamp() for sample in samples)
        points = [(time, float(number)) for time, number in zip(times, numbers, strict=True) if number is not None]
        # a number that never was above zero needs no picture
        if any(number for _, number in points):
            charts.append(chart(name, points, form, limit))
    return [made for made in charts if made is not None]


_FIGURES: Final[Mapping[str, tuple[str, Form]]] = {
    "requests": ("Requests", "{:.0f}".format),
    "latency": ("Latency, 95 %", "{:.2f} s".format),
    "errors": ("Errors", "{:.1%}".format),
    "toolsOk": ("Tool calls that succeeded", "{:.1%}".format),
    "tokens": ("Tokens", "{:,.0f}".format),
    "cost": ("Cost", "{:,.4f}".format),
}
"""The figures of an Agent by their names in `figure_queries`, and how their numbers are written."""


def figure_charts(series: Mapping[str, MetricSeries], revisions: Iterable[tuple[str, str]]) -> list[Chart]:
    """
    Return the charts of an Agent's figures, with a mark at the time of each revision.

    ``revisions`` are the times at which they were created (RFC 3339), with the commit.
    """
    moments = [
        (time.timestamp(), short_revision(commit))
        for since, commit in revisions
        if (time := parse_time(since)) is not None
    ]
    charts = [
        chart(title, series[name].points, form, moments=moments)
        for name, (title, form) in _FIGURES.items()
        if name in series
    ]
    return [made for made in charts if made is not None]
