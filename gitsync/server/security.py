"""
Who may look and who may ask: headers on every answer, sign-in outside loopback, and the checks on every form.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from urllib.parse import quote, urlsplit

from fastapi import HTTPException, Request, Response
from fastapi.responses import PlainTextResponse, RedirectResponse
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
COOKIE = "gitsync-form"

HEADERS = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Cache-Control": "no-store",
}
"""On every answer, unless the answer says otherwise itself."""


class Headers:
    """Put the security headers on every answer; a page is never cached."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, with_headers)


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


class Access:
    """
    Sign-in by one shared token, and read-only operation.

    With a ``token`` every page needs it, once, in a form; the browser then holds a cookie made from it by HMAC, so
    that the token itself is not stored. Machines send it as a bearer token. Without one all may look: for loopback.
    """

    COOKIE = "gitsync-session"
    OPEN = ("/healthz", "/readyz", "/metrics", "/sign-in", "/static/", "/webhook/")

    def __init__(self, token: str, *, read_only: bool) -> None:
        self._token = token
        self.is_read_only = read_only
        self.session = hmac.new(token.encode(), b"gitsync session", hashlib.sha256).hexdigest()

    @property
    def is_needed(self) -> bool:
        """Whether people have to sign in."""
        return bool(self._token)

    def is_token(self, given: str) -> bool:
        """Tell whether this is the token, in constant time."""
        return bool(self._token) and hmac.compare_digest(given.encode(), self._token.encode())

    def refusal(self, request: Request) -> Response | None:
        """Return the answer to a request that may not pass: a way to the sign-in for a browser, else a refusal."""
        path = request.url.path
        if path.startswith(self.OPEN):
            return None
        if self._token and not self._is_signed_in(request):
            if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
                wanted = f"{path}?{request.url.query}" if request.url.query else path
                return RedirectResponse(f"/sign-in?next={quote(wanted, safe='')}", 303)
            return PlainTextResponse("Sign in first.", 401, headers={"WWW-Authenticate": "Bearer"})
        if self.is_read_only and request.method not in ("GET", "HEAD"):
            return PlainTextResponse("This dashboard is read-only.", 403)
        return None

    def _is_signed_in(self, request: Request) -> bool:
        cookie = request.cookies.get(self.COOKIE, "")
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        return hmac.compare_digest(cookie.encode(), self.session.encode()) or (
            scheme.lower() == "bearer" and self.is_token(bearer)
        )


class Guard:
    """Let through what ``Access`` does not refuse."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it."""
        refusal = self._access.refusal(Request(scope)) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)
