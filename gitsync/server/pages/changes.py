"""The timeline of all changes, and what changed between two points in time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import groupby
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from gitsync.server.dependencies import PagesOf, SearchText
from gitsync.server.queries.fields import FIELDS
from gitsync.server.queries.filters import list_url, parse_query
from gitsync.server.queries.timeline import (
    KINDS,
    NAMES,
    SYNCS,
    NetChange,
    Position,
    changes,
    net_changes,
    records_between,
)

router = APIRouter()

COMPARED = ("app", "ns", "kind", "name", "since", "until")
"""The members of a filter that a comparison accepts."""
_ENTRIES = 40
_OBJECTS = 40
_PERIOD = timedelta(hours=24)


@router.get("/changes", response_class=HTMLResponse)
def timeline(
    request: Request, pages: PagesOf, q: SearchText = "", before: Annotated[str, Query(max_length=80)] = ""
) -> HTMLResponse:
    """Show commits with their syncs, drift, decisions and requests, newest first."""
    query = parse_query(q, NAMES, pages.engine.clock.now())
    page = changes(pages.engine, query, Position.parse(before), _ENTRIES)
    return pages.show(
        request,
        "changes.html",
        # groupby joins neighbours only: the entries are sorted by time
        days=[(day, list(entries)) for day, entries in groupby(page.entries, key=lambda entry: entry.time.date())],
        query=query,
        names=NAMES,
        kinds=KINDS,
        spans=_SPANS,
        newest=not before,
        older=list_url("/changes", str(query), before=str(page.older)) if page.older is not None else "",
        url=list_url("/changes", str(query)),
        link=lambda name, value: list_url("/changes", query.toggled(name, value)),
        span=lambda text: list_url("/changes", " ".join(filter(None, (str(query.without("since")), text)))),
    )


_SPANS = (("since:1h", "last hour"), ("since:18h", "last 18 hours"), ("since:7d", "last 7 days"), ("", "all"))


@router.get("/changes/compare", response_class=HTMLResponse)
def compare(request: Request, pages: PagesOf, q: SearchText = "") -> HTMLResponse:
    """Show what the syncs between two points in time changed in total, each object once."""
    now = pages.engine.clock.now()
    query = parse_query(q, COMPARED, now)
    if query.since is None:
        query = replace(query, since=now - _PERIOD)
    records = records_between(pages.engine, query)
    # oldest first: the last change of a field is what the cluster has now
    changed = net_changes(reversed(records))
    matches = query.without("since").without("until").matcher(_READ, lambda item: f"{item.application} {item.step.ref}")
    wanted = list(filter(matches, changed))
    shown = min(len(wanted), _OBJECTS)
    return pages.show(
        request,
        "compare.html",
        changes=[(item, item.fields(FIELDS, shown), item.content(shown)) for item in wanted[:shown]],
        matched=len(wanted),
        syncs=len(records),
        is_cut=len(records) >= SYNCS,
        query=query,
        names=COMPARED,
        since=query.since,
        until=query.until or now,
    )


_READ: dict[str, Callable[[NetChange], list[str]]] = {
    "app": lambda item: [item.application, item.application.rpartition("/")[2]],
    # the path of an object is group/kind/namespace/name
    "ns": lambda item: [item.step.ref.split("/", 3)[2]],
    "kind": lambda item: [item.step.ref.split("/", 3)[1]],
    "name": lambda item: [item.step.ref.split("/", 3)[3]],
}
