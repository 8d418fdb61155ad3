"""Revert one commit, or all after one: first what that changes in each application of the branch, then the push."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from gitsync.errors import GitsyncError, TransientError
from gitsync.objects.application import Application, NamedSource, app_of_part
from gitsync.objects.change import DRIFT, Change
from gitsync.objects.manifest import at
from gitsync.objects.record import Commit, Outcome
from gitsync.objects.urls import is_artifact
from gitsync.server.backend import Backend
from gitsync.server.dependencies import BackendOf, PagesOf, RequestsOf, UserOf, ViewOf
from gitsync.server.formatting import app_url, utc, visible
from gitsync.server.pages.actions import Text, back_to, checked
from gitsync.server.pages.layout import show_application
from gitsync.server.queries.differences import Content, content_of
from gitsync.server.queries.fields import FIELDS, FieldRow, field_row
from gitsync.server.queries.filters import parse_moment
from gitsync.server.queries.waiting import line, reviewer
from gitsync.services.requests import Revert, readable
from gitsync.services.revert import AffectedApplication, RevertEffect, follows_same, revert_target

router = APIRouter(prefix="/apps/{namespace}/{name}")

_SHOWN = 30
_APPLICATIONS = 10
_SEARCHED = 10
"""Commits that are rendered at most to find the newest that changed an Application."""
_RECORDS = 100
_MOST_PAGES = 50
"""Syncs that are read at once, and how often, to find the one of a date: the database may have years of them."""

CommitId = Annotated[str, Query(max_length=64)]


@dataclass(frozen=True, slots=True)
class EffectStep:
    """One step of a revert with what it changes."""

    step: Change
    fields: list[FieldRow]
    content: Content | None


@router.get("/revert", response_class=HTMLResponse)
def ask_revert(
    request: Request,
    pages: PagesOf,
    view: ViewOf,
    commit: CommitId = "",
    after: CommitId = "",
    source: CommitId = "",
) -> HTMLResponse:
    """Show what a revert of a commit, of all after one, or of the newest one with an effect changes; ask for it."""
    app = readable(view)
    part = app
    followers: list[AffectedApplication] = []
    problem = ""
    offered = ""
    commits: Sequence[Commit] = ()
    effects: Sequence[RevertEffect] = ()
    try:
        target = revert_target(app, view.status, source, after=after, commit=commit)
        source, after, commit = target.source, target.after, target.commit
        part = app_of_part(app, source)
        followers = _followers(pages.engine, app, part)
        if not commit and not after:
            # before the effects on the others: this renders one application
            offered = commit = _newest_change(pages.engine, app, part)
        commits = _commits(pages.engine, part, commit, after)
        # each of them is rendered twice
        effects = pages.engine.preview.effects(part, commits, followers[:_APPLICATIONS])
    except TransientError:
        # Git does not answer: not a property of these commits
        raise
    except GitsyncError as error:
        # part of the page, as for commits that cannot be reverted alone
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
        source=source,
        revision=part.source.revision,
        choices=_choices(app) if problem and not source else (),
        is_offered=bool(offered),
    )


@router.get("/rollback")
def choose_commit(backend: BackendOf, view: ViewOf, at: Annotated[str, Query(max_length=40)]) -> RedirectResponse:
    """Lead to the revert of all commits after the one that ran at a time: a date, RFC 3339, or a duration as 18h."""
    commit = _commit_at(backend, view.key, at)
    return RedirectResponse(f"{app_url(view.key)}/revert?after={quote(commit)}", 303)


def _commit_at(backend: Backend, application: str, text: str) -> str:
    """Return the commit that was applied last until a time; answer 422 without a time, 404 where none was."""
    # a time without a zone is in UTC, as all times of pages
    moment = parse_moment(text.strip(), backend.clock.now())
    if moment is None:
        raise HTTPException(422, f"{visible(text)} is not a time; write 2026-03-01, 2026-03-01T12:00:00Z or 18h.")
    before = 0
    for _ in range(_MOST_PAGES):
        records = backend.records.history(application, limit=_RECORDS, before=before)
        for record in records:
            # only what was applied completely is a state to go back to
            if record.started <= moment and record.outcome is Outcome.SUCCEEDED:
                return record.commit.id
        if len(records) < _RECORDS:
            break
        before = records[-1].id
    raise HTTPException(404, f"No sync of {visible(application)} is known that succeeded until {utc(moment)}.")


@router.post("/revert", dependencies=checked)
def revert(
    backend: BackendOf,
    requests: RequestsOf,
    view: ViewOf,
    user: UserOf,
    newest: Text,
    commit: Text = "",
    after: Text = "",
    source: Text = "",
    by: Text = "",
    branch: Text = "",
    reason: Text = "",
) -> RedirectResponse:
    """Push the revert that was shown, to the tracked branch or to one for review."""
    author = reviewer(user, by or "dashboard")
    requests.check_operator(view, author)  # before Git is read on their behalf
    app = readable(view)
    part = app_of_part(app, source)
    wanted = Revert(
        # from Git again: the form sends the newest commit only, to be compared
        _commits(backend, part, commit, after),
        author.name,
        branch.strip(),
        shown=newest,
        followers=tuple(item.app.key for item in _followers(backend, app, part)),
        source=source,
    )
    requests.revert(view, backend.reverts, wanted, author, line(reason))
    return back_to(view, "revert-branch" if wanted.branch else "revert")


def _commits(backend: Backend, app: Application, commit: str, after: str) -> Sequence[Commit]:
    """Return the commits to revert, newest first: one, all after one, or the newest."""
    return backend.reverts.one_commit(app, commit) if commit else backend.reverts.commits(app, after)


def _newest_change(backend: Backend, app: Application, part: Application) -> str:
    """
    Return the newest commit of a source that changed an Application; empty for that of its branch, or if none of the
    latest.
    """
    latest = backend.reverts.latest(part)[:_SEARCHED]
    newest = backend.preview.newest_change(part, latest, app)
    return newest.id if newest is not None and newest != latest[0] else ""


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


def _choices(app: Application) -> list[str]:
    """Return the names of several sources whose commits can be reverted."""
    parts = (part for part in app.source.parts if isinstance(part, NamedSource))
    return [part.name for part in parts if not is_artifact(part.repo_url)]


def _followers(backend: Backend, app: Application, part: Application) -> list[AffectedApplication]:
    """Return the applications with a source that follows the branch of this part of one, which is the first."""
    followers = [
        AffectedApplication(view.application, str(at(view.status, "revision", "applied", default="")))
        for view in backend.view.applications()
        if view.application is not None
    ]
    same = [item for item in followers if any(follows_same(source, part.source) for source in item.app.source.parts)]
    return sorted(same, key=lambda item: item.app.key != app.key)
