"""Drift of all applications: what differs now because of changes in the cluster, and what was corrected."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from gitsync.objects.change import Decision
from gitsync.ports import ApplicationView
from gitsync.server.backend import Backend
from gitsync.server.pages.dependencies import PagesOf, SearchText, Start
from gitsync.server.pages.differences import changed_in_cluster
from gitsync.server.pages.paging import list_url, page_of
from gitsync.server.rows.drift_list import NAMES, PastDrift, drift_rows, past_drift
from gitsync.server.rows.query import Query, parse_query

router = APIRouter()

_ROWS, _PAST, _SYNCS = 20, 30, 200


@router.get("/drift", response_class=HTMLResponse)
def drift(request: Request, pages: PagesOf, q: SearchText = "", start: Start = 0) -> HTMLResponse:
    """Show the objects that were changed in the cluster, and the fields that were corrected, by how often."""
    query = parse_query(q, NAMES, pages.engine.clock.now())
    views = pages.engine.view.applications()
    found = drift_rows(views, query, changed_in_cluster)
    shown, following = page_of(found, start, _ROWS)
    heals = {
        view.key: view.application.sync.self_heal.enabled for view in views if view.application and not _is_held(view)
    }
    return pages.show(
        request,
        "drift.html",
        rows=shown,
        matched=len(found),
        query=query,
        names=NAMES,
        past=corrected(pages.engine, query)[:_PAST],
        syncs=_SYNCS,
        heals=heals,
        plans={view.key: len(view.plan.writes) for view in views if view.plan is not None},
        start=start,
        following=following,
        page_size=_ROWS,
        url=list_url("/drift", str(query)),
    )


def _is_held(view: ApplicationView) -> bool:
    return view.verdict is not None and view.verdict.decision is Decision.HELD


def corrected(backend: Backend, query: Query) -> list[PastDrift]:
    """Return the fields that self-heal corrected in the latest syncs."""
    return past_drift(backend.records.history(query.application, limit=_SYNCS), query)
