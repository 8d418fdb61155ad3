"""managedFields of a write by the merge core, with conflicts in the API server's messages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gitsync.errors import InvalidInput
from gitsync.merge.apply import Conflicts, FieldConflict, FieldManager
from gitsync.merge.field_manager import Write, apply_object, update_object
from gitsync.merge.fieldset import FieldSet
from gitsync.merge.schema import DEDUCED, Schema, builtin
from gitsync.merge.typed import TypedError, field_set
from gitsync.objects.manifest import Manifest
from gitsync.sandbox import errors
from gitsync.sandbox.errors import ApiError
from gitsync.sandbox.registry.contract import RequestContext
from gitsync.sandbox.registry.resources import Address, ServedResource
from gitsync.sandbox.registry.scale import with_replicas

_STATUS_METADATA = ("name", "namespace", "uid", "resourceVersion", "labels", "annotations")
NO_STATUS = FieldSet.of([("f:status",)])


def created(obj: Manifest, schema: Schema, ctx: RequestContext, now: str) -> Manifest:
    """Return a new object with the managedFields of its creator."""
    return update_object(None, obj, schema, Write(ctx.manager, now))


def scaled(live: Manifest, obj: Manifest, schema: Schema, ctx: RequestContext) -> Manifest:
    """Return an object scaled through its subresource; the manager owns the replicas, without a time."""
    written = update_object(live, obj, schema, Write(ctx.manager, None, "scale"))
    if (obj.get("spec") or {}).get("replicas"):
        return written
    # a Scale of zero does not carry the replicas, so no manager owns them then
    entries = [entry for entry in written["metadata"].get("managedFields", []) if not _is_scale(entry, ctx.manager)]
    return {**written, "metadata": {**written["metadata"], "managedFields": entries}}


def scale_part(live: Manifest, scale: Manifest, path: str) -> Manifest:
    """Return what an applied Scale applies to its object: the replicas at a dotted path, and nothing else."""
    try:
        field_set(builtin().for_kind("autoscaling", "v1", "Scale") or DEDUCED, scale)
    except TypedError as error:
        raise _typed_error("patch", error, live["metadata"], "autoscaling/v1, Kind=Scale") from None
    meta = {key: live["metadata"][key] for key in ("name", "namespace") if key in live["metadata"]}
    applied: Manifest = {"apiVersion": live["apiVersion"], "kind": live["kind"], "metadata": meta}
    spec = scale.get("spec") or {}
    return with_replicas(applied, spec["replicas"], path) if "replicas" in spec else applied


def scale_applied(live: Manifest, applied: Manifest, schema: Schema, ctx: RequestContext, now: str) -> Manifest:
    """
    Return an object after a server-side apply of its Scale; 409 on a conflict of owners.

    A Scale of zero does not carry the replicas, so that applying a zero or null to one adds them.
    """
    members = {key: value for key, value in applied.items() if key not in ("apiVersion", "kind", "metadata")}
    view = _without_zero(live, members)
    result = apply_object(view, applied, schema, Write(ctx.manager, now, "scale"), force=ctx.force)
    if isinstance(result, Conflicts):
        raise _refusal(result, "autoscaling/v1")
    return live if result is view else _with_int32(result, members)


def _without_zero(live: Any, applied: Manifest) -> Any:
    """Return a copy of an object without the applied numbers that are zero in it."""
    out = dict(live)
    for key, below in applied.items():
        if isinstance(below, dict) and isinstance(out.get(key), dict):
            out[key] = _without_zero(out[key], below)
        elif not isinstance(below, dict) and not out.get(key):
            out.pop(key, None)
    return out


def _with_int32(merged: Any, applied: Manifest) -> Any:
    """Return a copy with the applied numbers as the server's conversion leaves them: null is 0, large ones wrap."""
    out = dict(merged)
    for key, below in applied.items():
        is_nested = isinstance(below, dict) and isinstance(out.get(key), dict)
        out[key] = _with_int32(out[key], below) if is_nested else _int32(out.get(key))
    return out


def _int32(value: Any) -> Any:
    if value is None:
        return 0
    return (value + 2**31) % 2**32 - 2**31 if type(value) is int else value


def _is_scale(entry: Manifest, manager: str) -> bool:
    return entry.get("subresource") == "scale" and entry.get("manager") == manager


def applied(live: Manifest | None, body: Manifest, schema: Schema, write: Write, *, force: bool) -> Manifest:
    """Return the object with the body laid over it; the very live one when nothing changes."""
    group, _, version = body["apiVersion"].rpartition("/")
    of = f"{group}/{version}, Kind={body['kind']}"
    if live is not None and schema.custom:
        _check_stored(live, schema, of)
    try:
        result = apply_object(live, body, schema, write, force=force)
    except TypedError as error:
        raise _typed_error("patch", error, body["metadata"], of) from None
    except InvalidInput as error:
        raise errors.bad_request(error.message) from None
    if isinstance(result, Conflicts):
        raise _refusal(result)
    return result


def _check_stored(live: Manifest, schema: Schema, of: str) -> None:
    """
    Raise the 500 for an object that a former definition let be stored, and that does not fit its schema any more.

    Only an apply compares types with what is stored (structured-merge-diff, structuredmerge.go: Apply).
    """
    # what others own says nothing about the types
    meta = {name: value for name, value in live["metadata"].items() if name != "managedFields"}
    try:
        field_set(schema, {**live, "metadata": meta}, duplicates=True)
    except TypedError as error:
        raise _typed_error("live", error, meta, of) from None


def _typed_error(side: str, error: TypedError, meta: dict[str, Any], of: str) -> ApiError:
    place = f"{meta.get('namespace') or ''}/{meta['name']}; {of}"
    return ApiError(500, "", f"failed to create typed {side} object ({place}): {error.upstream()}")


def conversion_failed(resource: ServedResource, meta: dict[str, Any], error: ApiError) -> ApiError:
    """Return the 500 for an applied object whose values have the types of the schema and cannot be decoded."""
    of = f"{resource.group}/{resource.version}, Kind={resource.kind}"
    _, _, why = error.message.partition(f"cannot be handled as a {resource.kind}: ")
    text = f"failed to convert new object ({meta.get('namespace') or ''}/{meta['name']}; {of}) to proper version: "
    return ApiError(500, "", f"{text}unable to convert unstructured object to {of}: {why or error.message}")


def applied_part(body: Manifest, address: Address) -> Manifest:
    """Return what of the body an apply takes through the main resource, or through its status."""
    resource = address.resource
    if address.subresource == "status":
        kept = set(_STATUS_METADATA)
        if resource.custom:
            kept -= {"labels", "annotations"}
        elif (resource.group, resource.kind) == ("apps", "Deployment"):
            kept.discard("labels")
        part: Manifest = {key: body[key] for key in ("apiVersion", "kind", "status") if key in body}
        return {**part, "metadata": {key: value for key, value in body["metadata"].items() if key in kept}}
    return body


def _refusal(conflicts: Conflicts, shown_version: str = "") -> ApiError:
    """Return the 409; ``shown_version`` is what it names instead of the versions of the owners."""
    field_conflicts = conflicts.conflicts
    if shown_version:
        field_conflicts = tuple(
            replace(field_conflict, manager=replace(field_conflict.manager, api_version=shown_version))
            for field_conflict in field_conflicts
        )
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {_spell(conflict.manager)}",
            "field": conflict.field,
        }
        for conflict in sorted(field_conflicts, key=lambda item: item.field)
    ]
    many = "" if len(field_conflicts) == 1 else "s"
    message = f"Apply failed with {len(field_conflicts)} conflict{many}: {_listed(field_conflicts)}"
    return ApiError(409, "Conflict", message, {"causes": causes})


def _listed(field_conflicts: tuple[FieldConflict, ...]) -> str:
    if len(field_conflicts) == 1:
        return f"conflict with {_spell(field_conflicts[0].manager)}: {field_conflicts[0].field}"
    lines: list[str] = []
    by_manager: dict[FieldManager, list[str]] = {}
    for conflict in field_conflicts:
        by_manager.setdefault(conflict.manager, []).append(conflict.field)
    for manager, fields in by_manager.items():
        lines.append(f"conflicts with {_spell(manager)}:")
        lines.extend(f"- {field}" for field in fields)
    return "\n".join(lines)


def _spell(manager: FieldManager) -> str:
    text = f'"{manager.name}"'
    if manager.subresource:
        text += f' with subresource "{manager.subresource}"'
    if manager.operation == "Update":
        text += f" using {manager.api_version}"
    return text
