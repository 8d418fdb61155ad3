"""
Writes to whole objects: the merge core with metadata.managedFields read before and written after.

``apply_object`` implements a PATCH of type apply, ``update_object`` the ownership changes of all other writes.
Entries are decoded and encoded with their identity, their order, and the cap on their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import orjson

from gitsync.errors import InvalidInput
from gitsync.merge.apply import NOTHING, Conflicts, FieldManager, Managers, Owned, Writer, apply, update
from gitsync.merge.comparison import compare
from gitsync.merge.fieldset import FieldSet
from gitsync.merge.schema import Schema, builtin
from gitsync.merge.typed import TypedError, field_set
from gitsync.objects.keys import LAST_APPLIED
from gitsync.objects.manifest import Manifest, annotations_of, metadata_of, uid_of

# DefaultMaxUpdateManagers of apimachinery/pkg/util/managedfields
MAX_UPDATERS: Final = 10
ANCIENT_CHANGES: Final = "ancient-changes"
BEFORE_FIRST_APPLY: Final = "before-first-apply"

# The set of stripmeta.go, with clusterName and selfLink, which current versions do not serve any more.
NEVER_OWNED: Final = FieldSet.of(
    [
        ("f:apiVersion",),
        ("f:kind",),
        ("f:metadata",),
        *(
            ("f:metadata", f"f:{name}")
            for name in (
                "clusterName",
                "creationTimestamp",
                "generation",
                "managedFields",
                "name",
                "namespace",
                "resourceVersion",
                "selfLink",
                "uid",
            )
        ),
    ]
)
"""Fields that identify an object or that the server sets: no manager owns them."""


def decode(entries: Iterable[Mapping[str, Any]] | None) -> Managers:
    """Return the managers of a list of entries; raise InvalidInput when one of them is not an entry."""
    managers = {}
    for entry in entries or ():
        operation = entry.get("operation")
        if operation not in ("Apply", "Update"):
            raise InvalidInput(f"invalid operation {operation!r}", location="metadata.managedFields")
        if entry.get("fieldsType") != "FieldsV1":
            raise InvalidInput(f"invalid fieldsType {entry.get('fieldsType')!r}", location="metadata.managedFields")
        version = str(entry.get("apiVersion") or "")
        try:
            fields = FieldSet.from_v1(entry.get("fieldsV1") or {})
        except ValueError as problem:
            raise InvalidInput(str(problem), location="metadata.managedFields") from problem
        manager = FieldManager(
            str(entry.get("manager") or ""),
            operation,
            str(entry.get("subresource") or ""),
            version if operation == "Update" else "",
        )
        managers[manager] = Owned(fields, version, entry.get("time"))
    return managers


def encode(managers: Managers) -> list[dict[str, Any]]:
    """Return the entries of the managers: Apply before Update, then by time, then by name."""
    ordered = sorted(
        managers.items(),
        key=lambda item: (
            # "Apply" sorts before "Update"
            item[0].operation,
            item[1].time or "",
            item[0].name,
            item[1].api_version,
            item[0].subresource,
        ),
    )
    return [_entry(manager, owned) for manager, owned in ordered]


def _entry(manager: FieldManager, owned: Owned) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    if manager.name:
        entry["manager"] = manager.name
    entry["operation"] = manager.operation
    entry["apiVersion"] = owned.api_version
    if owned.time is not None:
        entry["time"] = owned.time
    entry["fieldsType"] = "FieldsV1"
    entry["fieldsV1"] = owned.fields.to_v1()
    if manager.subresource:
        entry["subresource"] = manager.subresource
    return entry


def is_reset(entries: Any) -> bool:
    """Whether a request clears all ownership: ``[]``, or ``[{}]``."""
    return isinstance(entries, list) and (not entries or entries == [{}])


def capped(managers: Managers, limit: int = MAX_UPDATERS) -> Managers:
    """Return the managers with the oldest updaters of one version merged until at most ``limit`` are left."""
    updaters = sorted(
        (manager for manager in managers if manager.operation == "Update"),
        key=lambda manager: (managers[manager].time or "", manager.name, manager.subresource),
    )
    if len(updaters) <= limit:
        return managers
    out = dict(managers)
    first: dict[str, FieldManager] = {}
    excess = len(updaters) - limit
    for manager in updaters:
        if excess <= 0:
            break
        owned = managers[manager]
        version = owned.api_version
        # Only paths of one version can be joined; the oldest stays as it is until a second one of its version.
        if version not in first:
            first[version] = manager
            continue
        bucket = FieldManager(ANCIENT_CHANGES, "Update", "", version)
        if bucket not in out:
            out[bucket] = out.pop(first[version])
        if manager != bucket:
            del out[manager]
        out[bucket] = Owned(out[bucket].fields | owned.fields, version, owned.time)
        excess -= 1
    return out


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
        first = FieldManager(BEFORE_FIRST_APPLY, "Update", write.subresource, writer.api_version)
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
        managers = {} if is_reset(entries) else _decoded_or(entries, managers)
    # Only a create starts tracking: a stored object without managers has none until its next apply.
    if managers or live is None or not uid_of(live):
        live_or_empty = bare if live is not None else _empty(schema, new)
        try:
            managers = update(live_or_empty, new, schema, managers, _writer(written, "Update", write, managers))
        except TypedError:  # as UpdateNoErrors of apimachinery/pkg/util/managedfields does
            return with_managers(new, {})
        managers = capped(managers)
    return with_managers(new, managers)


def with_managers(manifest: Manifest, managers: Managers) -> Manifest:
    """Return the object with the managers as its managedFields, or without any where there are none."""
    metadata = {key: value for key, value in metadata_of(manifest).items() if key != "managedFields"}
    if managers:
        metadata["managedFields"] = encode(managers)
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
        return decode(entries) or otherwise
    # The API server ignores an invalid list instead of refusing the write; the last two: it holds no maps, or is none.
    except (InvalidInput, AttributeError, TypeError):
        return otherwise


def _writer(manifest: Manifest, operation: Literal["Apply", "Update"], write: Write, managers: Managers) -> Writer:
    api_version = str(manifest.get("apiVersion") or "")
    version = api_version if operation == "Update" else ""
    manager = FieldManager(write.manager, operation, write.subresource, version)
    others = {owned.api_version for owned in managers.values() if owned.api_version != api_version}
    types = _types(str(manifest.get("kind") or ""), others) if others else {}
    return Writer(manager, api_version, write.time, write.ignored, NEVER_OWNED, types)


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
