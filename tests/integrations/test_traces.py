"""Traces of reconciles, as an OpenTelemetry collector gets them."""

from __future__ import annotations

import gzip
import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from gitsync.errors import InvalidInput
from gitsync.integrations.traces import TraceExporter, TraceReceiver, document
from gitsync.ports import EndedReconcile
from gitsync.runtime.work_costs import Interval
from tests.http_service import serve_http

BEGAN = datetime(2026, 1, 2, 3, 4, 5, 999_999, tzinfo=UTC)
STAGES = (Interval("read", 0.0, 0.25, 0.125), Interval("plan", 0.25, 1.0, 0.5))


TRACE = "0123456789abcdef" * 2


def reconcile(error: str = "") -> EndedReconcile:
    return EndedReconcile("gitsync/shop", BEGAN, STAGES, phase="Synced", revision="c" * 40, error=error)


@contextmanager
def collector(*statuses: int) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the URL of a collector that answers with these statuses in turn, and what it gets."""
    got: list[dict[str, Any]] = []
    answers = iter(statuses)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(next(answers, 200))
            self.end_headers()

    with serve_http(Handler) as port:
        yield f"http://127.0.0.1:{port}", got


def spans(message: dict[str, Any]) -> list[dict[str, Any]]:
    return list(message["resourceSpans"][0]["scopeSpans"][0]["spans"])


def test_a_reconcile_is_a_trace_with_a_span_for_each_stage() -> None:
    root, *stages = spans(document([(TRACE, reconcile())]))
    assert [span["name"] for span in (root, *stages)] == ["reconcile", "read", "plan"]
    assert {span["traceId"] for span in stages} == {root["traceId"]} == {TRACE}
    assert {span["parentSpanId"] for span in stages} == {root["spanId"]}
    assert (len(root["spanId"]), "parentSpanId" in root) == (16, False)
    assert (stages[1]["startTimeUnixNano"], stages[1]["endTimeUnixNano"]) == (
        "1767323046249999000",
        "1767323046999999000",
    )
    assert root["endTimeUnixNano"] == stages[1]["endTimeUnixNano"]
    facts = {item["key"]: item["value"]["stringValue"] for item in root["attributes"]}
    assert facts == {"gitsync.application": "gitsync/shop", "gitsync.phase": "Synced", "gitsync.revision": "c" * 40}
    assert stages[0]["attributes"] == [{"key": "gitsync.cpu_seconds", "value": {"doubleValue": 0.125}}]
    assert "status" not in root


def test_a_failed_reconcile_is_a_failed_span() -> None:
    assert spans(document([(TRACE, reconcile("it fails"))]))[0]["status"] == {"code": 2, "message": "it fails"}


def test_what_waits_is_sent_in_batches_and_at_the_end() -> None:
    with collector() as (url, got):
        exporter = TraceExporter(f"{url}/", every=3600)
        exporter.start()
        for _ in range(600):
            exporter.add(reconcile())
        assert got == []
        exporter.stop()
    assert [len(spans(message)) for message in got] == [512 * 3, 88 * 3]


def test_the_id_that_is_returned_is_that_of_the_trace() -> None:
    with collector() as (url, got):
        exporter = TraceExporter(url)
        traces = [exporter.add(reconcile()) for _ in range(2)]
        exporter.flush()
    assert {len(trace) for trace in traces} == {32}
    assert list(dict.fromkeys(span["traceId"] for span in spans(got[0]))) == traces


def test_a_collector_that_refuses_is_logged_once_and_again_when_it_recovers(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "gitsync")
    with collector(503, 503, 200) as (url, got):
        exporter = TraceExporter(url)
        for _ in range(3):
            exporter.add(reconcile())
            exporter.flush()
    assert len(got) == 3
    assert [record.message for record in caplog.records] == [
        "the collector of traces answered with status 503",
        "the collector of traces takes traces again",
    ]


def test_a_stop_waits_for_one_request_that_fails() -> None:
    with collector(503) as (url, got):
        exporter = TraceExporter(url, every=3600)
        for _ in range(4096):
            exporter.add(reconcile())
        exporter.start()
        exporter.stop()
    assert len(got) == 1


def test_traces_do_not_grow_while_no_collector_answers() -> None:
    with collector() as (url, got):
        exporter = TraceExporter(url)
        for number in range(5000):
            exporter.add(EndedReconcile(f"gitsync/{number}", BEGAN, ()))
        exporter.flush()
    sent = [span for message in got for span in spans(message)]
    assert len(sent) == 4096
    assert sent[-1]["attributes"][0]["value"] == {"stringValue": "gitsync/4999"}


@pytest.mark.parametrize(
    "url", ["collector:4318", "ftp://collector", "http://user:word@collector", "http://collector?a=b"]
)
def test_a_url_that_is_not_one_of_a_collector_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="GITSYNC_TRACES"):
        TraceExporter(url)


@contextmanager
def receiver() -> Iterator[TraceReceiver]:
    with TraceReceiver("127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def post(server: TraceReceiver, body: bytes, path: str = "/v1/traces", **headers: str) -> tuple[int, str]:
    """Send a body as an exporter does, and return the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    sent = {"Content-Type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    try:
        connection.request("POST", path, body, sent)
        answer = connection.getresponse()
        return answer.status, str(json.loads(answer.read()).get("message", ""))
    finally:
        connection.close()


def test_documents_that_exporters_send_are_received() -> None:
    with receiver() as server:
        assert post(server, b'{"resourceSpans":\n []}') == (200, "")
        assert post(server, gzip.compress(b'{"resourceLogs": []}'), "/v1/logs", Content_Encoding="gzip") == (200, "")
    assert server.documents == ['{"resourceSpans":[]}', '{"resourceLogs":[]}']


@pytest.mark.parametrize(
    ("body", "path", "headers", "answer"),
    [
        (b"\x0a", "/v1/traces", {"Content_Type": "application/x-protobuf"}, (415, "encoding: json")),
        (b"{}", "/v1/metrics", {}, (404, "/v1/traces")),
        (b"{", "/v1/traces", {}, (400, "not JSON")),
        (b"{}", "/v1/traces", {"Content_Encoding": "gzip"}, (400, "not JSON")),
        (gzip.compress(b" " * (65 << 20)), "/v1/traces", {"Content_Encoding": "gzip"}, (400, "not JSON")),
        (b"{}", "/v1/traces", {"Content_Length": str(65 << 20)}, (413, "Content-Length")),
    ],
)
def test_what_is_no_trace_is_answered_with_what_to_change(
    body: bytes, path: str, headers: dict[str, str], answer: tuple[int, str]
) -> None:
    with receiver() as server:
        status, message = post(server, body, path, **headers)
    assert (status, answer[1] in message, server.documents) == (answer[0], True, [])


def test_a_port_in_use_is_an_error_with_a_fix() -> None:
    with receiver() as server, pytest.raises(InvalidInput, match="cannot listen"):
        TraceReceiver("127.0.0.1", server.server_port)
