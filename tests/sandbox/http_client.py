"""A bare HTTP client for tests, so that nothing stands between a test and the wire."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gitsync.sandbox.server import Sandbox

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"

_numbers = itertools.count()


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def names(self) -> list[str]:
        return [item["metadata"]["name"] for item in self.json["items"]]


class Client:
    """Ask a sandbox; every request has a connection of its own."""

    def __init__(self, sandbox: Sandbox, token: str | None = None) -> None:
        self.sandbox = sandbox
        self.token = sandbox.token if token is None else token

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        connection = self.connect()
        try:
            self.send(connection, method, path, body, **headers)
            response = connection.getresponse()
            return Answer(response.status, dict(response.headers), response.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, **headers)

    def apply(self, path: str, body: Any, manager: str = "tests", query: str = "") -> Answer:
        return self.ask("PATCH", f"{path}?fieldManager={manager}{query}", body, Content_Type=APPLY)

    def merge(self, path: str, body: Any) -> Answer:
        return self.ask("PATCH", path, body, Content_Type=MERGE)

    def namespace(self) -> str:
        """Create a namespace of its own and return its collection of ConfigMaps."""
        name = f"n{next(_numbers)}"
        answer = self.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        assert answer.status == 201, answer.body
        return f"/api/v1/namespaces/{name}/configmaps"

    def create(self, path: str, name: str, data: dict[str, str] | None = None, **metadata: Any) -> Any:
        answer = self.ask("POST", path, {"metadata": {"name": name, **metadata}, "data": data or {}})
        assert answer.status == 201, answer.body
        return answer.json

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.sandbox.url.removeprefix("http://"), timeout=60)

    def send(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: Any = None, **headers: str
    ) -> None:
        sent = {"Accept": "application/json", "User-Agent": "tests/1"}
        if self.token:
            sent["Authorization"] = f"Bearer {self.token}"
        data = None
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        sent.update({name.replace("_", "-"): value for name, value in headers.items()})
        connection.request(method, path, data, sent)

    def watch(self, path: str, **headers: str) -> Watching:
        return Watching(self, path, headers)


class Watching:
    """An open watch, read line by line."""

    def __init__(self, client: Client, path: str, headers: dict[str, str]) -> None:
        self.connection = client.connect()
        client.send(self.connection, "GET", path, **headers)
        self.response = self.connection.getresponse()

    def __enter__(self) -> Watching:
        return self

    def __exit__(self, *_: object) -> None:
        if self.connection.sock is not None:
            with contextlib.suppress(OSError):
                self.connection.sock.shutdown(socket.SHUT_RDWR)  # wakes a thread that still reads
        self.connection.close()
        self.response.close()

    def event(self) -> Any:
        line = self.response.readline()
        return json.loads(line) if line.strip() else None

    def events(self) -> Iterator[Any]:
        while (event := self.event()) is not None:
            yield event

    def next_within(self, seconds: float) -> Any:
        """Return the next event, or None when none came in time."""
        found: list[Any] = []

        def read() -> None:
            with contextlib.suppress(OSError, ValueError, AttributeError):  # the test ended meanwhile
                found.append(self.event())

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        thread.join(seconds)
        return found[0] if found else None
