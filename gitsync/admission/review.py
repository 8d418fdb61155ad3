"""Answer AdmissionReviews by the rules that `gitsync build --check` applies, also as an ASGI application."""

from __future__ import annotations

from collections.abc import Mapping
from json import JSONDecodeError
from typing import TYPE_CHECKING, Any

from gitsync.agents.systems.members import check_object
from gitsync.applicationsets.model import check_set
from gitsync.errors import InvalidInput
from gitsync.objects.application import parse_application
from gitsync.objects.keys import API_VERSION
from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.source.validation import SAFE_SCHEMES, check_source

if TYPE_CHECKING:  # `gitsync build --check` needs no server
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

Answer = dict[str, Any]
_LARGEST = 8 << 20
"""Bytes of a review: two objects of at most 1.5 MiB each, with what JSON adds."""
_SCHEMES = (*SAFE_SCHEMES, "file", "http")


def answer(review: Mapping[str, Any]) -> Answer:
    """
    Return the AdmissionReview with the response.

    An object whose spec does not change, or that is deleted, is allowed: a rule that is newer than the object must not
    stop the removal of a finalizer. Source: Kubernetes documentation, "Dynamic Admission Control".
    """
    # a KeyError makes the answer 400, see _validate
    request = review["request"]
    # null for a DELETE
    manifest = request.get("object") or {}
    old = request.get("oldObject") or {}
    is_same = bool(old) and old.get("spec") == manifest.get("spec")
    refusal = {} if is_same or metadata_of(manifest).get("deletionTimestamp") else _refusal(manifest)
    # the uid has to be that of the request, or the API server refuses the answer
    response = {"uid": request["uid"], "allowed": not refusal, **({"status": refusal} if refusal else {})}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


def _refusal(manifest: Manifest) -> Answer:
    """Return the status that refuses an object, empty for a valid one."""
    try:
        check_own(manifest)
    except InvalidInput as error:
        cause = {"reason": "FieldValueInvalid", "field": error.location, "message": error.message}
        details = {"kind": str(manifest.get("kind")), "causes": [cause]}
        # the form of the API server's own errors, so that kubectl prints each field
        return {"code": 422, "reason": "Invalid", "message": str(error), "details": details}
    return {}


def check_own(manifest: Manifest) -> None:
    """Raise InvalidInput that names the field of an invalid object of our kinds; others are not checked."""
    if manifest.get("apiVersion") == API_VERSION and manifest.get("kind") == "Application":
        # which schemes and plain hosts the operator allows is not known here
        check_source(parse_application(manifest).source, _SCHEMES)
    # these two ignore objects of other kinds
    check_set(manifest)
    check_object(manifest)


def admission_app() -> Starlette:
    """Return the application: reviews at ``/validate``, and a probe."""
    from starlette.applications import Starlette
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    async def healthy(request: Request) -> Response:
        return PlainTextResponse("ok\n")

    return Starlette(routes=[Route("/validate", _validate, methods=["POST"]), Route("/healthz", healthy)])


async def _validate(request: Request) -> Response:
    from starlette.responses import JSONResponse, PlainTextResponse

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
