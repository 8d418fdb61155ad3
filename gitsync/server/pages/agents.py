"""The agents of all applications, and one agent with its rollout, prompts, children and events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse

from gitsync.errors import GitsyncError
from gitsync.objects.manifest import at
from gitsync.ports import KubernetesEvent
from gitsync.server.backend import Backend
from gitsync.server.formatting import visible
from gitsync.server.pages.dependencies import BackendOf, PagesOf, SearchText, Start
from gitsync.server.pages.paging import list_url, page_of
from gitsync.server.rows.agent_changes import AgentChange, agent_changes
from gitsync.server.rows.agents import NAMES, FoundAgent, agent_row, find_agents, matching, prompt_history
from gitsync.server.rows.query import Query, parse_query
from gitsync.server.rows.systems.find import brokers_of, find_system, policies_of
from gitsync.server.rows.systems.graph import HEIGHT, WIDTH, system_graph

router = APIRouter(prefix="/agents")

_ROWS, _CHANGES, _SYNCS, _DAYS = 80, 20, 200, 7


def agents_of(backend: BackendOf) -> list[FoundAgent]:
    """Return the agents of all applications."""
    view = backend.view
    return find_agents(view.applications(), view.live, view.owned_by)


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
        matched=len(found),
        total=len(known),
        query=query,
        names=names,
        start=start,
        following=following,
        page_size=_ROWS,
        changes=changes[:_CHANGES],
        more=len(changes) - _CHANGES,
        days=_DAYS,
        url=list_url("/agents", str(query)),
    )


@router.get("/systems/{namespace}/{name}", response_class=HTMLResponse)
def system(request: Request, pages: PagesOf, namespace: str, name: str) -> HTMLResponse:
    """Show a system: its members, and who may talk to whom."""
    backend = pages.engine
    found = find_system(backend.view.applications(), backend.view.live, namespace, name)
    if found is None:
        raise HTTPException(404, f"No system {visible(namespace)}/{visible(name)} in any application.")
    agents = {one.ref.name: one.live for one in agents_of(backend) if one.ref.namespace == namespace}
    policies = policies_of(backend.view.applications(), namespace, agents.values(), backend.view.owned_by)
    return pages.show(
        request,
        "agent_system.html",
        name=name,
        namespace=namespace,
        application=found.application,
        phase=str(at(found.live, "status", "phase", default="Unknown")),
        ready=str(at(found.live, "status", "ready", default="0")),
        description=str(at(found.live, "spec", "description", default="")),
        owner=str(at(found.live, "spec", "owner", default="")),
        brokers=brokers_of(found.live),
        graph=system_graph(found.live, agents, policies),
        width=WIDTH,
        height=HEIGHT,
    )


@router.get("/{namespace}/{name}", response_class=HTMLResponse)
def agent(request: Request, pages: PagesOf, namespace: str, name: str) -> HTMLResponse:
    """Show one agent."""
    backend = pages.engine
    wanted = (namespace, name)
    found = next((one for one in agents_of(backend) if (one.ref.namespace, one.ref.name) == wanted), None)
    if found is None:
        raise HTTPException(404, f"No agent {visible(namespace)}/{visible(name)} in any application.")
    events, problem = _events(backend, found)
    return pages.show(
        request,
        "agent.html",
        row=agent_row(found),
        ref=found.ref,
        description=visible(str(at(found.live, "spec", "description", default=""))),
        owner=visible(str(at(found.live, "spec", "owner", default=""))),
        address=visible(str(at(found.live, "status", "url", default=""))),
        conditions=[one for one in at(found.live, "status", "conditions") or () if isinstance(one, dict)],
        children=[one for one in at(found.live, "status", "children") or () if isinstance(one, dict)],
        cases=[one for one in at(found.live, "status", "evaluation", "results") or () if isinstance(one, dict)],
        prompts=prompt_history(found, backend.view.owned_by),
        changes=agent_changes(backend.records.history(found.application, limit=_SYNCS), [found])[:_CHANGES],
        events=events,
        problem=problem,
    )


def _changes(backend: Backend, query: Query, agents: Sequence[FoundAgent]) -> list[AgentChange]:
    """Return what the latest syncs in the period of a filter changed of agents."""
    if query.since is None and query.until is None:
        query = replace(query, since=backend.clock.now() - timedelta(days=_DAYS))
    records = backend.records.history(query.application, limit=_SYNCS) if agents else ()
    return agent_changes((record for record in records if query.is_in_time(record.started)), agents)


def _events(backend: Backend, found: FoundAgent) -> tuple[tuple[KubernetesEvent, ...], str]:
    """Return the Kubernetes Events of an agent, or why they cannot be read."""
    try:
        return backend.details.events(found.ref), ""
    except GitsyncError as error:
        return (), visible(error)
