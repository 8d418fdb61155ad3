"""The listener: plain HTTP and TLS on one port, distinguished by the first byte a client sends."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable

from gitsync.errors import InvalidInput

# RFC 8446, 5.1: the content type of the first TLS record. No HTTP method begins with it.
_HANDSHAKE = 0x16
_PATIENCE = 60.0
"""
Seconds that a new connection may stay silent before its first byte.

On a machine where this thread did not run for as long, the timer is due before the byte that has arrived is read.
"""


class Listener:
    """Accept connections on a loopback port and give each a protocol."""

    def __init__(self, factory: Callable[[], asyncio.Protocol], context: ssl.SSLContext, port: int) -> None:
        self._factory = factory
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        try:
            self._socket = socket.create_server(("127.0.0.1", port), backlog=1024)
        except OSError as error:
            raise InvalidInput(
                f"cannot listen on 127.0.0.1:{port}: {error.strerror}", hint="name another port, or 0 for any"
            ) from error
        self._socket.setblocking(False)
        self.port: int = self._socket.getsockname()[1]
        self._loop.add_reader(self._socket, self._accept)

    def close(self) -> None:
        """Accept no more."""
        self._loop.remove_reader(self._socket)
        self._socket.close()
        for task in self._tasks:
            task.cancel()

    def _accept(self) -> None:
        # A bound, so that a flood of connections does not keep the loop from its other work.
        for _ in range(64):
            try:
                client, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                return  # out of file descriptors: the client waits in the backlog
            client.setblocking(False)
            # Watch events are small, and Nagle's algorithm would hold them back.
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            task = self._loop.create_task(self._welcome(client))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _welcome(self, client: socket.socket) -> None:
        try:
            async with asyncio.timeout(_PATIENCE):
                first = await self._first_byte(client)
                if not first:
                    client.close()
                    return
                context = self._context if first[0] == _HANDSHAKE else None
                await self._loop.connect_accepted_socket(self._factory, client, ssl=context)
        except (OSError, TimeoutError, asyncio.CancelledError):
            client.close()  # it went away, kept silent, or does not trust us

    async def _first_byte(self, client: socket.socket) -> bytes:
        try:
            return client.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            pass
        ready: asyncio.Future[None] = self._loop.create_future()

        def readable() -> None:
            if not ready.done():
                ready.set_result(None)

        self._loop.add_reader(client, readable)
        try:
            await ready
        finally:
            self._loop.remove_reader(client)
        return client.recv(1, socket.MSG_PEEK)
