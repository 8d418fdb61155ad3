"""One agent with its rollout, prompts, children and events; one system with its members."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse

from gitsync.errors import GitsyncError
from gitsync.objects.manifest import at, group_of
from gitsync.objects.ref import ObjectRef
from gitsync.ports import KubernetesEvent
from gitsync.server.backend import Backend
from gitsync.server.formatting import visible
from gitsync.server.pages.agents.lists import CHANGES, SYNCS, agents_of, find_agent
from gitsync.server.pages.dependencies import PagesOf
from gitsync.server.pages.object import LOGGED
from gitsync.server.rows.agent_changes import agent_changes
from gitsync.server.rows.agents import FoundAgent, agent_row, evaluation_of, prompt_history
from gitsync.server.rows.systems.find import brokers_of, find_system, policies_of
from gitsync.server.rows.systems.graph import HEIGHT, WIDTH, system_graph

router = APIRouter(prefix="/agents")


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
    found = find_agent(agents_of(backend), namespace, name)
    events, problem = _events(backend, found)
    syncs = backend.records.history(found.application, limit=SYNCS)
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
        changes=agent_changes(syncs, [found])[:CHANGES],
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


def _events(backend: Backend, found: FoundAgent) -> tuple[tuple[KubernetesEvent, ...], str]:
    """Return the Kubernetes Events of an agent, or why they cannot be read."""
    try:
        return backend.details.events(found.ref), ""
    except GitsyncError as error:
        return (), visible(error)
