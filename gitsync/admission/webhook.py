"""The admission webhook as an ASGI application."""

from __future__ import annotations

from json import JSONDecodeError

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from gitsync.admission.review import answer

_LARGEST = 8 << 20
"""Bytes of a review: two objects of at most 1.5 MiB each, with what JSON adds."""


def admission_app() -> Starlette:
    """Return the application: reviews at ``/validate``, and a probe."""
    return Starlette(routes=[Route("/validate", _validate, methods=["POST"]), Route("/healthz", _healthy)])


async def _validate(request: Request) -> Response:
    body = bytearray()
    async for part in request.stream():
        body += part
        # counted while it is received: a chunked body has no length
        if len(body) > _LARGEST:
            return PlainTextResponse("the review is too large\n", 413)
    # Starlette keeps the body here for json(), which would read the consumed stream otherwise
    request._body = bytes(body)
    try:
        return JSONResponse(answer(await request.json()))
    # any JSON may be sent here: what lacks the members of a review is a mistake of the caller
    except (JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError):
        return PlainTextResponse("not an AdmissionReview\n", 400)


async def _healthy(request: Request) -> Response:
    return PlainTextResponse("ok\n")
