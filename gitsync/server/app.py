"""The dashboard as an ASGI application."""

from __future__ import annotations

import logging
import secrets

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, PlainTextResponse, Response
from starlette.middleware.gzip import GZipMiddleware

from gitsync.errors import GitsyncError, TransientError
from gitsync.server import actions, application, audit, lists, live, probes, signin, webhooks
from gitsync.server.assets import Assets, web_folder
from gitsync.server.engine import Engine
from gitsync.server.pages import Pages
from gitsync.server.security import HEADERS, Access, Guard, Headers
from gitsync.server.text import visible

_LOG = logging.getLogger(__name__)


def create_app(engine: Engine, *, read_only: bool = False, webhook_secret: str = "", token: str = "") -> FastAPI:
    """
    Return the dashboard of a controller.

    It reads what the engine knows and enqueues keys; viewing makes nothing reconcile. With ``read_only`` there are
    no buttons, and forms are refused. Webhooks are off while there is no ``webhook_secret``. With a ``token`` every
    page asks for it once; without one everybody who reaches the port may look, which is for loopback.
    """
    app = FastAPI(title="gitsync", docs_url=None, redoc_url=None, openapi_url=None)
    access = Access(token, read_only=read_only)
    pages, decisions = Pages(engine, access), actions.Decisions(engine)
    app.add_middleware(Guard, access=access)
    app.add_middleware(GZipMiddleware, minimum_size=1000, compresslevel=5)
    app.add_middleware(Headers)
    app.include_router(signin.router(pages, access))
    app.include_router(probes.router(engine))
    app.include_router(live.router(engine.view))
    app.include_router(webhooks.router(engine, webhook_secret))
    app.include_router(lists.router(pages))
    app.include_router(audit.router(pages, decisions))
    app.include_router(application.router(pages, decisions))
    app.include_router(actions.router(engine, application.finder(pages), decisions))
    app.mount("/static", Assets(directory=web_folder() / "static"), name="static")
    _explain_errors(app, pages)
    return app


def _explain_errors(app: FastAPI, pages: Pages) -> None:
    """Answer every error with a page that says what went wrong."""

    @app.exception_handler(HTTPException)
    def refused(request: Request, error: HTTPException) -> HTMLResponse:
        return pages.show(request, "error.html", error.status_code, code=error.status_code, text=str(error.detail))

    @app.exception_handler(404)
    def missing(request: Request, error: Exception) -> Response:
        text = str(getattr(error, "detail", ""))
        if text in ("", "Not Found"):
            text = f"There is no page {visible(request.url.path)}."
        return pages.show(request, "error.html", 404, code=404, text=text)

    @app.exception_handler(405)
    def not_so(request: Request, error: Exception) -> Response:
        return pages.show(request, "error.html", 405, code=405, text="This address takes no such request.")

    @app.exception_handler(RequestValidationError)
    def unreadable(request: Request, error: RequestValidationError) -> HTMLResponse:
        places = ", ".join(sorted({str(item["loc"][-1]) for item in error.errors() if item.get("loc")}))
        return pages.show(request, "error.html", 422, code=422, text=f"This cannot be read: {places}.")

    @app.exception_handler(GitsyncError)
    def failed(request: Request, error: GitsyncError) -> HTMLResponse:
        code = 503 if isinstance(error, TransientError) else 422
        return pages.show(request, "error.html", code, code=code, text=str(error))

    @app.exception_handler(Exception)
    def broken(request: Request, error: Exception) -> Response:
        id = secrets.token_hex(4)
        _LOG.error("request %s to %s failed", id, visible(request.url.path), exc_info=error)
        text = f"Something is wrong in gitsync itself; its log has more under {id}. Try again.\n"
        return PlainTextResponse(text, 500, headers=HEADERS)
