"""What the reconciles of applications cost."""

from __future__ import annotations

from fastapi import APIRouter

from gitsync.ports import ApplicationView, Cost
from gitsync.server.api.models import CostModel, Limit, PageModel, StageModel, Start
from gitsync.server.pages.dependencies import BackendOf
from gitsync.server.pages.paging import list_url, page_of

router = APIRouter(tags=["lists"])


@router.get("/costs")
def costs(backend: BackendOf, limit: Limit = 100, start: Start = 0) -> PageModel[CostModel]:
    """Return what the reconciles of each application cost since this process started, the most CPU time first."""
    rows = [_row(view, backend.view.cost(view.key)) for view in backend.view.applications()]
    rows.sort(key=lambda row: (-row.cpu_seconds, row.namespace, row.name))
    shown, following = page_of(rows, start, limit)
    url = list_url("/api/v1/costs", "", limit=str(limit), start=str(following)) if following else ""
    return PageModel(items=list(shown), total=len(rows), next=url)


def _row(view: ApplicationView, cost: Cost) -> CostModel:
    namespace, _, name = view.key.partition("/")
    total = cost.total
    slowest = max(cost.stages, key=lambda stage: cost.stages[stage].seconds, default="")
    return CostModel(
        namespace=namespace,
        name=name,
        objects=len(view.resources),
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
    )
