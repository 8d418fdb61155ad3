"""Pull requests: what waits to be merged, what one of them will do, and the updates that can become one."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse

from gitsync.preview.documents import diff_lines, printable
from gitsync.preview.report import ReportedStep
from gitsync.server.dependencies import PagesOf, SearchText, Start
from gitsync.server.queries.filters import list_url, page_of, parse_query
from gitsync.server.queries.proposals import NAMES, find_proposal, proposal_row, proposal_rows, update_rows

router = APIRouter()

_PAGE = 50
_STEPS = 60
"""Objects of one folder that a page shows."""
_LINE = 400


@router.get("/pulls", response_class=HTMLResponse)
def pull_requests(request: Request, pages: PagesOf, q: SearchText = "", start: Start = 0) -> HTMLResponse:
    """Show the pull requests that wait, those updated last first."""
    query = parse_query(q, NAMES, pages.engine.clock.now())
    rows = proposal_rows(pages.engine.pull_requests, query)
    shown, following = page_of(rows, start, _PAGE)
    return pages.show(
        request,
        "pulls.html",
        rows=shown,
        matched=len(rows),
        start=start,
        following=following,
        page_size=_PAGE,
        url=list_url("/pulls", str(query)),
        query=query,
        names=NAMES,
        failures=pages.engine.pull_requests.failures(),
    )


@router.get("/updates", response_class=HTMLResponse)
def updates(request: Request, pages: PagesOf) -> HTMLResponse:
    """Show the images and the values of other environments that can be taken, what waits and why."""
    return pages.show(request, "updates.html", rows=update_rows(pages.engine.updates))


@router.get("/pulls/{key}", response_class=HTMLResponse)
def pull_request(request: Request, pages: PagesOf, key: str) -> HTMLResponse:
    """Show what one pull request will do."""
    view = find_proposal(pages.engine.pull_requests, key)
    if view is None:
        raise HTTPException(404, "This pull request does not wait any more: it was merged or closed.")
    changes = view.report.changes if view.report is not None else ()
    return pages.show(
        request,
        "pull.html",
        row=proposal_row(view),
        view=view,
        changes=[(change, [(step, _lines(step)) for step in change.steps[:_STEPS]]) for change in changes],
    )


def _lines(step: ReportedStep) -> list[tuple[str, str]]:
    """Return the lines of a step with the kind of each: ``ins``, ``del``, or empty."""
    kinds = {"+": "ins", "-": "del"}
    # without the first one, which names the object again
    return [(kinds.get(line[:1], ""), printable(line, _LINE)) for line in diff_lines(step)[1:]]
