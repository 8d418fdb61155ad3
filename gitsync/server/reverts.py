"""Revert one commit, or all after one: first what that changes in each application of the branch, then the push."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from gitsync.errors import GitsyncError, TransientError
from gitsync.objects.application import Application
from gitsync.objects.change import DRIFT, Change
from gitsync.objects.record import AuditRecord, Commit
from gitsync.ports import ApplicationView
from gitsync.server.actions import Text, back_to, checked
from gitsync.server.backend import Backend
from gitsync.server.pages.dependencies import BackendOf, OperatorOf, PagesOf, ViewOf
from gitsync.server.pages.layout import show_application
from gitsync.server.reviews import line, reviewer
from gitsync.server.rows.contents import Content, content_of
from gitsync.server.rows.fields import FIELDS, FieldRow, field_row
from gitsync.services.revert_preview import RevertEffect

router = APIRouter(prefix="/apps/{namespace}/{name}")

_SHOWN, _APPLICATIONS = 30, 10

CommitId = Annotated[str, Query(max_length=64)]


@dataclass(frozen=True, slots=True)
class EffectStep:
    """One step of a revert with what it changes."""

    step: Change
    fields: list[FieldRow]
    content: Content | None


@router.get("/revert", response_class=HTMLResponse)
def ask_revert(
    request: Request, pages: PagesOf, view: ViewOf, commit: CommitId = "", after: CommitId = ""
) -> HTMLResponse:
    """Show what a revert of a commit, of all after one, or of the newest one changes, and ask for it."""
    app = _readable(view)
    followers = _followers(pages.engine, app)
    problem = ""
    commits: Sequence[Commit] = ()
    effects: Sequence[RevertEffect] = ()
    try:
        commits = _commits(pages.engine, app, commit, after)
        effects = pages.engine.preview.effects(app, commits, followers[:_APPLICATIONS])
    except TransientError:
        raise
    except GitsyncError as error:
        problem = str(error)
    return show_application(
        pages,
        request,
        view,
        "revert",
        commits=commits,
        problem=problem,
        effects=[(effect, _steps(effect)) for effect in effects],
        unseen=len(followers) - _APPLICATIONS,
        commit=commit,
        after=after,
    )


@router.post("/revert", dependencies=checked)
def revert(
    backend: BackendOf,
    view: ViewOf,
    user: OperatorOf,
    newest: Text,
    commit: Text = "",
    after: Text = "",
    by: Text = "",
    branch: Text = "",
    reason: Text = "",
) -> RedirectResponse:
    """Push the revert that was shown, to the tracked branch or to one for review."""
    app = _readable(view)
    commits = _commits(backend, app, commit, after)
    if not commits or commits[0].id != newest:
        raise HTTPException(409, "The branch moved since the page was shown. Open the revert page again.")
    author = reviewer(user, by)
    request_record = AuditRecord.by_user(view.key, "revert", author, backend.clock.now(), line(reason))
    backend.records.audit([replace(request_record, commit=commits[-1].id)])
    backend.reverts.push(app, commits, author=author.name or "dashboard", branch=branch.strip())
    if not branch.strip():
        backend.requests.poll_now([item.key for item in _followers(backend, app)])
    return back_to(view, "revert")


def _commits(backend: Backend, app: Application, commit: str, after: str) -> Sequence[Commit]:
    """Return the commits to revert, newest first: one, all after one, or the newest."""
    return backend.reverts.one_commit(app, commit) if commit else backend.reverts.commits(app, after)


def _steps(effect: RevertEffect) -> list[EffectStep]:
    shown = effect.steps[:_SHOWN]
    return [
        EffectStep(
            step,
            [
                field_row(item, live=step.live, objects=len(shown))
                for item in step.differences[:FIELDS]
                if item.kind in DRIFT
            ],
            content_of(step, len(shown)),
        )
        for step in shown
    ]


def _followers(backend: Backend, app: Application) -> list[Application]:
    """Return the applications that follow the same branch of the same repository, this one first."""
    wanted = (app.source.repo_url, app.source.revision)
    found = [view.application for view in backend.view.applications() if view.application is not None]
    same = [item for item in found if (item.source.repo_url, item.source.revision) == wanted and item.key != app.key]
    return [app, *same]


def _readable(view: ApplicationView) -> Application:
    """Return the Application of a view; answer 409 while its spec cannot be read."""
    if view.application is None:
        raise HTTPException(409, "The spec of the application cannot be read, so nothing can be reverted.")
    return view.application
