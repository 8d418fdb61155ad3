"""The wire: HTTP/1.1 on one connection, read by httptools, one request at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, cast

import httptools

from gitsync.sandbox.http.transport.messages import (
    Answer,
    Hangup,
    HttpRequest,
    Receiver,
    Reply,
    Response,
    StreamReply,
    Upgrade,
)

# The limit of the real server, whose 413 names it (3145728).
MAX_BODY = 3 * 1024 * 1024
# Bearer tokens with many groups have several KiB.
MAX_HEADERS = 64 * 1024
MAX_UNSENT = 64 * 1024 * 1024
"""Bytes that a slow client of a watch may be behind before it is cut."""

Handler = Callable[[HttpRequest], Reply]

_REASONS = {status.value: status.phrase for status in HTTPStatus}


class HttpConnection(asyncio.Protocol):
    """
    Answer the requests of one client in order.

    Requests that arrive before the answer to the last one wait; reading pauses meanwhile only when many do.
    """

    def __init__(self, handle: Handler, connections: set[HttpConnection]) -> None:
        self._handle = handle
        self._connections = connections
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[tuple[HttpRequest, bool]] = deque()
        self._busy = False
        self._stop: Callable[[], None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._receiver: Receiver | None = None
        self._reset()

    def _reset(self) -> None:
        self._target = b""
        self._headers: dict[str, str] = {}
        self._header_bytes = 0
        self._body: list[bytes] = []
        self._size = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """End whatever was being answered."""
        self._transport = None
        self._connections.discard(self)
        if self._stop is not None:
            self._stop()
            self._stop = None
        if self._task is not None:
            self._task.cancel()
        if self._receiver is not None:
            self._receiver.close()

    def data_received(self, data: bytes) -> None:
        """Parse received bytes; answer 400 to malformed HTTP and close the connection."""
        if self._receiver is not None:
            self._receiver.receive(data)
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:  # raised once the request is answered
            self._receive_rest(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            self._write(Response(400, b"400 Bad Request", "text/plain; charset=utf-8"), keep_alive=False)

    def _receive_rest(self, data: bytes) -> None:
        """Take what a client sent behind the request for another protocol."""
        if self._receiver is not None and data:
            self._receiver.receive(data)

    def abort(self) -> None:
        """Cut the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def on_url(self, url: bytes) -> None:
        """Collect the request target."""
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a header; the first of equal names counts, except that impersonation groups add up."""
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > MAX_HEADERS:
            raise ValueError("headers too large")
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1")
        # Groups come as repeated headers.
        if key == "impersonate-group" and key in self._headers:
            self._headers[key] += f"\n{text}"
        else:
            self._headers.setdefault(key, text)

    def on_headers_complete(self) -> None:
        """Send "100 Continue" to a client that waits for it."""
        if self._headers.get("expect", "").lower() == "100-continue" and self._transport is not None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        """Collect the body, up to its limit."""
        self._size += len(body)
        # The rest is read and dropped, since an answer in the middle of a request is lost on many clients.
        if self._size <= MAX_BODY:
            self._body.append(body)

    def on_message_complete(self) -> None:
        """Answer the request, or let it wait for its turn."""
        method = self._parser.get_method().decode("latin-1")
        target = self._target.decode("utf-8", "replace")
        # A refused request for another protocol leaves the parser in an unknown state.
        keep_alive = bool(self._parser.should_keep_alive()) and not self._parser.should_upgrade()
        oversized = self._size > MAX_BODY
        body = b"" if oversized else b"".join(self._body)
        request = HttpRequest.of(method, target, self._headers, body, oversized)
        self._reset()
        # Pipelined requests are answered in order.
        if self._busy:
            self._waiting.append((request, keep_alive))
        else:
            self._serve(request, keep_alive)

    # answering

    def _serve(self, request: HttpRequest, keep_alive: bool) -> None:
        reply = self._handle(request)
        if isinstance(reply, Awaitable):
            self._busy = True
            self._task = asyncio.ensure_future(self._serve_later(request, reply, keep_alive))
        else:
            self._answer(request, reply, keep_alive)

    async def _serve_later(self, request: HttpRequest, reply: Awaitable[Answer], keep_alive: bool) -> None:
        answer = await reply
        self._task = None
        self._answer(request, answer, keep_alive)
        if self._stop is None:
            self._next()

    def _next(self) -> None:
        self._busy = False
        while self._waiting and not self._busy and self._transport is not None:
            self._serve(*self._waiting.popleft())

    def _answer(self, request: HttpRequest, answer: Answer, keep_alive: bool) -> None:
        if isinstance(answer, Response):
            self._write(answer, keep_alive=keep_alive, head=request.method == "HEAD")
        elif isinstance(answer, StreamReply):
            self._open(answer)
        elif isinstance(answer, Upgrade):
            self._upgrade(answer)
        elif isinstance(answer, Hangup):
            self.abort()

    def _upgrade(self, upgrade: Upgrade) -> None:
        if self._transport is None:
            return
        lines = [f"{name}: {value}\r\n" for name, value in upgrade.headers.items()]
        head = f"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {upgrade.protocol}\r\n"
        self._transport.write(f"{head}{''.join(lines)}\r\n".encode())
        self._receiver = upgrade.open(self)

    def write(self, data: bytes) -> None:
        """Send bytes of another protocol."""
        if self._transport is not None:
            self._transport.write(data)

    def unsent(self) -> int:
        """Return the bytes that the client has not taken yet."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def pause(self) -> None:
        """Read nothing until ``resume``."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read again."""
        if self._transport is not None:
            self._transport.resume_reading()

    def _write(self, response: Response, *, keep_alive: bool, head: bool = False) -> None:
        if self._transport is None:
            return
        status = response.status
        lines = [
            f"HTTP/1.1 {status} {_REASONS.get(status, 'Unknown')}\r\nContent-Type: {response.content_type}\r\n"
            f"Content-Length: {len(response.body)}\r\nCache-Control: no-cache, private\r\n"
        ]
        lines.extend(f"{name}: {value}\r\n" for name, value in response.headers.items())
        lines.append("\r\n" if keep_alive else "Connection: close\r\n\r\n")
        header = "".join(lines).encode("utf-8")
        self._transport.write(header if head else header + response.body)
        if not keep_alive:
            self._transport.close()

    def _open(self, stream: StreamReply) -> None:
        if self._transport is None:
            return
        self._busy = True
        self._transport.write(
            f"HTTP/1.1 200 OK\r\nContent-Type: {stream.content_type}\r\nCache-Control: no-cache, private\r\n"
            "Transfer-Encoding: chunked\r\n\r\n".encode()
        )
        stop = stream.open(_ChunkedSink(self))
        # Opening may already have ended the stream or lost the client.
        if self._transport is None or not self._busy:
            stop()
        else:
            self._stop = stop

    def send_chunk(self, chunk: bytes) -> None:
        """Write one chunk of a stream, or cut a client that does not read."""
        if self._transport is None:
            return
        # The client lists again, as after any broken watch.
        if self._transport.get_write_buffer_size() > MAX_UNSENT:
            self._transport.abort()
            return
        self._transport.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))

    def end_stream(self) -> None:
        """Write the end of a stream and go on with the next request."""
        if self._transport is None:
            return
        self._transport.write(b"0\r\n\r\n")
        stop = self._stop
        self._stop = None
        if stop is not None:
            stop()
        self._next()


class _ChunkedSink:
    """A stream's view of its connection; after the end it does nothing."""

    def __init__(self, connection: HttpConnection) -> None:
        self._connection: HttpConnection | None = connection

    def send(self, chunk: bytes) -> None:
        if self._connection is not None:
            self._connection.send_chunk(chunk)

    def end(self) -> None:
        connection = self._connection
        self._connection = None
        if connection is not None:
            connection.end_stream()

    def abort(self) -> None:
        connection = self._connection
        self._connection = None
        if connection is not None:
            connection.abort()


def serve_on(handle: Handler, connections: set[HttpConnection]) -> Callable[[], Any]:
    """Return the protocol factory for ``loop.create_server``."""
    return lambda: HttpConnection(handle, connections)
