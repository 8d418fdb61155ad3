"""The lists over all applications: applications, objects, drift, plans that wait, and a search in all of them."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from gitsync.errors import one_line
from gitsync.server.dependencies import PagesOf, PendingPlansOf, SearchText, Start, UserOf
from gitsync.server.formatting import value
from gitsync.server.queries import applications as app_list
from gitsync.server.queries import drift as drift_list
from gitsync.server.queries import object_list
from gitsync.server.queries.applications import AppRow
from gitsync.server.queries.filters import Filter, list_url, page_of, parse_query
from gitsync.server.queries.objects import resource_row
from gitsync.server.queries.timeline import Position, changes
from gitsync.server.queries.waiting import owner_plans, waiting
from gitsync.services.reviews import is_held

_OBJECTS_PER_PAGE = 80
_DRIFT_PER_PAGE = 20
_PAST_DRIFT = 30
"""Corrected fields that the page of drift lists."""
_HISTORY_PER_PAGE = 60
_VALUE_LENGTH = 80
"""Characters of a value in the history of drift."""
_PLANS = 30
"""Plans that wait, of one page; the reviews themselves are on pages of their own."""
_FOUND_APPLICATIONS = 20
_FOUND_OBJECTS = 40
_FOUND_CHANGES = 10
"""The first results of each list that a search shows."""

router = APIRouter()

Old = Annotated[str, Query(max_length=100)]


@router.get("/apps", response_class=HTMLResponse)
def applications(
    request: Request,
    pages: PagesOf,
    q: SearchText = "",
    sort: str = "worst",
    start: Start = 0,
    sync: Old = "",
    health: Old = "",
    ns: Old = "",
) -> HTMLResponse:
    """Show the applications that match, with facets that combine; members of a filter may be parameters too."""
    named = " ".join(f"{name}:{text}" for name, text in (("sync", sync), ("health", health), ("ns", ns)) if text)
    now = pages.engine.clock.now()
    query = parse_query(f"{q} {named}", app_list.NAMES, now)
    rows = app_list.app_rows(pages.engine.view.applications())
    ordered = app_list.matching(rows, query, sort)
    shown, following = page_of(ordered, start, app_list.PAGE)
    is_by_name = sort == "name"
    kept = {"sort": "name"} if is_by_name else {}

    def rows_of_facet(name: str) -> list[AppRow]:
        # a facet counts what would match without its own choice: else all other choices would have none
        wider = query.without(name)
        return ordered if wider == query else app_list.matching(rows, wider)

    return pages.show(
        request,
        "apps.html",
        rows=shown,
        matched=len(ordered),
        total=len(rows),
        query=query,
        names=app_list.NAMES,
        sort="name" if is_by_name else "worst",
        start=start,
        sync_counts=app_list.counts(rows_of_facet("sync"), "sync", app_list.SYNC_STATES),
        health_counts=app_list.counts(rows_of_facet("health"), "health", app_list.HEALTH_STATES),
        suspended=sum(row.is_suspended for row in rows_of_facet("is")),
        following=following,
        page_size=app_list.PAGE,
        url=list_url("/apps", str(query), **kept),
        by=lambda order: list_url("/apps", str(query), **({"sort": "name"} if order == "name" else {})),
        link=lambda name, value: list_url("/apps", query.toggled(name, value), **kept),
    )


@router.get("/objects", response_class=HTMLResponse)
def objects(request: Request, pages: PagesOf, q: SearchText = "", start: Start = 0) -> HTMLResponse:
    """Show the objects that match, those with problems first."""
    query = parse_query(q, object_list.NAMES, pages.engine.clock.now())
    known = object_list.all_objects(pages.engine.view.applications())
    matched_objects = object_list.matching(known, query)
    shown, following = page_of(matched_objects, start, _OBJECTS_PER_PAGE)
    return pages.show(
        request,
        "objects.html",
        rows=[(item.application, resource_row(item.view)) for item in shown],
        matched=len(matched_objects),
        total=len(known),
        query=query,
        names=object_list.NAMES,
        facets=object_list.facets(known, matched_objects, query),
        facet_names=object_list.FACETS,
        start=start,
        following=following,
        page_size=_OBJECTS_PER_PAGE,
        url=list_url("/objects", str(query)),
        link=lambda text: list_url("/objects", text),
    )


@router.get("/drift", response_class=HTMLResponse)
def drift(request: Request, pages: PagesOf, q: SearchText = "", start: Start = 0) -> HTMLResponse:
    """Show the objects that were changed in the cluster, and the fields that were corrected, by how often."""
    query = parse_query(q, drift_list.NAMES, pages.engine.clock.now())
    views = pages.engine.view.applications()
    writes = drift_list.received_writes(pages.engine.records, query.application)
    drifted_objects = drift_list.drift_rows(views, query, writes)
    shown, following = page_of(drifted_objects, start, _DRIFT_PER_PAGE)
    heals = {
        view.key: view.application.sync.self_heal.enabled and not view.application.suspend
        for view in views
        if view.application and not is_held(view)
    }
    return pages.show(
        request,
        "drift.html",
        rows=shown,
        matched=len(drifted_objects),
        query=query,
        names=drift_list.NAMES,
        pods=drift_list.pod_rows(views, query)[:_DRIFT_PER_PAGE],
        past=drift_list.corrected(pages.engine, query)[:_PAST_DRIFT],
        syncs=drift_list.SYNCS,
        heals=heals,
        suspended={view.key for view in views if view.application and view.application.suspend},
        start=start,
        following=following,
        page_size=_DRIFT_PER_PAGE,
        url=list_url("/drift", str(query)),
    )


@router.get("/drift/history", response_class=HTMLResponse)
def drift_of_the_past(
    request: Request, pages: PagesOf, q: SearchText = "", before: Annotated[int, Query(ge=0, lt=1 << 62)] = 0
) -> HTMLResponse:
    """Show what others changed before now, and how that ended, newest first."""
    query = parse_query(q, drift_list.PAST_NAMES, pages.engine.clock.now())
    page = drift_list.drift_history(pages.engine.records, query, limit=_HISTORY_PER_PAGE, before=before)
    return pages.show(
        request,
        "drift_history.html",
        fields=page.fields,
        query=query,
        names=drift_list.PAST_NAMES,
        older=list_url("/drift/history", str(query), before=str(page.older)) if page.older else "",
        shown=lambda item: "" if item is None else one_line(value(item), _VALUE_LENGTH),
    )


@router.get("/search", response_class=HTMLResponse)
def search(request: Request, pages: PagesOf, q: SearchText = "") -> HTMLResponse:
    """Show what matches, of each list the first."""
    now = pages.engine.clock.now()
    views = pages.engine.view.applications()
    rows = app_list.app_rows(views)
    wanted = parse_query(q, app_list.NAMES, now)
    # what this list does not know may be a member of another list
    apps = app_list.matching(rows, wanted) if not wanted.problem else []
    of_objects = parse_query(q, object_list.NAMES, now)
    objects = object_list.matching(object_list.all_objects(views), of_objects) if not of_objects.problem else []
    words = tuple(q.split())
    # a name that is meant outranks a problem whose text has the word
    apps.sort(key=lambda row: _unlikeness(row.name, q))
    objects.sort(key=lambda item: _unlikeness(item.view.ref.name, q))
    return pages.show(
        request,
        "search.html",
        q=q,
        apps=apps[:_FOUND_APPLICATIONS],
        apps_total=len(apps),
        objects=[(item.application, resource_row(item.view)) for item in objects[:_FOUND_OBJECTS]],
        objects_total=len(objects),
        entries=changes(pages.engine, Filter(words=words), Position(), _FOUND_CHANGES).entries if words else [],
    )


def _unlikeness(name: str, text: str) -> int:
    """Return how far a name is from what was typed: 0 for the same, 1 where it begins with it, 2 where it has it, 3."""
    typed = text.strip().lower()
    name = name.lower()
    return 0 if name == typed else 1 if name.startswith(typed) else 2 if typed in name else 3


@router.get("/approvals", response_class=HTMLResponse)
def approvals(request: Request, pages: PagesOf, plans: PendingPlansOf, user: UserOf) -> HTMLResponse:
    """Show the plans that wait; each is reviewed on its own page, where its changes are."""
    views = waiting(pages.engine.view.applications())
    shown = [(app_list.app_row(view), plans.of(view, user)) for view in views[:_PLANS]]
    # rejected ones last: they wait for a change in Git
    shown.sort(key=lambda item: (item[1].rejected is not None, item[0].key))
    owners = owner_plans(pages.engine, user)
    commits = Counter(item.view.plan.revision for _, item in shown if item.view.plan is not None and not item.rejected)
    return pages.show(
        request,
        "approvals.html",
        pending=shown,
        # a commit that several Applications wait at is one review
        together={commit: count for commit, count in commits.items() if count > 1},
        total=len(views),
        owners=owners[:_PLANS],
        more_owners=max(len(owners) - _PLANS, 0),
    )
