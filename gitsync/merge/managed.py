"""managedFields on the wire and back: entries, their identity, their order, and the cap on their number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gitsync.errors import InvalidInput
from gitsync.merge.apply import FieldManager, Managers, Owned
from gitsync.merge.fieldset import FieldSet

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
