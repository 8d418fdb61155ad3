"""Serve an ASGI application on loopback, for tests that speak real HTTP."""

from __future__ import annotations

import asyncio
import http.client
import threading
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import uvicorn
from starlette.types import ASGIApp

from tests.waiting import is_readable

_CHUNK = 1 << 16
T = TypeVar("T")


def run_apart(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a thread of its own: a browser test before may have left its event loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(coroutine)).result()


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as it came: redirects are not followed."""

    status: int
    headers: Mapping[str, str]
    text: str
    cookies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Served:
    """A running server; ``url`` has no slash at its end."""

    url: str

    def ask(
        self, path: str, *, method: str = "GET", body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send one request and return the answer; sending stops when the answer comes before its end."""
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=60)
        try:
            connection.putrequest(method, path, skip_host="Host" in (headers or {}))
            for name, value in {**(headers or {}), **({"Content-Length": str(len(body))} if body else {})}.items():
                connection.putheader(name, value)
            connection.endheaders()
            for start in range(0, len(body), _CHUNK):
                if is_readable(connection.sock):
                    break
                connection.send(body[start : start + _CHUNK])
            response = connection.getresponse()
            cookies = tuple(response.headers.get_all("set-cookie") or ())
            return Answer(response.status, dict(response.headers), response.read().decode(), cookies)
        finally:
            connection.close()


@contextmanager
def serve(app: ASGIApp, **more: Any) -> Iterator[Served]:
    """Serve until the block ends, with more options of uvicorn."""
    started = threading.Event()

    class Server(uvicorn.Server):
        async def startup(self, sockets: object = None) -> None:
            await super().startup(sockets)  # type: ignore[arg-type]
            started.set()

    options = {"log_level": "critical", "proxy_headers": False, "timeout_graceful_shutdown": 1, **more}
    server = Server(uvicorn.Config(app, host="127.0.0.1", port=0, **options))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert started.wait(60)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield Served(f"http://127.0.0.1:{port}")
    finally:
        server.should_exit = True
        thread.join(60)
