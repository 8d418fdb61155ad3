"""managedFields of a write by the merge core, with conflicts in the API server's messages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gitsync.errors import InvalidInput
from gitsync.merge.apply import Conflicts, FieldConflict, Manager
from gitsync.merge.builtin import builtin
from gitsync.merge.field_manager import Write, apply_object, update_object
from gitsync.merge.fieldset import FieldSet
from gitsync.merge.schema import DEDUCED, Schema
from gitsync.merge.typed import TypedError, field_set
from gitsync.objects.manifest import Manifest
from gitsync.sandbox import errors
from gitsync.sandbox.registry.request_context import Context
from gitsync.sandbox.registry.resources import Resource
from gitsync.sandbox.registry.scale import with_replicas
from gitsync.sandbox.registry.status import ApiError

_STATUS_METADATA = ("name", "namespace", "uid", "resourceVersion", "labels", "annotations")
_NO_STATUS = FieldSet.of([("f:status",)])


def created(obj: Manifest, schema: Schema, ctx: Context, now: str) -> Manifest:
    """Return a new object with the managedFields of its creator."""
    return update_object(None, obj, schema, Write(ctx.manager, now))


def updated(live: Manifest, obj: Manifest, schema: Schema, ctx: Context, now: str, subresource: str) -> Manifest:
    """Return a changed object with the managedFields after the change."""
    return update_object(live, obj, schema, Write(ctx.manager, now, subresource))


def scaled(live: Manifest, obj: Manifest, schema: Schema, ctx: Context) -> Manifest:
    """Return an object scaled through its subresource; the manager owns the replicas, without a time."""
    written = update_object(live, obj, schema, Write(ctx.manager, None, "scale"))
    if (obj.get("spec") or {}).get("replicas"):
        return written
    # a Scale of zero does not carry the replicas, so no manager owns them then
    entries = [entry for entry in written["metadata"].get("managedFields", []) if not _is_scale(entry, ctx.manager)]
    return {**written, "metadata": {**written["metadata"], "managedFields": entries}}


def scale_applied(live: Manifest, scale: Manifest, schema: Schema, path: str, ctx: Context, now: str) -> Manifest:
    """Return an object after a server-side apply of its Scale: the replicas are the only field applied."""
    try:
        field_set(builtin().for_kind("autoscaling", "v1", "Scale") or DEDUCED, scale)
    except TypedError as error:
        raise _typed_error(error, live["metadata"], "autoscaling/v1, Kind=Scale") from None
    meta = {key: live["metadata"][key] for key in ("name", "namespace") if key in live["metadata"]}
    applied: Manifest = {"apiVersion": live["apiVersion"], "kind": live["kind"], "metadata": meta}
    replicas = (scale.get("spec") or {}).get("replicas")
    if replicas is not None:
        applied = with_replicas(applied, replicas, path)
    result = apply_object(live, applied, schema, Write(ctx.manager, now, "scale"), force=ctx.force)
    if isinstance(result, Conflicts):
        raise _refusal(result, "autoscaling/v1")
    return result


def _is_scale(entry: Manifest, manager: str) -> bool:
    return entry.get("subresource") == "scale" and entry.get("manager") == manager


def applied(
    live: Manifest | None,
    body: Manifest,
    schema: Schema,
    resource: Resource,
    ctx: Context,
    now: str,
    subresource: str,
    *,
    has_status: bool,
) -> Manifest:
    """Return the object with the body laid over it; the very live one when nothing changes."""
    body = _part(body, resource, subresource)
    write = Write(ctx.manager, now, subresource, _NO_STATUS if has_status and not subresource else FieldSet({}))
    try:
        result = apply_object(live, body, schema, write, force=ctx.force)
    except TypedError as error:
        of = f"{resource.group}/{resource.version}, Kind={resource.kind}"
        raise _typed_error(error, body["metadata"], of) from None
    except InvalidInput as error:
        raise errors.bad_request(error.message) from None
    if isinstance(result, Conflicts):
        raise _refusal(result)
    return result


def _typed_error(error: TypedError, meta: dict[str, Any], of: str) -> ApiError:
    place = f"{meta.get('namespace') or ''}/{meta['name']}; {of}"
    return ApiError(500, "", f"failed to create typed patch object ({place}): {error.upstream()}")


def conversion_failed(resource: Resource, meta: dict[str, Any], error: ApiError) -> ApiError:
    """Return the 500 for an applied object whose values have the types of the schema and cannot be decoded."""
    of = f"{resource.group}/{resource.version}, Kind={resource.kind}"
    _, _, why = error.message.partition(f"cannot be handled as a {resource.kind}: ")
    text = f"failed to convert new object ({meta.get('namespace') or ''}/{meta['name']}; {of}) to proper version: "
    return ApiError(500, "", f"{text}unable to convert unstructured object to {of}: {why or error.message}")


def _part(body: Manifest, resource: Resource, subresource: str) -> Manifest:
    """Return what of the body an apply takes through the main resource, or through its status."""
    if subresource == "status":
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
    found = conflicts.conflicts
    if shown_version:
        found = tuple(replace(one, manager=replace(one.manager, api_version=shown_version)) for one in found)
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {_spell(conflict.manager)}",
            "field": conflict.field,
        }
        for conflict in sorted(found, key=lambda each: each.field)
    ]
    many = "" if len(found) == 1 else "s"
    message = f"Apply failed with {len(found)} conflict{many}: {_listed(found)}"
    return ApiError(409, "Conflict", message, {"causes": causes})


def _listed(found: tuple[FieldConflict, ...]) -> str:
    if len(found) == 1:
        return f"conflict with {_spell(found[0].manager)}: {found[0].field}"
    lines: list[str] = []
    by_manager: dict[Manager, list[str]] = {}
    for conflict in found:
        by_manager.setdefault(conflict.manager, []).append(conflict.field)
    for manager, fields in by_manager.items():
        lines.append(f"conflicts with {_spell(manager)}:")
        lines.extend(f"- {field}" for field in fields)
    return "\n".join(lines)


def _spell(manager: Manager) -> str:
    text = f'"{manager.name}"'
    if manager.subresource:
        text += f' with subresource "{manager.subresource}"'
    if manager.operation == "Update":
        text += f" using {manager.api_version}"
    return text
