"""The answer to an instant query, read strictly. Pure."""

from __future__ import annotations

import math
from typing import Any

import orjson

from gitsync.errors import one_line
from gitsync.ports import MetricResult, Sample

_TEXT = 200
_MOST_SERIES = 1000


def read_answer(status: int, body: bytes) -> MetricResult:
    """
    Return what an answer of ``/api/v1/query`` says; one without a number reports it as the problem.

    Source: Prometheus documentation, "HTTP API", instant queries and expression query result formats.
    """
    answer = _json(body)
    if not isinstance(answer, dict) or answer.get("status") not in ("success", "error"):
        return MetricResult(
            problem=f"Prometheus answered {status}" + (", not with a response of its API" if status == 200 else "")
        )
    if answer["status"] == "error" or status != 200:
        return MetricResult(problem=one_line(f"Prometheus answered {status}: {answer.get('error', '')}", _TEXT))
    data = answer.get("data")
    kind, result = (data.get("resultType"), data.get("result")) if isinstance(data, dict) else (None, None)
    if kind == "scalar":
        return _readings([({}, result)])
    if kind == "vector" and isinstance(result, list):
        return _readings([(series.get("metric"), series.get("value")) for series in result if isinstance(series, dict)])
    return MetricResult(problem=one_line(f"the query gives a {kind}, not numbers of one moment", _TEXT))


def _readings(series: list[tuple[Any, Any]]) -> MetricResult:
    if len(series) > _MOST_SERIES:
        return MetricResult(problem=f"the query gives {len(series)} series, more than {_MOST_SERIES}; aggregate them")
    samples = [Sample(_number(value), _labels(metric), _series(metric)) for metric, value in series]
    numbers = tuple(sample for sample in samples if not math.isnan(sample.value))
    if not numbers:
        return MetricResult(problem="the query gives NaN" if samples else "the query gives no data")
    return MetricResult(numbers)


def _number(value: Any) -> float:
    """Return the number of a sample, which is a time and a text; NaN where there is none, as in a histogram."""
    try:
        return float(value[1])
    except (TypeError, ValueError, IndexError, KeyError):
        return math.nan


def _series(metric: Any) -> dict[str, str]:
    return {str(name): str(value) for name, value in metric.items()} if isinstance(metric, dict) else {}


def _labels(metric: Any) -> str:
    """Return labels as PromQL writes them; empty for a sample without any."""
    pairs = sorted(metric.items()) if isinstance(metric, dict) else []
    text = ", ".join(f'{name}="{value}"' for name, value in pairs if name != "__name__")
    return one_line(f"{{{text}}}", _TEXT) if text else ""


def _json(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
