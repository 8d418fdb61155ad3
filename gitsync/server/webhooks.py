"""Push events of Git servers: signed hints to poll a repository now."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import orjson
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from gitsync.server.backend import Backend

_LIMIT = 1 << 20
_REMEMBERED = 4096
_URL = re.compile(r"(?:(?:https?|ssh)://)?[A-Za-z0-9._~@:/%+-]{3,500}", re.ASCII)
_UNSIGNED = {"error": "unauthorized: the signature is missing or wrong"}


def _hmac(header: str, prefix: str) -> Callable[[Mapping[str, str], bytes, bytes], bool]:
    """Return a check of an HMAC-SHA256 over the raw body, in hex after a prefix."""

    def check(headers: Mapping[str, str], secret: bytes, body: bytes) -> bool:
        given = headers.get(header, "")
        wanted = prefix + hmac.new(secret, body, hashlib.sha256).hexdigest()
        return hmac.compare_digest(given.encode(), wanted.encode())

    return check


def _token(headers: Mapping[str, str], secret: bytes, body: bytes) -> bool:
    return hmac.compare_digest(headers.get("x-gitlab-token", "").encode(), secret)


CHECKS = {
    "github": _hmac("x-hub-signature-256", "sha256="),
    "gitea": _hmac("x-gitea-signature", ""),
    "bitbucket": _hmac("x-hub-signature", "sha256="),
    "gitlab": _token,
}
"""How each server shows that it knows the secret; GitLab sends the secret itself."""
_DELIVERIES = ("x-github-delivery", "x-gitea-delivery", "x-request-uuid", "x-gitlab-event-uuid")
_NAMES = ("clone_url", "ssh_url", "git_url", "html_url", "git_http_url", "git_ssh_url", "homepage", "url")


def router(engine: Backend, secret: str) -> APIRouter:
    """
    Return ``POST /webhook/{provider}``; without a secret every request is refused.

    A payload is only a hint: what is fetched is what the applications name. A delivery that was seen before is not
    acted on again.
    """
    routes = APIRouter()
    seen: OrderedDict[str, None] = OrderedDict()

    @routes.post("/webhook/{provider}")
    async def push(provider: str, request: Request) -> JSONResponse:
        body = await _body(request)
        if body is None:
            return JSONResponse({"error": f"the body is too large: at most {_LIMIT} bytes"}, 413)
        check = CHECKS.get(provider)
        if not secret or check is None or not check(request.headers, secret.encode(), body):
            return JSONResponse(_UNSIGNED, 401)
        try:
            urls = repository_urls(orjson.loads(body))
        except (orjson.JSONDecodeError, ValueError):
            return JSONResponse({"error": "invalid payload: it names no repository"}, 400)
        delivery = next((request.headers[name] for name in _DELIVERIES if name in request.headers), "")
        if delivery and delivery in seen:
            return JSONResponse({"accepted": True, "again": True}, 202)
        seen[delivery] = None
        while len(seen) > _REMEMBERED:
            seen.popitem(last=False)
        engine.requests.poll_now(
            view.key
            for view in engine.view.applications()
            if view.application is not None and normal(view.application.source.repo_url) in urls
        )
        return JSONResponse({"accepted": True}, 202)

    return routes


async def _body(request: Request) -> bytes | None:
    """Return the body, None when it is larger than the limit; no more than that is ever held."""
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > _LIMIT:
        return None
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > _LIMIT:
            return None
        chunks.append(chunk)
    return b"".join(chunks)


def repository_urls(payload: Any) -> frozenset[str]:
    """Return the URLs that a payload gives its repository, normalised; raise ValueError when there is none."""
    repository = payload.get("repository", payload.get("project")) if isinstance(payload, dict) else None
    if not isinstance(repository, dict):
        raise ValueError("no repository")
    named = [repository.get(name) for name in _NAMES]
    links = repository.get("links")
    clones = links.get("clone") if isinstance(links, dict) else None
    named += [link.get("href") for link in clones or () if isinstance(link, dict)] if isinstance(clones, list) else []
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
