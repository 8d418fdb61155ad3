"""Lists over all applications: applications, objects, changes and drift, each with the filter of its page."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query

from gitsync.server.api.models import (
    ApplicationDetail,
    ApplicationModel,
    ChangeModel,
    DriftModel,
    DriftPage,
    FieldModel,
    Limit,
    ObjectModel,
    PageModel,
    PastDriftModel,
    PastFieldModel,
    PodModel,
    Start,
    VerdictModel,
)
from gitsync.server.dependencies import BackendOf, SearchText, ViewOf
from gitsync.server.formatting import visible
from gitsync.server.paging import list_url, page_of
from gitsync.server.queries import applications as app_rows
from gitsync.server.queries import drift as drift_list
from gitsync.server.queries import drift_history as past_list
from gitsync.server.queries import object_list, timeline
from gitsync.server.queries.applications import AppRow
from gitsync.server.queries.differences import changed_in_cluster
from gitsync.server.queries.drift import corrected
from gitsync.server.queries.fields import FieldRow
from gitsync.server.queries.filters import Filter, parse_query
from gitsync.server.queries.objects import ResourceRow, resource_row
from gitsync.server.queries.timeline import Position

router = APIRouter(tags=["lists"])


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
    rows = drift_list.drift_rows(backend.view.applications(), query, changed_in_cluster)
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
            repaired_seconds=row.repaired.total_seconds() if row.repaired is not None else None,
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
    query = parsed(backend, q, past_list.NAMES)
    page = past_list.drift_history(backend.records, query, limit=limit, before=before)
    items = [
        PastFieldModel.model_validate(
            {
                "application": field.application,
                "object": str(field.ref),
                "ref": field.ref.path,
                "path": visible(field.path),
                "from": field.declared,
                "to": field.changed_to,
                "manager": visible(field.manager),
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
