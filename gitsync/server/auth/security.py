"""Names of cookies: browsers share cookies between the ports of a host, and dashboards must not share them."""

from __future__ import annotations

import hmac
import secrets
from urllib.parse import urlsplit

from fastapi import HTTPException, Request, Response
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send


def cookie_name(base: str, request: Request) -> str:
    """Return the name of a cookie for the port that the browser opened."""
    try:
        port = request.url.port
    # the port of the Host header may be any text of a client
    except ValueError:
        port = None
    return f"{base}-{port}" if port else base


CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'; "
    # no script may turn text into markup or code
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
COOKIE = "gitsync-form"

HEADERS = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    # for browsers that do not know frame-ancestors
    "X-Frame-Options": "DENY",
    # a page's URL names objects: other sites do not get it as Referer
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    # pages show what a policy hides from other users of the same browser
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
                    # static files set their own Cache-Control
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, with_headers)


def _name(request: Request) -> str:
    return cookie_name(COOKIE, request)


def form_token(request: Request) -> str:
    """Return the browser's form token, a new one when it has none; ``keep_token`` stores it."""
    token: str | None = getattr(request.state, "form_token", None) or request.cookies.get(_name(request))
    # 43 characters are 32 bytes: a cookie of another length is not from here
    if not token or len(token) != 43:
        token = secrets.token_urlsafe(32)
    request.state.form_token = token
    return token


def keep_token(request: Request, response: Response) -> None:
    """Store the form token in a cookie that scripts cannot read."""
    token = getattr(request.state, "form_token", None)
    if token and request.cookies.get(_name(request)) != token:
        response.set_cookie(
            _name(request), token, httponly=True, samesite="strict", secure=request.url.scheme == "https", path="/"
        )


async def check_form(request: Request) -> None:
    """Refuse a form that another site sent: its origin must be ours and its token the browser's."""
    origin = request.headers.get("origin")
    # every browser sends Origin with a POST, other clients need not; its scheme is ignored, as TLS may end at a proxy
    if origin and urlsplit(origin).netloc != request.headers.get("host", ""):
        raise HTTPException(403, "The form came from another site.")
    # Starlette keeps a parsed form: the route reads it again without the stream
    form = await request.form()
    sent = str(form.get("token", ""))
    kept = request.cookies.get(_name(request), "")
    # two empty tokens would be equal
    if not kept or not hmac.compare_digest(sent.encode(), kept.encode()):
        raise HTTPException(403, "The form is out of date: load the page again.")


def check_call(request: Request) -> None:
    """Refuse a call of a machine that a page of another site could have made a browser send."""
    origin = request.headers.get("origin")
    if origin and urlsplit(origin).netloc != request.headers.get("host", ""):
        raise HTTPException(403, "The call came from another site.")
    # a form cannot send this type, and a script of another site needs CORS for it, which is never granted
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise HTTPException(415, "Send application/json.")
