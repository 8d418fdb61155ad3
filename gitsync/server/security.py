"""Headers on every answer, and the checks on every form: same origin and a token of the browser's own."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from fastapi import HTTPException, Request, Response

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
COOKIE = "gitsync-form"

HEADERS = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


async def add_headers(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    """Set the security headers; pages are never cached."""
    response = await call_next(request)
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers.setdefault("Cache-Control", "no-store")
    return response


def form_token(request: Request) -> str:
    """Return the browser's form token, a new one when it has none; ``keep_token`` stores it."""
    token: str | None = getattr(request.state, "form_token", None) or request.cookies.get(COOKIE)
    if not token or len(token) != 43:
        token = secrets.token_urlsafe(32)
    request.state.form_token = token
    return token


def keep_token(request: Request, response: Response) -> None:
    """Store the form token in a cookie that scripts cannot read."""
    token = getattr(request.state, "form_token", None)
    if token and request.cookies.get(COOKIE) != token:
        response.set_cookie(
            COOKIE, token, httponly=True, samesite="strict", secure=request.url.scheme == "https", path="/"
        )


async def check_form(request: Request) -> None:
    """Refuse a form that another site sent: its origin must be ours and its token the browser's."""
    origin = request.headers.get("origin")
    if origin and urlsplit(origin).netloc != request.headers.get("host", ""):
        raise HTTPException(403, "The form came from another site.")
    form = await request.form()
    given, kept = str(form.get("token", "")), request.cookies.get(COOKIE, "")
    if not kept or not hmac.compare_digest(given.encode(), kept.encode()):
        raise HTTPException(403, "The form is out of date: load the page again.")
