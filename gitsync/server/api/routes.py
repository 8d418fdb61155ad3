"""All routes of the API, their description in OpenAPI, and errors as problem details."""

from __future__ import annotations

from functools import cache
from http import HTTPStatus
from typing import Any, Final

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import JSONResponse, Response

from gitsync import __version__
from gitsync.server.api import lists, objects, plans
from gitsync.server.api.models import Problem

PREFIX: Final = "/api/"
_V1: Final = "/api/v1"
_ERRORS: Final[dict[int | str, dict[str, Any]]] = {
    code: {"model": Problem, "description": HTTPStatus(code).phrase} for code in (403, 404, 409, 422, 503)
}


def api_router() -> APIRouter:
    """Return the routes below ``/api/v1``."""
    router = APIRouter(prefix=_V1, responses=_ERRORS)
    for routes in (lists, plans, objects):
        router.include_router(routes.router)

    @router.get("/openapi.json", include_in_schema=False)
    def openapi() -> dict[str, Any]:
        """Return the description of the API."""
        return description()

    return router


@cache
def description() -> dict[str, Any]:
    """Return the OpenAPI document of the API; the pages are not part of it."""
    text = "State of a gitsync controller, and requests of users. Values of Secrets are masked."
    app = FastAPI(title="gitsync", version=__version__, description=text)
    app.include_router(api_router())
    found = app.openapi()
    found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    return {**found, "security": [{"token": []}]}


def problem(request: Request, code: int, text: str) -> Response:
    """Return an error as problem details (RFC 9457)."""
    found = Problem(title=HTTPStatus(code).phrase, status=code, detail=text, instance=request.url.path)
    return JSONResponse(found.model_dump(by_alias=True), code, media_type="application/problem+json")
