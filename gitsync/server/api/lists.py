"""
Lists over all applications, each with the filter of its page, and one of what they list.

Applications, objects, changes, drift, ApplicationSets, agents, costs and pull requests.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import reduce
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request

from gitsync.objects.manifest import at, metadata_of
from gitsync.ports import ApplicationView, Cost, OtherProcesses
from gitsync.server.api.models import (
    AgentModel,
    ApplicationDetail,
    ApplicationModel,
    ApplicationSetDetail,
    ApplicationSetModel,
    ChangeModel,
    CostModel,
    DriftModel,
    DriftPage,
    EnvironmentModel,
    FieldModel,
    Limit,
    ObjectModel,
    PageModel,
    PastDriftModel,
    PastFieldModel,
    PodModel,
    PolicySummaryModel,
    PromptModel,
    ProposalDetail,
    ProposalModel,
    SettingModel,
    StageModel,
    Start,
    UpdateModel,
    VerdictModel,
    ViolationModel,
)
from gitsync.server.dependencies import BackendOf, SearchText, UserOf, ViewOf, agent_or_404
from gitsync.server.formatting import visible
from gitsync.server.queries import agents as agent_list
from gitsync.server.queries import applications as app_rows
from gitsync.server.queries import drift as drift_list
from gitsync.server.queries import object_list, timeline
from gitsync.server.queries import proposals as proposal_list
from gitsync.server.queries.applications import AppRow
from gitsync.server.queries.drift import corrected
from gitsync.server.queries.environments import flat, matrix
from gitsync.server.queries.fields import FieldRow
from gitsync.server.queries.filters import Filter, list_url, page_of, parse_query
from gitsync.server.queries.objects import ResourceRow, resource_row
from gitsync.server.queries.prompts import versions_of
from gitsync.server.queries.timeline import Position

router = APIRouter(tags=["lists"])
pull_request_router = APIRouter(tags=["pull requests"])


@router.get("/applications")
def applications(
    backend: BackendOf, q: SearchText = "", limit: Limit = 100, start: Start = 0
) -> PageModel[ApplicationModel]:
    """Return the applications that match, those that need a person first."""
    query = parsed(backend, q, app_rows.NAMES)
    rows = app_rows.matching(app_rows.app_rows(backend.view.applications()), query)
    shown, following = page_of(rows, start, limit)
    items = [ApplicationModel(**_members(row)) for row in shown]
    return PageModel(items=items, total=len(rows), next=next_url("applications", q, limit, following))


@router.get("/applications/{namespace}/{name}")
def application(backend: BackendOf, view: ViewOf) -> ApplicationDetail:
    """Return one application with the status of its custom resource."""
    return ApplicationDetail(**_members(app_rows.app_row(view)), status=dict(view.status))


@router.get("/policies")
def policies(backend: BackendOf, user: UserOf) -> list[PolicySummaryModel]:
    """Return who may do what: each tenant and policy with its applications, and what these lack."""
    return [
        PolicySummaryModel(
            kind=policy.kind,
            name=policy.name,
            settings=[SettingModel.model_validate(setting) for setting in policy.settings],
            applications=list(policy.applications),
            violations=[ViolationModel(application=key, reason=reason) for key, reason in policy.violations],
        )
        for policy in app_rows.policy_summaries(backend, user)
    ]


@router.get("/objects")
def objects(backend: BackendOf, q: SearchText = "", limit: Limit = 100, start: Start = 0) -> PageModel[ObjectModel]:
    """Return the objects that match, those with problems first."""
    query = parsed(backend, q, object_list.NAMES)
    matched = object_list.matching(object_list.all_objects(backend.view.applications()), query)
    shown, following = page_of(matched, start, limit)
    items = [object_model(item.application, resource_row(item.view)) for item in shown]
    return PageModel(items=items, total=len(matched), next=next_url("objects", q, limit, following))


@router.get("/changes")
def changes(
    backend: BackendOf,
    q: SearchText = "",
    limit: Limit = 100,
    before: Annotated[str, Query(max_length=80, description="Where the page begins; from ``next``.")] = "",
) -> PageModel[ChangeModel]:
    """Return commits with their syncs, drift, decisions and requests, newest first."""
    query = parsed(backend, q, timeline.NAMES)
    page = timeline.changes(backend, query, Position.parse(before), limit)
    older = page.older
    following = list_url("/api/v1/changes", q, limit=str(limit), before=str(older)) if older is not None else ""
    return PageModel(items=[ChangeModel.model_validate(entry) for entry in page.entries], next=following)


@router.get("/drift")
def drift(backend: BackendOf, q: SearchText = "", limit: Limit = 100, start: Start = 0) -> DriftPage:
    """Return the objects that were changed in the cluster, the riskiest first, and the fields that were corrected."""
    query = parsed(backend, q, drift_list.NAMES)
    writes = drift_list.received_writes(backend.records, query.application)
    rows = drift_list.drift_rows(backend.view.applications(), query, writes)
    shown, following = page_of(rows, start, limit)
    items = [
        DriftModel(
            application=row.application,
            object=str(row.ref),
            ref=row.ref.path,
            risk=row.risk.risk.value,
            reason=row.risk.reason,
            action=row.action,
            managers=list(row.managers),
            persons=list(row.persons),
            since=row.since,
            fields=[field_model(item) for item in row.fields],
        )
        for row in shown
    ]
    past = [
        PastDriftModel(
            application=row.application,
            object=str(row.ref),
            path=row.path,
            manager=row.manager,
            times=row.times,
            last=row.last,
            repaired_seconds=row.repaired.total_seconds(),
        )
        for row in corrected(backend, query)[:limit]
    ]
    return DriftPage(
        items=items,
        total=len(rows),
        next=next_url("drift", q, limit, following),
        corrected=past,
        pods=[
            PodModel(
                application=row.application,
                object=str(row.ref),
                ref=row.ref.path,
                pod=row.pod,
                kind=row.kind,
                message=row.message,
                since=row.since,
            )
            for row in drift_list.pod_rows(backend.view.applications(), query)[:limit]
        ],
    )


@router.get("/drift/history")
def drift_of_the_past(
    backend: BackendOf,
    q: SearchText = "",
    limit: Limit = 100,
    before: Annotated[int, Query(ge=0, lt=1 << 62, description="Where the page begins; from ``next``.")] = 0,
) -> PageModel[PastFieldModel]:
    """Return what others changed before now, and how that ended, newest first."""
    query = parsed(backend, q, drift_list.PAST_NAMES)
    page = drift_list.drift_history(backend.records, query, limit=limit, before=before)
    items = [
        PastFieldModel.model_validate(
            {
                "application": field.application,
                "object": str(field.ref),
                "ref": field.ref.path,
                "pod": visible(field.pod),
                "path": visible(field.path),
                "from": field.declared,
                "to": field.changed_to,
                "manager": visible(field.manager),
                "person": visible(field.person),
                "edited": field.edited,
                "detected": field.detected,
                "ended": field.ended,
                "by": field.by.value,
                "seconds": field.seconds,
            }
        )
        for field in page.fields
    ]
    following = list_url("/api/v1/drift/history", q, limit=str(limit), before=str(page.older)) if page.older else ""
    return PageModel(items=items, next=following)


@router.get("/applicationsets")
def application_sets(
    backend: BackendOf, q: SearchText = "", limit: Limit = 100, start: Start = 0
) -> PageModel[ApplicationSetModel]:
    """Return the ApplicationSets that match, those that wait for a person or failed first."""
    rows = app_rows.matching_sets(map(app_rows.set_row, backend.sets.sets()), parsed(backend, q, app_rows.SET_NAMES))
    shown, following = page_of(rows, start, limit)
    items = [ApplicationSetModel.model_validate(row) for row in shown]
    return PageModel(items=items, total=len(rows), next=next_url("applicationsets", q, limit, following))


@router.get("/applicationsets/{namespace}/{name}")
def application_set(backend: BackendOf, namespace: str, name: str) -> ApplicationSetDetail:
    """Return one ApplicationSet with the status of its custom resource."""
    # the sets that this user may see: a hidden one answers 404 as well, which does not confirm that it exists
    for manifest in backend.sets.sets():
        meta = metadata_of(manifest)
        if (meta.get("namespace"), meta.get("name")) == (namespace, name):
            return ApplicationSetDetail(**asdict(app_rows.set_row(manifest)), status=dict(manifest.get("status") or {}))
    raise HTTPException(404, f"ApplicationSet {visible(namespace)}/{visible(name)} not found.")


@router.get("/agents")
def agents(backend: BackendOf, q: SearchText = "", limit: Limit = 100, start: Start = 0) -> PageModel[AgentModel]:
    """Return the agents that match, by namespace and name."""
    agent_rows = map(agent_list.agent_row, agent_list.agents_of(backend))
    rows = agent_list.matching(agent_rows, parsed(backend, q, agent_list.NAMES))
    shown, following = page_of(rows, start, limit)
    items = [AgentModel.model_validate(row) for row in shown]
    return PageModel(items=items, total=len(rows), next=next_url("agents", q, limit, following))


@router.get("/agents/environments")
def agent_environments(
    backend: BackendOf, q: SearchText = "", limit: Limit = 100, start: Start = 0
) -> PageModel[EnvironmentModel]:
    """Return the agents that match in each environment, by name and from dev to prod."""
    agent_rows = map(agent_list.agent_row, agent_list.agents_of(backend))
    rows = agent_list.matching(agent_rows, parsed(backend, q, agent_list.NAMES))
    # paged by cell: an answer has one size however many environments there are
    cells = [cell for line in matrix(rows) for cell in line.cells]
    shown, following = page_of(cells, start, limit)
    items = [EnvironmentModel(**flat(cell)) for cell in shown]
    return PageModel(items=items, total=len(cells), next=next_url("agents/environments", q, limit, following))


@router.get("/agents/{namespace}/{name}/prompts")
def agent_prompts(backend: BackendOf, namespace: str, name: str) -> PageModel[PromptModel]:
    """Return the versions of an agent's prompts: of now, in other environments, in Git, kept ones, those of syncs."""
    # all agents, not only this one: its counterparts in other environments have versions too
    known = agent_list.agents_of(backend)
    versions = versions_of(backend, known, agent_or_404(backend, known, namespace, name))
    return PageModel(items=[PromptModel.model_validate(version) for version in versions], total=len(versions))


@router.get("/costs")
def costs(request: Request, backend: BackendOf, limit: Limit = 100, start: Start = 0) -> PageModel[CostModel]:
    """Return what each application cost since the processes of this machine started, the most CPU time first."""
    others: OtherProcesses = request.app.state.others
    reports = others()

    def cost(key: str) -> Cost:
        # Applications move between the processes of a machine, so that several may have costs of one
        return reduce(
            Cost.plus, (report.costs[key] for report in reports if key in report.costs), backend.view.cost(key)
        )

    rows = [
        _cost_row(view, cost(view.key), elsewhere=backend.is_replica and not backend.owns(view.key))
        for view in backend.view.applications()
    ]
    rows.sort(key=lambda row: (-row.cpu_seconds, row.namespace, row.name))
    shown, following = page_of(rows, start, limit)
    url = list_url("/api/v1/costs", "", limit=str(limit), start=str(following)) if following else ""
    return PageModel(items=list(shown), total=len(rows), next=url)


def _cost_row(view: ApplicationView, cost: Cost, *, elsewhere: bool) -> CostModel:
    namespace, _, name = view.key.partition("/")
    total = cost.total
    slowest = max(cost.stages, key=lambda stage: cost.stages[stage].seconds, default="")
    return CostModel(
        namespace=namespace,
        name=name,
        # objects of another process are not in memory here: the status has their number
        objects=len(view.resources) or int(at(view.status, "resources", "total", default=0)),
        reconciles=cost.full,
        partial=cost.partial,
        api_requests=cost.requests,
        seconds=round(total.seconds, 4),
        cpu_seconds=round(total.cpu, 4),
        slowest=slowest,
        stages={
            stage: StageModel(seconds=round(spent.seconds, 4), cpu_seconds=round(spent.cpu, 4))
            for stage, spent in cost.stages.items()
        },
        elsewhere=elsewhere,
    )


@pull_request_router.get("/pulls")
def pull_requests(
    backend: BackendOf, q: SearchText = "", limit: Limit = 100, start: Start = 0
) -> PageModel[ProposalModel]:
    """Return the pull requests that wait, those updated last first."""
    rows = proposal_list.proposal_rows(backend.pull_requests, parsed(backend, q, proposal_list.NAMES))
    shown, following = page_of(rows, start, limit)
    items = [ProposalModel.model_validate(row) for row in shown]
    return PageModel(items=items, total=len(rows), next=next_url("pulls", q, limit, following))


@pull_request_router.get("/updates")
def updates(backend: BackendOf, limit: Limit = 100, start: Start = 0) -> PageModel[UpdateModel]:
    """Return the images and values of other environments that can be taken, what waits and why."""
    rows = proposal_list.update_rows(backend.updates)
    shown, following = page_of(rows, start, limit)
    items = [UpdateModel.model_validate(row) for row in shown]
    return PageModel(items=items, total=len(rows), next=next_url("updates", "", limit, following))


@pull_request_router.get("/pulls/{key}")
def pull_request(backend: BackendOf, key: str) -> ProposalDetail:
    """Return one pull request with its preview."""
    view = proposal_list.find_proposal(backend.pull_requests, key)
    if view is None:
        raise HTTPException(404, "This pull request does not wait any more.")
    members = ProposalModel.model_validate(proposal_list.proposal_row(view)).model_dump()
    report = view.report.model_dump(mode="json") if view.report is not None else None
    return ProposalDetail(**members, base=view.base, report=report)


def object_model(application: str, row: ResourceRow) -> ObjectModel:
    """Return an object of a list."""
    return ObjectModel(application=application, **object_members(row))


def object_members(row: ResourceRow) -> dict[str, str]:
    """Return the members of an object that all answers have."""
    return {name: getattr(row, name) for name in ObjectModel.model_fields if name != "application"}


def field_model(row: FieldRow) -> FieldModel:
    """Return a field that differs."""
    # members that a row has only by its origin
    of_origin = ("where", "commit", "author")
    members = {name: getattr(row, name) for name in FieldModel.model_fields if name not in of_origin}
    if row.origin is None:
        return FieldModel(**members)
    by = row.origin.author
    return FieldModel(
        **members,
        where=row.origin.where,
        commit=by.id if by is not None else "",
        # free text of the author of a commit: it may hold characters that mislead a reader
        author=visible(by.author or by.email) if by is not None else "",
    )


def _members(row: AppRow) -> dict[str, Any]:
    also = [VerdictModel.model_validate(verdict) for verdict in row.also]
    renamed = {"since": row.since_time, "objects": row.resources, "also": also}
    names = (name for name in ApplicationModel.model_fields if name not in renamed)
    return {**{name: getattr(row, name) for name in names}, **renamed}


def parsed(backend: BackendOf, q: str, names: tuple[str, ...]) -> Filter:
    """Return a filter; answer 422 to one that is not valid."""
    query = parse_query(q, names, backend.clock.now())
    if query.problem:
        # not an empty list: that would read as a filter without a match
        raise HTTPException(422, query.problem)
    return query


def next_url(path: str, q: str, limit: int, following: int) -> str:
    """Return the URL of the following page of a list, empty at the end."""
    return list_url(f"/api/v1/{path}", q, limit=str(limit), start=str(following)) if following else ""
