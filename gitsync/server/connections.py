"""
Limits on the connections of the dashboard, so that clients who send slowly, or nothing, stop neither it nor a sync.

A connection has ``HEADER_SECONDS`` from its start, or from the end of the last response, until the head of a request
is complete, and ``BODY_SECONDS`` for its body. Where there are too many, the one that has waited longest for the head
of a request makes room; a new one is refused where none waits.
"""

from __future__ import annotations

import asyncio
import resource
from collections import Counter
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS: Final = 10.0
BODY_SECONDS: Final = 60.0
# h11 keeps an incomplete head in memory, for each connection
HEADER_BYTES: Final = 32 << 10
_LINGER: Final = 1.0
"""Seconds in which a client can read why its body was refused."""
_MOST: Final = 1024
"""Connections in all, where the process may open enough files."""
_RESERVED: Final = 512
"""Descriptors that the controller keeps for Git, the cluster and the database."""


class Connections:
    """The open connections: at most ``total``, and ``per_address`` of one client address."""

    def __init__(self, total: int, per_address: int) -> None:
        self._total = total
        self._per_address = per_address
        self._by_address: Counter[str] = Counter()
        self._open: dict[LimitedProtocol, str] = {}
        self._waiting: dict[LimitedProtocol, None] = {}
        """Those that wait for the head of a request, the longest first."""

    def __len__(self) -> int:
        return len(self._open)

    def add(self, connection: LimitedProtocol, address: str) -> bool:
        """Admit a connection, in place of one that waits where there are too many; return whether it is admitted."""
        is_full = len(self._open) >= self._total or self._by_address[address] >= self._per_address
        longest = (
            next((longest_idle for longest_idle in self._waiting if self._makes_room(longest_idle, address)), None)
            if is_full
            else None
        )
        if is_full and longest is None:
            return False
        if longest is not None:
            # before abort(), which reports the loss only in a later pass of the event loop
            self.remove(longest)
            longest.abort()
        self._open[connection] = address
        self._by_address[address] += 1
        return True

    def _makes_room(self, waiting: LimitedProtocol, address: str) -> bool:
        # an address at its own limit displaces only a connection of its own
        return self._by_address[address] < self._per_address or self._open[waiting] == address

    def remove(self, connection: LimitedProtocol) -> None:
        """Forget a connection that is closed."""
        self._waiting.pop(connection, None)
        address = self._open.pop(connection, None)
        if address is not None:
            # in-place subtraction drops counts of zero: a Counter would keep every address that ever connected
            self._by_address -= Counter({address: 1})

    def wait(self, connection: LimitedProtocol, *, is_waiting: bool) -> None:
        """Store whether a connection waits for the head of a request."""
        # removed and added: it moves to the end
        self._waiting.pop(connection, None)
        if is_waiting and connection in self._open:
            self._waiting[connection] = None


class LimitedProtocol(H11Protocol):
    """One connection of the dashboard, with deadlines for what its client sends."""

    admitted: Connections

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Admit the connection, or close it."""
        # first: sets client and transport
        super().connection_made(transport)
        self._deadline: asyncio.TimerHandle | None = None
        if self.admitted.add(self, self.client[0] if self.client else ""):
            self._expect_head()
        else:
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._set_deadline(None)
        self.admitted.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read what came, and set the deadline for what is missing."""
        # h11 changes the state within super()
        was_waiting = self._is_waiting
        super().data_received(data)
        if was_waiting and not self._is_waiting:
            self.admitted.wait(self, is_waiting=False)
            self._set_deadline(BODY_SECONDS if self._lacks_body else None)
        # the body is complete: an answer takes as long as it needs, such as live events
        elif not self._is_waiting and not self._lacks_body:
            self._set_deadline(None)

    def on_response_complete(self) -> None:
        """Wait for the next request; read no more of a body that was refused, and close the connection."""
        super().on_response_complete()
        if self.transport.is_closing():
            return
        if self._is_waiting:
            self._expect_head()
        elif self._lacks_body:
            # the socket's buffer fills, so that the client blocks instead of sending more
            self.transport.pause_reading()
            self._set_deadline(_LINGER)

    def abort(self) -> None:
        """Close the connection at once."""
        self.transport.abort()

    @property
    def _is_waiting(self) -> bool:
        return self.conn.their_state is h11.IDLE

    @property
    def _lacks_body(self) -> bool:
        return self.conn.their_state is h11.SEND_BODY

    def _expect_head(self) -> None:
        self.admitted.wait(self, is_waiting=True)
        self._set_deadline(HEADER_SECONDS)

    def _set_deadline(self, seconds: float | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(seconds, self.abort) if seconds is not None else None


def limited_protocol(total: int, per_address: int) -> type[LimitedProtocol]:
    """Return the protocol of a server with these limits on its connections."""
    members: dict[str, Any] = {"admitted": Connections(total, per_address)}
    # a class for each server: uvicorn constructs the protocol, and passes nothing of ours
    return type("ServedProtocol", (LimitedProtocol,), members)


def most_connections() -> int:
    """Allow this process all files that the system lets it open; return how many connections leave enough of them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # the soft limit is often 1,024; raising it up to the hard one needs no privilege
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return max(64, min(_MOST, hard - _RESERVED))
