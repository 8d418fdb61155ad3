"""Errors of the API as problem details (RFC 9457)."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from fastapi import Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel

from gitsync.errors import GitsyncError, Refused, TransientError, WrongState

PREFIX: Final = "/api/"
MEDIA_TYPE: Final = "application/problem+json"


class Problem(BaseModel):
    """An error, as RFC 9457 describes it."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    instance: str = ""


def problem(request: Request, code: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error as problem details."""
    # of the type about:blank, the title is the phrase of the status (RFC 9457, 4.2.1)
    details = Problem(title=HTTPStatus(code).phrase, status=code, detail=text, instance=request.url.path)
    return JSONResponse(details.model_dump(), code, dict(headers or {}), media_type=MEDIA_TYPE)


def status_of(error: GitsyncError) -> int:
    """Return the HTTP status of an error."""
    if isinstance(error, TransientError):
        return HTTPStatus.SERVICE_UNAVAILABLE
    if isinstance(error, Refused):
        return HTTPStatus.FORBIDDEN
    return HTTPStatus.CONFLICT if isinstance(error, WrongState) else HTTPStatus.UNPROCESSABLE_ENTITY
