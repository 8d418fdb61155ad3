"""What the reconciles of applications cost."""

from __future__ import annotations

from functools import reduce

from fastapi import APIRouter, Request

from gitsync.objects.manifest import at
from gitsync.ports import ApplicationView, Cost, OtherProcesses
from gitsync.server.api.models import CostModel, Limit, PageModel, StageModel, Start
from gitsync.server.dependencies import BackendOf
from gitsync.server.paging import list_url, page_of

router = APIRouter(tags=["lists"])


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

    rows = [_row(view, cost(view.key)) for view in backend.view.applications()]
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
    )
