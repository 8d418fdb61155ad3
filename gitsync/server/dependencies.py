"""What routes get from FastAPI: the templates, plans, requests, the application of the path and the user."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from fastapi import Depends, HTTPException, Query, Request

from gitsync.errors import InvalidInput
from gitsync.objects.inventory import OwnerKey
from gitsync.objects.ref import ObjectRef
from gitsync.objects.user import User
from gitsync.operator.kinds import AGENT, SYSTEM
from gitsync.ports import ApplicationView
from gitsync.server.auth.access import current_user
from gitsync.server.backend import Backend
from gitsync.server.formatting import utc, visible
from gitsync.server.queries.agents import FoundAgent, find_agent
from gitsync.server.queries.object_details import REMOVED, FoundObject, LastChange, last_change, last_sync
from gitsync.server.queries.waiting import PendingPlans, catch_up
from gitsync.server.templates import Pages
from gitsync.services.requests import UserRequests


def _pages(request: Request) -> Pages:
    pages: Pages = request.app.state.pages
    # every route reads the engine through this view, so that no route can forget who may see an Application
    return pages.seen_by(current_user(request))


def _pending_plans(request: Request) -> PendingPlans:
    plans: PendingPlans = request.app.state.pending_plans
    return plans


def _requests(request: Request) -> UserRequests:
    requests: UserRequests = request.app.state.requests
    return requests


PagesOf = Annotated[Pages, Depends(_pages)]
PendingPlansOf = Annotated[PendingPlans, Depends(_pending_plans)]
RequestsOf = Annotated[UserRequests, Depends(_requests)]
UserOf = Annotated[User, Depends(current_user)]
SearchText = Annotated[str, Query(max_length=300)]
Start = Annotated[int, Query(ge=0, le=10_000_000)]
# SQLite has integers of 64 bits; its driver raises OverflowError for a larger one
SyncId = Annotated[int, Query(ge=0, lt=1 << 62, description="Only syncs with a lower id.")]


def _backend(pages: PagesOf) -> Backend:
    return pages.engine


def _agent_key(namespace: str, name: str) -> OwnerKey:
    return OwnerKey(AGENT, namespace, name)


def _system_key(namespace: str, name: str) -> OwnerKey:
    return OwnerKey(SYSTEM, namespace, name)


AgentKey = Annotated[OwnerKey, Depends(_agent_key)]
SystemKey = Annotated[OwnerKey, Depends(_system_key)]
BackendOf = Annotated[Backend, Depends(_backend)]


class NoLonger(HTTPException):
    """
    Something that the history or the audit knows, and that has no page any more: answered with what happened to it.

    ``name`` is its text, ``owner`` the key of what applied it, or its own where it is an owner. A page answers 200:
    links of histories and timelines lead to it. A call of the API answers 410.
    """

    def __init__(self, name: str, owner: str, change: LastChange, *, is_owner: bool = False) -> None:
        self.name = visible(name)
        self.owner = owner
        self.is_owner = is_owner
        self.change = change
        super().__init__(410, f"{self.text} at {utc(change.time)}.")

    @property
    def text(self) -> str:
        """The sentence without the time of the change."""
        if self.change.is_removal:
            return f"{self.name} was {REMOVED[self.change.action]}"
        if self.is_owner:
            return f"{self.name} is not in the cluster; its last sync started"
        return f"{self.name} is not in the cluster, or not part of this application; last change: {self.change.action}"


def owner_missing(backend: Backend, key: str, text: str) -> HTTPException:
    """Return the answer for an owner that is not in the cluster; ``text`` is for one that was never synced."""
    change = last_sync(backend, key)
    if change is None:
        return HTTPException(404, text)
    owner = OwnerKey.parse(key)
    return NoLonger(f"{owner.of.kind} {owner.namespace}/{owner.name}", key, change, is_owner=True)


def _application_or_404(backend: BackendOf, namespace: str, name: str) -> ApplicationView:
    """Return the application of a path; answer what happened to one that is gone, else 404."""
    view = backend.view.application(f"{namespace}/{name}")
    if view is None:
        # also where the user may not see it, who sees no history of it: 403 would confirm that it exists
        text = f"Application {visible(namespace)}/{visible(name)} not found."
        raise owner_missing(backend, f"{namespace}/{name}", text)
    return view


def _requested_application(request: Request, backend: BackendOf, namespace: str, name: str) -> ApplicationView:
    """Return the application of a path; a request for it is decided by what is known of it now, at any replica."""
    key = f"{namespace}/{name}"
    if request.method == "POST":
        catch_up(backend, [key])
    elif not backend.owns(key):
        # a page shows its objects a moment later
        backend.requests.observe(key)
    return _application_or_404(backend, namespace, name)


def _current_application(backend: BackendOf, namespace: str, name: str) -> ApplicationView:
    """Return the application of a path as it is known now, for what a request is made from, such as its form."""
    catch_up(backend, [f"{namespace}/{name}"])
    return _application_or_404(backend, namespace, name)


ViewOf = Annotated[ApplicationView, Depends(_requested_application)]
CurrentViewOf = Annotated[ApplicationView, Depends(_current_application)]


def ref_named(path: str) -> ObjectRef:
    """Return the reference that a form or call names; raise InvalidInput otherwise."""
    try:
        return ObjectRef.from_path(path)
    except ValueError:
        raise InvalidInput(f"{visible(path)} is not the reference of an object") from None


def find_object(backend: BackendOf, view: ViewOf, ref: Annotated[str, Query(max_length=1200)]) -> FoundObject:
    """Return the object of a request; answer what removed one that is gone, and 404 where nothing is known of it."""
    try:
        wanted = ObjectRef.from_path(ref)
    except ValueError:
        raise HTTPException(404, "This is not a valid object reference.") from None
    item = next((item for item in view.resources if item.ref == wanted), None)
    # an object may also be a part of a declared one, such as a Pod: live, but without an item
    object = FoundObject(view, wanted, item, backend.view.live(view.key, wanted))
    if not object.manifest:
        change = last_change(backend, view.key, wanted)
        if change is not None:
            raise NoLonger(str(wanted), view.key, change)
        raise HTTPException(404, f"{visible(wanted)} is not in the cluster, or not part of this application.")
    return object


FoundOf = Annotated[FoundObject, Depends(find_object)]


def agent_or_404(backend: Backend, agents: Iterable[FoundAgent], namespace: str, name: str) -> FoundAgent:
    """Return an agent by its name; answer what happened to one that is gone, else 404."""
    agent = find_agent(agents, namespace, name)
    if agent is None:
        text = f"No agent {visible(namespace)}/{visible(name)} in any application."
        raise owner_missing(backend, str(OwnerKey(AGENT, namespace, name)), text)
    return agent
