"""
Writes to whole objects: the merge core with metadata.managedFields read before and written after.

``apply_object`` implements a PATCH of type apply, ``update_object`` the ownership changes of all other writes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import orjson

from gitsync.errors import InvalidInput
from gitsync.merge import managed
from gitsync.merge.apply import NOTHING, Conflicts, FieldManager, Managers, Writer, apply, update
from gitsync.merge.comparison import compare
from gitsync.merge.fieldset import FieldSet
from gitsync.merge.schema import Schema, builtin
from gitsync.merge.typed import TypedError, field_set
from gitsync.objects.keys import LAST_APPLIED
from gitsync.objects.manifest import Manifest, annotations_of, metadata_of, uid_of

_KUBECTL: Final = "kubectl"
"""The one manager whose server-side apply takes over from its own client-side apply."""


@dataclass(frozen=True, slots=True)
class Write:
    """The writer of a request, its time and subresource, and the fields that no manager may own there."""

    manager: str
    time: str | None = None
    subresource: str = ""
    ignored: FieldSet = NOTHING


def apply_object(
    live: Manifest | None, applied: Manifest, schema: Schema, write: Write, *, force: bool = False
) -> Manifest | Conflicts:
    """
    Return the live object with an applied one merged into it, managedFields included.

    ``live`` is None for a new object. The same live object is returned when the apply changes
    neither a value nor an owner. Raise TypedError when the applied object does not fit its schema.
    """
    # An empty list is refused as well; null passes.
    if metadata_of(applied).get("managedFields") is not None:
        raise InvalidInput("metadata.managedFields must be nil")
    bare, known = _split(live)
    writer = _writer(applied, "Apply", write, known)
    managers = known
    # Ownership was cleared, or the object is older than managedFields. Without an owner of the present values
    # this apply would overwrite them without any conflict.
    if not managers and live is not None:
        first = FieldManager(managed.BEFORE_FIRST_APPLY, "Update", write.subresource, writer.api_version)
        managers = update(_empty(schema, bare), bare, schema, {}, replace(writer, manager=first))
    result = apply(bare, applied, schema, managers, writer, force=force)
    # Migration from client-side apply: kubectl set these fields itself, under another manager's name.
    if isinstance(result, Conflicts) and write.manager == _KUBECTL:
        allowed = _client_side_applied(bare, schema, writer.api_version)
        remaining = tuple(conflict for conflict in result.conflicts if conflict.path not in allowed)
        result = Conflicts(remaining) if remaining else apply(bare, applied, schema, managers, writer, force=True)
    if isinstance(result, Conflicts):
        return result
    merged = result.object
    # The server keeps the annotation current, so that a later client-side apply starts from the right base.
    if write.manager == _KUBECTL and annotations_of(merged).get(LAST_APPLIED):
        merged = _with_last_applied(merged, applied)
    # ``known``, not ``managers``: a new entry for before-first-apply is a change. The caller recognizes a write that
    # changes nothing, which keeps its resourceVersion and sends no watch event, by the identity of the object.
    if live is not None and merged is bare and result.managers == known:
        return live
    return with_managers(merged, result.managers)


def update_object(live: Manifest | None, written: Manifest, schema: Schema, write: Write) -> Manifest:
    """
    Return a written object with its managedFields, as after a PUT, a POST or a patch that is not an apply.

    The managedFields of the written object count as in the API server: an empty list
    clears them, a valid one replaces them, anything else leaves those of the live object. An object that does
    not fit its schema, or whose ownership was cleared, is not tracked and has none.
    """
    bare, managers = _split(live)
    new, entries = _detach(written)
    # A request to a subresource cannot set managedFields (decodeLiveOrNew of managedfields).
    if not write.subresource and entries is not None:
        managers = {} if managed.is_reset(entries) else _decoded_or(entries, managers)
    # Only a create starts tracking: a stored object without managers has none until its next apply.
    if managers or live is None or not uid_of(live):
        live_or_empty = bare if live is not None else _empty(schema, new)
        try:
            managers = update(live_or_empty, new, schema, managers, _writer(written, "Update", write, managers))
        except TypedError:  # as UpdateNoErrors of apimachinery/pkg/util/managedfields does
            return with_managers(new, {})
        managers = managed.capped(managers)
    return with_managers(new, managers)


def with_managers(manifest: Manifest, managers: Managers) -> Manifest:
    """Return the object with the managers as its managedFields, or without any where there are none."""
    metadata = {key: value for key, value in metadata_of(manifest).items() if key != "managedFields"}
    if managers:
        metadata["managedFields"] = managed.encode(managers)
    return {**manifest, "metadata": metadata}


def _split(live: Manifest | None) -> tuple[Manifest, Managers]:
    """Return an object without its managedFields, and its managers; an unreadable list counts as none."""
    if live is None:
        return {}, {}
    bare, entries = _detach(live)
    return bare, _decoded_or(entries, {})


def _empty(schema: Schema, written: Manifest) -> Manifest:
    """Return what the object held before anything was set; a null in a built-in object was there as well."""
    return {} if schema.custom else _with_nulls(schema.empty, written)


def _with_nulls(empty: dict[str, Any], written: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {name: None for name, value in written.items() if value is None}
    for name, value in empty.items():
        below = written.get(name)
        out[name] = _with_nulls(value, below) if type(value) is dict and type(below) is dict else value
    return out


def _detach(manifest: Manifest) -> tuple[Manifest, Any]:
    metadata = metadata_of(manifest)
    if "managedFields" not in metadata:
        return manifest, None
    rest = {key: value for key, value in metadata.items() if key != "managedFields"}
    return {**manifest, "metadata": rest}, metadata["managedFields"]


def _decoded_or(entries: Any, otherwise: Managers) -> Managers:
    try:
        return managed.decode(entries) or otherwise
    # The API server ignores an invalid list instead of refusing the write; the last two: it holds no maps, or is none.
    except (InvalidInput, AttributeError, TypeError):
        return otherwise


def _writer(manifest: Manifest, operation: Literal["Apply", "Update"], write: Write, managers: Managers) -> Writer:
    api_version = str(manifest.get("apiVersion") or "")
    version = api_version if operation == "Update" else ""
    manager = FieldManager(write.manager, operation, write.subresource, version)
    others = {owned.api_version for owned in managers.values() if owned.api_version != api_version}
    types = _types(str(manifest.get("kind") or ""), others) if others else {}
    return Writer(manager, api_version, write.time, write.ignored, managed.NEVER_OWNED, types)


def _types(kind: str, versions: Iterable[str]) -> dict[str, Schema]:
    """Return the schemas of a built-in kind in other versions; those of a custom kind count as one."""
    schemas = {}
    for api_version in versions:
        group, _, version = api_version.rpartition("/")
        schema = builtin().for_kind(group, version, kind)
        if schema is not None:
            schemas[api_version] = schema
    return schemas


def _client_side_applied(live: Manifest, schema: Schema, api_version: str) -> FieldSet:
    """Return the fields that a client-side apply set and no manager changed since: kubectl may take these."""
    try:
        last = orjson.loads(annotations_of(live).get(LAST_APPLIED) or "")
        # Paths of another version cannot be compared with those of the conflicts.
        if last.get("apiVersion") != api_version:
            return NOTHING
        fields = field_set(schema, last)
        since = compare(schema, last, live)
    # An annotation that cannot be read allows nothing: the conflicts are reported as they are.
    except (orjson.JSONDecodeError, AttributeError, TypedError):
        return NOTHING
    return fields - since.modified - since.added - since.removed


def _with_last_applied(merged: Manifest, applied: Manifest) -> Manifest:
    """Return the object with kubectl's last-applied annotation, as kubectl itself writes it."""
    metadata = {key: value for key, value in metadata_of(applied).items() if key != "managedFields"}
    annotations = {key: value for key, value in annotations_of(applied).items() if key != LAST_APPLIED}
    if annotations:
        metadata["annotations"] = annotations
    else:
        metadata.pop("annotations", None)
    # The line end is part of the value: kubectl's encoder writes one.
    text = orjson.dumps({**applied, "metadata": metadata}, option=orjson.OPT_SORT_KEYS).decode() + "\n"
    if annotations_of(merged).get(LAST_APPLIED) == text:
        return merged
    after = {**metadata_of(merged), "annotations": {**annotations_of(merged), LAST_APPLIED: text}}
    return {**merged, "metadata": after}
