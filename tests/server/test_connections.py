"""Clients who send slowly, nothing, or too much do not stop the dashboard."""

from __future__ import annotations

import json
import socket
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from gitsync.server.connections import HEADER_BYTES, LimitedProtocol, limited_protocol
from tests.asgi_server import Served, serve
from tests.replicas import still_dashboard
from tests.server.fakes import application, engine
from tests.waiting import until

REVIEW = "/api/v1/applications/gitsync/shop/review"
HEAD = f"POST {REVIEW} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@dataclass(frozen=True)
class Dashboard:
    web: Served
    protocol: type[LimitedProtocol]

    @property
    def open(self) -> int:
        return len(self.protocol.admitted)

    def connect(self, sent: str = "") -> socket.socket:
        host, _, port = self.web.url.removeprefix("http://").partition(":")
        connection = socket.create_connection((host, int(port)), timeout=60)
        connection.sendall(sent.encode())
        return connection


@contextmanager
def dashboard(folder: Path, total: int = 64, per_address: int = 64) -> Iterator[Dashboard]:
    still = engine(folder, [application()])
    protocol = limited_protocol(total, per_address)
    options = {"http": protocol, "ws": "none", "h11_max_incomplete_event_size": HEADER_BYTES}
    with serve(still_dashboard(still), **options) as web:
        yield Dashboard(web, protocol)
    still.records.close()


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(65536) == b""
    except ConnectionError:
        return True


def answer_to(connection: socket.socket) -> bytes:
    return connection.recv(65536)


@pytest.mark.parametrize("sent", ["", "GET / HTTP/1.1\r\nHost: "])
def test_10_000_slow_connections_leave_room_for_a_page(tmp_path: Path, sent: str) -> None:
    with dashboard(tmp_path) as site, ExitStack() as stack:
        slow: deque[socket.socket] = deque()
        stack.callback(lambda: [connection.close() for connection in slow])
        for number in range(10_000):
            slow.append(site.connect())
            slow[-1].sendall(sent.encode())
            if len(slow) > 200:
                slow.popleft().close()
            if number % 2_500 == 2_000:
                assert site.web.ask("/").status == 200
                assert site.open <= 64
        assert site.web.ask("/").status == 200


@pytest.mark.parametrize("sent", ["", "GET / HTTP/1.1\r\nX: y\r\n", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET /"])
def test_a_head_that_is_not_complete_in_time_ends_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: str
) -> None:
    monkeypatch.setattr("gitsync.server.connections.HEADER_SECONDS", 0.3)
    with dashboard(tmp_path) as site, site.connect(sent) as slow:
        until(lambda: site.open == 0, 10)
        until(lambda: is_closed(slow), 10)


def test_a_body_that_is_not_complete_in_time_ends_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gitsync.server.connections.BODY_SECONDS", 0.3)
    with dashboard(tmp_path) as site, site.connect(f"{HEAD}Content-Length: 100\r\n\r\n{{") as slow:
        until(lambda: site.open == 0, 10)
        assert is_closed(slow)


def test_one_address_has_a_part_of_the_connections(tmp_path: Path) -> None:
    with dashboard(tmp_path, total=10, per_address=3) as site, ExitStack() as stack:
        streams = [stack.enter_context(site.connect("GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")) for _ in range(3)]
        for stream in streams:
            assert b"200" in answer_to(stream)
        with site.connect("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n") as refused:
            assert is_closed(refused)
        streams[0].close()
        until(lambda: site.open == 2, 10)
        assert site.web.ask("/").status == 200


def test_2_000_event_clients_that_never_read_leave_room_for_a_page(tmp_path: Path) -> None:
    with dashboard(tmp_path, total=128, per_address=128) as site, ExitStack() as stack:
        clients: deque[socket.socket] = deque()
        stack.callback(lambda: [client.close() for client in clients])
        for _ in range(2_000):
            try:
                clients.append(site.connect("GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n"))
            except ConnectionError:
                continue
            if len(clients) > 200:
                clients.popleft().close()
        assert site.open <= 128
        while clients:
            clients.pop().close()
        until(lambda: site.open == 0, 60)
        assert site.web.ask("/").status == 200


@pytest.mark.parametrize("head", ["Content-Length: 1073741824", "Transfer-Encoding: chunked"])
def test_a_body_of_1_gib_is_refused_after_1_mib(tmp_path: Path, head: str) -> None:
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n" if "chunked" in head else b" " * 65536
    with dashboard(tmp_path) as site, site.connect(f"{HEAD}{head}\r\n\r\n") as large:
        sent = 0
        try:
            for _ in range(1 << 14):
                large.sendall(chunk)
                sent += len(chunk)
        except ConnectionError:
            pass
        assert sent < 64 << 20
        assert site.web.ask("/").status == 200


@pytest.mark.parametrize(
    "body", ["[" * 100_000, '{"digest":' * 50_000, '{"digest": "' + '\\"' * 400_000, '{"reason": "\\"' + "[" * 40]
)
def test_nested_or_unterminated_json_is_refused(tmp_path: Path, body: str) -> None:
    with dashboard(tmp_path) as site:
        answer = site.web.ask(REVIEW, method="POST", body=body.encode(), headers={"Content-Type": "application/json"})
        assert answer.status == 422
        assert json.loads(answer.text)["detail"]


def test_a_head_that_is_too_large_is_refused(tmp_path: Path) -> None:
    head = f"GET / HTTP/1.1\r\nHost: localhost\r\nX-Large: {'x' * HEADER_BYTES}"
    with dashboard(tmp_path) as site, site.connect(head) as large:
        assert answer_to(large).startswith(b"HTTP/1.1 400")
