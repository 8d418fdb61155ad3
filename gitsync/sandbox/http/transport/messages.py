"""Requests and the kinds of reply: immediate, delayed, a stream, or another protocol."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias
from urllib.parse import parse_qsl, unquote

import orjson

from gitsync.sandbox.errors import ApiError

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request; header names are lower case, a repeated header or parameter keeps its first value."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    oversized: bool = False
    """The body went over the limit and was not kept."""

    @classmethod
    def of(cls, method: str, target: str, headers: dict[str, str], body: bytes, oversized: bool = False) -> HttpRequest:
        """Read a request target such as ``/api/v1/pods?watch=1``."""
        path, _, text = target.partition("?")
        query: dict[str, str] = {}
        if text:
            for name, value in parse_qsl(text, keep_blank_values=True):
                query.setdefault(name, value)
        return cls(method, unquote(path), query, headers, body, oversized)

    def flag(self, name: str) -> bool:
        """Return a boolean parameter as the API server reads it: anything but ``false`` and ``0`` is true."""
        # runtime.Convert_Slice_string_To_bool: also an empty value is true.
        return name in self.query and self.query[name].lower() not in ("false", "0")


@dataclass(slots=True)
class Response:
    """A whole answer."""

    status: int
    body: bytes
    content_type: str = JSON
    headers: dict[str, str] = field(default_factory=dict)


class Sink(Protocol):
    """Where a stream writes."""

    def send(self, chunk: bytes) -> None:
        """Send one chunk."""
        ...

    def end(self) -> None:
        """End the stream in order."""
        ...

    def abort(self) -> None:
        """Cut the connection."""
        ...


@dataclass(slots=True)
class StreamReply:
    """An answer in chunks: ``open`` is called with the sink and returns what to call when the client is gone."""

    open: Callable[[Sink], Callable[[], None]]
    content_type: str = JSON
    source: object = None
    """The writer of the chunks, for fault injection."""


class Wire(Protocol):
    """A connection that speaks another protocol than HTTP."""

    def write(self, data: bytes) -> None:
        """Send bytes; nothing once the client is gone."""
        ...

    def unsent(self) -> int:
        """Return the bytes that the client has not taken yet."""
        ...

    def pause(self) -> None:
        """Read nothing until ``resume``."""
        ...

    def resume(self) -> None:
        """Read again."""
        ...

    def abort(self) -> None:
        """Cut the connection."""
        ...


class Receiver(Protocol):
    """What takes the bytes of a connection that speaks another protocol."""

    def receive(self, data: bytes) -> None:
        """Take bytes."""
        ...

    def close(self) -> None:
        """End: the client is gone."""
        ...


@dataclass(slots=True)
class Upgrade:
    """The answer that HTTP ends here (101): ``open`` returns what speaks the other protocol on the connection."""

    protocol: str
    headers: dict[str, str]
    open: Callable[[Wire], Receiver]


class Hangup:
    """The answer that never comes: the connection is cut."""


Answer: TypeAlias = "Response | StreamReply | Upgrade | Hangup"
Reply: TypeAlias = "Answer | Awaitable[Answer]"


def json_response(value: Any, status: int = 200, content_type: str = JSON) -> Response:
    """Return a value as JSON."""
    return Response(status, orjson.dumps(value), content_type)


def error_response(error: ApiError) -> Response:
    """Return a refusal as the Status the client sees."""
    return Response(error.code, orjson.dumps(error.to_status()), JSON, dict(error.headers))


def text_response(text: str, status: int = 200) -> Response:
    """Return plain text."""
    return Response(status, text.encode(), TEXT)
