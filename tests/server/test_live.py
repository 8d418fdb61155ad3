"""Live events over real sockets."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson
import pytest
from fastapi import FastAPI

from gitsync.server import live
from tests.asgi_server import Served, serve
from tests.server.fakes import StillView
from tests.waiting import until


@contextmanager
def listening(web: Served, path: str = "/live", *, header: str = "", buffer: int = 0) -> Iterator[socket.socket]:
    """Yield a socket on which a browser listens."""
    host, _, port = web.url.removeprefix("http://").partition(":")
    with socket.socket() as connection:
        if buffer:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        connection.settimeout(60)
        connection.connect((host, int(port)))
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{header}\r\n".encode())
        yield connection


def read_until(connection: socket.socket, mark: str) -> str:
    """Return what comes, up to a mark in it."""
    text = ""
    while mark not in text:
        chunk = connection.recv(65536)
        assert chunk, text
        text += chunk.decode()
    return text


@contextmanager
def served(view: StillView, **limits: Any) -> Iterator[Served]:
    app = FastAPI()
    app.include_router(live.router(view, lambda request: view, lambda request: True, **limits))
    with serve(app) as web:
        yield web


def test_events_that_come_together_are_one_message_with_one_entry_for_each_application() -> None:
    view = StillView({})
    with served(view) as web, listening(web) as connection:
        assert "text/event-stream" in read_until(connection, ": connected")
        for number in range(40):
            view.happen("gitsync/shop" if number % 2 else "gitsync/mall")
        text = read_until(connection, "id: 40")
        messages = [orjson.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
        named = [[entry["app"] for entry in message] for message in messages]
        assert {app for apps in named for app in apps} == {"gitsync/shop", "gitsync/mall"}
        assert all(len(set(apps)) == len(apps) for apps in named)
        assert len(messages) < 20


def test_a_listener_resumes_where_it_was() -> None:
    view = StillView({})
    for application in ("gitsync/a", "gitsync/b", "gitsync/c"):
        view.happen(application)
    with served(view) as web, listening(web, header="Last-Event-ID: 2\r\n") as connection:
        text = read_until(connection, "id: 3")
        assert "gitsync/c" in text
        assert "gitsync/b" not in text


@pytest.mark.parametrize("header", ["Last-Event-ID: 3\r\n", "Last-Event-ID: 999\r\n"], ids=["too old", "unknown"])
def test_who_missed_too_much_starts_afresh(header: str) -> None:
    view = StillView({})
    for _ in range(50):
        view.happen("gitsync/shop", forget=10)
    with served(view) as web, listening(web, header=header) as connection:
        assert "event: reset\nid: 50" in read_until(connection, "id: 50")


def test_the_replica_of_the_stream_comes_first() -> None:
    with served(StillView({}), replica="5f0c") as web, listening(web) as connection:
        assert ": connected\nevent: replica\ndata: 5f0c\n\n" in read_until(connection, "5f0c\n\n")


def test_more_listeners_than_allowed_are_sent_away() -> None:
    with served(StillView({}), clients=2) as web, listening(web) as one, listening(web) as two:
        read_until(one, ": connected")
        read_until(two, ": connected")
        answer = web.ask("/live")
        assert (answer.status, answer.headers["retry-after"]) == (503, "30")


def test_mute_listeners_are_let_go_and_hold_up_nobody() -> None:
    view = StillView({})
    names = [f"gitsync/{number}-{'x' * 4000}" for number in range(60)]
    with served(view, patience=0.5, clients=21) as web:
        mute = [listening(web, buffer=4096) for _ in range(20)]
        for connection in mute:
            connection.__enter__()
        with listening(web) as reader:
            give_up = time.monotonic() + 60
            while time.monotonic() < give_up:
                for name in names:
                    view.happen(name)
                read_until(reader, f"id: {view.bounds[1]}")
                with listening(web) as another:  # there is room again once the mute ones are gone
                    if another.recv(12) == b"HTTP/1.1 200":
                        break
            else:
                raise AssertionError("the mute listeners are still there")
        for connection in mute:
            connection.__exit__(None, None, None)


def test_nobody_looks_at_the_engine_while_nobody_listens() -> None:
    view = StillView({})
    feed = live.Feed(view)
    app = FastAPI()

    @app.get("/live")
    async def stream() -> live.EventStreamResponse:
        return live.EventStreamResponse(feed.messages(0, lambda: view, lambda: True), 5.0)

    with serve(app) as web:
        with listening(web) as connection:
            read_until(connection, ": connected")
            assert feed.listeners == 1
            assert feed.is_watching
        until(lambda: feed.listeners == 0)
        until(lambda: not feed.is_watching)
