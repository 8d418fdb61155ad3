"""HTTP connections to Git servers that stay open between requests, so that a poll needs no new TLS handshake."""

from __future__ import annotations

import contextlib
import http.client
import io
import os
import select
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, TypeAlias
from urllib.parse import SplitResult, urlsplit

from gitsync.runtime.clock import Deadline

# seconds after which an idle connection is not used again: servers and firewalls close them after a minute or more
_IDLE = 55.0
# idle connections that stay open, for all servers together: each is a file descriptor
_KEPT = 64
_DEFAULT_PORTS = {"http": 80, "https": 443}


Server: TypeAlias = tuple[str, str, int, str]
"""Scheme, host, port and trusted certificates."""


@dataclass(frozen=True, slots=True)
class GitRequest:
    """
    A request to a Git server; with a body it is a POST.

    ``authorities`` are the trusted certificates (PEM), empty for those of the system.
    """

    url: str
    headers: Mapping[str, str]
    body: bytes | None = None
    authorities: str = field(default="", repr=False)

    @property
    def parts(self) -> SplitResult:
        """The parts of the URL."""
        return urlsplit(self.url)

    @property
    def server(self) -> Server:
        """What a connection is opened with."""
        parts = self.parts
        return parts.scheme, parts.hostname or "", parts.port or _DEFAULT_PORTS[parts.scheme], self.authorities


class ServerAnswer:
    """The answer to a request: status, headers, and the body as a stream that is read in parts."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.body = io.BufferedReader(response, 1 << 16)
        self._response = response

    @property
    def is_complete(self) -> bool:
        """Whether the whole body was read, so that the connection can take another request."""
        # the end of the body is noticed by the read that finds nothing, of a chunked one only then
        return self._response.isclosed() and not self._response.will_close


class IdleConnection(NamedTuple):
    """A connection without a request: what it was opened with, and since when it is idle, by a monotonic clock."""

    server: Server
    connection: http.client.HTTPConnection
    since: float


class GitConnections:
    """
    Send requests to Git servers, on open connections where there are any.

    A connection is used by one request at a time. Nothing of a user stays with it: each request has its own header
    Authorization.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._idle: list[IdleConnection] = []
        self._lock = threading.Lock()
        # who drops these connections without a word, such as a command at its end, leaves no open socket
        weakref.finalize(self, _close, self._idle)

    @contextlib.contextmanager
    def answer(self, request: GitRequest, seconds: float) -> Iterator[ServerAnswer]:
        """
        Yield the answer to a request that is safe to repeat; its connection is kept once the body was read.

        Raise TimeoutError where it takes longer than ``seconds``, reading included; OSError and
        ``http.client.HTTPException`` where the server cannot be reached or breaks off.
        """
        deadline = Deadline(seconds)
        connection: http.client.HTTPConnection | None = None
        response: http.client.HTTPResponse | None = None
        try:
            connection, response = self._asked(request, seconds, deadline)
            answer = ServerAnswer(response)
            yield answer
            if answer.is_complete and not deadline.is_done:
                self._keep(request, connection)
                connection = None
        except (OSError, http.client.HTTPException, ValueError) as error:
            if deadline.is_done:  # the read failed because the deadline ended the connection
                raise TimeoutError from error
            raise
        finally:
            deadline.cancel()
            if connection is not None:
                # where the server ends the connection with its answer, only the answer still has the socket
                if response is not None:
                    response.close()
                connection.close()

    def close(self) -> None:
        """Close all idle connections."""
        with self._lock:
            _close(self._idle)

    def _asked(
        self, request: GitRequest, seconds: float, deadline: Deadline
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        connection = self._take(request)
        if connection is not None:
            try:
                return connection, _send(connection, request, deadline)
            except (OSError, http.client.HTTPException):
                connection.close()
                if deadline.is_done:
                    raise
                # the server closed it while it was idle, or in this moment: a new one decides
        connection = _open(request, seconds, deadline)
        try:
            return connection, _send(connection, request, deadline)
        except BaseException:
            connection.close()
            raise

    def _take(self, request: GitRequest) -> http.client.HTTPConnection | None:
        """Return the idle connection to the server that was used last and is still open, None without one."""
        with self._lock:
            oldest = self._clock() - _IDLE
            _close(self._idle, lambda idle: idle.since < oldest or _is_closed(idle.connection))
            for index in reversed(range(len(self._idle))):
                if self._idle[index].server == request.server:
                    return self._idle.pop(index).connection
        return None

    def _keep(self, request: GitRequest, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            self._idle.append(IdleConnection(request.server, connection, self._clock()))
            if len(self._idle) > _KEPT:
                self._idle.pop(0).connection.close()


def _close(idle: list[IdleConnection], selects: Callable[[IdleConnection], bool] = lambda idle: True) -> None:
    """Close the selected connections, and remove them from the list."""
    kept = []
    for entry in idle:
        if selects(entry):
            entry.connection.close()
        else:
            kept.append(entry)
    idle[:] = kept


def _open(request: GitRequest, seconds: float, deadline: Deadline) -> http.client.HTTPConnection:
    scheme, host, port, authorities = request.server
    connection = http.client.HTTPConnection(host, port, timeout=seconds)
    connection.connect()
    try:
        if scheme == "https":
            # the handshake apart, so that the deadline covers it too: a server may send it byte by byte
            secured = _context(authorities, _changed_at()).wrap_socket(
                connection.sock, server_hostname=host, do_handshake_on_connect=False
            )
            connection.sock = secured
            deadline.watch(secured)
            secured.do_handshake()
        else:
            deadline.watch(connection.sock)
    except BaseException:
        connection.close()
        raise
    return connection


def _send(connection: http.client.HTTPConnection, request: GitRequest, deadline: Deadline) -> http.client.HTTPResponse:
    deadline.watch(connection.sock)
    parts = request.parts
    target = parts._replace(scheme="", netloc="").geturl()
    # Host without user and password; http.client would add the port of HTTPS, which some servers compare
    headers = {"Host": parts.netloc.rpartition("@")[2], **request.headers}
    connection.request("GET" if request.body is None else "POST", target, request.body, headers)
    return connection.getresponse()


def _is_closed(connection: http.client.HTTPConnection) -> bool:
    """Return whether the server closed an idle connection: nothing else is to be read from one."""
    poll = select.poll()  # select.select raises from descriptor 1,024 on
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))


def _changed_at() -> float:
    """Return when the certificates of the system changed, 0.0 where they are in no single file."""
    file = ssl.get_default_verify_paths().cafile
    try:
        return os.stat(file).st_mtime if file else 0.0
    except OSError:
        return 0.0


@lru_cache(maxsize=32)
def _context(authorities: str, changed_at: float) -> ssl.SSLContext:
    """Return the TLS context for trusted certificates; it is kept, since to read those of the system takes 20 ms."""
    context = ssl.create_default_context(cadata=authorities or None)
    # Python 3.13 became stricter than curl, by which git trusts a server
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
