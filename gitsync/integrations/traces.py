"""Send a trace of each reconcile to an OpenTelemetry collector, and receive traces: OTLP over HTTP, encoded as JSON."""

from __future__ import annotations

import logging
import secrets
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Final
from urllib.parse import urlsplit

import orjson

from gitsync.errors import InvalidInput
from gitsync.integrations.http import RequestFailed, host_of, request
from gitsync.ports import EndedReconcile
from gitsync.runtime.clock import Periodic

# seconds between requests
_EVERY = 5.0
# reconciles that wait for a request; the oldest are dropped while the collector does not answer
_KEPT = 4096
_BATCH = 512
_SECONDS = 10.0
_MOST = 1 << 16
_INTERNAL: Final = 1  # SPAN_KIND_INTERNAL
_FAILED: Final = 2  # STATUS_CODE_ERROR
_log = logging.getLogger(__name__)


class TraceExporter:
    """
    Implement the port ReconcileSink: one trace for a reconcile, with one span for each of its stages.

    Traces are lost where the collector does not answer, and nothing waits for it.
    """

    def __init__(self, url: str, *, every: float = _EVERY) -> None:
        if not host_of(url) or urlsplit(url).query or urlsplit(url).fragment:
            raise InvalidInput(
                f"{url!r} is not a valid URL of an OpenTelemetry collector",
                location="GITSYNC_TRACES",
                hint="write it as http://collector:4318",
            )
        self._url = f"{url.rstrip('/')}/v1/traces"
        self._waiting: deque[tuple[str, EndedReconcile]] = deque(maxlen=_KEPT)
        self._problem = ""
        self._timer = Periodic("traces", self.flush, every, at_start=False)

    def add(self, done: EndedReconcile) -> str:
        """Take a reconcile, to be sent later, and return the id of its trace."""
        # 16 bytes, as OTLP requires of trace ids
        trace = secrets.token_hex(16)
        self._waiting.append((trace, done))
        return trace

    def start(self) -> None:
        """Start sending."""
        self._timer.start()

    def stop(self) -> None:
        """Send what waits, and stop."""
        self._timer.stop()
        self.flush()

    def flush(self) -> None:
        """Send what waits now, until a request fails; what that one had is dropped."""
        while self._waiting:
            # a bounded number each, so that one request does not grow with an outage
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), _BATCH))]
            problem = self._send(batch)
            self._report(problem)
            if problem:
                return  # each further one may take its whole time limit, also while the controller stops

    def _send(self, batch: Iterable[tuple[str, EndedReconcile]]) -> str:
        """Send reconciles; return what went wrong, empty where nothing did."""
        headers = {"Content-Type": "application/json"}
        try:
            body = orjson.dumps(document(batch))
            status, _ = request("POST", self._url, headers, body, timeout=_SECONDS, max_bytes=_MOST)
        except RequestFailed as error:
            return str(error)
        return "" if status < 300 else f"answered with status {status}"

    def _report(self, problem: str) -> None:
        # once for each change: an outage of the collector is one line and not one per request
        if problem != self._problem:
            level = logging.WARNING if problem else logging.INFO
            _log.log(level, "the collector of traces %s", problem or "takes traces again")
        self._problem = problem


def document(reconciles: Iterable[tuple[str, EndedReconcile]]) -> dict[str, Any]:
    """Return an ExportTraceServiceRequest of reconciles with the ids of their traces."""
    spans = [span for trace, done in reconciles for span in _spans(trace, done)]
    scope = {"scope": {"name": "gitsync"}, "spans": spans}
    resource = {"attributes": _attributes({"service.name": "gitsync"})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}


def _spans(trace: str, done: EndedReconcile) -> Iterator[dict[str, Any]]:
    """Yield the span of a reconcile, and those of its stages."""
    # 8 bytes, as OTLP requires of span ids
    root = secrets.token_hex(8)
    facts: dict[str, str | float] = {
        "gitsync.application": done.application,
        "gitsync.phase": done.phase,
        "gitsync.revision": done.revision,
    }
    name = "reconcile changed objects" if done.is_partial else "reconcile"
    last = done.intervals[-1].ended if done.intervals else 0.0
    status = {"status": {"code": _FAILED, "message": done.error}} if done.error else {}
    whole = {"traceId": trace, "spanId": root, "name": name, **_times(done, 0.0, last)}
    yield {**whole, "attributes": _attributes(facts), **status}
    for stage, began, ended, cpu in done.intervals:
        identity = {"traceId": trace, "spanId": secrets.token_hex(8), "parentSpanId": root, "name": stage}
        yield {**identity, **_times(done, began, ended), "attributes": _attributes({"gitsync.cpu_seconds": cpu})}


def _times(done: EndedReconcile, began: float, ended: float) -> dict[str, Any]:
    return {
        "kind": _INTERNAL,
        "startTimeUnixNano": _nanoseconds(done, began),
        "endTimeUnixNano": _nanoseconds(done, ended),
    }


def _nanoseconds(done: EndedReconcile, seconds: float) -> str:
    """Return a time as OTLP writes 64-bit numbers in JSON, as a string; floats would round it."""
    moment = done.began + timedelta(seconds=seconds)
    return f"{int(moment.timestamp())}{moment.microsecond:06}000"


def _attributes(facts: dict[str, str | float]) -> list[dict[str, Any]]:
    return [
        {"key": name, "value": {"doubleValue": value} if isinstance(value, float) else {"stringValue": value}}
        for name, value in facts.items()
        if value != ""
    ]


_LARGEST: Final = 64 << 20
"""Bytes of one request: exporters send some hundred spans at a time."""
_RECEIVED: Final = frozenset({"/v1/traces", "/v1/logs"})
_GZIP: Final = 31  # the window of zlib that expects the header of gzip


class TraceReceiver(HTTPServer):
    """
    Receive traces and events that exporters send, until it is shut down; ``documents`` are those of OTLP in JSON.

    Source: OpenTelemetry Protocol Specification 1.7, OTLP/HTTP.
    """

    def __init__(self, host: str, port: int) -> None:
        self.documents: list[str] = []
        try:
            super().__init__((host, port), _Receiving)
        except OSError as error:
            raise InvalidInput(
                f"cannot listen on {host}:{port}: {error.strerror}", hint="name another port: otlp://127.0.0.1:4319"
            ) from error


class _Receiving(BaseHTTPRequestHandler):
    server: TraceReceiver
    # Seconds that an exporter may take: one that hangs must not keep the others waiting.
    timeout = _SECONDS

    def do_POST(self) -> None:
        """Keep the document of a request; the answer names what an exporter has to be set to."""
        status, message = self._keep()
        body = orjson.dumps({"message": message} if message else {})
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _keep(self) -> tuple[int, str]:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > _LARGEST:
            return 413, f"a request needs a Content-Length of at most {_LARGEST}"
        body = self.rfile.read(int(length))
        if self.path not in _RECEIVED:
            return 404, "send to /v1/traces or /v1/logs"
        if self.headers.get_content_type() != "application/json":
            return 415, "set encoding: json of the exporter otlphttp"
        try:
            text = _decompressed(body) if self.headers.get("Content-Encoding") == "gzip" else body
            # of one line each, as a file exporter writes them
            self.server.documents.append(orjson.dumps(orjson.loads(text)).decode())
        except (ValueError, zlib.error):
            return 400, "not JSON"
        return 200, ""

    def log_message(self, format: str, *args: Any) -> None:
        """Write no access log: standard output has the drafts."""


def _decompressed(body: bytes) -> bytes:
    """Return what gzip compressed; raise ValueError for more than one request may have."""
    decompressor = zlib.decompressobj(_GZIP)
    text = decompressor.decompress(body, _LARGEST)
    if decompressor.unconsumed_tail:
        raise ValueError("too large")
    return text
