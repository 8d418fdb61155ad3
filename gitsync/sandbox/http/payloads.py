"""Decoding of request bodies by media type."""

from __future__ import annotations

from gitsync.objects.manifest import Manifest
from gitsync.sandbox import errors
from gitsync.sandbox.http.decoding import Malformed, parse_yaml, require_object
from gitsync.sandbox.http.negotiation import PROTOBUF
from gitsync.sandbox.http.options import media_type
from gitsync.sandbox.http.protobuf import Undecodable, decode
from gitsync.sandbox.http.transport.messages import Request
from gitsync.sandbox.registry.delete import DeleteOptions, read_options
from gitsync.sandbox.registry.request_context import Context

_BODY_TYPES = ("application/json", "application/yaml", PROTOBUF)


def object_body(request: Request, kind: str) -> tuple[Manifest, list[str]]:
    """Return the object of a create or an update, and its duplicate keys; 415 for a type that is not read."""
    media = media_type(request)
    if media == PROTOBUF:
        try:
            return decode(request.body), []
        except (Undecodable, UnicodeDecodeError) as error:
            raise errors.unsupported_media(media, _BODY_TYPES[:2], str(error)) from None
    if media and media not in _BODY_TYPES:
        raise errors.unsupported_media(media, _BODY_TYPES)
    return require_object(request.body, kind)


def applied_body(request: Request, ctx: Context) -> Manifest:
    """Return the object of an apply; duplicate keys cause a warning or an error by the field validation."""
    try:
        body, ctx.duplicates = parse_yaml(request.body)
    except Malformed as error:
        raise errors.bad_request(f"error decoding YAML: {error}") from None
    if body is None:
        body = {}
    if not isinstance(body, dict):
        raise errors.bad_request(
            "error decoding YAML: json: cannot unmarshal into Go value of type map[string]interface {}"
        )
    if ctx.duplicates:
        if ctx.validation == "Strict":
            listed = "\n  ".join(ctx.duplicates)
            raise errors.bad_request(
                "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  " + listed
            )
        if ctx.validation == "Warn":
            ctx.warnings.extend(ctx.duplicates)
        ctx.duplicates = []
    return body


def delete_options(request: Request) -> tuple[DeleteOptions, bool]:
    """Return the options of a delete, from the body or else the query, and whether it is a dry run."""
    body: Manifest = {}
    if request.body.strip():
        body, _ = object_body(request, "DeleteOptions")
    return read_options(body, request.query)
