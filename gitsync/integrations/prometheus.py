"""Query a Prometheus server in the background, without blocking a reconcile, and read its answers strictly."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import orjson

from gitsync.errors import InvalidInput, one_line
from gitsync.integrations.http import RequestFailed, host_of, request
from gitsync.ports import Clock, MetricResult, MetricSeries, Sample

_SECONDS = 10.0
_MOST = 1 << 20
_REMEMBERED = 1024  # queries of all Applications; the one that was asked longest ago is forgotten, and asked again


class Prometheus:
    """
    Implement the ports MetricsProvider and MetricsHistory by the server at ``url``.

    The operator chose it; an Application cannot.

    ``token`` is a file with a bearer token, read again for each request, since tokens rotate. Applications that ask
    the same share an answer.
    """

    def __init__(self, url: str, clock: Clock, *, token: Path | None = None, seconds: float = _SECONDS) -> None:
        if not host_of(url) or urlsplit(url).query or urlsplit(url).fragment:
            raise InvalidInput(
                f"{url!r} is not a valid URL of a Prometheus server",
                location="GITSYNC_PROMETHEUS",
                hint="write it as https://prometheus.example.com:9090; a token goes into a file",
            )
        self._url = f"{url.rstrip('/')}/api/v1"
        self._clock = clock
        self._token = token
        self._seconds = seconds
        # a few threads: a server that hangs must not take a thread for each Application
        self._pool = ThreadPoolExecutor(4, thread_name_prefix="prometheus")
        self._lock = threading.Lock()
        self._asked: OrderedDict[tuple[str, float], tuple[float, Future[Any]]] = OrderedDict()

    def read(self, query: str, max_age: float) -> MetricResult | None:
        """Return the result of the query, at most ``max_age`` seconds old; None while the request is pending."""
        result: MetricResult | None = self._kept((query, 0.0), lambda: self.ask(query), max_age)
        return result

    def read_series(self, query: str, period: float, max_age: float) -> MetricSeries | None:
        """Return the values of the last ``period`` seconds, ``max_age`` seconds old at most; None while it is asked."""
        series: MetricSeries | None = self._kept((query, period), lambda: self._ask_series(query, period), max_age)
        return series

    def _kept(self, key: tuple[str, float], ask: Callable[[], Any], max_age: float) -> Any:
        """Return the answer that is kept under a key, asked again where it is too old; None while it is asked."""
        now = self._clock.monotonic()
        with self._lock:
            asked, future = self._asked.get(key, (float("-inf"), None))
            # the age counts from the request, so that a slow answer is not taken for a newer one
            if future is None or (future.done() and now - asked >= max_age):
                future = self._pool.submit(ask)
                self._asked[key] = (now, future)
                self._asked.move_to_end(key)
                if len(self._asked) > _REMEMBERED:
                    self._asked.popitem(last=False)
        return future.result() if future.done() else None

    def close(self) -> None:
        """Cancel pending requests and send no more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def ask(self, query: str) -> MetricResult:
        """Return the result of the query now; wait for the answer."""
        answer = self._answer("query", {"query": query})
        return MetricResult(problem=answer) if isinstance(answer, str) else read_answer(*answer)

    def _ask_series(self, query: str, period: float) -> MetricSeries:
        end = self._clock.now().timestamp()
        step = max(period / _POINTS, 1.0)
        times = {"start": f"{end - period:.0f}", "end": f"{end:.0f}", "step": f"{step:.0f}"}
        answer = self._answer("query_range", {"query": query, **times})
        return MetricSeries(problem=answer) if isinstance(answer, str) else read_series(*answer)

    def _answer(self, path: str, parameters: dict[str, str]) -> tuple[int, bytes] | str:
        """Return status and body of an answer, or why there is none."""
        headers = {"Accept": "application/json"}
        try:
            if self._token is not None:
                headers["Authorization"] = f"Bearer {self._token.read_text(encoding='ascii').strip()}"
            # the server's own limit too, so that it does not continue with a query that is not waited for
            url = f"{self._url}/{path}?{urlencode({**parameters, 'timeout': f'{self._seconds:g}s'})}"
            return request("GET", url, headers, timeout=self._seconds, max_bytes=_MOST)
        except RequestFailed as error:
            return f"Prometheus {error}"
        except (OSError, UnicodeDecodeError):
            return "the token for Prometheus cannot be read"


_POINTS: Final = 60
"""Values of a series: more would not be seen in a small chart."""
_TEXT = 200
_MOST_SERIES = 1000


def read_answer(status: int, body: bytes) -> MetricResult:
    """
    Return what an answer of ``/api/v1/query`` says; one without a number reports it as the problem.

    Source: Prometheus documentation, "HTTP API", instant queries and expression query result formats.
    """
    kind, result = _data_of(status, body)
    if kind is None and isinstance(result, str):
        return MetricResult(problem=result)
    if kind == "scalar":
        return _readings([({}, result)])  # a scalar has no labels
    if kind == "vector" and isinstance(result, list):
        return _readings([(series.get("metric"), series.get("value")) for series in result if isinstance(series, dict)])
    return MetricResult(problem=one_line(f"the query gives a {kind}, not numbers of one moment", _TEXT))


def read_series(status: int, body: bytes) -> MetricSeries:
    """Return the first series of an answer of ``/api/v1/query_range``, without NaN, or why there is none."""
    kind, result = _data_of(status, body)
    if kind is None and isinstance(result, str):
        return MetricSeries(problem=result)
    first = result[0] if kind == "matrix" and isinstance(result, list) and result else None
    values = first.get("values") if isinstance(first, dict) else None
    pairs = ((_number([0, value[0]]), _number(value)) for value in values or () if isinstance(value, list) and value)
    points = tuple((time, number) for time, number in pairs if math.isfinite(time) and math.isfinite(number))
    return MetricSeries(points) if points else MetricSeries(problem="the query gives no data")


def _data_of(status: int, body: bytes) -> tuple[Any, Any]:
    """Return type and result of an answer; None and the problem where it has none."""
    answer = _json(body)
    if not isinstance(answer, dict) or answer.get("status") not in ("success", "error"):
        return None, f"Prometheus answered {status}" + (", not with a response of its API" if status == 200 else "")
    # 400 and 422 come with a JSON body of their own, which says what is wrong with the query
    if answer["status"] == "error" or status != 200:
        return None, one_line(f"Prometheus answered {status}: {answer.get('error', '')}", _TEXT)
    data = answer.get("data")
    return (data.get("resultType"), data.get("result")) if isinstance(data, dict) else (None, None)


def _readings(series: list[tuple[Any, Any]]) -> MetricResult:
    # of a query without aggregation: labels may be unbounded, and the status shows a few lines
    if len(series) > _MOST_SERIES:
        return MetricResult(problem=f"the query gives {len(series)} series, more than {_MOST_SERIES}; aggregate them")
    samples = [Sample(_number(value), _labels(metric), _series(metric)) for metric, value in series]
    # NaN is what a division by zero gives; it is neither within a limit nor over it
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
