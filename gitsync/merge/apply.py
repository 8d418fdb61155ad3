"""
Server-side apply and update: who owns which field, who conflicts, and what the object becomes.

The rules are those of Kubernetes' structured merge. An applier owns what it applies; what it applied last
time and no other manager owns is removed when it leaves it out; a value that another manager owns is a conflict
unless the values are equal or force takes it. Any other write takes ownership of what it changes, without conflicts.
A result shares every unchanged part with its inputs: a merge that changes nothing returns the live value itself.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from gitsync.merge import fieldset
from gitsync.merge.comparison import Comparison, compare
from gitsync.merge.fieldset import MEMBER, SELF, FieldSet, Node, is_member, member
from gitsync.merge.schema import DEDUCED, Schema
from gitsync.merge.typed import element_of, field_set
from gitsync.merge.values import same

NOTHING: Final = FieldSet({})


# Ordered, because conflicts are reported in the order of their managers.
@dataclass(frozen=True, slots=True, order=True)
class FieldManager:
    """
    Name one entry of managedFields.

    ``api_version`` tells entries apart only for Update: one manager applies in one version at a time.
    """

    name: str
    operation: Literal["Apply", "Update"]
    subresource: str = ""
    api_version: str = ""


@dataclass(frozen=True, slots=True)
class Owned:
    """What one manager owns: the fields, in which version, and when it last changed a value."""

    fields: FieldSet
    api_version: str
    time: str | None = None


Managers: TypeAlias = Mapping[FieldManager, Owned]


@dataclass(frozen=True, slots=True)
class Applied:
    """The object after a write, and its managers; the same object when no value changed."""

    object: Any
    managers: Managers


@dataclass(frozen=True, slots=True)
class FieldConflict:
    """A field that another manager owns with another value."""

    manager: FieldManager
    path: fieldset.Path

    @property
    def field(self) -> str:
        """The path as the API server prints it."""
        return fieldset.human(self.path)


@dataclass(frozen=True, slots=True)
class Conflicts:
    """Why an apply without force is refused: nothing was changed."""

    conflicts: tuple[FieldConflict, ...]


@dataclass(frozen=True, slots=True)
class Writer:
    """
    The writer of a change, its version and time.

    No manager owns the paths ``ignored`` and what is below them, nor the paths ``never`` by themselves. ``types`` has
    the schemas of versions in which other managers own fields, where these are not the schema of the object.
    """

    manager: FieldManager
    api_version: str
    time: str | None = None
    ignored: FieldSet = NOTHING
    never: FieldSet = NOTHING
    types: Mapping[str, Schema] = field(default_factory=dict)


def apply(
    live: Any, applied: Any, schema: Schema, managers: Managers, writer: Writer, *, force: bool = False
) -> Applied | Conflicts:
    """
    Merge an applied value into the live one.

    Raise TypedError when the applied value does not fit the schema. The time is recorded when a value changed.
    When neither a value nor the ownership changed, the result holds the input objects.
    """
    manager = writer.manager
    fields = field_set(schema, applied)
    if writer.ignored:
        fields = fields.without(writer.ignored)
    # Kept with the paths that no manager may own: they still hold up the maps above them when the object is pruned.
    stated = fields
    fields -= writer.never
    merged = merge(schema, live, applied)
    last = managers.get(manager)
    # ``merge`` returns the live object itself when no value changed. A repeated apply ends here, before the sets of
    # all managers are converted and joined.
    if last is not None and merged is live and last.fields == fields and last.api_version == writer.api_version:
        return Applied(live, managers)

    owners = _reconciled(schema, managers, writer.types)
    held = owners.get(manager)
    # The old time stays until a value is known to change: a change of ownership alone does not set it.
    owners[manager] = Owned(fields, writer.api_version, held.time if held else None)
    # A first apply gives nothing up, so nothing can be removed.
    if held is not None:
        # metadata.name, part of every apply, keeps metadata when its last label or annotation is removed.
        merged = _pruned(schema, merged, held.fields.root, fieldset.union(stated.root, _all_fields(owners)))
    # Equal values are shared without a conflict, so only what the merge changed is taken from others.
    conflicts = _take(owners, manager, compare(schema, live, merged).less(writer.ignored))
    if conflicts and not force:
        return Conflicts(tuple(sorted(conflicts, key=lambda conflict: (conflict.manager, conflict.field))))
    # An applied object without fields of its own (a bare ServiceAccount) has no entry in managedFields.
    if not fields:
        del owners[manager]
    elif merged is not live:
        owners[manager] = Owned(fields, writer.api_version, writer.time)
    return Applied(merged, managers if owners == managers else owners)


def update(live: Any, written: Any, schema: Schema, managers: Managers, writer: Writer) -> Managers:
    """
    Return the managers after any write that is not an apply: it takes the changed fields from all other managers.

    Raise TypedError when the written value does not fit the schema.
    """
    if live is written:
        return managers
    # Only for its error. Stored objects may hold duplicate items; an apply alone refuses them.
    field_set(schema, written, duplicates=True)
    change = compare(schema, live, written).less(writer.ignored)
    owners = _reconciled(schema, managers, writer.types)
    # None: the writer's own entry loses these fields too. What still exists is given back to it below.
    _take(owners, None, change)
    taken = (change.modified | change.added) - writer.never
    if taken:
        held = owners.get(writer.manager)
        fields = taken if held is None else held.fields | taken
        owners[writer.manager] = Owned(fields, writer.api_version, writer.time)
    return managers if owners == managers else owners


def _reconciled(schema: Schema, managers: Managers, types: Mapping[str, Schema]) -> dict[FieldManager, Owned]:
    """Return a copy of the managers, with each set converted to the current types."""
    out = {}
    for manager, owned in managers.items():
        # Paths have the types of the version in which the manager wrote them, not of the version of this write.
        root = reconciled(types.get(owned.api_version, schema), owned.fields.root)
        out[manager] = owned if root is owned.fields.root else Owned(FieldSet(root), owned.api_version, owned.time)
    return out


def _take(owners: dict[FieldManager, Owned], writer: FieldManager | None, change: Comparison) -> list[FieldConflict]:
    """Remove the changed fields from all managers but the writer; return those that they owned."""
    conflicts: list[FieldConflict] = []
    touched = fieldset.union(change.modified.root, change.added.root)
    if not touched and not change.removed:
        return conflicts
    # a copy: entries are deleted on the way
    for manager, owned in list(owners.items()):
        if manager == writer:
            continue
        theirs = owned.fields.root
        taken = fieldset.intersection(theirs, touched)
        conflicts += [FieldConflict(manager, path) for path in FieldSet(taken)]
        # Removed paths leave every set, but are not conflicts: only a value that differs is one.
        remaining = fieldset.difference(fieldset.difference(theirs, taken), change.removed.root)
        if not remaining:
            del owners[manager]
        elif remaining is not theirs:
            owners[manager] = Owned(FieldSet(remaining), owned.api_version, owned.time)
    return conflicts


def _all_fields(owners: Mapping[FieldManager, Owned]) -> Node:
    """Return the root of all owned fields."""
    managed: Node = {}
    for owned in owners.values():
        managed = fieldset.union(managed, owned.fields.root)
    return managed


def _pruned(schema: Schema, merged: Any, last: Node, managed: Node) -> Any:
    """Return the merged value without the fields that the applier gave up and no manager owns or declares now."""
    last = with_named_fields(schema, last)
    managed = with_named_fields(schema, managed)
    if not fieldset.difference(last, managed):
        return merged
    whole = _present(schema, merged)
    # Three steps, because removing an item takes all below it: remove what was owned, add back what some manager
    # owns, and of what is then missing remove only what the applier itself had owned.
    bare = _present(schema, remove(schema, merged, last))
    kept = fieldset.union(bare, managed)
    bare = _present(schema, remove(schema, merged, fieldset.difference(whole, kept)))
    gone = fieldset.intersection(fieldset.difference(whole, bare), last)
    return remove(schema, merged, gone)


def _present(schema: Schema, value: Any) -> Node:
    """Return the root of all paths of a value, with the declared fields above them."""
    return with_named_fields(schema, field_set(schema, value, duplicates=True).root)


def remove(schema: Schema, value: Any, gone: Node) -> Any:
    """
    Return a value without the members of a set; what is below them is removed too.

    A map or list from which everything was removed becomes None: the API server decodes that as absent.
    """
    if not gone:
        return value
    if type(value) is dict and schema.is_map:
        # Of an atomic value nothing remains when a part is removed (remove.go of structured-merge-diff).
        if schema.map_atomic:
            return None
        kept: dict[str, Any] = {}
        for name, child in value.items():
            node = gone.get(f"f:{name}")
            if node is None:
                kept[name] = child
            elif not is_member(node):
                below = schema.fields[name]
                kept[name] = remove(below, child, node) if below is not None else child
        return kept or None
    if type(value) is list and schema.is_list:
        if schema.list_type == "atomic":
            return None
        items = schema.items or DEDUCED
        kept_items = []
        for item in value:
            node = gone.get(element_of(schema, item))
            if node is None:
                kept_items.append(item)
            elif not is_member(node):
                kept_items.append(remove(items, item, node))
        return kept_items or None
    return value


def with_named_fields(schema: Schema, node: Node) -> Node:
    """Return a root in which each declared field that has members below it is a member as well."""
    out = None
    for element, below in node.items():
        if not below or element == SELF:
            continue
        after = below
        name = element[2:]
        child = schema.items if element[0] != "f" else schema.fields[name]
        if child is not None:
            after = with_named_fields(child, below)
        # Applied sets hold leaves only. A declared field exists with its children; a key of a map is a member itself
        # (EnsureNamedFieldsAreMembers of structured-merge-diff).
        if element[0] == "f" and name in schema.declared:
            after = member(after)
        if after is not below:
            if out is None:
                out = dict(node)
            out[element] = after
    return node if out is None else out


def reconciled(schema: Schema, root: Node) -> Node:
    """
    Return a manager's set converted to its current type: where a type became atomic, its parts become one member.

    The same root is returned when nothing changed. A type that became granular stays as it was owned.
    """
    out = None
    for element, below in root.items():
        if not below or element == SELF:
            continue
        child = schema.fields[element[2:]] if element[0] == "f" else schema.items
        # A field that the type does not describe has no type that could have changed.
        if child is None or child is DEDUCED:
            continue
        atomic = child.map_atomic if child.is_map else child.is_list and child.list_type == "atomic"
        after = MEMBER if atomic else reconciled(child, below)
        if after is not below:
            if out is None:
                out = dict(root)
            out[element] = after
    return root if out is None else out


# Not None: a live null is a value that the applied one is merged into.
_ABSENT: Final = object()


def merge(schema: Schema, live: Any, applied: Any) -> Any:
    """
    Return the live value with an applied value merged into it.

    Members and items that are not applied stay; the applied order of items wins over the live order.
    """
    if live is applied:
        return live
    kind = type(applied)
    if kind is dict and schema.is_map and not schema.map_atomic:
        return _merge_maps(schema, live if type(live) is dict else None, live, applied)
    if kind is list and schema.list_type != "atomic" and schema.is_list:
        ours = live if type(live) is list else []
        if not ours and not applied:
            # [] over [] changes nothing; [] over null does.
            return live if type(live) is list else applied
        return _merge_lists(schema, ours, applied)
    if applied is None and live:
        # Null lies over a granular map or list without taking what is in it.
        if type(live) is dict and schema.is_map and not schema.map_atomic:
            return live
        if type(live) is list and schema.is_list and schema.list_type != "atomic" and not schema.is_map:
            return live
    # The live object for an equal value: callers recognize "no change" by identity.
    return live if same(live, applied) else applied


def _merge_maps(schema: Schema, ours: dict[str, Any] | None, live: Any, applied: dict[str, Any]) -> Any:
    if not ours:
        # {} over {} changes nothing; {} over null or a scalar does.
        return live if ours is not None and not applied else applied
    fields = schema.fields
    out = None
    for name, value in applied.items():
        live_value = ours.get(name, _ABSENT)
        if live_value is value:
            continue
        if live_value is _ABSENT:
            merged = value
        else:
            kind = type(value)
            if kind is str and live_value == value:
                continue
            below = fields[name]
            merged = merge(below, live_value, value) if below is not None else value
            if merged is live_value:
                continue
        if out is None:
            out = dict(ours)
        out[name] = merged
    return ours if out is None else out


def _merge_lists(schema: Schema, live: list[Any], applied: list[Any]) -> list[Any]:
    items = schema.items or DEDUCED
    ours, ours_by = _index(schema, live)
    theirs, theirs_by = _index(schema, applied)
    out: list[Any] = []
    for element, position in _order(ours, theirs):
        if element in theirs_by:
            live_item = ours_by.get(element, _ABSENT)
            applied_item = theirs_by[element]
            out.append(applied_item if live_item is _ABSENT else merge(items, live_item, applied_item))
        else:
            out.append(live[position])
    unchanged = len(out) == len(live) and all(map(operator.is_, out, live))
    return live if unchanged else out


def _index(schema: Schema, values: list[Any]) -> tuple[list[str], dict[str, Any]]:
    """Return the elements of the items in order, and the item of each; a duplicate has None."""
    order = [element_of(schema, value) for value in values]
    by: dict[str, Any] = {}
    for element, value in zip(order, values, strict=True):
        by[element] = None if element in by else value
    return order, by


def _order(ours: list[str], theirs: list[str]) -> list[tuple[str, int]]:
    """
    Return the merged order of two lists of elements, each with its position in ours.

    Shared items have the order of theirs; each item that only ours has keeps its place after the one
    before it, as far as that order allows.
    """
    if ours == theirs:
        return [(element, i) for i, element in enumerate(ours)]
    # The algorithm of merge.go in structured-merge-diff, item for item: the order is visible to users.
    in_ours = set(ours)
    in_theirs = set(theirs)
    shared = [element for element in theirs if element in in_ours]
    awaited = 0
    merged: set[str] = set()
    out: list[tuple[str, int]] = []
    our_position = their_position = 0
    while our_position < len(ours) or their_position < len(theirs):
        if our_position < len(ours) and their_position < len(theirs):
            element = ours[our_position]
            if element == theirs[their_position]:
                merged.add(element)
                out.append((element, our_position))
                our_position += 1
                their_position += 1
                awaited += 1
                continue
            if element in in_theirs and awaited < len(shared) and shared[awaited] != element:
                our_position += 1  # it comes later, where theirs has it
                continue
        if our_position < len(ours):
            element = ours[our_position]
            if element not in in_theirs:
                out.append((element, our_position))
                our_position += 1
                continue
            if element in merged:
                our_position += 1
        if their_position < len(theirs):
            element = theirs[their_position]
            merged.add(element)
            # -1 is not read: an element of theirs is taken from the applied list.
            out.append((element, -1))
            their_position += 1
            if awaited < len(shared) and shared[awaited] == element:
                awaited += 1
    return out
