"""Push events of Git servers: signed hints to poll a repository now."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import tempfile
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import IO
from urllib.parse import parse_qs

import orjson
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from gitsync.server.backend import Backend
from gitsync.server.push_events import normal, repository_urls

_UNSIGNED = "unauthorized: the signature is missing or wrong"
"""One answer for all: a client that has no secret learns nothing about it."""
_LIMIT = 25 << 20
"""Bytes of a payload; the limit of GitHub, the largest of the providers."""
# The sender of a body has not shown yet that it knows the secret: most push events have 10 to 50 KiB and are kept in
# memory, and of larger ones few are stored at a time, each for some seconds.
_IN_MEMORY = 256 << 10
_LARGE_BODIES = 2
_SECONDS = 10.0
_REMEMBERED = 4096


class _Proof(Enum):
    """How a request shows that its sender knows the secret."""

    HMAC = "HMAC-SHA256 of the raw body"
    TOKEN = "the secret itself"
    PASSWORD = "the secret as the password of basic authentication, with any user name"


@dataclass(frozen=True, slots=True)
class _Provider:
    """How a Git server shows that it knows the secret: in which header, and before an HMAC what else is there."""

    header: str
    proof: _Proof = _Proof.HMAC
    prefix: str = ""

    def knows(self, headers: Mapping[str, str], secret: bytes) -> bool:
        """Return whether the headers alone contain the secret; True where the body is needed to tell."""
        text = headers.get(self.header, "")
        if self.proof is _Proof.TOKEN:
            return hmac.compare_digest(text.encode(), secret)
        if self.proof is _Proof.PASSWORD:
            return hmac.compare_digest(_password(text), secret)
        return True

    def signs(self, headers: Mapping[str, str], digest: hmac.HMAC) -> bool:
        """Return whether the body is signed by the secret, where this server signs."""
        expected = f"{self.prefix}{digest.hexdigest()}"
        is_signed = hmac.compare_digest(headers.get(self.header, "").encode(), expected.encode())
        return is_signed or self.proof is not _Proof.HMAC


def _password(authorization: str) -> bytes:
    """Return the password of HTTP's basic authentication, empty where there is none."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return b""
    try:
        # validate: b64decode would skip characters that are not of the alphabet
        return base64.b64decode(encoded, validate=True).partition(b":")[2]
    except ValueError:
        return b""


PROVIDERS = {
    # not x-hub-signature, which GitHub signs by SHA-1
    "github": _Provider("x-hub-signature-256", prefix="sha256="),
    "gitea": _Provider("x-gitea-signature"),
    "forgejo": _Provider("x-forgejo-signature"),
    "gogs": _Provider("x-gogs-signature"),
    "bitbucket": _Provider("x-hub-signature", prefix="sha256="),
    # GitLab sends the secret itself
    "gitlab": _Provider("x-gitlab-token", _Proof.TOKEN),
    "azure-devops": _Provider("authorization", _Proof.PASSWORD),  # its service hooks sign nothing
    "codecommit": _Provider("authorization", _Proof.PASSWORD),  # an API destination of Amazon EventBridge
}
_DELIVERIES = (
    *("x-github-delivery", "x-gitea-delivery", "x-forgejo-delivery", "x-gogs-delivery"),
    *("x-request-uuid", "x-request-id", "x-gitlab-event-uuid"),
)
_EVENTS = ("x-github-event", "x-gitea-event", "x-forgejo-event", "x-gogs-event", "x-gitlab-event", "x-event-key")


def router(engine: Backend, secret: str) -> APIRouter:
    """
    Return ``POST /webhook/{provider}``; without a secret every request is refused.

    A payload is only a hint: what is fetched is what the applications name. A delivery that was seen before is not
    acted on again.
    """
    routes = APIRouter()
    deliveries: OrderedDict[str, None] = OrderedDict()
    large_bodies = _Slots(_LARGE_BODIES)

    @routes.post("/webhook/{name}")
    async def push(name: str, request: Request) -> JSONResponse:
        provider = PROVIDERS.get(name)
        if provider is None:
            return _failure(404, f"unknown provider; use one of {', '.join(PROVIDERS)}")
        # what the headers show is checked before a body is received
        if not secret or provider.header not in request.headers or not provider.knows(request.headers, secret.encode()):
            return _failure(401, _UNSIGNED)
        with ExitStack() as files:
            body = files.enter_context(tempfile.SpooledTemporaryFile(_IN_MEMORY))
            # over the bytes as they arrive: JSON that is written again would differ from them
            digest = hmac.new(secret.encode(), digestmod=hashlib.sha256)
            try:
                # a client that sends slowly would hold its slot
                async with asyncio.timeout(_SECONDS):
                    if not await _receive(request, body, digest, files, large_bodies):
                        return _failure(413, f"the body is too large: at most {_LIMIT} bytes")
            except TimeoutError:
                return _failure(408, f"the body did not arrive within {_SECONDS:.0f} s")
            except _Busy:
                return _failure(503, "other large bodies are being received; the repository is polled at its interval")
            if not provider.signs(request.headers, digest):
                return _failure(401, _UNSIGNED)
            event = _header(request, _EVENTS)
            # Bitbucket sends diagnostics:ping
            if event.rpartition(":")[2] == "ping":
                return JSONResponse({"accepted": True, "ping": True})
            try:
                # JSON of 25 MiB would block the event loop, and with it all pages
                urls = await run_in_threadpool(_urls_in, body, request.headers.get("content-type", ""))
            except ValueError:
                # a server that sends every event gets no error for it: GitLab disables webhooks that fail
                is_other = event and "push" not in event.lower()
                return _ignored(event) if is_other else _failure(400, "invalid payload: it names no repository")
        # after the signature: without the secret no delivery can be made to seem repeated
        if _is_repeated(_header(request, _DELIVERIES), deliveries):
            return JSONResponse({"accepted": True, "again": True}, 202)
        return JSONResponse({"accepted": True, "matched": _poll(engine, urls)}, 202)

    return routes


def _header(request: Request, names: Iterable[str]) -> str:
    return next((request.headers[name] for name in names if name in request.headers), "")


def _is_repeated(delivery: str, deliveries: OrderedDict[str, None]) -> bool:
    """Return whether a delivery was seen before, and remember it; those without an id are never repeated."""
    if delivery and delivery in deliveries:
        return True
    deliveries[delivery] = None
    if len(deliveries) > _REMEMBERED:
        deliveries.popitem(last=False)
    return False


def _failure(code: int, text: str) -> JSONResponse:
    return JSONResponse({"error": text}, code)


def _ignored(event: str) -> JSONResponse:
    return JSONResponse({"accepted": True, "matched": 0, "ignored": event[:100]})


def _poll(engine: Backend, urls: frozenset[str]) -> int:
    """Request a poll of the Applications and sets with one of these repositories; return how many there are."""

    def is_it(url: str) -> bool:
        return normal(url) in urls

    engine.pull_requests.repository_changed(is_it)
    return engine.requests.repository_changed(is_it) + engine.sets.repository_changed(is_it)


class _Busy(Exception):
    """As many large bodies as may be stored are being received."""


class _Slots:
    """Places for what only a few requests may do at a time; used in one event loop."""

    def __init__(self, count: int) -> None:
        self._free = count

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Hold a place; raise _Busy where none is free."""
        if not self._free:
            raise _Busy
        # without a lock: the event loop runs one request at a time between two awaits
        self._free -= 1
        try:
            yield
        finally:
            self._free += 1


async def _receive(
    request: Request, body: IO[bytes], digest: hmac.HMAC, files: ExitStack, large_bodies: _Slots
) -> bool:
    """
    Write the body to a file and its bytes to a digest; return False when it is larger than the limit.

    A large one takes a slot until ``files`` are closed, and with them its copy on the disk.
    """
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > _LIMIT:
        return False
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        # counted too: a chunked body has no Content-Length
        if size > _LIMIT:
            return False
        # once for each body, as it grows beyond what is kept in memory
        if size > _IN_MEMORY >= size - len(chunk):
            files.enter_context(large_bodies.taken())
        body.write(chunk)
        digest.update(chunk)
    body.seek(0)
    return True


def _urls_in(body: IO[bytes], content_type: str) -> frozenset[str]:
    """Return the URLs of the repository in a payload, as JSON or as GitHub's form; raise ValueError without any."""
    content = body.read()
    if content_type.partition(";")[0].strip() == "application/x-www-form-urlencoded":
        # GitHub's other content type has the JSON in a field of a form
        content = parse_qs(content.decode()).get("payload", [""])[0].encode()
    return repository_urls(orjson.loads(content))
