"""The wall display, without controls, and the choice of a compact view."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Final

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from gitsync.server.pages.dependencies import PagesOf
from gitsync.server.rows.applications import app_rows, needs_attention, problems

router = APIRouter()

_SHOWN = 8
_STALE = timedelta(seconds=30)
"""Age of the newest check from which the display says that its data is old."""
DENSITY: Final = "gitsync-density"
_COOKIE_SECONDS = 365 * 86400


@router.get("/wall", response_class=HTMLResponse)
def wall(request: Request, pages: PagesOf) -> HTMLResponse:
    """Show large counts and what needs attention; grey when the data is old."""
    now, views = pages.engine.clock.now(), pages.engine.view.applications()
    rows = app_rows(views)
    found = problems(row for row in rows if needs_attention(row))
    seen = max((view.seen for view in views), default=None)
    return pages.show(
        request,
        "wall.html",
        total=len(rows),
        good=sum(row.rank == 3 for row in rows),
        urgent=sum(row.rank == 0 for row in rows),
        waiting_rows=sum(row.rank == 1 for row in rows),
        problems=found[:_SHOWN],
        more=len(found) - _SHOWN,
        seen=seen,
        is_stale=seen is not None and now - seen > _STALE,
    )


@router.get("/view")
def choose_view(
    density: Annotated[str, Query(pattern="^(compact|comfortable)$")],
    back: Annotated[str, Query(max_length=500)] = "/",
) -> RedirectResponse:
    """Keep how dense tables are in a cookie, and lead back to the page."""
    if not back.startswith("/") or back.startswith(("//", "/\\")):
        raise HTTPException(422, "back is not a path of this dashboard.")
    response = RedirectResponse(back, 303)
    response.set_cookie(DENSITY, density, max_age=_COOKIE_SECONDS, httponly=True, samesite="lax")
    return response
