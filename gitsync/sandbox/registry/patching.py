"""The patch types of the API server: from a body and a media type to a function on the live object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gitsync.merge.schema import Schema
from gitsync.merge.strategic import StrategicError, strategic_merge
from gitsync.merge.typed import go
from gitsync.merge.values import MAX_OPERATIONS, JsonPatchError, JsonPatchFormatError, json_patch, merge_patch
from gitsync.objects.manifest import Manifest
from gitsync.sandbox import errors
from gitsync.sandbox.errors import ApiError
from gitsync.sandbox.registry.contract import RequestContext
from gitsync.sandbox.schema.json_text import MalformedText, parse_json

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


def patch_function(
    media: str, body: bytes, schema: Schema, ctx: RequestContext
) -> tuple[Callable[[Manifest], Manifest], str]:
    """
    Return what a patch does to an object, and how a refusal quotes it (empty: by its result).

    Reject a body that is not a valid patch of this type.
    """
    try:
        patch, ctx.duplicates = parse_json(body)
    except MalformedText as error:
        raise errors.bad_request(f"error decoding patch: {error}") from None
    if media == JSON_PATCH:
        if not isinstance(patch, list):
            raise errors.bad_request(_cannot(patch, "[]handlers.jsonPatchOp"))
        return lambda live: _json(live, patch), ""
    # The body null, which the library for merge patches reports in these words.
    if patch is None:
        raise errors.bad_request("Invalid JSON Patch")
    if not isinstance(patch, dict):
        raise errors.bad_request(_cannot(patch, "map[string]interface {}"))
    if media == STRATEGIC:
        return lambda live: _strategic(live, patch, schema), go(patch)
    return lambda live: _object(merge_patch(live, patch)), ""


def _json(live: Manifest, patch: list[Any]) -> Manifest:
    try:
        return _object(json_patch(live, patch))
    except JsonPatchFormatError as error:
        if len(patch) > MAX_OPERATIONS:
            raise ApiError(413, "RequestEntityTooLarge", f"Request entity too large: {error.message}") from None
        raise errors.bad_request(f"error decoding patch: {error.message}") from None
    except JsonPatchError:
        raise ApiError(
            422, "Invalid", "the server rejected our request due to an error in our request", errors.Empty()
        ) from None


def _strategic(live: Manifest, patch: Manifest, schema: Schema) -> Manifest:
    try:
        return _object(strategic_merge(live, patch, schema))
    except StrategicError as error:
        reasons = {400: "BadRequest", 422: "Invalid"}
        raise ApiError(error.code, reasons.get(error.code, ""), error.text) from None


def _object(value: Any) -> Manifest:
    if not isinstance(value, dict):
        raise errors.bad_request("the result of the patch is not an object")
    return value


def _cannot(value: Any, wanted: str) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "bool", type(None): "null"}
    type_name = names.get(type(value), "number")
    return f"error decoding patch: json: cannot unmarshal {type_name} into Go value of type {wanted}"
