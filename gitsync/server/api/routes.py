"""All routes of the API, their description in OpenAPI, and errors as problem details."""

from __future__ import annotations

from functools import cache
from http import HTTPStatus
from typing import Any, Final

from fastapi import APIRouter, FastAPI

from gitsync import __version__
from gitsync.server.api import lists, objects, plans
from gitsync.server.problems import MEDIA_TYPE, Problem

_V1: Final = "/api/v1"
_ERRORS: Final[dict[int | str, dict[str, Any]]] = {
    code: {"model": Problem, "description": HTTPStatus(code).phrase}
    for code in (400, 401, 403, 404, 409, 415, 422, 429, 503)
}


def api_router() -> APIRouter:
    """Return the routes below ``/api/v1``."""
    router = APIRouter(prefix=_V1, responses=_ERRORS)
    for routes in (lists.router, plans.router, objects.router, lists.pull_request_router):
        router.include_router(routes)

    @router.get("/openapi.json", include_in_schema=False)
    def openapi() -> dict[str, Any]:
        """Return the description of the API."""
        return description()

    return router


# the routes do not change after the start
@cache
def description() -> dict[str, Any]:
    """Return the OpenAPI document of the API; the pages are not part of it."""
    text = "State of a gitsync controller, and requests of users. Values of Secrets are masked."
    # an app of its own: that of the server has the pages as routes too
    app = FastAPI(title="gitsync", version=__version__, description=text)
    app.include_router(api_router())
    document = app.openapi()
    _describe_errors(document)
    # for generated clients only: Guard checks the token, before FastAPI has the request
    document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    return {**document, "security": [{"token": []}]}


def _describe_errors(document: dict[str, Any]) -> None:
    """Set the media type of errors, which is that of successful answers for FastAPI."""
    for path in document["paths"].values():
        for operation in path.values():
            for code, response in operation["responses"].items():
                if int(code) >= 400:
                    schema = {"schema": {"$ref": "#/components/schemas/Problem"}}
                    response["content"] = {MEDIA_TYPE: schema}
