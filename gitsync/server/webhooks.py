"""Push events of Git servers: signed hints to poll a repository now."""

from __future__ import annotations

import hashlib
import hmac
import re
import tempfile
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO, Any
from urllib.parse import parse_qs

import orjson
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from gitsync.server.backend import Backend

_UNSIGNED = "unauthorized: the signature is missing or wrong"
"""One answer for all: a client that has no secret learns nothing about it."""
_LIMIT = 25 << 20
"""Bytes of a payload; the limit of GitHub, the largest of the providers."""
_IN_MEMORY = 1 << 20
"""Bytes of a payload in memory before its signature is verified."""
_REMEMBERED = 4096
_URL = re.compile(r"(?:(?:https?|ssh)://)?[A-Za-z0-9._~@:/%+-]{3,500}", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Provider:
    """
    How a Git server signs: the header, and what is before the HMAC-SHA256 of the raw body in it.

    GitLab sends the secret itself: ``is_token``.
    """

    header: str
    prefix: str = ""
    is_token: bool = False

    def verifies(self, headers: Mapping[str, str], secret: bytes, digest: hmac.HMAC) -> bool:
        """Return whether the request shows that its sender knows the secret."""
        wanted = secret if self.is_token else f"{self.prefix}{digest.hexdigest()}".encode()
        return hmac.compare_digest(headers.get(self.header, "").encode(), wanted)


PROVIDERS = {
    "github": _Provider("x-hub-signature-256", "sha256="),
    "gitea": _Provider("x-gitea-signature"),
    "forgejo": _Provider("x-forgejo-signature"),
    "bitbucket": _Provider("x-hub-signature", "sha256="),
    "gitlab": _Provider("x-gitlab-token", is_token=True),
}
_DELIVERIES = (
    *("x-github-delivery", "x-gitea-delivery", "x-forgejo-delivery"),
    *("x-request-uuid", "x-request-id", "x-gitlab-event-uuid"),
)
_EVENTS = ("x-github-event", "x-gitea-event", "x-forgejo-event", "x-gitlab-event", "x-event-key")
_NAMES = ("clone_url", "ssh_url", "git_url", "html_url", "git_http_url", "git_ssh_url", "homepage", "url")


def router(engine: Backend, secret: str) -> APIRouter:
    """
    Return ``POST /webhook/{provider}``; without a secret every request is refused.

    A payload is only a hint: what is fetched is what the applications name. A delivery that was seen before is not
    acted on again.
    """
    routes = APIRouter()
    deliveries: OrderedDict[str, None] = OrderedDict()

    @routes.post("/webhook/{name}")
    async def push(name: str, request: Request) -> JSONResponse:
        provider = PROVIDERS.get(name)
        if provider is None:
            return _failure(404, f"unknown provider; use one of {', '.join(PROVIDERS)}")
        if not secret or provider.header not in request.headers:
            return _failure(401, _UNSIGNED)
        with ExitStack() as files:
            body = files.enter_context(tempfile.SpooledTemporaryFile(_IN_MEMORY))
            digest = hmac.new(secret.encode(), digestmod=hashlib.sha256)
            if not await _receive(request, body, digest):
                return _failure(413, f"the body is too large: at most {_LIMIT} bytes")
            if not provider.verifies(request.headers, secret.encode(), digest):
                return _failure(401, _UNSIGNED)
            event = _header(request, _EVENTS)
            if event.rpartition(":")[2] == "ping":
                return JSONResponse({"accepted": True, "ping": True})
            try:
                urls = await run_in_threadpool(_urls_in, body, request.headers.get("content-type", ""))
            except ValueError:
                is_other = event and "push" not in event.lower()
                return _ignored(event) if is_other else _failure(400, "invalid payload: it names no repository")
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

    return engine.requests.repository_changed(is_it) + engine.sets.repository_changed(is_it)


async def _receive(request: Request, body: IO[bytes], digest: hmac.HMAC) -> bool:
    """Write the body to a file and its bytes to a digest; return False when it is larger than the limit."""
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > _LIMIT:
        return False
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > _LIMIT:
            return False
        body.write(chunk)
        digest.update(chunk)
    body.seek(0)
    return True


def _urls_in(body: IO[bytes], content_type: str) -> frozenset[str]:
    """Return the URLs of the repository in a payload, as JSON or as GitHub's form; raise ValueError without any."""
    content = body.read()
    if content_type.partition(";")[0].strip() == "application/x-www-form-urlencoded":
        content = parse_qs(content.decode()).get("payload", [""])[0].encode()
    return repository_urls(orjson.loads(content))


def repository_urls(payload: Any) -> frozenset[str]:
    """Return the URLs that a payload gives its repository, normalised; raise ValueError when there is none."""
    repository = payload.get("repository", payload.get("project")) if isinstance(payload, dict) else None
    if not isinstance(repository, dict):
        raise ValueError("no repository")
    named = [repository.get(name) for name in _NAMES]
    links = repository.get("links")
    clones = links.get("clone") if isinstance(links, dict) else None
    named += [link.get("href") for link in clones or () if isinstance(link, dict)] if isinstance(clones, list) else []
    page = links.get("html") if isinstance(links, dict) else None  # all that Bitbucket Cloud names
    named += [page.get("href")] if isinstance(page, dict) else []
    urls = frozenset(normal(url) for url in named if isinstance(url, str) and _URL.fullmatch(url))
    if not urls:
        raise ValueError("no URL")
    return urls


def normal(url: str) -> str:
    """Return ``host/path`` of a repository URL in any of its spellings, so that they can be compared."""
    rest = re.sub(r"^[a-z]+://", "", url.strip().lower())
    rest = re.sub(r"^[^/@]*@", "", rest)
    host, slash, path = rest.partition("/")
    if (":" in host and not slash) or (":" in host and not host.rpartition(":")[2].isdigit()):
        host, _, first = rest.partition(":")
        path = first
    return f"{host.partition(':')[0]}/{path.strip('/').removesuffix('.git')}"
