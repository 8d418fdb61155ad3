"""Limits on the bodies of requests: their size, and how deep JSON is nested."""

from __future__ import annotations

import re
from typing import Final

from fastapi import Request, Response
from fastapi.responses import PlainTextResponse
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gitsync.server.problems import PREFIX, problem

LARGEST: Final = 1 << 20
"""Bytes that a body may have."""
# json.loads recurses for each level; what this API takes has two
DEEPEST: Final = 32
"""Lists and mappings that may be in one another."""
_BODILESS: Final = ("GET", "HEAD", "OPTIONS")
_STREAMED: Final = "/webhook/"
"""Below this path, payloads are larger, and are limited while they are received."""
# strings first, so that brackets in them do not count; possessive, so that no input makes it backtrack
_STRUCTURE: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[\[{]|[\]}]', re.DOTALL)


class LimitedBodies:
    """Reject requests whose body is too large, or nested too deeply where it is JSON, before anything parses it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its body, or answer it."""
        if scope["type"] != "http" or scope["method"] in _BODILESS or scope["path"].startswith(_STREAMED):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        # here and not in the route: the limit holds for chunked bodies, which have no Content-Length
        body = await _read(receive, headers.get("content-length", ""))
        if body is None:
            await _answer(scope, 413, f"The body is larger than {LARGEST >> 20} MiB.")(scope, receive, send)
        elif "json" in headers.get("content-type", "") and not _is_shallow(body):
            await _answer(scope, 422, f"The JSON is nested deeper than {DEEPEST} levels.")(scope, receive, send)
        else:
            await self._app(scope, _Replay(body, receive), send)


class _Replay:
    """Receive a body that was read, and then what the connection has."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        body = self._body
        self._body = None
        # Starlette waits for the disconnect of the client after the body
        if body is None:
            return await self._receive()
        return {"type": "http.request", "body": body, "more_body": False}


async def _read(receive: Receive, length: str) -> bytes | None:
    """Return the body, None where it is too large; no more than the limit is held."""
    # h11 has refused one that is not a number; the size is counted below in any case
    if length.isdecimal() and int(length) > LARGEST:
        return None
    chunks = []
    size = 0
    has_more = True
    while has_more:
        message = await receive()
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if size > LARGEST:
            return None
        has_more = bool(message.get("more_body")) and message["type"] != "http.disconnect"
    return b"".join(chunks)


def _is_shallow(body: bytes) -> bool:
    depth = 0
    for match in _STRUCTURE.finditer(body):
        depth += {b"[": 1, b"{": 1, b"]": -1, b"}": -1}.get(match[0], 0)
        if depth > DEEPEST:
            return False
    return True


def _answer(scope: Scope, code: int, text: str) -> Response:
    request = Request(scope)
    is_api = request.url.path.startswith(PREFIX)
    return problem(request, code, text) if is_api else PlainTextResponse(f"{text}\n", code)
