"""Pull requests, and branches that are previewed as they are."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException

from gitsync.server.api.lists import next_url, parsed
from gitsync.server.api.models import Limit, PageModel, ProposalDetail, ProposalModel, Start
from gitsync.server.dependencies import BackendOf, SearchText
from gitsync.server.paging import page_of
from gitsync.server.queries.proposals import NAMES, find_proposal, proposal_row, proposal_rows

router = APIRouter(tags=["pull requests"])


@router.get("/pulls")
def pull_requests(
    backend: BackendOf, q: SearchText = "", limit: Limit = 100, start: Start = 0
) -> PageModel[ProposalModel]:
    """Return the pull requests that wait, those updated last first."""
    rows = proposal_rows(backend.pull_requests, parsed(backend, q, NAMES))
    shown, following = page_of(rows, start, limit)
    items = [ProposalModel.model_validate(row) for row in shown]
    return PageModel(items=items, total=len(rows), next=next_url("pulls", q, limit, following))


@router.get("/pulls/{key}")
def pull_request(backend: BackendOf, key: str) -> ProposalDetail:
    """Return one pull request with its preview."""
    view = find_proposal(backend.pull_requests, key)
    if view is None:
        raise HTTPException(404, "This pull request does not wait any more.")
    members = ProposalModel.model_validate(proposal_row(view)).model_dump()
    report = view.report.model_dump(mode="json") if view.report is not None else None
    return ProposalDetail(**members, base=view.base, report=report)
