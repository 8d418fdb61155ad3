"""The dashboard as an ASGI application."""

from __future__ import annotations

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse, Response
from fastapi.staticfiles import StaticFiles

from gitsync.errors import GitsyncError, TransientError
from gitsync.server import application, lists, live, probes, signin, webhooks
from gitsync.server.assets import web_folder
from gitsync.server.engine import Engine
from gitsync.server.pages import Pages
from gitsync.server.security import Access, add_headers
from gitsync.server.text import visible


def create_app(engine: Engine, *, read_only: bool = False, webhook_secret: str = "", token: str = "") -> FastAPI:
    """
    Return the dashboard of a controller.

    It reads what the engine knows and enqueues keys; viewing makes nothing reconcile. With ``read_only`` there are
    no buttons, and forms are refused. Webhooks are off while there is no ``webhook_secret``. With a ``token`` every
    page asks for it once; without one everybody who reaches the port may look, which is for loopback.
    """
    app = FastAPI(title="gitsync", docs_url=None, redoc_url=None, openapi_url=None)
    pages = Pages(engine, read_only=read_only)
    access = Access(token, read_only=read_only)
    app.middleware("http")(access.guard)
    app.middleware("http")(add_headers)
    app.include_router(signin.router(pages, access))
    app.include_router(probes.router(engine))
    app.include_router(live.router(engine.view))
    app.include_router(webhooks.router(engine, webhook_secret))
    app.include_router(lists.router(pages))
    app.include_router(application.router(pages))
    app.mount("/static", StaticFiles(directory=web_folder() / "static"), name="static")

    @app.exception_handler(HTTPException)
    def refused(request: Request, error: HTTPException) -> HTMLResponse:
        return pages.show(request, "error.html", error.status_code, code=error.status_code, text=str(error.detail))

    @app.exception_handler(404)
    def missing(request: Request, error: Exception) -> Response:
        text = str(getattr(error, "detail", "")) or f"There is no page {visible(request.url.path)}."
        return pages.show(request, "error.html", 404, code=404, text=text)

    @app.exception_handler(GitsyncError)
    def failed(request: Request, error: GitsyncError) -> HTMLResponse:
        code = 503 if isinstance(error, TransientError) else 422
        return pages.show(request, "error.html", code, code=code, text=str(error))

    return app
