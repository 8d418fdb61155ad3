"""Requests of users for several Applications at once: each is allowed, audited and answered by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse

from gitsync.errors import GitsyncError, InvalidInput
from gitsync.objects.ref import ObjectRef
from gitsync.objects.user import User
from gitsync.server.actions import Text, audit_request, checked
from gitsync.server.backend import Backend
from gitsync.server.formatting import visible
from gitsync.server.pages.dependencies import PagesOf, UserOf, check_operator
from gitsync.server.reviews import line, reviewer
from gitsync.server.rows.applications import AppRow, app_row

router = APIRouter(prefix="/bulk")

_MOST = 100
"""Applications, and objects, of one request."""


class BulkAction(StrEnum):
    """What can be requested for several Applications."""

    SYNC = "sync"
    REVERT_DRIFT = "revert-drift"
    SUSPEND = "suspend"
    RESUME = "resume"


@dataclass(frozen=True, slots=True)
class BulkItem:
    """
    One Application of a request, its row where it is known, and why nothing is requested for it, else empty.

    ``objects`` are those by which it was selected in a list of objects; an action is always on the Application.
    """

    key: str
    objects: tuple[ObjectRef, ...]
    row: AppRow | None = None
    problem: str = ""


ActionForm = Annotated[BulkAction, Form()]
KeysQuery = Annotated[tuple[str, ...], Query(alias="app", max_length=_MOST)]
KeysForm = Annotated[tuple[str, ...], Form(alias="app", max_length=_MOST)]
ObjectsQuery = Annotated[tuple[str, ...], Query(alias="object", max_length=_MOST)]
ObjectsForm = Annotated[tuple[str, ...], Form(alias="object", max_length=_MOST)]


@router.get("", response_class=HTMLResponse)
def ask(
    request: Request,
    pages: PagesOf,
    user: UserOf,
    action: BulkAction,
    keys: KeysQuery = (),
    objects: ObjectsQuery = (),
) -> HTMLResponse:
    """Show what would be requested for which Applications, and ask who requests it and why."""
    items = [_item(pages.engine, one, action, user) for one in _selected(keys, objects)]
    return pages.show(request, "bulk.html", action=action.value, items=items, is_done=False)


@router.post("", response_class=HTMLResponse, dependencies=checked)
def request_all(
    request: Request,
    pages: PagesOf,
    user: UserOf,
    action: ActionForm,
    keys: KeysForm = (),
    objects: ObjectsForm = (),
    reason: Text = "",
    by: Text = "",
) -> HTMLResponse:
    """Request an action for each of some Applications, and show for which of them that failed."""
    who, why = reviewer(user, by), line(reason)
    if not who.name or not why:
        raise InvalidInput(f"{action.value} of several applications needs a name and a reason")
    items = [_item(pages.engine, one, action, user) for one in _selected(keys, objects)]
    done = [item if item.problem else _request(pages.engine, item, action, who, why) for item in items]
    return pages.show(request, "bulk.html", action=action.value, items=done, is_done=True)


def _selected(keys: Sequence[str], objects: Sequence[str]) -> list[BulkItem]:
    """Return the Applications of a request, each once, with the objects (``KEY PATH``) that were selected of it."""
    found: dict[str, list[ObjectRef]] = {key: [] for key in keys}
    for text in dict.fromkeys(objects):
        key, _, path = text.partition(" ")
        try:
            found.setdefault(key, []).append(ObjectRef.from_path(path))
        except ValueError:
            raise InvalidInput(f"{visible(text)} is not the application and reference of an object") from None
    return [BulkItem(key, tuple(refs)) for key, refs in found.items()]


def _item(backend: Backend, item: BulkItem, action: BulkAction, user: User) -> BulkItem:
    """Return what an action would find: an Application where it is possible, or why it is not."""
    view = backend.view.application(item.key)
    if view is None:
        return replace(item, problem="is not known")
    item = replace(item, row=(row := app_row(view)))
    try:
        check_operator(backend, view, user)
    except GitsyncError as error:
        return replace(item, problem=visible(error))
    has_drift = bool((view.status.get("drift") or {}).get("objects"))
    return replace(item, problem=_obstacle(row, action, has_drift=has_drift))


def _obstacle(row: AppRow, action: BulkAction, *, has_drift: bool) -> str:
    if action is BulkAction.RESUME:
        return "" if row.is_suspended else "is not suspended"
    if row.is_suspended:
        return "is suspended already" if action is BulkAction.SUSPEND else "is suspended: resume it first"
    return "has no drift" if action is BulkAction.REVERT_DRIFT and not has_drift else ""


def _request(backend: Backend, item: BulkItem, action: BulkAction, by: User, reason: str) -> BulkItem:
    """Request an action for one Application, audited before it is made; return it with the error, if any."""
    is_sync = action in (BulkAction.SYNC, BulkAction.REVERT_DRIFT)
    view = backend.view.application(item.key)
    try:
        if view is not None:
            audit_request(backend, view, BulkAction.SYNC.value if is_sync else action.value, by, reason)
        is_known = (
            backend.requests.request_sync(item.key, by.name)
            if is_sync
            else backend.requests.suspend(item.key, action is BulkAction.SUSPEND)
        )
    except GitsyncError as error:
        return replace(item, problem=visible(error))
    return item if is_known else replace(item, problem="is not known")
