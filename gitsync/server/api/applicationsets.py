"""The ApplicationSets: a list, and each with its status."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter, HTTPException

from gitsync.objects.manifest import metadata_of
from gitsync.server.api.lists import next_url, parsed
from gitsync.server.api.models import ApplicationSetDetail, ApplicationSetModel, Limit, PageModel, Start
from gitsync.server.dependencies import BackendOf, SearchText
from gitsync.server.formatting import visible
from gitsync.server.paging import page_of
from gitsync.server.queries.application_sets import NAMES, matching, set_row

router = APIRouter(prefix="/applicationsets", tags=["lists"])


@router.get("")
def application_sets(
    backend: BackendOf, q: SearchText = "", limit: Limit = 100, start: Start = 0
) -> PageModel[ApplicationSetModel]:
    """Return the ApplicationSets that match, those that wait for a person or failed first."""
    rows = matching(map(set_row, backend.sets.sets()), parsed(backend, q, NAMES))
    shown, following = page_of(rows, start, limit)
    items = [ApplicationSetModel.model_validate(row) for row in shown]
    return PageModel(items=items, total=len(rows), next=next_url("applicationsets", q, limit, following))


@router.get("/{namespace}/{name}")
def application_set(backend: BackendOf, namespace: str, name: str) -> ApplicationSetDetail:
    """Return one ApplicationSet with the status of its custom resource."""
    # the sets that this user may see: a hidden one answers 404 as well, which does not confirm that it exists
    for manifest in backend.sets.sets():
        meta = metadata_of(manifest)
        if (meta.get("namespace"), meta.get("name")) == (namespace, name):
            return ApplicationSetDetail(**asdict(set_row(manifest)), status=dict(manifest.get("status") or {}))
    raise HTTPException(404, f"ApplicationSet {visible(namespace)}/{visible(name)} not found.")
