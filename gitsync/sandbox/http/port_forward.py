"""Port forwarding to Pods that run as processes, by the frames of SPDY/3.1 that kubectl sends."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from gitsync.sandbox.http.transport.messages import Response, Upgrade, Wire, text_response

_SYN_STREAM = 1
_SYN_REPLY = 2
_RST_STREAM = 3
_PING = 6
_VERSION = 3
_FIN = 1
_HEADER = 8
_MOST = 1 << 20
"""Bytes of a frame; clients send at most a buffer of 32 KiB in one."""

_PREFIXED = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow"
    " authorization cache-control connection content-base content-encoding content-language content-length"
    " content-location content-md5 content-range content-type date etag expect expires from host if-match"
    " if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma"
    " proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade"
    " user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie"
    " keep-alive origin"
)
_PLAIN = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _text(value: str) -> bytes:
    return len(value).to_bytes(4) + value.encode()


_DICTIONARY: Final = b"".join(_text(word.replace("_", " ")) for word in _PREFIXED.split()) + _PLAIN.encode()
"""What both sides compress headers with, 2.6.10.1."""


class MalformedFrame(ValueError):
    """The bytes are not frames of SPDY/3.1."""


class Opened(NamedTuple):
    """The client opened a stream; names of headers are lower case."""

    stream: int
    headers: Mapping[str, str]


class Data(NamedTuple):
    """Bytes of a stream; ``is_last``: the client sends no more on it."""

    stream: int
    content: bytes
    is_last: bool


class Reset(NamedTuple):
    """The client gave up a stream."""

    stream: int


class Ping(NamedTuple):
    """The client wants these bytes back."""

    content: bytes


class Frames:
    """The frames of one connection: bytes of the client become events, events of the server bytes."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._inflate = zlib.decompressobj(zdict=_DICTIONARY)
        self._deflate = zlib.compressobj(zdict=_DICTIONARY)

    def feed(self, data: bytes) -> Iterator[Opened | Data | Reset | Ping]:
        """Yield the events that are complete now; raise MalformedFrame for what is not SPDY/3.1."""
        self._received += data
        while len(self._received) >= _HEADER:
            size = int.from_bytes(self._received[5:_HEADER])
            if size > _MOST:
                raise MalformedFrame(f"a frame of {size} bytes")
            if len(self._received) < _HEADER + size:
                return
            head = bytes(self._received[:_HEADER])
            content = bytes(self._received[_HEADER : _HEADER + size])
            del self._received[: _HEADER + size]
            if head[0] & 0x80:
                yield from self._control(head, content)
            else:
                yield Data(int.from_bytes(head[:4]), content, bool(head[4] & _FIN))

    def reply(self, stream: int) -> bytes:
        """Return the frame that accepts a stream."""
        # One compression context for all frames: a header block that is left out would break the later ones.
        no_headers = self._deflate.compress(bytes(4)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        return self._frame(_SYN_REPLY, stream.to_bytes(4) + no_headers)

    def data(self, stream: int, content: bytes = b"", *, is_last: bool = False) -> bytes:
        """Return the frame with bytes of a stream."""
        return stream.to_bytes(4) + bytes([_FIN if is_last else 0]) + len(content).to_bytes(3) + content

    def reset(self, stream: int) -> bytes:
        """Return the frame that refuses a stream (REFUSED_STREAM)."""
        return self._frame(_RST_STREAM, stream.to_bytes(4) + (3).to_bytes(4))

    def pong(self, ping: Ping) -> bytes:
        """Return the answer to a ping."""
        return self._frame(_PING, ping.content)

    def _control(self, head: bytes, content: bytes) -> Iterator[Opened | Reset | Ping]:
        version = int.from_bytes(head[:2]) & 0x7FFF
        kind = int.from_bytes(head[2:4])
        if version != _VERSION:
            raise MalformedFrame(f"version {version}")
        if kind == _SYN_STREAM:
            if len(content) < 10:
                raise MalformedFrame("a stream without a header block")
            # The first bit of a stream's number is reserved.
            yield Opened(int.from_bytes(content[:4]) & 0x7FFFFFFF, self._headers(content[10:]))
        elif kind == _RST_STREAM:
            yield Reset(int.from_bytes(content[:4]) & 0x7FFFFFFF)
        elif kind == _PING:
            yield Ping(content)

    def _headers(self, block: bytes) -> dict[str, str]:
        try:
            text = self._inflate.decompress(block, _MOST)
        except zlib.error as error:
            raise MalformedFrame("headers that cannot be decompressed") from error
        if self._inflate.unconsumed_tail:
            raise MalformedFrame("headers of more than a mebibyte")
        parts = []
        at = 4
        for _ in range(2 * int.from_bytes(text[:4])):
            size = int.from_bytes(text[at : at + 4])
            if at + 4 + size > len(text):
                raise MalformedFrame("headers that end too early")
            parts.append(text[at + 4 : at + 4 + size].decode("latin-1"))
            at += 4 + size
        return {name.lower(): value for name, value in zip(parts[::2], parts[1::2], strict=True)}

    @staticmethod
    def _frame(kind: int, content: bytes) -> bytes:
        return (0x8000 | _VERSION).to_bytes(2) + kind.to_bytes(2) + b"\0" + len(content).to_bytes(3) + content


_PROTOCOL = "portforward.k8s.io"
_CHUNK = 32 * 1024
_UNSENT = 1 << 20
"""Bytes that a reader may be behind before its sender waits."""
# Seconds between two checks of a connection that takes no more bytes.
_PERIOD = 0.01
# Seconds for a process to accept the connection.
_PATIENCE = 10.0
# A client that never closes streams must not fill the memory.
_MOST_STREAMS = 1000


@dataclass(slots=True)
class _Pair:
    """One forwarded connection: the stream of its errors, that of its data, and the way to the port."""

    error: int = 0
    data: int = 0
    port: int = 0
    early: list[Data] = field(default_factory=list)
    """What the client sent before the port answered."""
    writer: asyncio.StreamWriter | None = None
    task: asyncio.Task[None] | None = None


def port_forward(headers: dict[str, str], address: str) -> Upgrade | Response:
    """
    Return the answer to a client that wants to forward ports to an address, empty for a Pod without processes.

    Clients that try WebSockets first fall back to SPDY where these are refused.
    """
    offered = [name.strip() for name in headers.get("x-stream-protocol-version", "").split(",")]
    if headers.get("upgrade", "").lower() != "spdy/3.1" or _PROTOCOL not in offered:
        return text_response("unable to upgrade: the sandbox forwards ports by SPDY/3.1 alone", 400)
    return Upgrade("SPDY/3.1", {"X-Stream-Protocol-Version": _PROTOCOL}, lambda wire: PortForward(wire, address))


class PortForward:
    """
    Forward the streams of one connection.

    A client opens, for each connection to its own port, a stream for errors and one for data, with the same
    ``requestID`` (Kubernetes, staging/src/k8s.io/client-go/tools/portforward).
    """

    def __init__(self, wire: Wire, address: str) -> None:
        self._wire = wire
        self._address = address
        self._frames = Frames()
        self._pairs: dict[str, _Pair] = {}
        self._streams: dict[int, _Pair] = {}
        self._resuming: set[asyncio.Task[None]] = set()

    def receive(self, data: bytes) -> None:
        """Take bytes of the client; what is not SPDY cuts the connection."""
        try:
            for event in self._frames.feed(data):
                self._take(event)
        except MalformedFrame:
            self._wire.abort()

    def close(self) -> None:
        """End all connections to ports: the client is gone."""
        for pair in list(self._pairs.values()):
            self._end(pair)
        self._pairs.clear()
        self._streams.clear()

    def _take(self, event: Opened | Data | Reset | Ping) -> None:
        match event:
            case Opened():
                self._open(event)
            case Data():
                self._send(event)
            case Reset():
                pair = self._streams.pop(event.stream, None)
                if pair is not None:
                    self._end(pair)
            case Ping():
                self._wire.write(self._frames.pong(event))

    def _open(self, opened: Opened) -> None:
        kind = opened.headers.get("streamtype")
        port = opened.headers.get("port", "")
        if kind not in ("error", "data") or not port.isdecimal() or len(self._streams) >= _MOST_STREAMS:
            self._wire.write(self._frames.reset(opened.stream))
            return
        pair = self._pairs.setdefault(opened.headers.get("requestid", ""), _Pair())
        self._streams[opened.stream] = pair
        self._wire.write(self._frames.reply(opened.stream))
        if kind == "error":
            pair.error = opened.stream
        else:
            pair.data = opened.stream
            pair.port = int(port)
        if pair.error and pair.data and pair.task is None:
            pair.task = asyncio.ensure_future(self._forward(pair))

    def _send(self, data: Data) -> None:
        pair = self._streams.get(data.stream)
        if pair is None or data.stream != pair.data:
            return
        if pair.writer is None:
            # A client may send before the connection to the port is open.
            pair.early.append(data)
        else:
            self._write(pair.writer, data)

    def _write(self, writer: asyncio.StreamWriter, data: Data) -> None:
        writer.write(data.content)
        if data.is_last and writer.can_write_eof():
            writer.write_eof()
        if writer.transport.get_write_buffer_size() > _UNSENT:
            self._wire.pause()
            task = asyncio.ensure_future(self._resume(writer))
            self._resuming.add(task)
            task.add_done_callback(self._resuming.discard)

    async def _resume(self, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            await writer.drain()
        self._wire.resume()

    async def _forward(self, pair: _Pair) -> None:
        """Connect to the port and copy what it sends until it ends; say on the stream of errors why it cannot."""
        problem = ""
        try:
            await self._copy(pair)
        # Reported to this client alone; the other forwarded connections continue.
        except (OSError, TimeoutError) as error:
            problem = f"port {pair.port} of the pod: {error or 'no answer'}"
        self._wire.write(self._frames.data(pair.data, is_last=True))
        self._wire.write(self._frames.data(pair.error, problem.encode(), is_last=True))
        self._forget(pair)

    async def _copy(self, pair: _Pair) -> None:
        if not self._address:
            raise OSError("its containers are simulated; list their image in the images of the sandbox")
        async with asyncio.timeout(_PATIENCE):
            reader, pair.writer = await asyncio.open_connection(self._address, pair.port)
        for data in pair.early:
            self._write(pair.writer, data)
        pair.early.clear()
        while content := await reader.read(_CHUNK):
            while self._wire.unsent() > _UNSENT:
                await asyncio.sleep(_PERIOD)
            self._wire.write(self._frames.data(pair.data, content))

    def _forget(self, pair: _Pair) -> None:
        self._end(pair)
        self._streams = {stream: other for stream, other in self._streams.items() if other is not pair}
        self._pairs = {id: other for id, other in self._pairs.items() if other is not pair}

    def _end(self, pair: _Pair) -> None:
        if pair.writer is not None:
            pair.writer.close()
        # A task that ends the pair itself must not cancel its own last lines.
        if pair.task is not None and pair.task is not asyncio.current_task():
            pair.task.cancel()
