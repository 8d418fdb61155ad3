"""
Version 2 of Git's protocol over HTTP: the refs of a repository, and the pack of one commit.

The rules are those of gitprotocol-v2(5), gitprotocol-http(5) and gitprotocol-common(5). What a server answers
otherwise is left to git, whose errors are known: a version before, a dumb server, a sign-in page, an error inside the
protocol, a shallow repository, an invalid certificate.
"""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from http.client import HTTPException, HTTPResponse, IncompleteRead
from io import BufferedReader
from typing import TypeAlias
from urllib.parse import urlsplit

from gitsync import __version__
from gitsync.source.connections import GitConnections, GitRequest, ServerAnswer
from gitsync.source.git import GitFailed, GitTimedOut, OutputTooLarge
from gitsync.source.refs import RefListing
from gitsync.source.validation import is_commit

_SERVICE = "git-upload-pack"
_ADVERTISEMENT = f"application/x-{_SERVICE}-advertisement"
_RESULT = f"application/x-{_SERVICE}-result"
# hosts tell git from a browser by its name
AGENT = f"git/2 (gitsync/{__version__})"
"""What requests to Git servers name as their program."""
_OK = 200
# bytes of a packet, with its length (gitprotocol-common(5))
_MAX_PACKET = 65520
_LENGTH = 4
_HEX = re.compile(rb"[0-9a-f]{4}")
# seconds that a server may ask to wait
_MAX_DELAY = 3600.0
# bytes by which a pack is introduced, and the objects that git itself unpacks one by one (fetch.unpackLimit)
_PACK_HEADER = 12
_UNPACK_LIMIT = 100
# bytes of what is not refs: what a server can do, and which commits it knows
_MAX_SECTION = 64 << 10
# the first byte of a packet of a pack: what the rest of it is
_PACK_DATA = b"\x01"
_PROGRESS = b"\x02"


Stream: TypeAlias = "BufferedReader[HTTPResponse]"


class NotSpoken(Exception):
    """The server does not answer by version 2 of the protocol, or not as expected: git has to talk to it."""


class ServerRefused(GitFailed):
    """The server answered with an error; ``retry_after`` is the delay in seconds that it asks for, None without."""

    def __init__(self, status: int, retry_after: float | None) -> None:
        # git's own words, by which ``server_errors`` finds the reason
        super().__init__(f"fatal: the requested URL returned error: {status}")
        self.retry_after = retry_after


class Mark(Enum):
    """A packet without content: it ends an answer, or a section of it."""

    FLUSH = b"0000"
    DELIMITER = b"0001"
    END = b"0002"


_MARKS = {mark.value: mark for mark in Mark}


@dataclass(frozen=True, slots=True)
class GitAccess:
    """
    How a repository is reached: its URL without a user, the header Authorization, and the trusted certificates (PEM).

    Without certificates, those of the system are trusted.
    """

    url: str
    authorization: str = field(default="", repr=False)
    authorities: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class ReceivedPack:
    """The objects of a commit that a mirror lacks, as a pack; a thin one has deltas on objects that are there."""

    content: bytes

    @property
    def is_small(self) -> bool:
        """Whether its objects are better kept one by one: each pack makes all later reads slower."""
        return int.from_bytes(self.content[8:_PACK_HEADER], "big") < _UNPACK_LIMIT


class ProtocolClient:
    """
    Talk to a repository over open connections.

    What the server can do is requested once, and again after an answer that was not as expected.
    """

    def __init__(self, connections: GitConnections) -> None:
        self._connections = connections
        # by the URL that it is about: a repository may have moved on its host
        self._advertised: tuple[str, frozenset[str]] = ("", frozenset())
        self._is_old = False

    def list_refs(self, access: GitAccess, seconds: float, max_bytes: int) -> RefListing:
        """
        Return the branches and tags.

        Raise NotSpoken, OutputTooLarge past ``max_bytes``, GitTimedOut, or GitFailed with what git would print.
        """
        arguments = ("peel", "ref-prefix refs/heads/", "ref-prefix refs/tags/")
        listing = bytearray()
        with self._command(access, "ls-refs", arguments, seconds) as stream:
            for line in _section(stream, max_bytes=max_bytes):
                for name, id in _ref(line):
                    listing += f"{id}\t{name}\n".encode()
        return RefListing(listing.decode())

    def fetch(
        self, access: GitAccess, commit: str, haves: Collection[str], seconds: float, max_bytes: int, *, thin: bool
    ) -> ReceivedPack:
        """
        Return the objects of a commit that those which are here already, ``haves``, lack.

        With ``thin``, objects of those may be the base of others. Raise NotSpoken also where the server finds no
        common history in one round, and for a pack above ``max_bytes``; else as ``list_refs``.
        """
        options = ("thin-pack",) if thin else ()
        arguments = (*options, "ofs-delta", "no-progress", f"want {commit}", *(f"have {have}" for have in haves))
        with self._command(access, "fetch", arguments, seconds) as stream:
            if _text(stream) != b"acknowledgments":
                raise NotSpoken("a section is missing")
            # "ready" says that the pack follows in the same answer; without it, the server wants more rounds
            if b"ready" not in list(_section(stream, Mark.DELIMITER)):
                raise NotSpoken("no common history")
            if _text(stream) != b"packfile":  # such as the commits at which a shallow repository ends
                raise NotSpoken("an unknown section")
            return ReceivedPack(_pack(stream, max_bytes))

    @contextlib.contextmanager
    def _command(self, access: GitAccess, command: str, arguments: Iterable[str], seconds: float) -> Iterator[Stream]:
        """Yield the answer to a command, which has to be read to its end."""
        if self._is_old:
            raise NotSpoken("an older version of the protocol")
        try:
            capabilities = self._capabilities(access, seconds)
            formats = (name for name in capabilities if name.startswith("object-format="))
            lines = (f"command={command}", *formats, "", *arguments)
            body = b"".join(_line(line) if line else Mark.DELIMITER.value for line in lines) + Mark.FLUSH.value
            with self._connections.answer(_request(access, _SERVICE, _RESULT, body), seconds) as answer:
                stream = _stream(answer, _RESULT)
                yield stream
                if stream.read(1):  # also ends the answer, so that the connection is kept
                    raise NotSpoken("more than an answer")
        except BaseException as error:
            self._advertised = ("", frozenset())  # the server may have been replaced by another
            raise _as_git_reports(error, access, command, seconds) from error

    def _capabilities(self, access: GitAccess, seconds: float) -> frozenset[str]:
        url, capabilities = self._advertised
        if url == access.url:
            return capabilities
        request = _request(access, f"info/refs?service={_SERVICE}", _ADVERTISEMENT)
        with self._connections.answer(request, seconds) as answer:
            stream = _stream(answer, _ADVERTISEMENT)
            first = _text(stream)
            if first.startswith(b"# service="):  # gitprotocol-http(5), smart servers
                _packet(stream)
                first = _text(stream)
            if first != b"version 2":
                self._is_old = True
                raise NotSpoken("an older version of the protocol")
            capabilities = frozenset(line.decode(errors="replace") for line in _section(stream))
            stream.read(1)
        if not {name.partition("=")[0] for name in capabilities} >= {"ls-refs", "fetch"}:
            raise NotSpoken("a command is missing")
        self._advertised = (access.url, capabilities)
        return capabilities


def _as_git_reports(error: BaseException, access: GitAccess, command: str, seconds: float) -> BaseException:
    """Return the error that a run of git would end with."""
    if isinstance(error, TimeoutError):
        return GitTimedOut(f"git {command} took longer than {seconds:.0f} s", hint="is the Git server reachable?")
    # git says what is wrong with a certificate, and trusts by other files. A server whose repository was replaced
    # by one with other object ids breaks off its answer, and git asks what it can do first.
    if isinstance(error, (ssl.SSLError, IncompleteRead)):
        return NotSpoken(str(error))
    if isinstance(error, socket.gaierror):
        host = urlsplit(access.url).hostname
        return GitFailed(f"fatal: unable to access '{access.url}/': Could not resolve host: {host}")
    if isinstance(error, (OSError, HTTPException)):
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return GitFailed(f"fatal: unable to access '{access.url}/': {reason}")
    return error


def _request(access: GitAccess, path: str, accepted: str, body: bytes | None = None) -> GitRequest:
    """Return the request of a path below a repository; ``accepted`` is the type of the answer."""
    headers = {"User-Agent": AGENT, "Git-Protocol": "version=2", "Accept": accepted}
    if body is not None:
        headers["Content-Type"] = f"application/x-{_SERVICE}-request"
    if access.authorization:
        headers["Authorization"] = access.authorization
    return GitRequest(f"{access.url.rstrip('/')}/{path}", headers, body, access.authorities)


def _stream(answer: ServerAnswer, content_type: str) -> Stream:
    """Return the body of an answer; raise ServerRefused for an error, NotSpoken for another type."""
    if answer.status != _OK:
        raise ServerRefused(answer.status, retry_after(answer.headers.get("Retry-After", "")))
    # no encoding was offered: what is encoded all the same was not written by a Git server
    if answer.headers.get_content_type() != content_type or "Content-Encoding" in answer.headers:
        raise NotSpoken("another content type")
    return answer.body


def retry_after(value: str) -> float | None:
    """Return the seconds of a header Retry-After, at most an hour; its dates depend on two clocks and are ignored."""
    return min(float(value), _MAX_DELAY) if value.isascii() and value.isdigit() else None


def _line(text: str) -> bytes:
    content = f"{text}\n".encode()
    return f"{len(content) + _LENGTH:04x}".encode() + content


def _packet(stream: Stream) -> bytes | Mark:
    """Read a packet; raise NotSpoken for what is none, or an error of the server, HTTPException at the end."""
    head = _exactly(stream, _LENGTH)
    if head in _MARKS:
        return _MARKS[head]
    if not _HEX.fullmatch(head) or not _LENGTH < (length := int(head, 16)) <= _MAX_PACKET:
        raise NotSpoken("a packet of no valid length")
    content = _exactly(stream, length - _LENGTH)
    if content.startswith(b"ERR "):
        raise NotSpoken("an error of the server")
    return content


def _text(stream: Stream) -> bytes:
    """Read a line, whose line end servers may leave out; empty for a mark."""
    packet = _packet(stream)
    return packet.removesuffix(b"\n") if isinstance(packet, bytes) else b""


def _exactly(stream: Stream, size: int) -> bytes:
    content = stream.read(size)
    if len(content) != size:
        raise IncompleteRead(content, size - len(content))
    return content


def _section(stream: Stream, end: Mark = Mark.FLUSH, max_bytes: int = _MAX_SECTION) -> Iterator[bytes]:
    """Yield the lines up to a mark; raise NotSpoken at another one, OutputTooLarge past ``max_bytes``."""
    size = 0
    while isinstance(packet := _packet(stream), bytes):
        size += len(packet)
        if size > max_bytes:
            raise OutputTooLarge
        yield packet.removesuffix(b"\n")
    if packet is not end:
        raise NotSpoken("another end of a section")


def _ref(line: bytes) -> Iterator[tuple[str, str]]:
    """Yield name and object id of a ref, and of the object that an annotated tag names."""
    id, _, rest = line.decode(errors="replace").partition(" ")
    name, *attributes = rest.split(" ")
    peeled = [value.removeprefix("peeled:") for value in attributes if value.startswith("peeled:")]
    if not name.startswith("refs/") or {"\t", "\n"}.intersection(name) or not all(map(is_commit, (id, *peeled))):
        raise NotSpoken("no line of a ref")
    yield name, id
    for other in peeled:
        yield f"{name}^{{}}", other


def _pack(stream: Stream, max_bytes: int) -> bytes:
    """Return the pack in the packets of an answer, which have messages to the user between its parts."""
    parts: list[bytes] = []
    size = 0
    for packet in _packets(stream):
        if packet[:1] == _PROGRESS:
            continue
        if packet[:1] != _PACK_DATA:
            raise NotSpoken("an error of the server")
        size += len(packet) - 1
        if size > max_bytes:  # git writes a large one to the disk while it arrives
            raise NotSpoken("a large pack")
        parts.append(packet[1:])
    content = b"".join(parts)
    if not content.startswith(b"PACK") or len(content) < _PACK_HEADER:
        raise NotSpoken("no pack")
    return content


def _packets(stream: Stream) -> Iterator[bytes]:
    """Yield packets up to the flush that ends an answer; unlike lines, their last byte counts."""
    while isinstance(packet := _packet(stream), bytes):
        yield packet
    if packet is not Mark.FLUSH:
        raise NotSpoken("another end of an answer")
