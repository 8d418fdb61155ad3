"""Serve an ASGI application on loopback, for tests that speak real HTTP."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import uvicorn
from fastapi import FastAPI


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as it came: redirects are not followed."""

    status: int
    headers: Mapping[str, str]
    text: str


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments: object) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Served:
    """A running server; ``url`` has no slash at its end."""

    url: str
    _opener: urllib.request.OpenerDirector = field(default_factory=lambda: urllib.request.build_opener(_Stay))

    def ask(
        self, path: str, *, method: str = "GET", body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send one request and return the answer, whatever its status."""
        request = urllib.request.Request(self.url + path, data=body, method=method, headers=dict(headers or {}))
        try:
            with self._opener.open(request, timeout=30) as response:
                return Answer(response.status, dict(response.headers), response.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, dict(error.headers), error.read().decode())


@contextmanager
def serve(app: FastAPI) -> Iterator[Served]:
    """Serve until the block ends."""
    started = threading.Event()

    class Server(uvicorn.Server):
        async def startup(self, sockets: object = None) -> None:
            await super().startup(sockets)  # type: ignore[arg-type]
            started.set()

    server = Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert started.wait(10)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield Served(f"http://127.0.0.1:{port}")
    finally:
        server.should_exit = True
        thread.join(10)
