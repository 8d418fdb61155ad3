"""The agents of all applications: as a list with their changes, and by environment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Annotated, Final

from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi import Query as QueryParameter
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from gitsync.agents.budget import Prices, parse_prices
from gitsync.errors import GitsyncError, InvalidInput, TerminalError
from gitsync.health.assess import assess
from gitsync.objects.inventory import OwnerKey
from gitsync.objects.manifest import at
from gitsync.objects.record import SyncRecord
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.objects.user import User
from gitsync.operator.kinds import AGENT, SYSTEM
from gitsync.ports import KubernetesEvent
from gitsync.server.auth.security import check_form
from gitsync.server.backend import Backend
from gitsync.server.dependencies import (
    AgentKey,
    PagesOf,
    SearchText,
    Start,
    SystemKey,
    UserOf,
    agent_or_404,
    owner_missing,
)
from gitsync.server.formatting import app_url, parse_time, visible
from gitsync.server.pages.plan import ReviewDraft, Typed, decision_of
from gitsync.server.problems import status_of
from gitsync.server.queries.agent_changes import AgentChange, agent_changes, prompt_syncs
from gitsync.server.queries.agents import (
    NAMES,
    SYNCS,
    EvaluationRow,
    FoundAgent,
    agent_row,
    agents_of,
    budget_rows,
    contract_differences,
    find_agent,
    matching,
    prompt_diff,
    prompt_history,
    revision_times,
    role_rows,
)
from gitsync.server.queries.charts import Chart, figure_charts, usage_charts
from gitsync.server.queries.environments import ASPECTS, matrix, unordered
from gitsync.server.queries.environments import environments as environments_of
from gitsync.server.queries.filters import Filter, list_url, page_of, parse_query
from gitsync.server.queries.object_details import agent_children, log_pages, pod_facts, pods_of
from gitsync.server.queries.prompts import PromptVersion, versions_of
from gitsync.server.queries.systems import HEIGHT, WIDTH, brokers_of, find_system, policies_of, system_graph
from gitsync.server.queries.waiting import find_held_owner, line, owner_plans, reviewer
from gitsync.server.templates import Pages, leave_notice
from gitsync.services.reviews import Approval, OwnerReviews

router = APIRouter(prefix="/agents")

CHANGES: Final = 20
"""Changes that a page shows."""
_ROWS = 80
_PODS = 100
_DAYS = 7
_PERIODS: Final = tuple(timedelta(hours=hours) for hours in (1, 6, 24, 7 * 24))
"""Periods of the charts of an agent."""
_CELLS = 80
_COLUMNS = 8
"""Cells of a page, and the environments that are shown."""


@router.get("/environments", response_class=HTMLResponse)
def environments(request: Request, pages: PagesOf, q: SearchText = "", start: Start = 0) -> HTMLResponse:
    """Show the agents that match a filter as rows, their environments as columns."""
    query = parse_query(q, NAMES, pages.engine.clock.now())
    known = agents_of(pages.engine)
    rows = matching(map(agent_row, known), query)
    columns = environments_of(rows)
    lines = matrix(rows)
    # cells of a page are bounded, not rows: with more environments a page has fewer agents
    size = max(_CELLS // max(len(columns[:_COLUMNS]), 1), 1)
    shown, following = page_of(lines, start, size)
    return pages.show(
        request,
        "agent_environments.html",
        lines=shown,
        columns=columns[:_COLUMNS],
        unordered=unordered(columns),
        syncs=_prompt_syncs(pages.engine, known),
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


def _prompt_syncs(backend: Backend, agents: Sequence[FoundAgent]) -> dict[tuple[str, str], SyncRecord]:
    """Return the sync that wrote the prompts of each agent, by its namespace and name."""
    syncs = prompt_syncs(backend.records.history("", limit=SYNCS) if agents else (), agents)
    return {(ref.namespace, ref.name): record for ref, record in syncs.items()}


@router.get("", response_class=HTMLResponse)
def agents(request: Request, pages: PagesOf, q: SearchText = "", start: Start = 0) -> HTMLResponse:
    """Show the agents that match a filter, and what changed of them in its period, by default in the last days."""
    names = (*NAMES, "since", "until")
    query = parse_query(q, names, pages.engine.clock.now())
    known = agents_of(pages.engine)
    rows = matching(map(agent_row, known), query)
    matched = {(row.namespace, row.name) for row in rows}
    changes = _changes(
        pages.engine, query, [agent for agent in known if (agent.ref.namespace, agent.ref.name) in matched]
    )
    shown, following = page_of(rows, start, _ROWS)
    return pages.show(
        request,
        "agents.html",
        rows=shown,
        has_tokens=any(row.tokens is not None for row in rows),
        matched=len(rows),
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


def _changes(backend: Backend, query: Filter, agents: Sequence[FoundAgent]) -> list[AgentChange]:
    """Return what the latest syncs in the period of a filter changed of agents."""
    if query.since is None and query.until is None:
        query = replace(query, since=backend.clock.now() - timedelta(days=_DAYS))
    records = backend.records.history(query.application, limit=SYNCS) if agents else ()
    return agent_changes((record for record in records if query.is_in_time(record.started)), agents)


@router.get("/systems/{namespace}/{name}", response_class=HTMLResponse)
def system(request: Request, pages: PagesOf, namespace: str, name: str) -> HTMLResponse:
    """Show a system: its members, and who may talk to whom."""
    backend = pages.engine
    shown = find_system(backend.view.applications(), backend.view.live, namespace, name)
    if shown is None:
        text = f"No system {visible(namespace)}/{visible(name)} in any application."
        raise owner_missing(backend, str(OwnerKey(SYSTEM, namespace, name)), text)
    agents = {agent.ref.name: agent.live for agent in agents_of(backend) if agent.ref.namespace == namespace}
    policies = policies_of(backend.view.applications(), namespace, agents.values(), backend.view.owned_by)
    return pages.show(
        request,
        "agent_system.html",
        name=name,
        namespace=namespace,
        application=shown.application,
        phase=str(at(shown.live, "status", "phase", default="Unknown")),
        ready=str(at(shown.live, "status", "ready", default="0")),
        description=str(at(shown.live, "spec", "description", default="")),
        owner=str(at(shown.live, "spec", "owner", default="")),
        brokers=brokers_of(shown.live),
        graph=system_graph(shown.live, agents, policies),
        width=WIDTH,
        height=HEIGHT,
    )


@router.get("/systems/{namespace}/{name}/plan", response_class=HTMLResponse)
def system_plan(request: Request, pages: PagesOf, user: UserOf, owner: SystemKey) -> HTMLResponse:
    """Show the plan of a system that waits, and the form for its review."""
    return _show_plan(pages, request, user, owner)


@router.get("/{namespace}/{name}/plan", response_class=HTMLResponse)
def agent_plan(request: Request, pages: PagesOf, user: UserOf, owner: AgentKey) -> HTMLResponse:
    """Show the plan of an Agent that waits, and the form for its review."""
    return _show_plan(pages, request, user, owner)


def _show_plan(
    pages: Pages, request: Request, user: User, owner: OwnerKey, status: int = 200, draft: ReviewDraft | None = None
) -> HTMLResponse:
    item = next((item for item in owner_plans(pages.engine, user) if item.key == str(owner)), None)
    if item is None:
        raise HTTPException(404, f"No plan of {owner.of.kind} {visible(owner.namespace)}/{visible(owner.name)} waits.")
    return pages.show(request, "owner_plan.html", status, item=item, draft=draft)


@dataclass(frozen=True, slots=True)
class OwnerReviewForm:
    """What the form for a review of an Agent's or a system's plan sends."""

    digest: Typed = ""
    decision: Typed = ""
    by: Typed = ""
    reason: Typed = ""
    overrule: Typed = ""
    implicit: Typed = ""


@router.post("/systems/{namespace}/{name}/review", dependencies=[Depends(check_form)])
def review_system(
    request: Request, pages: PagesOf, user: UserOf, owner: SystemKey, form: Annotated[OwnerReviewForm, Depends()]
) -> Response:
    """Take a decision on the plan of a system."""
    return _review(pages, request, user, owner, form)


@router.post("/{namespace}/{name}/review", dependencies=[Depends(check_form)])
def review_agent(
    request: Request, pages: PagesOf, user: UserOf, owner: AgentKey, form: Annotated[OwnerReviewForm, Depends()]
) -> Response:
    """Take a decision on the plan of an Agent."""
    return _review(pages, request, user, owner, form)


def _review(pages: Pages, request: Request, user: User, owner: OwnerKey, form: OwnerReviewForm) -> Response:
    """Take a decision on exactly the plan that was shown; else show the plan as it is now and keep the text."""
    backend = pages.engine
    manifest = find_held_owner(backend, owner.ref)
    if manifest is None:
        raise HTTPException(404, f"No plan of {owner.of.kind} {visible(owner.namespace)}/{visible(owner.name)} waits.")
    reviews = OwnerReviews(backend.records, backend.requests, backend.clock, backend.policies.of)
    author = reviewer(user, form.by)
    try:
        # Enter in a text field submits the form by its first button, which is not a decision
        verb = decision_of("" if form.implicit else form.decision)
        if verb == "reject":
            reviews.reject(manifest, form.digest, author, line(form.reason))
        else:
            reviews.approve(manifest, form.digest, Approval(author, line(form.reason), bool(form.overrule)))
    except TerminalError as error:
        draft = ReviewDraft(str(error), form.by, form.reason)
        return _show_plan(pages, request, user, owner, status_of(error), draft)
    response = RedirectResponse("/approvals", 303)
    leave_notice(response, verb)
    return response


@router.get("/{namespace}/{name}", response_class=HTMLResponse)
def agent(request: Request, pages: PagesOf, namespace: str, name: str) -> Response:
    """Show one agent; of one that no Application holds, the plan that waits."""
    backend = pages.engine
    known = agents_of(backend)
    owner = OwnerKey(AGENT, namespace, name)
    if find_agent(known, namespace, name) is None and find_held_owner(backend, owner.ref) is not None:
        return RedirectResponse(app_url(str(owner)) + "/plan", 303)
    subject = agent_or_404(backend, known, namespace, name)
    events, problem = _events(backend, subject)
    pods = pods_of(backend, subject.live)[:_PODS]
    metrics = backend.pod_usage.by_pod() if pods else {}
    syncs = backend.records.history(subject.application, limit=SYNCS)
    children = agent_children(backend, subject)
    return pages.show(
        request,
        "agent.html",
        row=agent_row(subject),
        description=visible(str(at(subject.live, "spec", "description", default=""))),
        owner=visible(str(at(subject.live, "spec", "owner", default=""))),
        address=visible(str(at(subject.live, "status", "url", default=""))),
        # a controller may write null, or an item of another form
        conditions=[
            condition for condition in at(subject.live, "status", "conditions") or () if isinstance(condition, dict)
        ],
        children=children,
        pods=[(ref_of(pod), assess(pod).health.value, visible(str(pod_facts(pod, metrics)))) for pod in pods],
        charts=usage_charts(backend, subject.ref, pods, metrics),
        figures=_figures(backend, subject, syncs),
        contract=contract_differences(subject.live),
        budget=budget_rows(subject.live),
        budget_message=visible(str(at(subject.live, "status", "budget", "message", default=""))),
        roles=role_rows(subject, syncs),
        evaluation=EvaluationRow.of(subject.judged),
        prompts=prompt_history(subject, backend.view.owned_by, syncs),
        declared=[(visible(prompt.name), visible(prompt.text)) for prompt in subject.settings.prompts],
        prompt_sync=prompt_syncs(syncs, [subject]).get(subject.ref),
        logs=log_pages(subject, children),
        changes=agent_changes(syncs, [subject])[:CHANGES],
        events=events,
        problem=problem,
    )


def _figures(backend: Backend, subject: FoundAgent, syncs: Sequence[SyncRecord]) -> list[Chart]:
    """Return the charts of what Prometheus knows of an agent, since its oldest kept revision but not for longer."""
    now = backend.clock.now()
    begins = [time for item in subject.kept if (time := parse_time(item.created)) is not None]
    age = now - min(begins, default=now)
    # rounded up, so that the answers to a period are kept for all pages of a while
    period = next((known for known in _PERIODS if age <= known), _PERIODS[-1])
    series = backend.usage.over_time(subject.ref, period, _prices(backend, subject))
    return figure_charts(series, revision_times(subject, syncs))


def _prices(backend: Backend, subject: FoundAgent) -> Prices:
    """Return the prices of the models that the budget of an agent names; none where they cannot be read."""
    name, key = (str(at(subject.live, "spec", "budget", "prices", part, default="")) for part in ("name", "key"))
    table = backend.view.live(subject.application, ObjectRef("", "ConfigMap", subject.ref.namespace, name))
    try:
        return parse_prices(str(at(table or {}, "data", key, default="{}")), name)
    # the condition of the budget tells what is wrong with the table
    except InvalidInput:
        return {}


def _events(backend: Backend, subject: FoundAgent) -> tuple[tuple[KubernetesEvent, ...], str]:
    """Return the Kubernetes Events of an agent, or why they cannot be read."""
    try:
        return backend.details.events(subject.ref), ""
    except GitsyncError as error:
        # the page is shown without them: it may be read because the API server is ill
        return (), visible(error)


Version = Annotated[str, QueryParameter(max_length=600)]
_LINES = 300
"""Rows of two prompts that are compared."""


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
    known = agents_of(pages.engine)
    subject = agent_or_404(pages.engine, known, namespace, name)
    versions = versions_of(pages.engine, known, subject)
    # a version may have gone since the page was opened: the default one is compared
    new = _version(versions, after) or next(iter(versions), None)
    old = _version(versions, before) or next(
        (version for version in versions if new is not None and version.text != new.text), new
    )
    return pages.show(
        request,
        "agent_prompts.html",
        namespace=namespace,
        name=name,
        logs=log_pages(subject, agent_children(pages.engine, subject)),
        versions=versions,
        old=old,
        new=new,
        mode="split" if mode == "split" else "unified",
        rows=prompt_diff(old.text, new.text, _LINES) if old and new and old.text != new.text else (),
    )


def _version(versions: Sequence[PromptVersion], key: str) -> PromptVersion | None:
    """Return the version with a key, or the first prompt of now of the agent ``namespace/name``; None for no key."""
    return next((item for item in versions if item.key == key or (key and item.key.startswith(f"{key}/"))), None)
