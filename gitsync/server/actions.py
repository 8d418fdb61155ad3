"""What people may ask of an application: sync, suspend, approve or reject a plan, revert a commit."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Form, HTTPException
from fastapi.responses import RedirectResponse

from gitsync.errors import InvalidInput
from gitsync.gate import windows
from gitsync.gate.approvals import expires
from gitsync.objects.application import Application
from gitsync.objects.record import AuditRecord, Outcome
from gitsync.ports import ApplicationView
from gitsync.server.engine import Engine
from gitsync.server.held import is_held
from gitsync.server.security import check_form
from gitsync.server.text import app_url, visible

Finder = Callable[[str, str], ApplicationView]
Text = Annotated[str, Form(max_length=1000)]


@dataclass(frozen=True, slots=True)
class Held:
    """A plan that waits; ``rejected`` is who turned it down and why, ``can_approve`` whether approving would help."""

    view: ApplicationView
    can_approve: bool
    rejected: tuple[str, str] | None


class Decisions:
    """Take a person's word on a plan, for exactly the plan that the person saw, and put it into the audit."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def held(self, view: ApplicationView) -> Held:
        """Return how it stands with a plan that waits."""
        assert view.plan is not None
        return Held(view, self._is_open(view), self._engine.records.rejection(view.key, view.plan.digest))

    def approve(self, view: ApplicationView, digest: str, by: str, reason: str) -> None:
        """Let the plan run once; raise HTTPException when it is not the one that was shown."""
        app = self._check(view, digest, by)
        self._engine.records.approve(
            view.key, digest, approver=by, reason=reason, until=expires(app, self._engine.clock.now())
        )
        self._audit(view, "approve", by, reason)
        self._engine.requests.request_sync(view.key, by)

    def reject(self, view: ApplicationView, digest: str, by: str, reason: str) -> None:
        """Turn the plan down: it is not asked about again."""
        self._check(view, digest, by)
        if not reason:
            raise HTTPException(422, "A rejection needs a reason.")
        self._engine.records.reject(view.key, digest, by=by, reason=reason)
        self._audit(view, "reject", by, reason)

    def _check(self, view: ApplicationView, digest: str, by: str) -> Application:
        if view.plan is None or view.application is None or not is_held(view):
            raise HTTPException(409, "Nothing waits for approval here any more.")
        if view.plan.digest != digest:
            raise HTTPException(409, "The plan changed since the page was shown. Look at the new one first.")
        if not by:
            raise HTTPException(422, "A decision needs a name.")
        return view.application

    def _audit(self, view: ApplicationView, action: str, by: str, reason: str) -> None:
        plan = view.plan
        assert plan is not None
        self._engine.records.audit(
            [
                AuditRecord(
                    application=view.key,
                    action=action,
                    resource="",
                    outcome=Outcome.SUCCEEDED,
                    timestamp=self._engine.clock.now(),
                    sync="",
                    reasoning=reason,
                    plan_steps=len(plan.writes),
                    risk_level=plan.risk.value,
                    commit=plan.revision,
                    approver=by,
                    digest=plan.digest,
                )
            ]
        )

    def _is_open(self, view: ApplicationView) -> bool:
        """Tell whether no window is in the way, so that a person's word is all that is missing."""
        if view.application is None:
            return False
        try:
            return windows.state(view.application.sync.windows, self._engine.clock.now()).allowed
        except InvalidInput:
            return False


def router(engine: Engine, found: Finder, decisions: Decisions) -> APIRouter:
    """Return the forms of applications; every one is checked to come from a page of ours."""
    routes = APIRouter(prefix="/apps/{namespace}/{name}")
    checked = [Depends(check_form)]
    Found = Annotated[ApplicationView, Depends(found)]  # noqa: N806 - names a type

    @routes.post("/sync", dependencies=checked)
    def sync(view: Found) -> RedirectResponse:
        engine.requests.request_sync(view.key, "dashboard")
        return _back(view)

    @routes.post("/suspend", dependencies=checked)
    def suspend(view: Found) -> RedirectResponse:
        engine.requests.suspend(view.key, True)
        return _back(view)

    @routes.post("/resume", dependencies=checked)
    def resume(view: Found) -> RedirectResponse:
        engine.requests.suspend(view.key, False)
        return _back(view)

    @routes.post("/approve", dependencies=checked)
    def approve(view: Found, digest: Text, by: Text, reason: Text = "") -> RedirectResponse:
        decisions.approve(view, digest, _line(by), _line(reason))
        return _back(view)

    @routes.post("/reject", dependencies=checked)
    def reject(view: Found, digest: Text, by: Text, reason: Text = "") -> RedirectResponse:
        decisions.reject(view, digest, _line(by), _line(reason))
        return _back(view, "/plan")

    @routes.post("/revert", dependencies=checked)
    def revert(view: Found, commit: Text, by: Text = "", branch: Text = "") -> RedirectResponse:
        app = readable(view)
        commits = engine.undo.commits(app)
        if [item.id for item in commits] != [commit]:
            raise HTTPException(409, "The branch moved since the page was shown. Look again before reverting.")
        engine.undo.push(app, commits, author=_line(by) or "dashboard", branch=branch.strip())
        if not branch.strip():
            engine.requests.look_at_git([view.key])
        return _back(view)

    return routes


def readable(view: ApplicationView) -> Application:
    """Return the Application of a view; answer 409 while its spec cannot be read."""
    if view.application is None:
        raise HTTPException(409, "The application cannot be read, so nothing can be reverted.")
    return view.application


def _line(text: str) -> str:
    return visible(" ".join(text.split()))


def _back(view: ApplicationView, page: str = "") -> RedirectResponse:
    return RedirectResponse(app_url(view.key) + page, 303)
