"""
SPDY/3.1 frames, as kubectl sends them for port-forward. Pure.

Source: "SPDY Protocol - Draft 3.1", 2.2 to 2.6. Flow control and priorities are not used: the clients have none.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING = 1, 2, 3, 6
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


class Malformed(ValueError):
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
        """Yield the events that are complete now; raise Malformed for what is not SPDY/3.1."""
        self._received += data
        while len(self._received) >= _HEADER:
            size = int.from_bytes(self._received[5:_HEADER])
            if size > _MOST:
                raise Malformed(f"a frame of {size} bytes")
            if len(self._received) < _HEADER + size:
                return
            head, content = bytes(self._received[:_HEADER]), bytes(self._received[_HEADER : _HEADER + size])
            del self._received[: _HEADER + size]
            if head[0] & 0x80:
                yield from self._control(head, content)
            else:
                yield Data(int.from_bytes(head[:4]), content, bool(head[4] & _FIN))

    def reply(self, stream: int) -> bytes:
        """Return the frame that accepts a stream."""
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
        version, kind = int.from_bytes(head[:2]) & 0x7FFF, int.from_bytes(head[2:4])
        if version != _VERSION:
            raise Malformed(f"version {version}")
        if kind == _SYN_STREAM:
            if len(content) < 10:
                raise Malformed("a stream without a header block")
            yield Opened(int.from_bytes(content[:4]) & 0x7FFFFFFF, self._headers(content[10:]))
        elif kind == _RST_STREAM:
            yield Reset(int.from_bytes(content[:4]) & 0x7FFFFFFF)
        elif kind == _PING:
            yield Ping(content)

    def _headers(self, block: bytes) -> dict[str, str]:
        try:
            text = self._inflate.decompress(block, _MOST)
        except zlib.error as error:
            raise Malformed("headers that cannot be decompressed") from error
        if self._inflate.unconsumed_tail:
            raise Malformed("headers of more than a mebibyte")
        parts, at = [], 4
        for _ in range(2 * int.from_bytes(text[:4])):
            size = int.from_bytes(text[at : at + 4])
            if at + 4 + size > len(text):
                raise Malformed("headers that end too early")
            parts.append(text[at + 4 : at + 4 + size].decode("latin-1"))
            at += 4 + size
        return {name.lower(): value for name, value in zip(parts[::2], parts[1::2], strict=True)}

    @staticmethod
    def _frame(kind: int, content: bytes) -> bytes:
        return (0x8000 | _VERSION).to_bytes(2) + kind.to_bytes(2) + b"\0" + len(content).to_bytes(3) + content
