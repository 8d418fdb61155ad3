"""The objects of one application: differences, tree, manifests, Events and logs; its syncs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, HTTPException, Query
from fastapi.responses import PlainTextResponse

from gitsync.objects.manifest import at
from gitsync.objects.phase import SyncStatus
from gitsync.objects.record import Step, SyncRecord
from gitsync.objects.ref import ref_of
from gitsync.plan.display import declared_content
from gitsync.ports import ApplicationView, LogRequest, ResourceView
from gitsync.server.api.lists import field_model, object_members
from gitsync.server.api.models import (
    EventModel,
    Limit,
    NodeModel,
    ObjectDetail,
    ObjectDiff,
    PageModel,
    RelationModel,
    Start,
    StepModel,
    SyncModel,
)
from gitsync.server.backend import Backend
from gitsync.server.dependencies import BackendOf, FoundOf, SyncId, ViewOf
from gitsync.server.queries.differences import object_differences, unpaired
from gitsync.server.queries.filters import page_of
from gitsync.server.queries.object_details import events_of, pods_of, related, telling_log
from gitsync.server.queries.objects import by_severity, foreign_fields
from gitsync.server.queries.tree import TreeNode, tree

router = APIRouter(prefix="/applications/{namespace}/{name}", tags=["one application"])


@router.get("/diff")
def diff(backend: BackendOf, view: ViewOf, limit: Limit = 100, start: Start = 0) -> PageModel[ObjectDiff]:
    """Return the objects that differ from Git, or have fields that others added, those with problems first."""
    differing = [item for item in unpaired(view) if item.sync != SyncStatus.SYNCED or foreign_fields(item)]
    shown, following = page_of(sorted(differing, key=by_severity), start, limit)
    path = f"/api/v1/applications/{view.key}/diff?limit={limit}&start={following}"
    items = [_diff(backend, view, item) for item in shown]
    return PageModel(items=items, total=len(differing), next=path if following else "")


@router.get("/tree")
def resource_tree(backend: BackendOf, view: ViewOf) -> list[NodeModel]:
    """Return the objects by kind, and under each what it owns, down to the Pods."""
    groups, _ = tree(view.resources, backend.view.owned_by)
    return [_node(node) for node in groups]


@router.get("/object")
def one_object(backend: BackendOf, view: ViewOf, subject: FoundOf) -> ObjectDetail:
    """Return an object with its differences, relations and both manifests; Secret values are masked."""
    if subject.item is None:
        raise HTTPException(
            404, f"{subject.ref} is a part of an object of this application: see /tree, /events, /logs."
        )
    relations = [
        RelationModel(relation=item.relation if name == "uses" else name, object=str(item.ref), ref=item.ref.path)
        for name, items in related(subject).items()
        for item in items
    ]
    # a controller may write null
    conditions = at(subject.live, "status", "conditions", default=[]) or []
    return ObjectDetail(
        **_diff(backend, view, subject.item).model_dump(),
        # a status is written by any controller: what is not a condition is left out
        conditions=[item for item in conditions if isinstance(item, dict)],
        relations=relations,
        live_manifest=dict(subject.live) if subject.live is not None else None,
        git_manifest=dict(declared_content(subject.desired)) if subject.desired is not None else None,
    )


@router.get("/events")
def events(backend: BackendOf, subject: FoundOf) -> list[EventModel]:
    """Return the Kubernetes Events about an object, newest first, read from the API server now."""
    return [EventModel.model_validate(event) for event in events_of(backend, subject)]


@router.get("/logs", response_class=PlainTextResponse)
def logs(
    backend: BackendOf,
    subject: FoundOf,
    # the longest names that Kubernetes allows: DNS subdomains have 253 characters, labels 63
    pod: Annotated[str, Query(max_length=253)] = "",
    container: Annotated[str, Query(max_length=63)] = "",
    previous: bool = False,
    lines: Annotated[int, Query(ge=1, le=2000)] = 200,
    timestamps: bool = False,
) -> PlainTextResponse:
    """Return the last lines of the log of a container of a Pod that the object owns, or is."""
    pods = pods_of(backend, subject.live)
    # among the Pods of the object only: a name alone would open the logs of every Pod of the namespace
    chosen = next((item for item in pods if not pod or ref_of(item).name == pod), None)
    if chosen is None:
        raise HTTPException(404, f"{subject.ref} has no such Pod.")
    ref = ref_of(chosen)
    name = container or telling_log(chosen).container
    asked = LogRequest(ref.namespace, ref.name, name, is_previous=previous, lines=lines, has_times=timestamps)
    return PlainTextResponse(backend.details.logs(asked))


@router.get("/history")
def history(backend: BackendOf, view: ViewOf, limit: Limit = 20, before: SyncId = 0) -> PageModel[SyncModel]:
    """Return the syncs of an application, newest first, without their steps."""
    records = backend.records.history(view.key, limit=limit, before=before)
    path = f"/api/v1/applications/{view.key}/history?limit={limit}&before={records[-1].id if records else 0}"
    # a full page may be the last one: the next is empty then
    return PageModel(items=[_sync(record) for record in records], next=path if len(records) == limit else "")


@router.get("/history/{id}")
def sync(backend: BackendOf, view: ViewOf, id: int) -> SyncModel:
    """Return one sync with its steps."""
    record = backend.records.record(id) if 0 < id < 1 << 62 else None
    # ids count over all Applications: a user of this one may not be allowed to see another
    if record is None or record.application != view.key:
        raise HTTPException(404, "There is no such sync, or it is older than the history that is kept.")
    return _sync(record).model_copy(update={"steps": [_step(step) for step in record.steps]})


def _diff(backend: Backend, view: ApplicationView, item: ResourceView) -> ObjectDiff:
    (differences,) = object_differences(backend, view, [item])
    return ObjectDiff(
        application=view.key,
        **object_members(differences.row),
        fields=[field_model(row) for row in differences.fields],
        added=[field_model(row) for row in differences.foreign],
        drift_risk=differences.drift.risk.value if differences.drift is not None else "",
        drift_reason=differences.drift.reason if differences.drift is not None else "",
        running=list(differences.running),
    )


def _node(node: TreeNode) -> NodeModel:
    return NodeModel(
        kind=node.kind,
        name=node.name,
        ref=node.path,
        health=node.health,
        sync=node.sync,
        reason=node.reason,
        count=node.count,
        children=[_node(child) for child in node.children],
    )


def _sync(record: SyncRecord) -> SyncModel:
    return SyncModel(
        id=record.id,
        application=record.application,
        commit=record.commit.id,
        author=record.commit.author,
        message=record.commit.subject,
        trigger=record.trigger,
        initiator=record.initiator,
        approver=record.approver,
        started=record.started,
        duration_ms=record.duration_ms,
        outcome=record.outcome.value,
        risk=record.risk,
        explanation=record.explanation,
        problem=record.message,
    )


def _step(step: Step) -> StepModel:
    return StepModel(
        object=step.ref,
        action=step.action,
        risk=step.risk,
        reason=step.message or step.reason,
        outcome=step.outcome.value,
        differences=list(step.differences),
    )
