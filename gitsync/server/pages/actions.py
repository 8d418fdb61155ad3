"""Requests of users: sync, suspend, keep a change, promote, hold a field. ``services.requests`` decides them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Depends, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import BaseModel, Field

from gitsync.apply.change import StepResult
from gitsync.errors import GitsyncError, InvalidInput, Refused, WrongState
from gitsync.objects.holds import FieldHold
from gitsync.objects.manifest import Manifest, uid_of
from gitsync.objects.ref import ObjectRef
from gitsync.plan.drift_history import DRIFT_ACTION
from gitsync.plan.parts import Choice
from gitsync.ports import ApplicationView
from gitsync.server.auth.security import check_form
from gitsync.server.dependencies import (
    BackendOf,
    CurrentViewOf,
    FoundOf,
    PagesOf,
    RequestsOf,
    UserOf,
    ViewOf,
    ref_named,
)
from gitsync.server.formatting import app_url, object_url, visible
from gitsync.server.pages.layout import show_application
from gitsync.server.queries.applications import AppRow, app_row
from gitsync.server.queries.drift import kept_values
from gitsync.server.queries.object_details import FoundObject
from gitsync.server.queries.waiting import catch_up, holds_in_force, line, reviewer
from gitsync.server.templates import leave_notice
from gitsync.services.requests import RequestKind, WorkloadRequest, check_named, choosable
from gitsync.services.updates import UpdateKind
from gitsync.services.workloads import WorkloadAction

router = APIRouter(prefix="/apps/{namespace}/{name}")
checked = [Depends(check_form)]

Text = Annotated[str, Form(max_length=1000)]
_MOST = 100
"""Applications, and objects, of one request."""
ObjectsQuery = Annotated[tuple[str, ...], Query(alias="object", max_length=_MOST)]
_LINKS = 200
"""Ended drift that is searched for a value that was corrected, the newest first."""


class ChoiceForm(BaseModel):
    """The form of a sync of chosen objects: the ``path`` of each, and how they are synced."""

    token: str = Field("", max_length=100)
    object: list[str] = Field(default_factory=list, max_length=_MOST)
    dry_run: bool = False
    prune: bool = False
    replace: bool = False
    by: str = Field("", max_length=100)
    reason: str = Field("", max_length=1000)


@router.post("/sync", dependencies=checked)
def sync(requests: RequestsOf, view: ViewOf, user: UserOf, by: Text = "", reason: Text = "") -> RedirectResponse:
    """Request a sync now; the button beside the name of an application sends neither a name nor a reason."""
    requests.request(view, RequestKind.SYNC, reviewer(user, by or "dashboard"), line(reason))
    return back_to(view, "sync")


@router.get("/sync", response_class=HTMLResponse)
def choose(
    request: Request,
    pages: PagesOf,
    requests: RequestsOf,
    view: CurrentViewOf,
    user: UserOf,
    objects: ObjectsQuery = (),
) -> HTMLResponse:
    """Show the objects that differ from Git, of which a user syncs some, and the options."""
    problem = ""
    try:
        requests.check(view, RequestKind.SYNC, user)
    except (Refused, WrongState) as error:
        problem = visible(error)
    return _show_choice(pages, request, view, ChoiceForm(object=list(objects)), problem=problem)


@router.post("/sync/objects", response_class=HTMLResponse, dependencies=checked)
def sync_objects(
    request: Request,
    backend: BackendOf,
    pages: PagesOf,
    requests: RequestsOf,
    view: ViewOf,
    user: UserOf,
    options: Annotated[ChoiceForm, Form()],
) -> Response:
    """Sync the chosen objects alone; with ``dry_run``, show what the API server would answer, and write nothing."""
    choice = Choice(frozenset(map(ref_named, options.object)), prune=options.prune, replace=options.replace)
    who = reviewer(user, options.by)
    if not options.dry_run:
        requests.sync_chosen(view, backend.requests, choice, who, line(options.reason))
        return back_to(view, "sync-objects")
    answers = requests.dry_run(view, backend.dry_runs, choice, who)
    return _show_choice(pages, request, view, options, answers)


def _show_choice(
    pages: PagesOf,
    request: Request,
    view: ViewOf,
    options: ChoiceForm,
    answers: Sequence[StepResult] = (),
    problem: str = "",
) -> HTMLResponse:
    """Return the form of a sync of chosen objects as it was sent, with the answers to a dry run."""
    return show_application(
        pages, request, view, "choose", steps=choosable(view), options=options, answers=answers, problem=problem
    )


@router.get("/suspend", response_class=HTMLResponse)
def ask_suspend(request: Request, pages: PagesOf, view: ViewOf) -> HTMLResponse:
    """Show the form that asks who suspends or resumes an application, and why."""
    return show_application(pages, request, view, "suspend")


@router.post("/suspend", dependencies=checked)
def suspend(requests: RequestsOf, view: ViewOf, user: UserOf, by: Text = "", reason: Text = "") -> RedirectResponse:
    """Suspend an application."""
    requests.request(view, RequestKind.SUSPEND, reviewer(user, by), line(reason))
    return back_to(view, "suspend")


@router.post("/resume", dependencies=checked)
def resume(requests: RequestsOf, view: ViewOf, user: UserOf, by: Text = "", reason: Text = "") -> RedirectResponse:
    """Resume an application."""
    requests.request(view, RequestKind.RESUME, reviewer(user, by), line(reason))
    return back_to(view, "resume")


@router.get("/hold", response_class=HTMLResponse)
def ask_hold(
    request: Request, pages: PagesOf, view: ViewOf, ref: str = "", path: Annotated[str, Query(max_length=500)] = ""
) -> HTMLResponse:
    """Show the form that asks which field of an object is held, how long, who holds it, and why."""
    return show_application(pages, request, view, "hold", ref=ref_named(ref), field=path)


@router.post("/hold", dependencies=checked)
def hold(
    backend: BackendOf,
    requests: RequestsOf,
    view: ViewOf,
    user: UserOf,
    ref: Text,
    path: Text,
    minutes: Annotated[int, Form(ge=1, le=1440)],
    by: Text = "",
    reason: Text = "",
) -> RedirectResponse:
    """Leave a field of an object as it is for some minutes."""
    who = reviewer(user, by)
    until = backend.clock.now().replace(microsecond=0) + timedelta(minutes=minutes)
    held = FieldHold.of_field(ref_named(ref), path, until, who.name, line(reason))
    requests.hold(view, backend.requests, held, who)
    return back_to(view, "hold")


@router.post("/unhold", dependencies=checked)
def unhold(
    backend: BackendOf, requests: RequestsOf, view: ViewOf, user: UserOf, hold: Text, by: Text = "", reason: Text = ""
) -> RedirectResponse:
    """End the hold whose annotation has this name; the button beside it sends neither a name nor a reason."""
    ended = [held for held in holds_in_force(view, backend.clock.now()) if held.name == hold]
    who = reviewer(user, by or "dashboard")
    requests.end_holds(view, backend.requests, ended, who, line(reason) or "Ended by hand")
    return back_to(view, "unhold")


@router.post("/keep", dependencies=checked)
def keep(
    backend: BackendOf,
    requests: RequestsOf,
    view: ViewOf,
    user: UserOf,
    ref: Text,
    path: Text = "",
    by: Text = "",
    reason: Text = "",
) -> RedirectResponse:
    """Propose what was changed of an object in the cluster to Git, on a branch of its own."""
    wanted = ref_named(ref)
    links = backend.records.audit_records(view.key, action=DRIFT_ACTION, limit=_LINKS)
    values = kept_values(view, links, wanted, path)
    requests.keep(view, backend.keeps, values, reviewer(user, by or "dashboard"), line(reason))
    return back_to(view, "keep")


@router.post("/update", dependencies=checked)
def propose_update(
    backend: BackendOf,
    requests: RequestsOf,
    view: ViewOf,
    user: UserOf,
    kind: Annotated[UpdateKind, Form()],
    digest: Text,
    by: Text = "",
    reason: Text = "",
) -> RedirectResponse:
    """Propose newer images, or what another environment runs, to Git, exactly as it was shown."""
    requests.propose_update(view, backend.updates, kind, digest, reviewer(user, by or "dashboard"), line(reason))
    response = RedirectResponse("/updates", 303)
    leave_notice(response, "keep")
    return response


@router.get("/object/action", response_class=HTMLResponse)
def ask_action(
    request: Request,
    pages: PagesOf,
    requests: RequestsOf,
    view: ViewOf,
    user: UserOf,
    subject: FoundOf,
    action: WorkloadAction,
) -> HTMLResponse:
    """Show what restarting a workload or deleting a Pod does, and ask who requests it and why."""
    problem = ""
    try:
        requests.check_workload(view, action, _live_of(subject), user)
    except (Refused, WrongState) as error:
        problem = visible(error)
    return show_application(
        pages,
        request,
        view,
        "object_action",
        ref=subject.ref,
        action=action.value,
        word="Restart" if action is WorkloadAction.RESTART else "Delete",
        problem=problem,
        uid=uid_of(subject.live or {}),
    )


@router.post("/object/action", dependencies=checked)
def act(
    backend: BackendOf,
    requests: RequestsOf,
    view: ViewOf,
    user: UserOf,
    subject: FoundOf,
    action: Annotated[WorkloadAction, Form()],
    uid: Text = "",
    by: Text = "",
    reason: Text = "",
) -> RedirectResponse:
    """Restart a workload or delete a Pod, exactly the one that the form showed."""
    live = _live_of(subject)
    if uid_of(live) != uid:
        raise WrongState("was created again since the page was shown", object=str(subject.ref), hint="open it again")
    wanted = WorkloadRequest(action, live)
    requests.change_workload(view, backend.workloads, wanted, reviewer(user, by), line(reason))
    # the page of the Application has the Pod that takes the place of a deleted one
    is_kept = action is WorkloadAction.RESTART
    response = RedirectResponse(object_url(view.key, subject.ref.path) if is_kept else app_url(view.key), 303)
    leave_notice(response, action.value)
    return response


def _live_of(subject: FoundObject) -> Manifest:
    """Return the live manifest of an object; raise WrongState where it is only declared."""
    if subject.live is None:
        raise WrongState("is not in the cluster", object=str(subject.ref))
    return subject.live


def back_to(view: ApplicationView, action: str) -> RedirectResponse:
    """Lead to the page of an application, which says that an action was requested."""
    response = RedirectResponse(app_url(view.key), 303)
    leave_notice(response, action)
    return response


bulk_router = APIRouter(prefix="/bulk")


class BulkAction(StrEnum):
    """What can be requested for several Applications, or objects, at once."""

    SYNC = "sync"
    REVERT_DRIFT = "revert-drift"
    SUSPEND = "suspend"
    RESUME = "resume"


@dataclass(frozen=True, slots=True)
class BulkItem:
    """
    One Application of a request, its row where it is known, and why nothing is requested for it, else empty.

    ``objects`` are those by which it was selected in a list of objects. Only drift is reverted of these alone; every
    other action is on the Application.
    """

    key: str
    objects: tuple[ObjectRef, ...]
    row: AppRow | None = None
    problem: str = ""


ActionForm = Annotated[BulkAction, Form()]
KeysQuery = Annotated[tuple[str, ...], Query(alias="app", max_length=_MOST)]
KeysForm = Annotated[tuple[str, ...], Form(alias="app", max_length=_MOST)]
ObjectsForm = Annotated[tuple[str, ...], Form(alias="object", max_length=_MOST)]


@bulk_router.get("", response_class=HTMLResponse)
def ask(
    request: Request,
    pages: PagesOf,
    requests: RequestsOf,
    user: UserOf,
    action: BulkAction,
    keys: KeysQuery = (),
    objects: ObjectsQuery = (),
) -> HTMLResponse:
    """Show what would be requested for which Applications, and ask who requests it and why."""

    def check(view: ApplicationView, refs: Sequence[ObjectRef]) -> None:
        if action is BulkAction.REVERT_DRIFT:
            requests.check_drift(view, refs, user)
        else:
            requests.check(view, RequestKind(action), user)

    items = _attempt_each(pages.engine, _selected(keys, objects), check)
    return pages.show(request, "bulk.html", action=action.value, items=items, is_done=False)


@bulk_router.post("", response_class=HTMLResponse, dependencies=checked)
def request_all(
    request: Request,
    pages: PagesOf,
    requests: RequestsOf,
    user: UserOf,
    action: ActionForm,
    keys: KeysForm = (),
    objects: ObjectsForm = (),
    reason: Text = "",
    by: Text = "",
) -> HTMLResponse:
    """Request an action for each of some Applications, and show for which of them that failed."""
    who = reviewer(user, by)
    why = line(reason)
    # once for all: else each Application would show the same problem
    check_named(who, why, f"{action.value} of several applications")

    def make(view: ApplicationView, refs: Sequence[ObjectRef]) -> None:
        if action is BulkAction.REVERT_DRIFT:
            requests.revert_drift(view, pages.engine.requests, refs, who, why)
        else:
            requests.request(view, RequestKind(action), who, why)

    items = _attempt_each(pages.engine, _selected(keys, objects), make)
    return pages.show(request, "bulk.html", action=action.value, items=items, is_done=True)


def _selected(keys: Sequence[str], objects: Sequence[str]) -> list[BulkItem]:
    """Return the Applications of a request, each once, with the objects (``KEY PATH``) that were selected of it."""
    refs_by_key: dict[str, list[ObjectRef]] = {key: [] for key in keys}
    for text in dict.fromkeys(objects):
        key, _, path = text.partition(" ")
        try:
            refs_by_key.setdefault(key, []).append(ObjectRef.from_path(path))
        except ValueError:
            raise InvalidInput(f"{visible(text)} is not the application and reference of an object") from None
    return [BulkItem(key, tuple(refs)) for key, refs in refs_by_key.items()]


Attempt = Callable[[ApplicationView, Sequence[ObjectRef]], None]


def _attempt_each(backend: BackendOf, items: Sequence[BulkItem], attempt: Attempt) -> list[BulkItem]:
    """Check or request an action for each Application, by what is known of all of them now."""
    catch_up(backend, [item.key for item in items])
    return [_attempt(backend, item, attempt) for item in items]


def _attempt(backend: BackendOf, item: BulkItem, attempt: Attempt) -> BulkItem:
    """Check or request an action for one Application; return it with its row, and with the error, if any."""
    view = backend.view.application(item.key)
    # also for one that the user may not see
    if view is None:
        return replace(item, problem="is not known")
    item = replace(item, row=app_row(view))
    try:
        attempt(view, item.objects)
    # one that refuses does not stop the others
    except GitsyncError as error:
        # the page names the Application in front of the problem
        return replace(item, problem=visible("; ".join(filter(None, (error.message, error.hint)))))
    return item
