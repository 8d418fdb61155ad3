"""The effective policy of an application."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from gitsync.server.pages.dependencies import PagesOf, ViewOf
from gitsync.server.pages.layout import show_application

router = APIRouter(prefix="/apps/{namespace}/{name}")


@router.get("/policy", response_class=HTMLResponse)
def policy(request: Request, pages: PagesOf, view: ViewOf) -> HTMLResponse:
    """Show what the operator's policies allow and require, and what decided each setting."""
    policies = pages.engine.policies
    found = policies.explain(view.application) if view.application is not None else ()
    return show_application(pages, request, view, "policy", settings=found, problem=policies.problem)
