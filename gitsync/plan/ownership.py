"""
Transfer of field ownership before an apply, by rewriting ``metadata.managedFields``.

Server-side apply removes a field only when its last owner stops applying it. So an object that another tool applied
keeps what Git removes, unless the tool's ownership becomes ours; and a field that is left to others would be unset
when we stop applying it, unless we give up its ownership first. Both change no value and restart nothing. kubectl
does the same when it migrates objects from client-side to server-side apply (client-go, ``csaupgrade``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from gitsync.merge.fieldset import SELF, FieldSet, Node, Path, human, intersection, recursive_difference, union
from gitsync.merge.schema import DEDUCED, Schema
from gitsync.objects.keys import APPLICATION_LABEL, FIELD_MANAGER, LAST_APPLIED
from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.plan.drift import declared_fields, last_applied_fields
from gitsync.plan.field_owners import node_at

APPLIERS: Final = frozenset(
    {
        # kubectl, by command
        "kubectl",
        "kubectl-client-side-apply",
        "kubectl-create",
        "kubectl-replace",
        "kubectl-run",
        "before-first-apply",
        # Argo CD, by version
        "argocd",
        "argocd-application-controller",
        "argocd-controller",
        # Flux
        "flux",
        "flux-client-side-apply",
        "gotk",
        "helm-controller",
        "kustomize-controller",
        # Helm 3 and 4
        "Helm",
        "helm",
    }
)
"""Field managers of tools that apply manifests; what they own of a declared object follows Git from adoption on."""

_LAST_APPLIED_FIELD: Final = FieldSet.of([("f:metadata", "f:annotations", f"f:{LAST_APPLIED}")])

_MARK: Final[Node] = {"f:metadata": {"f:labels": {f"f:{APPLICATION_LABEL}": {}}}}
"""A field that each apply sets."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """The ``managedFields`` to write, the managers whose fields become ours, and what we release or claim."""

    managed_fields: tuple[Mapping[str, Any], ...]
    taken_from: tuple[str, ...] = ()
    released: tuple[str, ...] = ()
    claimed: tuple[str, ...] = ()
    """Fields without an owner that become ours, so that the apply removes them."""

    @property
    def reason(self) -> str:
        """What the transfer does, for the plan."""
        taken = f"takes over the fields applied by {', '.join(self.taken_from)}" if self.taken_from else ""
        released = f"leaves {', '.join(self.released)} to other managers" if self.released else ""
        claimed = f"removes {', '.join(self.claimed)}, which what Git declares excludes" if self.claimed else ""
        return "; ".join(filter(None, (taken, released, claimed)))

    def of(self, live: Manifest) -> Manifest:
        """Return the live object as it is after the transfer."""
        return {**live, "metadata": {**metadata_of(live), "managedFields": list(self.managed_fields)}}


def transfer(
    live: Manifest,
    version: str,
    schema: Schema | None,
    appliers: Collection[str] = APPLIERS,
    ignored: Collection[Path] = (),
    taken_over: Collection[Path] = (),
    *,
    manager: str = FIELD_MANAGER,
) -> Transfer | None:
    """
    Return the transfer that has to precede an apply by a manager, None when every field has its right owner.

    ``version`` is the apiVersion that will be applied: entries of other versions spell fields differently and are
    left alone. ``ignored`` are paths that Git leaves to others, ``taken_over`` those that become ours, from any
    manager. Entries of subresources always stay.
    """
    entries = [entry for entry in metadata_of(live).get("managedFields") or () if isinstance(entry, dict)]
    # The usual case, without any sets of fields.
    if not (ignored or taken_over) and all(entry.get("manager") not in appliers for entry in entries):
        return None
    taken = [entry for entry in entries if entry.get("manager") in appliers and _is_of(entry, version)]
    ours = next((entry for entry in entries if _is_applied_by(entry, manager)), None)
    shared = [entry for entry in entries if entry is not ours and entry not in taken and _is_of(entry, version)]
    parts = {index: part for index, entry in enumerate(shared) if (part := _part(entry, taken_over))}
    if not taken and not parts and not (ours and ignored):
        return None
    if ours is not None and not _is_of(ours, version):
        return None  # the next apply moves our entry to this version
    fields: Node = (ours or {}).get("fieldsV1") or {}
    for entry in taken:
        fields = union(fields, _applied(entry, live, schema or DEDUCED))
    for part in parts.values():
        fields = union(fields, _bare(part))
    kept = FieldSet(fields).without(FieldSet.of(ignored)) if ignored else FieldSet(fields)
    released = tuple(human(path) for path in ignored if node_at(fields, path) is not None)
    if not taken and not parts and kept.root == fields:
        return None
    reduced = {id(shared[index]): _less(shared[index], part) for index, part in parts.items()}
    rest = [reduced.get(id(entry), entry) for entry in entries if entry is not ours and entry not in taken]
    # The API server keeps no entry without fields.
    remaining = [entry for entry in rest if entry["fieldsV1"]]
    # Without any entry, the API server gives all fields to "before-first-apply" at the apply that follows.
    mine = {**(ours or _entry(manager, version, taken)), "fieldsV1": kept.root if kept or remaining else _MARK}
    return Transfer(
        (*([mine] if mine["fieldsV1"] else []), *remaining),
        tuple(sorted({str(entry["manager"]) for entry in (*taken, *(shared[index] for index in parts))})),
        released,
    )


def with_claimed(
    moved: Transfer | None,
    live: Manifest,
    version: str,
    schema: Schema | None,
    paths: Iterable[Path],
    *,
    manager: str = FIELD_MANAGER,
) -> Transfer | None:
    """
    Return a transfer after which the fields at some paths are the manager's too where they have no owner.

    The apply that follows removes them, as it does with everything that we own and Git does not declare.
    """
    entries = list(moved.managed_fields if moved else metadata_of(live).get("managedFields") or ())
    unowned = [path for path in paths if all(node_at(entry.get("fieldsV1") or {}, path) is None for entry in entries)]
    if not unowned:
        return moved
    present = declared_fields(live, schema or DEDUCED)
    ours = next((entry for entry in entries if _is_applied_by(entry, manager)), _entry(manager, version, ()))
    if present is None or not _is_of(ours, version):
        return moved
    fields = union(ours.get("fieldsV1") or {}, _at_paths(present, unowned))
    rest = [entry for entry in entries if not _is_applied_by(entry, manager)]
    base = moved or Transfer(())
    return replace(
        base, managed_fields=({**ours, "fieldsV1": fields}, *rest), claimed=tuple(human(path) for path in unowned)
    )


def at_version(live: Manifest, manager: str, version: str, removed: str = "") -> tuple[Mapping[str, Any], ...] | None:
    """
    Return the ``managedFields`` in which a manager applied its fields at an apiVersion, None where it did so or never.

    The API server prunes at the version that was applied last, and refuses fields that only a later one has. It refuses
    every apply while a manager, whichever, owns fields at a version that its definition lacks now: ``removed``.
    """
    entries = [entry for entry in metadata_of(live).get("managedFields") or () if isinstance(entry, dict)]

    def is_moved(entry: Mapping[str, Any]) -> bool:
        # also what was written through a subresource
        return entry.get("apiVersion") == removed or (_is_applied_by(entry, manager) and not _is_of(entry, version))

    moved = [{**entry, "apiVersion": version} if is_moved(entry) else entry for entry in entries]
    return None if moved == entries else tuple(moved)


def without_manager(live: Manifest, manager: str) -> tuple[Mapping[str, Any], ...]:
    """Return the ``managedFields`` without what a manager applied: its fields belong to the others, or to none."""
    entries = [entry for entry in metadata_of(live).get("managedFields") or () if isinstance(entry, dict)]
    return tuple(e for e in entries if (e.get("manager"), e.get("operation")) != (manager, "Apply"))


def as_applied(live: Manifest, manager: str) -> tuple[Mapping[str, Any], ...] | None:
    """
    Return the ``managedFields`` in which a manager applied what it created by POST, None where it created nothing.

    Otherwise a field that it stops applying would stay.
    """
    entries = [entry for entry in metadata_of(live).get("managedFields") or () if isinstance(entry, dict)]
    ours = [entry for entry in entries if entry.get("manager") == manager and not entry.get("subresource")]
    created = next((entry for entry in ours if entry.get("operation") == "Update"), None)
    if created is None:
        return None
    fields: Node = {}
    for entry in ours:
        fields = union(fields, _bare(entry.get("fieldsV1") or {}))
    rest = [entry for entry in entries if entry not in ours]
    return ({**created, "operation": "Apply", "fieldsV1": fields}, *rest)


def _is_applied_by(entry: Mapping[str, Any], manager: str) -> bool:
    return entry.get("manager") == manager and entry.get("operation") == "Apply" and not entry.get("subresource")


def _is_of(entry: Mapping[str, Any], version: str) -> bool:
    return entry.get("apiVersion") == version and not entry.get("subresource")


def _entry(manager: str, version: str, taken: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return an entry of a manager for an object that it never applied."""
    times = [str(entry["time"]) for entry in taken if entry.get("time")]
    return {
        "manager": manager,
        "operation": "Apply",
        "apiVersion": version,
        "fieldsType": "FieldsV1",
        # no value changes with the transfer, so the time of the last change stays
        **({"time": max(times)} if times else {}),
    }


def _applied(entry: Mapping[str, Any], live: Manifest, schema: Schema) -> Node:
    """
    Return what the manager of an entry applied, spelled as an applier's set.

    A manager that creates an object by POST also owns the defaults that the API server set. The last-applied
    annotation holds only what was applied; defaults get no owner, so that they are not shown as removed.
    """
    fields: Node = entry.get("fieldsV1") or {}
    if entry.get("operation") == "Update":
        declared = last_applied_fields(live, schema)
        if declared is not None:
            fields = intersection(_bare(fields), declared)
        fields = _bare(fields)
    return FieldSet(fields).without(_LAST_APPLIED_FIELD).root


def _part(entry: Mapping[str, Any], paths: Collection[Path]) -> Node:
    """Return what the manager of an entry owns at some paths and below them."""
    return _at_paths(entry.get("fieldsV1") or {}, paths)


def _at_paths(fields: Node, paths: Collection[Path]) -> Node:
    """Return the part of a field set that is at some paths and below them."""
    part: Node = {}
    for path in paths:
        node = node_at(fields, path)
        if node is None:
            continue
        for element in reversed(path):
            node = {element: node}
        part = union(part, node)
    return part


def _less(entry: Mapping[str, Any], part: Node) -> dict[str, Any]:
    """Return an entry without the fields that are taken over."""
    fields = recursive_difference(entry.get("fieldsV1") or {}, part)
    return {**entry, "fieldsV1": fields}


def _bare(node: Node) -> Node:
    """Return an updater's set without the maps and lists themselves, which appliers do not own beside their members."""
    return {
        # An item of a keyed list is a member also for an applier.
        element: _bare(below) if element[:2] == "k:" or len(below) < 2 or SELF not in below else _without_self(below)
        for element, below in node.items()
    }


def _without_self(node: Node) -> Node:
    return _bare({element: below for element, below in node.items() if element != SELF})
