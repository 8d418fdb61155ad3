"""Port forwarding to Pods that run as processes: pairs of streams of one client connection, each to a port."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

from gitsync.sandbox.http.transport.messages import Response, Upgrade, Wire, text_response
from gitsync.sandbox.http.transport.spdy import Data, Frames, Malformed, Opened, Ping, Reset

_PROTOCOL = "portforward.k8s.io"
_CHUNK = 32 * 1024
_UNSENT = 1 << 20
"""Bytes that a reader may be behind before its sender waits."""
_PERIOD = 0.01
_PATIENCE = 10.0
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
        except Malformed:
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
        kind, port = opened.headers.get("streamtype"), opened.headers.get("port", "")
        if kind not in ("error", "data") or not port.isdecimal() or len(self._streams) >= _MOST_STREAMS:
            self._wire.write(self._frames.reset(opened.stream))
            return
        pair = self._pairs.setdefault(opened.headers.get("requestid", ""), _Pair())
        self._streams[opened.stream] = pair
        self._wire.write(self._frames.reply(opened.stream))
        if kind == "error":
            pair.error = opened.stream
        else:
            pair.data, pair.port = opened.stream, int(port)
        if pair.error and pair.data and pair.task is None:
            pair.task = asyncio.ensure_future(self._forward(pair))

    def _send(self, data: Data) -> None:
        pair = self._streams.get(data.stream)
        if pair is None or data.stream != pair.data:
            return
        if pair.writer is None:
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
        if pair.task is not None and pair.task is not asyncio.current_task():
            pair.task.cancel()
