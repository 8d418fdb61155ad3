"""
Drift: the fields in which a live object differs from what Git declares.

A field is compared when Git declares it, or when we applied it before and Git no longer does. Everything else in the
live object belongs to others and is not drift. Values are compared by meaning, along the schema of the kind.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from gitsync.merge.fieldset import MEMBER, FieldSet, Node, human, is_member, union
from gitsync.merge.schema import DEDUCED, Schema
from gitsync.merge.typed import TypedError, field_set
from gitsync.objects.change import ABSENT, DRIFT, Difference, FieldDifference
from gitsync.objects.keys import FIELD_MANAGER, LAST_APPLIED
from gitsync.objects.manifest import Manifest, annotations_of, escaped_name
from gitsync.plan.dependent_members import is_of_another_choice
from gitsync.plan.equality import indexed, is_empty, matches_exactly, same_value
from gitsync.plan.field_owners import Owners, applied_fields, node_at, owners_of

Path = tuple[str, ...]

_UNOWNED: Final = frozenset({"f:apiVersion", "f:kind"})
_UNOWNED_METADATA: Final = frozenset({"f:name", "f:namespace", "f:uid", "f:resourceVersion", "f:generation"})
_SWITCHES: Final = frozenset({"f:externalTrafficPolicy", "f:ipFamilyPolicy", "f:sessionAffinity", "f:type"})
"""Fields on which others depend: changing one makes the API server fill in or drop its dependants."""
_SCALARS: Final = frozenset({str, int, float, bool})
_SKIPPED: Final = frozenset({"apiVersion", "kind", "status"})
_NOT_COMPARED: Final = frozenset(
    {"name", "namespace", "managedFields", "creationTimestamp", "resourceVersion", "generation", "uid"}
)


@dataclass(frozen=True, slots=True)
class Drift:
    """
    What applying a desired object would change; ``paths`` are those of the differences, in elements.

    ``owned`` says whether we own exactly what we declare; ``certain`` is False where only a dry run can tell whether
    the API server sees a difference too. ``inferred``: that it does is inferred from the value that it stored before.
    """

    differences: tuple[FieldDifference, ...] = ()
    paths: tuple[Path, ...] = ()
    owned: bool = True
    certain: bool = True
    inferred: bool = False

    @property
    def in_sync(self) -> bool:
        """Whether no difference counts as drift."""
        return not any(difference.kind in DRIFT for difference in self.differences)


IN_SYNC: Final = Drift()


def find_drift(
    desired: Manifest, live: Manifest, schema: Schema | None, manager: str = FIELD_MANAGER, *, is_stored: bool = False
) -> Drift:
    """
    Return where a live object differs from the desired one, with the managers that own each differing field.

    ``desired`` is normalised. Without a schema, maps are compared member by member and lists as a whole. What we
    applied before is read from ``managedFields``. ``is_stored``: the API server stores what we apply to the object as
    it is, see ``stores_as_declared``.
    """
    # Nearly every object of nearly every reconcile ends here.
    if is_exact(desired, live, schema, manager):
        return IN_SYNC
    return inexact_drift(desired, live, schema, manager, is_stored=is_stored)


def inexact_drift(
    desired: Manifest, live: Manifest, schema: Schema | None, manager: str = FIELD_MANAGER, *, is_stored: bool = False
) -> Drift:
    """As ``find_drift``, of an object that is known not to be exact."""
    applied = applied_fields(live, manager)
    return _compared(_Comparer(owners_of(live, manager), is_stored=is_stored), applied, desired, live, schema)


def is_exact(desired: Manifest, live: Manifest, schema: Schema | None, manager: str = FIELD_MANAGER) -> bool:
    """Whether a live object has the declared values, and we own exactly these, so that an apply changes nothing."""
    applied = applied_fields(live, manager)
    return applied is not None and matches_exactly(schema or DEDUCED, desired, live, applied)


def _compared(walk: _Comparer, applied: Node | None, desired: Manifest, live: Manifest, schema: Schema | None) -> Drift:
    known = schema or DEDUCED
    walk.object(known, desired, live)
    is_owned = applied == declared_fields(desired, known)
    # Without a schema, only the API server knows in which form it stores a value.
    return Drift(tuple(walk.found), tuple(walk.paths), is_owned, schema is not None and walk.certain, walk.inferred)


def stores_as_declared(last: Manifest, live: Manifest, schema: Schema | None, manager: str = FIELD_MANAGER) -> bool:
    """
    Whether a live object is exactly what we declared and own, with the values of ``last``, which we applied.

    Then another value of one of these fields is stored too: no dry run has to tell whether the API server keeps it.
    """
    applied = applied_fields(live, manager)
    return schema is not None and applied is not None and matches_exactly(schema, last, live, applied)


def compare_objects(
    answer: Manifest,
    live: Manifest,
    schema: Schema | None,
    manager: str = FIELD_MANAGER,
    *,
    owned_only: bool = False,
) -> Drift:
    """
    Return every difference between a live object and the API server's answer to a dry-run apply.

    ``owned_only`` leaves out what the manager does not own in the answer, such as the work of mutating webhooks.
    """
    walk = _Comparer(owners_of(live, manager), whole=True)
    walk.object(schema or DEDUCED, answer, live)
    differences = list(zip(walk.found, walk.paths, strict=True))
    applied = applied_fields(answer, manager)
    if owned_only:
        # Before and after: a field that the apply gives up is in the live set alone.
        both = union(applied or MEMBER, walk.owners.ours)
        differences = [(difference, path) for difference, path in differences if node_at(both, path) is not None]
    return Drift(
        tuple(difference for difference, _ in differences),
        tuple(path for _, path in differences),
        owned=applied == applied_fields(live, manager),
    )


def undeclared_fields(
    desired: Manifest,
    live: Manifest,
    schema: Schema | None,
    manager: str = FIELD_MANAGER,
    *,
    with_shared: bool = False,
) -> tuple[tuple[FieldDifference, Path], ...]:
    """
    Return the fields of a live object that Git does not declare and we do not own, with their paths.

    Fields of another manager are foreign; fields without a manager were filled in by the API server. ``with_shared``
    includes those that others and we own, since Git declared them before: they stay when we give them up.
    """
    walk = _Comparer(owners_of(live, manager), whole=True)
    walk.object(schema or DEDUCED, desired, live)
    return tuple(
        (replace(difference, kind=Difference.FOREIGN if difference.owners else Difference.DEFAULTED), path)
        for difference, path in zip(walk.found, walk.paths, strict=True)
        if difference.kind is Difference.EXTRA
        and (node_at(walk.owners.ours, path) is None or (with_shared and node_at(walk.owners.others, path) is not None))
    )


def owned_beside_ignored(
    drift: Drift, applied: Node | None, live: Manifest, manager: str, respelled: tuple[Path, ...] = ()
) -> Drift:
    """
    Return a drift that counts as owned where all that we lack of ``applied`` is ignored, or only spelled otherwise.

    A manager that changes a part of a value which is replaced as a whole owns all of it, and so does one that spells
    it otherwise. An apply would take it over without a change, and that manager would take it back.
    """
    if applied is None:
        return drift
    ignored = [
        *respelled,
        *(
            path
            for difference, path in zip(drift.differences, drift.paths, strict=True)
            if difference.kind is Difference.IGNORED
        ),
    ]
    ours = frozenset(FieldSet(applied_fields(live, manager) or {}).leaves())
    other = ours.symmetric_difference(FieldSet(applied).leaves())
    is_left = all(any(path[: len(above)] == above for above in ignored) for path in other)
    return replace(drift, owned=is_left)


def last_applied_fields(live: Manifest, schema: Schema) -> Node | None:
    """Return the fields of the last-applied annotation; None where there is none or it cannot be read."""
    try:
        applied = orjson.loads(annotations_of(live)[LAST_APPLIED])
    # Users can edit the annotation; without it, all that a manager owns counts as applied.
    except (KeyError, orjson.JSONDecodeError):
        return None
    return declared_fields(_without_empty(applied), schema) if isinstance(applied, dict) else None


def _without_empty(value: Any) -> Any:
    """Return a value without nulls and empty maps: applying those claims nothing that others set there."""
    if isinstance(value, dict):
        return {key: _without_empty(member) for key, member in value.items() if not is_empty(DEDUCED, member)}
    return [_without_empty(item) for item in value] if isinstance(value, list) else value


def declared_fields(desired: Manifest, schema: Schema) -> Node | None:
    """Return the fields that applying an object owns, None when it does not fit its schema (the gate reports that)."""
    try:
        root = field_set(schema, desired).root
    except TypedError:
        return None
    kept = {element: below for element, below in root.items() if element not in _UNOWNED}
    metadata = kept.pop("f:metadata", MEMBER)
    metadata = {element: below for element, below in metadata.items() if element not in _UNOWNED_METADATA}
    return {**kept, "f:metadata": metadata} if metadata else kept


class _Comparer:
    """One comparison: the differences and the field owners; ``whole``: a field that only live has is a difference."""

    def __init__(self, owners: Owners, *, whole: bool = False, is_stored: bool = False) -> None:
        self.owners = owners
        self.include_unowned = whole
        self.is_stored = is_stored
        self.inferred = False
        self.found: list[FieldDifference] = []
        self.paths: list[Path] = []
        self.certain = True

    def object(self, schema: Schema, desired: Manifest, live: Manifest) -> None:
        """Compare two whole objects."""
        want = {name: value for name, value in desired.items() if name not in _SKIPPED}
        have = {name: value for name, value in live.items() if name not in _SKIPPED}
        for side in (want, have):
            if isinstance(side.get("metadata"), dict):
                side["metadata"] = _compared_metadata(side["metadata"])
        self.map(schema, want, have, (), "")

    def value(self, schema: Schema, desired: Any, live: Any, path: Path, pointer: str) -> None:
        """Compare two values at a path."""
        if type(desired) is dict and type(live) is dict and not schema.map_atomic:
            self.map(schema, desired, live, path, pointer)
        elif type(desired) is list and type(live) is list and schema.is_list and schema.list_type != "atomic":
            self.list(schema, desired, live, path, pointer)
        elif not same_value(schema, desired, live):
            self.record(Difference.CHANGED, path, pointer, desired, live)

    def map(self, schema: Schema, desired: dict[str, Any], live: dict[str, Any], path: Path, pointer: str) -> None:
        """Compare two maps member by member; a member that only live has counts where we are its only owner."""
        for name, value in desired.items():
            live_value = live.get(name)
            # Most members are scalars that are as declared. The type too: 1 equals True.
            if type(value) in _SCALARS and type(live_value) is type(value) and live_value == value:
                continue
            here = (*path, f"f:{name}")
            there = f"{pointer}/{escaped_name(name)}"
            below = schema.fields[name] or DEDUCED
            if live_value is not None:
                self.value(below, value, live_value, here, there)
            elif not (
                is_empty(below, value)
                or (name in live and same_value(below, value, None))
                or self.is_dropped_zero(value, here)
                or (self.is_applied(here) and is_of_another_choice(schema, name, live))
            ):
                self.record(Difference.GONE, here, there, value, ABSENT)
        node = (
            dict.fromkeys(f"f:{name}" for name in live)
            if self.include_unowned
            else node_at(self.owners.ours, path) or MEMBER
        )
        for element in node:
            name = element[2:]
            if element[:2] == "f:" and name not in desired and name in live:
                below = schema.fields[name] or DEDUCED
                self.removed_by_apply(below, live[name], (*path, element), f"{pointer}/{escaped_name(name)}")

    def is_dropped_zero(self, value: Any, path: Path) -> bool:
        """Whether a zero value was applied that the API server does not persist; removing it transfers ownership."""
        return value in (False, 0, "") and self.is_applied(path)

    def is_applied(self, path: Path) -> bool:
        """Whether we applied a value that is not live: a client that removes one takes its ownership."""
        return not self.include_unowned and node_at(self.owners.ours, path) is not None

    def list(self, schema: Schema, desired: list[Any], live: list[Any], path: Path, pointer: str) -> None:
        """Compare two keyed lists or sets item by item, and the order of the items that both have."""
        want = indexed(schema, desired)
        have = indexed(schema, live)
        # Items without a key of their own, or with the same, cannot be paired.
        if want is None or have is None:
            if not same_value(schema, desired, live):
                self.record(Difference.CHANGED, path, pointer, desired, live)
            return
        for element, (index, value) in want.items():
            if element in have:
                self.value(
                    schema.items or DEDUCED, value, have[element][1], (*path, element), f"{pointer}/{have[element][0]}"
                )
            else:
                self.record(Difference.GONE, (*path, element), f"{pointer}/{index}", value, ABSENT)
        # An apply removes nothing but what its own manager owns.
        node = have if self.include_unowned else node_at(self.owners.ours, path) or MEMBER
        for element in node:
            if element in have and element not in want:
                index, value = have[element]
                self.removed_by_apply(schema.items or DEDUCED, value, (*path, element), f"{pointer}/{index}")
        # Only shared items: the applied order wins for these, and items of others keep their places between them.
        order = [e for e in want if e in have]
        live_order = [e for e in have if e in want]
        if order != live_order:
            self.record(Difference.ORDER, path, pointer, [_key(e) for e in order], [_key(e) for e in live_order])

    def removed_by_apply(self, schema: Schema, live: Any, path: Path, pointer: str) -> None:
        """Record what applying removes of a member that Git no longer declares: what no other manager owns."""
        if is_empty(schema, live):
            return
        if self.is_removed_whole(schema, live, path):
            self.record(Difference.EXTRA, path, pointer, ABSENT, live)
        elif type(live) is dict and not schema.map_atomic:
            self.map(schema, {}, live, path, pointer)
        elif type(live) is list and schema.list_type != "atomic":
            self.list(schema, [], live, path, pointer)

    def is_removed_whole(self, schema: Schema, live: Any, path: Path) -> bool:
        """Whether a member that Git does not declare is one difference, and not one for each of its members."""
        if self.include_unowned:
            # Otherwise what a user adds beside the members of a controller would count as the controller's. An item of
            # a keyed list stays one: without its key it is not valid.
            has_members = not path[-1].startswith("k:") and (
                (type(live) is dict and not schema.map_atomic)
                or (type(live) is list and schema.list_type != "atomic" and indexed(schema, live) is not None)
            )
            return not has_members or len({owner.manager for owner in self.owners.of(path)}) < 2
        ours = node_at(self.owners.ours, path)
        others = node_at(self.owners.others, path)
        return others is None and ours is not None and _is_all_ours(ours, live)

    def may_be_rewritten(self, desired: Any, path: Path) -> bool:
        """
        Whether the API server may store another value, or change others with it.

        A value of ours may be stored in another spelling, and one that is replaced as a whole may get defaults inside.
        """
        return node_at(self.owners.others, path) is None or isinstance(desired, dict | list) or path[-1] in _SWITCHES

    def is_kept(self, desired: Any, path: Path) -> bool:
        """Whether the API server keeps a value, since it kept the one that we applied before."""
        is_single = not isinstance(desired, dict | list) and path[-1] not in _SWITCHES
        return self.is_stored and is_single and node_at(self.owners.ours, path) is not None

    def record(self, kind: Difference, path: Path, pointer: str, desired: Any, live: Any) -> None:
        """Record one difference with its owners."""
        owners = self.owners.of(path) if live is not ABSENT else ()
        if kind is Difference.CHANGED and self.may_be_rewritten(desired, path) and self.is_kept(desired, path):
            self.inferred = True
        elif (
            kind is Difference.EXTRA
            or (kind is Difference.CHANGED and self.may_be_rewritten(desired, path))
            or (kind is Difference.GONE and not desired)
        ):
            # What we give up may get its default back, and what is empty may not be stored at all.
            self.certain = False
        self.found.append(FieldDifference(human(path), pointer, kind, desired, live, owners))
        self.paths.append(path)


def _is_all_ours(node: Node, live: Any) -> bool:
    """Whether a set covers everything in a value: then the value is removed as a whole."""
    if is_member(node):
        return True
    if type(live) is dict:
        return all(f"f:{name}" in node and _is_all_ours(node[f"f:{name}"], member) for name, member in live.items())
    return type(live) is list and len(live) <= len(node)


def _compared_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata that can drift: what a manifest sets, without the bookkeeping of ``kubectl apply``."""
    result = {key: value for key, value in metadata.items() if key not in _NOT_COMPARED}
    annotations = result.get("annotations")
    if isinstance(annotations, dict) and LAST_APPLIED in annotations:
        result["annotations"] = {key: value for key, value in annotations.items() if key != LAST_APPLIED}
    return result


def _key(element: str) -> Any:
    return orjson.loads(element[2:])
