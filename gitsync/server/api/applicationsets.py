"""The ApplicationSets: a list, and each with its status."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter, HTTPException

from gitsync.objects.manifest import metadata_of
from gitsync.server.api.lists import next_url, parsed
from gitsync.server.api.models import ApplicationSetDetail, ApplicationSetModel, Limit, PageModel, Start
from gitsync.server.formatting import visible
from gitsync.server.pages.dependencies import BackendOf, SearchText
from gitsync.server.pages.paging import page_of
from gitsync.server.rows.applicationsets.sets import NAMES, matching, set_row

router = APIRouter(prefix="/applicationsets", tags=["lists"])


@router.get("")
def application_sets(
    backend: BackendOf, q: SearchText = "", limit: Limit = 100, start: Start = 0
) -> PageModel[ApplicationSetModel]:
    """Return the ApplicationSets that match, those that wait for a person or failed first."""
    found = matching(map(set_row, backend.sets.sets()), parsed(backend, q, NAMES))
    shown, following = page_of(found, start, limit)
    items = [ApplicationSetModel.model_validate(row) for row in shown]
    return PageModel(items=items, total=len(found), next=next_url("applicationsets", q, limit, following))


@router.get("/{namespace}/{name}")
def application_set(backend: BackendOf, namespace: str, name: str) -> ApplicationSetDetail:
    """Return one ApplicationSet with the status of its custom resource."""
    for one in backend.sets.sets():
        meta = metadata_of(one)
        if (meta.get("namespace"), meta.get("name")) == (namespace, name):
            return ApplicationSetDetail(**asdict(set_row(one)), status=dict(one.get("status") or {}))
    raise HTTPException(404, f"ApplicationSet {visible(namespace)}/{visible(name)} not found.")
