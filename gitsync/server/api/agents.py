"""The agents of all applications, in each environment, and the versions of their prompts."""

from __future__ import annotations

from fastapi import APIRouter

from gitsync.server.api.lists import next_url, parsed
from gitsync.server.api.models import AgentModel, EnvironmentModel, Limit, PageModel, PromptModel, Start
from gitsync.server.dependencies import BackendOf, SearchText, agent_or_404
from gitsync.server.paging import page_of
from gitsync.server.queries.agents import NAMES, agent_row, agents_of, matching
from gitsync.server.queries.environments import flat, matrix
from gitsync.server.queries.prompts import versions_of

router = APIRouter(prefix="/agents", tags=["lists"])


@router.get("")
def agents(backend: BackendOf, q: SearchText = "", limit: Limit = 100, start: Start = 0) -> PageModel[AgentModel]:
    """Return the agents that match, by namespace and name."""
    rows = matching(map(agent_row, agents_of(backend)), parsed(backend, q, NAMES))
    shown, following = page_of(rows, start, limit)
    items = [AgentModel.model_validate(row) for row in shown]
    return PageModel(items=items, total=len(rows), next=next_url("agents", q, limit, following))


@router.get("/environments")
def agent_environments(
    backend: BackendOf, q: SearchText = "", limit: Limit = 100, start: Start = 0
) -> PageModel[EnvironmentModel]:
    """Return the agents that match in each environment, by name and from dev to prod."""
    rows = matching(map(agent_row, agents_of(backend)), parsed(backend, q, NAMES))
    # paged by cell: an answer has one size however many environments there are
    cells = [cell for line in matrix(rows) for cell in line.cells]
    shown, following = page_of(cells, start, limit)
    items = [EnvironmentModel(**flat(cell)) for cell in shown]
    return PageModel(items=items, total=len(cells), next=next_url("agents/environments", q, limit, following))


@router.get("/{namespace}/{name}/prompts")
def agent_prompts(backend: BackendOf, namespace: str, name: str) -> PageModel[PromptModel]:
    """Return the versions of an agent's prompts: of now, in other environments, in Git, kept ones, those of syncs."""
    # all agents, not only this one: its counterparts in other environments have versions too
    known = agents_of(backend)
    versions = versions_of(backend, known, agent_or_404(known, namespace, name))
    return PageModel(items=[PromptModel.model_validate(version) for version in versions], total=len(versions))
