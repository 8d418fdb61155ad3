"""Query a Prometheus server in the background, without blocking a reconcile, and read its answers strictly."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import orjson

from gitsync.errors import InvalidInput, one_line
from gitsync.integrations.http import RequestFailed, host_of, request
from gitsync.ports import Clock, MetricResult, Sample

_SECONDS = 10.0
_MOST = 1 << 20
_REMEMBERED = 1024  # queries of all Applications; the one that was asked longest ago is forgotten, and asked again


class Prometheus:
    """
    Implement the port MetricsProvider by the server at ``url``, which the operator chose; an Application cannot.

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
        self._url = f"{url.rstrip('/')}/api/v1/query"
        self._clock = clock
        self._token = token
        self._seconds = seconds
        # a few threads: a server that hangs must not take a thread for each Application
        self._pool = ThreadPoolExecutor(4, thread_name_prefix="prometheus")
        self._lock = threading.Lock()
        self._asked: OrderedDict[str, tuple[float, Future[MetricResult]]] = OrderedDict()

    def read(self, query: str, max_age: float) -> MetricResult | None:
        """Return the result of the query, at most ``max_age`` seconds old; None while the request is pending."""
        now = self._clock.monotonic()
        with self._lock:
            asked, future = self._asked.get(query, (float("-inf"), None))
            # the age counts from the request, so that a slow answer is not taken for a newer one
            if future is None or (future.done() and now - asked >= max_age):
                future = self._pool.submit(self.ask, query)
                self._asked[query] = (now, future)
                self._asked.move_to_end(query)
                if len(self._asked) > _REMEMBERED:
                    self._asked.popitem(last=False)
        return future.result() if future.done() else None

    def close(self) -> None:
        """Cancel pending requests and send no more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def ask(self, query: str) -> MetricResult:
        """Return the result of the query now; wait for the answer."""
        headers = {"Accept": "application/json"}
        try:
            if self._token is not None:
                headers["Authorization"] = f"Bearer {self._token.read_text(encoding='ascii').strip()}"
            # the server's own limit too, so that it does not continue with a query that is not waited for
            url = f"{self._url}?{urlencode({'query': query, 'timeout': f'{self._seconds:g}s'})}"
            status, body = request("GET", url, headers, timeout=self._seconds, max_bytes=_MOST)
        except RequestFailed as error:
            return MetricResult(problem=f"Prometheus {error}")
        except (OSError, UnicodeDecodeError):
            return MetricResult(problem="the token for Prometheus cannot be read")
        return read_answer(status, body)


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
    # 400 and 422 come with a JSON body of their own, which says what is wrong with the query
    if answer["status"] == "error" or status != 200:
        return MetricResult(problem=one_line(f"Prometheus answered {status}: {answer.get('error', '')}", _TEXT))
    data = answer.get("data")
    kind, result = (data.get("resultType"), data.get("result")) if isinstance(data, dict) else (None, None)
    if kind == "scalar":
        return _readings([({}, result)])  # a scalar has no labels
    if kind == "vector" and isinstance(result, list):
        return _readings([(series.get("metric"), series.get("value")) for series in result if isinstance(series, dict)])
    return MetricResult(problem=one_line(f"the query gives a {kind}, not numbers of one moment", _TEXT))


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
