"""The owners of the fields of a live object, read from ``metadata.managedFields``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gitsync.merge.fieldset import MEMBER, Node, union
from gitsync.objects.change import FieldOwner
from gitsync.objects.manifest import Manifest, metadata_of


@dataclass(frozen=True, slots=True)
class Owners:
    """The field sets of a live object: ours, those of all others, and each by its manager."""

    ours: Node
    others: Node
    entries: tuple[tuple[FieldOwner, Node], ...]

    def of(self, path: tuple[str, ...]) -> tuple[FieldOwner, ...]:
        """Return the managers that own the field at a path, or anything below it."""
        return tuple(owner for owner, root in self.entries if node_at(root, path) is not None)


def owners_of(live: Manifest, manager: str) -> Owners:
    """Return the field owners of a live object; ``ours`` are the fields that the manager applied."""
    ours: Node = MEMBER
    others: Node = MEMBER
    entries = []
    for entry in _entries(live):
        fields = entry.get("fieldsV1") or {}
        owner = FieldOwner(
            str(entry.get("manager") or ""),
            str(entry.get("operation") or ""),
            str(entry.get("time") or ""),
            str(entry.get("subresource") or ""),
        )
        entries.append((owner, fields))
        if owner.manager == manager and owner.operation in ("Apply", "") and not owner.subresource:
            ours = union(ours, fields)
        else:
            others = union(others, fields)
    return Owners(ours, others, tuple(entries))


def applied_fields(live: Manifest, manager: str) -> Node | None:
    """Return the fields that the manager applied, as the object records them; None when it applied nothing."""
    for entry in _entries(live):
        if entry.get("manager") == manager and entry.get("operation") == "Apply" and not entry.get("subresource"):
            fields: Node = entry.get("fieldsV1") or {}
            return fields
    return None


def node_at(root: Node, path: Iterable[str]) -> Node | None:
    """Return the node at a path, None where the set has nothing there or below."""
    node: Node | None = root
    for element in path:
        # A member without members below it: nothing deeper is in the set.
        if node is None or (not node and node is not root):
            return None
        node = node.get(element)
    return node


def _entries(live: Manifest) -> list[dict[str, Any]]:
    entries = metadata_of(live).get("managedFields")
    # a list that is not valid counts as none, as at the API server
    return entries if isinstance(entries, list) else []
