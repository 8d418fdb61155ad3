"""The agents of all applications: as a list with their changes, and by environment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse

from gitsync.server.backend import Backend
from gitsync.server.formatting import visible
from gitsync.server.pages.dependencies import BackendOf, PagesOf, SearchText, Start
from gitsync.server.pages.paging import list_url, page_of
from gitsync.server.rows.agent_changes import AgentChange, agent_changes
from gitsync.server.rows.agents import NAMES, FoundAgent, agent_row, find_agents, matching
from gitsync.server.rows.environments.matrix import ASPECTS, matrix
from gitsync.server.rows.environments.matrix import environments as environments_of
from gitsync.server.rows.query import Query, parse_query

router = APIRouter(prefix="/agents")

SYNCS: Final = 200
"""The latest syncs in which changes of agents are found."""
CHANGES: Final = 20
"""Changes that a page shows."""
_ROWS, _DAYS = 80, 7
_CELLS, _COLUMNS = 80, 8
"""Cells of a page, and the environments that are shown."""


def agents_of(backend: BackendOf) -> list[FoundAgent]:
    """Return the agents of all applications."""
    view, tokens = backend.view, backend.usage.by_service()
    found = find_agents(view.applications(), view.live, view.owned_by)
    return [replace(one, tokens=tokens.get((one.ref.namespace, one.ref.name))) for one in found] if tokens else found


def find_agent(known: Sequence[FoundAgent], namespace: str, name: str) -> FoundAgent:
    """Return an agent by its name; answer 404 where there is none."""
    found = next((one for one in known if (one.ref.namespace, one.ref.name) == (namespace, name)), None)
    if found is None:
        raise HTTPException(404, f"No agent {visible(namespace)}/{visible(name)} in any application.")
    return found


@router.get("/environments", response_class=HTMLResponse)
def environments(request: Request, pages: PagesOf, q: SearchText = "", start: Start = 0) -> HTMLResponse:
    """Show the agents that match a filter as rows, their environments as columns."""
    query = parse_query(q, NAMES, pages.engine.clock.now())
    known = agents_of(pages.engine)
    rows = matching(map(agent_row, known), query)
    columns, lines = environments_of(rows), matrix(rows)
    size = max(_CELLS // max(len(columns[:_COLUMNS]), 1), 1)
    shown, following = page_of(lines, start, size)
    return pages.show(
        request,
        "agent_environments.html",
        lines=shown,
        columns=columns[:_COLUMNS],
        hidden=columns[_COLUMNS:],
        aspects=ASPECTS,
        matched=len(lines),
        total=len(known),
        query=query,
        names=NAMES,
        start=start,
        following=following,
        page_size=size,
        url=list_url("/agents/environments", str(query)),
    )


@router.get("", response_class=HTMLResponse)
def agents(request: Request, pages: PagesOf, q: SearchText = "", start: Start = 0) -> HTMLResponse:
    """Show the agents that match a filter, and what changed of them in its period, by default in the last days."""
    names = (*NAMES, "since", "until")
    query = parse_query(q, names, pages.engine.clock.now())
    known = agents_of(pages.engine)
    found = matching(map(agent_row, known), query)
    matched = {(row.namespace, row.name) for row in found}
    changes = _changes(pages.engine, query, [one for one in known if (one.ref.namespace, one.ref.name) in matched])
    shown, following = page_of(found, start, _ROWS)
    return pages.show(
        request,
        "agents.html",
        rows=shown,
        has_tokens=any(row.tokens is not None for row in found),
        matched=len(found),
        total=len(known),
        query=query,
        names=names,
        start=start,
        following=following,
        page_size=_ROWS,
        changes=changes[:CHANGES],
        more=len(changes) - CHANGES,
        days=_DAYS,
        url=list_url("/agents", str(query)),
    )


def _changes(backend: Backend, query: Query, agents: Sequence[FoundAgent]) -> list[AgentChange]:
    """Return what the latest syncs in the period of a filter changed of agents."""
    if query.since is None and query.until is None:
        query = replace(query, since=backend.clock.now() - timedelta(days=_DAYS))
    records = backend.records.history(query.application, limit=SYNCS) if agents else ()
    return agent_changes((record for record in records if query.is_in_time(record.started)), agents)
