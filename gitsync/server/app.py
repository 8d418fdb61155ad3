"""The dashboard as an ASGI application."""

from __future__ import annotations

import logging
import secrets

from fastapi import APIRouter, FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from prometheus_client import exposition
from starlette.exceptions import HTTPException as StarletteException
from starlette.middleware.gzip import GZipMiddleware

from gitsync.errors import GitsyncError
from gitsync.ports import OtherProcesses, no_others
from gitsync.server import live, webhooks
from gitsync.server.api import routes as api
from gitsync.server.auth.access import METRICS, SCRAPER, Access, Guard, current_user
from gitsync.server.auth.security import HEADERS, Headers
from gitsync.server.backend import Backend
from gitsync.server.bodies import LimitedBodies
from gitsync.server.dependencies import NoLonger
from gitsync.server.formatting import visible
from gitsync.server.metrics import process_text, readiness_problem, with_others
from gitsync.server.pages import (
    account,
    actions,
    agents,
    application,
    audit,
    changes,
    history,
    home,
    lists,
    object,
    plan,
    pulls,
    reverts,
)
from gitsync.server.problems import PREFIX, problem, status_of
from gitsync.server.queries.waiting import PendingPlans
from gitsync.server.templates import Assets, Pages, web_folder
from gitsync.server.visibility import visible_to
from gitsync.services.requests import UserRequests

_LOG = logging.getLogger(__name__)
_NAMES = "Series with names of Applications need GITSYNC_METRICS_TOKEN as a bearer token, or a user who signed in."
_HIDDEN = (
    "The metrics count all Applications, and a policy names viewers: send GITSYNC_METRICS_TOKEN as a bearer token, or "
    "sign in as a user who sees every Application."
)


def create_app(
    engine: Backend,
    access: Access | None = None,
    *,
    webhook_secret: str = "",
    audit_secret: str = "",
    others: OtherProcesses = no_others,
) -> FastAPI:
    """
    Return the dashboard of a controller.

    It reads the state in memory and enqueues keys; viewing a page reconciles nothing. Without ``access`` every client
    that reaches the port may view and request, which is for loopback. Webhooks are off without a ``webhook_secret``,
    and the audit sink without an ``audit_secret``.
    Metrics and costs of ``others`` are shown with those of this process.
    """
    # FastAPI's pages of documentation load scripts from a CDN, which the CSP forbids; the API has its own openapi.json
    app = FastAPI(title="gitsync", docs_url=None, redoc_url=None, openapi_url=None)
    access = access or Access()
    app.state.pages = pages = Pages(engine, access)
    app.state.others = others
    app.state.pending_plans = PendingPlans(engine)
    app.state.requests = UserRequests(engine.records, engine.requests, engine.clock, engine.policies.of)
    # Starlette calls the one that is added last first: headers on every answer, and sign-in before a body is read
    app.add_middleware(LimitedBodies)
    app.add_middleware(Guard, access=access)
    # level 9, Starlette's default, costs more CPU time for few bytes; an event stream is not compressed
    app.add_middleware(GZipMiddleware, minimum_size=1000, compresslevel=5)
    app.add_middleware(Headers)
    app.include_router(account.router(pages, access))
    app.include_router(_monitoring(engine, others))
    # asked again for each message: what a user may see can change while a stream is open
    app.include_router(
        live.router(
            engine.view,
            lambda request: visible_to(engine, current_user(request)).view,
            lambda request: access.person(request) is not None,
            replica=pages.replica,
        )
    )
    # before the other: its path would be a provider of that
    app.include_router(webhooks.audit_router(engine, audit_secret))
    app.include_router(webhooks.router(engine, webhook_secret))
    for page in (
        home,
        lists,
        changes,
        agents,
        audit,
        application,
        plan,
        pulls,
        object,
        history,
        actions,
        reverts,
    ):
        app.include_router(page.router)
    app.include_router(actions.bulk_router)
    app.include_router(plan.commit_router)
    app.include_router(api.api_router())
    app.mount("/static", Assets(directory=web_folder() / "static"), name="static")
    _explain_errors(app, pages)
    return app


def _monitoring(engine: Backend, others: OtherProcesses) -> APIRouter:
    """Return ``/healthz``, ``/readyz`` and ``/metrics``."""
    routes = APIRouter()

    @routes.get("/healthz")
    def healthz() -> Response:
        # checks nothing: a restart repairs neither the database nor the cluster
        return Response("ok\n", media_type="text/plain")

    @routes.get("/readyz")
    def readyz() -> Response:
        problem = readiness_problem(engine)
        return JSONResponse({"ready": False, "reason": problem}, 503) if problem else JSONResponse({"ready": True})

    @routes.get(METRICS)
    def metrics(request: Request) -> Response:
        user = current_user(request)
        if user != SCRAPER and not engine.policies.sees_all(user):
            raise HTTPException(403, _HIDDEN)
        by_name = request.query_params.get("applications") == "true"
        # the totals may be open to who reaches the port, names may not
        if by_name and user != SCRAPER and not user.is_authenticated:
            raise HTTPException(403, _NAMES)
        encode, media_type = exposition.choose_encoder(request.headers.get("accept", ""))
        reports = others()
        if reports:
            own = process_text(engine, has_applications=True, by_name=by_name)
            return Response(with_others(own, reports, encode), media_type=media_type)
        text = process_text(engine, has_applications=True, by_name=by_name, encode=encode)
        return Response(text, media_type=media_type)

    return routes


def _explain_errors(app: FastAPI, pages: Pages) -> None:
    """Answer every error with its message: as a page, or as JSON below ``/api/``."""

    def answer(request: Request, code: int, text: str) -> Response:
        if request.url.path.startswith(PREFIX):
            return problem(request, code, text)
        return pages.show(request, "error.html", code, code=code, text=text)

    # Starlette's class: its router raises it for 404 and 405, and FastAPI's own is derived from it
    @app.exception_handler(StarletteException)
    def refused(request: Request, error: StarletteException) -> Response:
        return answer(request, error.status_code, str(error.detail))

    @app.exception_handler(NoLonger)
    def gone(request: Request, error: NoLonger) -> Response:
        # only instead of a page: a form, a file or a call of the API would take the answer for what it asked for
        if getattr(request.scope.get("route"), "response_class", None) is not HTMLResponse:
            return answer(request, error.status_code, str(error.detail))
        return pages.show(request, "gone.html", gone=error)

    # Starlette prefers a handler of a status to one of a class
    @app.exception_handler(404)
    def missing(request: Request, error: Exception) -> Response:
        text = str(getattr(error, "detail", ""))
        # Starlette's own text where no route matches; a route that raises 404 names what is missing
        if text in ("", "Not Found"):
            text = f"Page {visible(request.url.path)} not found."
        return answer(request, 404, text)

    @app.exception_handler(405)
    def wrong_method(request: Request, error: Exception) -> Response:
        response = answer(request, 405, "This page cannot be opened directly.")
        # Allow, which RFC 9110, 15.5.6 requires of a 405
        response.headers.update(getattr(error, "headers", None) or {})
        return response

    @app.exception_handler(RequestValidationError)
    def unreadable(request: Request, error: RequestValidationError) -> Response:
        # names only: Pydantic's messages quote the input, which may be a credential
        places = ", ".join(sorted({str(item["loc"][-1]) for item in error.errors() if item.get("loc")}))
        return answer(request, 422, f"These fields are missing or invalid: {places}.")

    @app.exception_handler(GitsyncError)
    def failed(request: Request, error: GitsyncError) -> Response:
        return answer(request, status_of(error), str(error))

    @app.exception_handler(Exception)
    def broken(request: Request, error: Exception) -> Response:
        # joins the answer to its log record: a traceback is not for clients
        id = secrets.token_hex(4)
        _LOG.error("request %s to %s failed", id, visible(request.url.path), exc_info=error)
        text = f"gitsync failed to answer. Its log has the details under {id}; try again."
        try:
            failure = answer(request, 500, text)
        except Exception:  # also the page failed: the cause may be what every page needs
            failure = PlainTextResponse(f"{text}\n", 500)
        # Starlette answers in its outermost middleware, which is outside of Headers
        failure.headers.update(HEADERS)
        return failure
