"""The agents of all applications, and one agent with its rollout, prompts, children and events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Request
from fastapi import Query as QueryParameter
from fastapi.responses import HTMLResponse

from gitsync.errors import GitsyncError
from gitsync.objects.manifest import at, group_of
from gitsync.objects.ref import ObjectRef
from gitsync.ports import KubernetesEvent
from gitsync.server.backend import Backend
from gitsync.server.formatting import visible
from gitsync.server.pages.dependencies import BackendOf, PagesOf, SearchText, Start
from gitsync.server.pages.object import LOGGED
from gitsync.server.pages.paging import list_url, page_of
from gitsync.server.rows.agent_changes import AgentChange, agent_changes
from gitsync.server.rows.agents import (
    NAMES,
    FoundAgent,
    agent_row,
    evaluation_of,
    find_agents,
    matching,
    prompt_diff,
    prompt_history,
)
from gitsync.server.rows.environments.matrix import ASPECTS, matrix
from gitsync.server.rows.environments.matrix import environments as environments_of
from gitsync.server.rows.environments.prompts import PromptVersion, prompt_versions
from gitsync.server.rows.query import Query, parse_query
from gitsync.server.rows.systems.find import brokers_of, find_system, policies_of
from gitsync.server.rows.systems.graph import HEIGHT, WIDTH, system_graph

router = APIRouter(prefix="/agents")

_ROWS, _CHANGES, _SYNCS, _DAYS = 80, 20, 200, 7
Version = Annotated[str, QueryParameter(max_length=600)]
_LINES = 300
"""Rows of two prompts that are compared."""
_CELLS, _COLUMNS = 80, 8
"""Cells of a page, and the environments that are shown."""


def agents_of(backend: BackendOf) -> list[FoundAgent]:
    """Return the agents of all applications."""
    view, tokens = backend.view, backend.usage.by_service()
    found = find_agents(view.applications(), view.live, view.owned_by)
    return [replace(one, tokens=tokens.get((one.ref.namespace, one.ref.name))) for one in found] if tokens else found


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


@router.get("/{namespace}/{name}/prompts", response_class=HTMLResponse)
def prompts(
    request: Request,
    pages: PagesOf,
    namespace: str,
    name: str,
    before: Version = "",
    after: Version = "",
    mode: str = "",
) -> HTMLResponse:
    """Compare two versions of an agent's prompts word by word, by default that of now with another."""
    versions = versions_of(pages.engine, namespace, name)
    keys = {one.key: one for one in versions}
    new = keys.get(after) or next(iter(versions), None)
    old = keys.get(before) or next((one for one in versions if new is not None and one.text != new.text), new)
    return pages.show(
        request,
        "agent_prompts.html",
        namespace=namespace,
        name=name,
        versions=versions,
        old=old,
        new=new,
        mode="split" if mode == "split" else "unified",
        rows=prompt_diff(old.text, new.text, _LINES) if old and new and old.text != new.text else (),
    )


@router.get("/{namespace}/{name}", response_class=HTMLResponse)
def agent(request: Request, pages: PagesOf, namespace: str, name: str) -> HTMLResponse:
    """Show one agent."""
    backend = pages.engine
    found = _agent(agents_of(backend), namespace, name)
    events, problem = _events(backend, found)
    syncs = backend.records.history(found.application, limit=_SYNCS)
    return pages.show(
        request,
        "agent.html",
        row=agent_row(found),
        ref=found.ref,
        description=visible(str(at(found.live, "spec", "description", default=""))),
        owner=visible(str(at(found.live, "spec", "owner", default=""))),
        address=visible(str(at(found.live, "status", "url", default=""))),
        conditions=[one for one in at(found.live, "status", "conditions") or () if isinstance(one, dict)],
        children=_children(found),
        evaluation=evaluation_of(found.live),
        prompts=prompt_history(found, backend.view.owned_by, syncs),
        changes=agent_changes(syncs, [found])[:_CHANGES],
        events=events,
        problem=problem,
    )


def _children(found: FoundAgent) -> list[dict[str, Any]]:
    """Return the children that the status of an agent lists, with the paths of their pages."""
    listed = (one for one in at(found.live, "status", "children") or () if isinstance(one, dict))
    children = []
    for one in listed:
        kind, group = str(one.get("kind", "")), group_of(str(one.get("apiVersion", "")))
        ref = ObjectRef(group, kind, found.ref.namespace, str(one.get("name", "")))
        children.append({**one, "path": ref.path, "has_logs": kind in LOGGED})
    return children


def versions_of(backend: BackendOf, namespace: str, name: str) -> list[PromptVersion]:
    """Return the versions of an agent's prompts that can be compared."""
    known = agents_of(backend)
    found = _agent(known, namespace, name)
    syncs = backend.records.history(found.application, limit=_SYNCS)
    return prompt_versions(found, known, prompt_history(found, backend.view.owned_by, syncs), syncs)


def _agent(known: Sequence[FoundAgent], namespace: str, name: str) -> FoundAgent:
    found = next((one for one in known if (one.ref.namespace, one.ref.name) == (namespace, name)), None)
    if found is None:
        raise HTTPException(404, f"No agent {visible(namespace)}/{visible(name)} in any application.")
    return found


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
