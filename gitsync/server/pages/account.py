"""Sign-in, by a token or at a provider of OpenID Connect, and the settings of a user: rights, session and look."""

import logging
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Form, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from gitsync.errors import RecordUnavailable
from gitsync.gate.approvals import may_operate, may_review
from gitsync.objects.record import AuditRecord
from gitsync.objects.user import SavedView, User
from gitsync.server.auth.access import Access, too_many
from gitsync.server.auth.oidc import SECONDS, PendingSignIn
from gitsync.server.auth.security import check_form, cookie_name
from gitsync.server.auth.sessions import Session
from gitsync.server.auth.users import hash_of, session_of
from gitsync.server.backend import Backend
from gitsync.server.dependencies import PagesOf, Start, UserOf
from gitsync.server.formatting import utc
from gitsync.server.queries.applications import policy_summaries
from gitsync.server.queries.filters import page_of
from gitsync.server.queries.waiting import line
from gitsync.server.templates import (
    DENSITY,
    LISTS,
    SETTINGS,
    THEME,
    Pages,
    keep_views,
    leave_notice,
    views_of_browser,
)

_FLOW = "gitsync-oidc"
_RIGHTS: Final = 50
"""Applications on a page of rights."""
_LONGEST_PATH: Final = 2048
"""Characters of the page that a choice leads back to: names of objects and filters are in its query."""
_LOOK_SECONDS: Final = 365 * 86400
_log = logging.getLogger(__name__)


def router(pages: Pages, access: Access) -> APIRouter:
    """Return the routes of sign-in and sign-out, ``/settings``, ``/policies``, ``/view`` and ``/views``."""
    routes = APIRouter()

    def show(request: Request, next: str, status: int = 200, *, wrong: bool = False) -> HTMLResponse:
        return pages.show(request, "signin.html", status, next=next, wrong=wrong, access=access)

    @routes.get("/sign-in", response_class=HTMLResponse)
    def ask(request: Request, next: str = "/") -> HTMLResponse:
        return show(request, next)

    @routes.post("/sign-in", dependencies=[Depends(check_form)])
    def sign_in(request: Request, secret: Annotated[str, Form()], next: Annotated[str, Form()] = "/") -> Response:
        # before the token is checked: any other answer would reveal whether it is right
        if wait := access.wait(request, secret):
            raise HTTPException(429, too_many(wait))
        user = access.attempt(request, secret)
        if user is None:
            return show(request, next, 401, wrong=True)
        _audit(pages, user, "sign-in")
        response = RedirectResponse(own_path(next), 303)
        # the hash, not the token: the cookie cannot be used to sign in elsewhere
        access.keep(request, response, Session(hash_of(session_of(secret))), user)
        return response

    @routes.post("/sign-out", dependencies=[Depends(check_form)])
    def sign_out(request: Request) -> Response:
        response = RedirectResponse("/sign-in", 303)
        access.sign_out(request, response)
        return response

    @routes.post("/sign-out/sessions", dependencies=[Depends(check_form)])
    def end_sessions(request: Request, user: UserOf, session: Annotated[str, Form(max_length=64)]) -> Response:
        """End one session of the user by its id, all but that of this browser (``others``), or ``all``."""
        sessions = access.sessions.of(user.name)
        own = {kept.id for kept in sessions}
        current = access.session_id(request)
        chosen = {"all": own, "others": own - {current}}.get(session, {session})
        # also where it has ended meanwhile: the page shows what is left
        access.sessions.end(own & chosen)
        ended = [f"{kept.browser or 'a browser'} since {utc(kept.started)}" for kept in sessions if kept.id in chosen]
        if ended:
            _audit(pages, user, "sign-out", "; ".join(ended))
        return RedirectResponse("/sign-in" if current in chosen else "/settings#sessions", 303)

    @routes.get(SETTINGS, response_class=HTMLResponse)
    def settings(request: Request, seen: PagesOf, user: UserOf, start: Start = 0) -> HTMLResponse:
        """Show who the user is, until when, what the policies let them do, and how pages look."""
        rights = rights_of(seen.engine, user)
        # a proxy that names users keeps their sessions itself
        sessions = access.sessions.of(user.name) if access.is_needed else ()
        shown, following = page_of(rights, start, _RIGHTS)
        return seen.show(
            request,
            "settings.html",
            rights=shown,
            matched=len(rights),
            start=start,
            following=following,
            page_size=_RIGHTS,
            operated=sum(right.may_operate for right in rights),
            reviewed=sum(right.may_review for right in rights),
            sessions=sessions,
            current=access.session_id(request),
            receivers=seen.engine.receivers.of(right.application for right in rights),
            has_events=seen.engine.receivers.has_events,
        )

    @routes.get("/policies", response_class=HTMLResponse)
    def policies(request: Request, seen: PagesOf, user: UserOf) -> HTMLResponse:
        """Show who may do what: each tenant and policy with its Applications, and what these lack."""
        summaries = policy_summaries(seen.engine, user)
        problem = seen.engine.policies.problem
        return seen.show(request, "policies.html", policies=summaries, problem=problem, most=_RIGHTS)

    @routes.get("/view")
    def choose_view(
        density: Annotated[str, Query(pattern="^(compact|comfortable)$")] = "",
        theme: Annotated[str, Query(pattern="^(light|dark|system)$")] = "",
        back: Annotated[str, Query(max_length=_LONGEST_PATH)] = "/",
    ) -> RedirectResponse:
        """Keep how pages look in cookies of this browser, and lead back to the page."""
        # browsers read //host and /\host as URLs of another site
        if not (density or theme) or own_path(back) != back:
            raise HTTPException(422, "density, theme or back is not valid.")
        response = RedirectResponse(back, 303)
        for cookie, choice in ((DENSITY, density), (THEME, theme)):
            if choice:
                response.set_cookie(cookie, choice, max_age=_LOOK_SECONDS, httponly=True, samesite="lax")
        return response

    @routes.post("/views", dependencies=[Depends(check_form)])
    def save_view(
        request: Request,
        user: UserOf,
        page: Annotated[str, Form()],
        q: Annotated[str, Form(max_length=300)],
        name: Annotated[str, Form(min_length=1, max_length=40)],
    ) -> RedirectResponse:
        """
        Save the filter of a list under a name; an equal name of the list is replaced.

        It is the user's in every browser where a sign-in proves the name, and otherwise this browser's.
        """
        if page not in LISTS:
            raise HTTPException(422, "page is not a list.")
        view = SavedView(line(name), page, line(q))
        response = RedirectResponse(view.url, 303)
        if user.is_authenticated:
            pages.engine.views.save(user.name, view)
        else:
            keep_views(response, [*_others(request, page, view.name), view])
        leave_notice(response, "save-view")
        return response

    @routes.post("/views/delete", dependencies=[Depends(check_form)])
    def delete_view(
        request: Request, user: UserOf, page: Annotated[str, Form()], name: Annotated[str, Form()]
    ) -> RedirectResponse:
        """Delete a saved view of the user and of this browser."""
        response = RedirectResponse(SETTINGS, 303)
        if user.is_authenticated:
            pages.engine.views.delete(user.name, page, name)
        keep_views(response, _others(request, page, name))
        return response

    if access.provider is not None:
        _add_provider(routes, pages, access)
    return routes


def _others(request: Request, page: str, name: str) -> list[SavedView]:
    """Return the saved views of a browser but the one of this list and name."""
    return [view for view in views_of_browser(request) if (view.page, view.name) != (page, name)]


@dataclass(frozen=True, slots=True)
class Right:
    """What a user may do with an Application (``namespace/name``) that they see."""

    application: str
    may_operate: bool
    """Whether they may request syncs, suspend, resume and revert."""
    may_review: bool
    """Whether they may approve and reject plans."""


def rights_of(backend: Backend, user: User) -> list[Right]:
    """Return what a user may do with each Application that they see, by name, as requests decide it."""
    rights = []
    for view in backend.view.applications():
        # an invalid spec has neither a policy nor anything to request
        if (app := view.application) is not None:
            policy = backend.policies.of(app)
            rights.append(Right(view.key, may_operate(user, policy), may_review(app, user, policy)))
    return sorted(rights, key=lambda right: right.application)


def _add_provider(routes: APIRouter, pages: Pages, access: Access) -> None:
    @routes.get("/sign-in/oidc")
    def begin(request: Request, next: str = "/") -> Response:
        # for mypy: this route exists only with a provider
        assert access.provider is not None
        url, flow = access.provider.begin(_callback(request), own_path(next))
        response = RedirectResponse(url, 303)
        secure = request.url.scheme == "https"
        # Lax: the provider's redirect back comes from another site
        response.set_cookie(
            cookie_name(_FLOW, request), access.sessions.seal(flow.sealed()), max_age=SECONDS, httponly=True,
            samesite="lax", secure=secure, path="/sign-in",
        )  # fmt: skip
        return response

    @routes.get("/sign-in/oidc/callback", response_class=HTMLResponse)
    def finish(request: Request) -> Response:
        assert access.provider is not None
        name = cookie_name(_FLOW, request)
        kept = access.sessions.open(request.cookies.get(name, ""), SECONDS)
        if kept is None:
            raise HTTPException(403, "The sign-in took too long or began in another browser: sign in again.")
        flow = PendingSignIn.opened(kept)
        user = access.provider.finish(_callback(request), str(request.query_params), flow)
        _audit(pages, user, "sign-in")
        # a page, since browsers do not send a strict cookie after a redirect from another site
        response = pages.show(request, "signed_in.html", next=flow.next)
        access.keep(request, response, Session(name=user.name, groups=user.groups), user)
        # one answer for one sign-in: a second use of its URL has no cookie
        response.delete_cookie(name, path="/sign-in")
        return response

    def _callback(request: Request) -> str:
        # without a public URL by the Host of the request, which KnownHosts has accepted
        return f"{access.public_url or str(request.base_url).rstrip('/')}/sign-in/oidc/callback"


def _audit(pages: Pages, user: User, action: str, reason: str = "") -> None:
    """Record a sign-in, or which sessions a user ended; while the records are unavailable both still happen."""
    try:
        pages.engine.records.audit([AuditRecord.by_user("", action, user, pages.engine.clock.now(), reason)])
    except RecordUnavailable as error:
        _log.warning("the %s of %s was not recorded: %s", action, user.name or "the shared token", error)


def own_path(path: str) -> str:
    """Return the path if it leads to a page of ours, else the overview: never to another site."""
    # browsers remove tabs and line breaks from URLs, so that "/<tab>/host" would be "//host"
    is_ours = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if is_ours else "/"
