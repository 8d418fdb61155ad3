"""Query a Prometheus server in the background, without blocking a reconcile."""

from __future__ import annotations

import threading
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from gitsync.errors import InvalidInput
from gitsync.integrations.http import RequestFailed, host_of, request
from gitsync.integrations.prometheus.response import read_answer
from gitsync.ports import Clock, MetricResult

_SECONDS = 10.0
_MOST = 1 << 20
_REMEMBERED = 1024


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
        self._pool = ThreadPoolExecutor(4, thread_name_prefix="prometheus")
        self._lock = threading.Lock()
        self._asked: OrderedDict[str, tuple[float, Future[MetricResult]]] = OrderedDict()

    def read(self, query: str, max_age: float) -> MetricResult | None:
        """Return the result of the query, at most ``max_age`` seconds old; None while the request is pending."""
        now = self._clock.monotonic()
        with self._lock:
            asked, future = self._asked.get(query, (float("-inf"), None))
            if future is None or (future.done() and now - asked >= max_age):
                future = self._pool.submit(self._ask, query)
                self._asked[query] = (now, future)
                self._asked.move_to_end(query)
                if len(self._asked) > _REMEMBERED:
                    self._asked.popitem(last=False)
        return future.result() if future.done() else None

    def close(self) -> None:
        """Cancel pending requests and send no more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _ask(self, query: str) -> MetricResult:
        headers = {"Accept": "application/json"}
        try:
            if self._token is not None:
                headers["Authorization"] = f"Bearer {self._token.read_text(encoding='ascii').strip()}"
            url = f"{self._url}?{urlencode({'query': query, 'timeout': f'{self._seconds:g}s'})}"
            status, body = request("GET", url, headers, timeout=self._seconds, max_bytes=_MOST)
        except RequestFailed as error:
            return MetricResult(problem=f"Prometheus {error}")
        except (OSError, UnicodeDecodeError):
            return MetricResult(problem="the token for Prometheus cannot be read")
        return read_answer(status, body)
