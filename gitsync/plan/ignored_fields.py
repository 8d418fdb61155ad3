"""
Differences to ignore: what an ignore rule or a hold of a user covers is left to other field managers.

A covered field is not applied at all, so that it keeps its live value and its owner. Inside a value that is replaced
as a whole (an atomic list, say) nothing can be left out: there the live value is applied.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gitsync.merge.fieldset import FieldSet, human
from gitsync.merge.schema import DEDUCED, Schema
from gitsync.objects.application import Application, IgnoreRule
from gitsync.objects.change import ABSENT, DRIFT, Difference, FieldDifference
from gitsync.objects.holds import field_key, held_fields
from gitsync.objects.keys import FIELD_MANAGER
from gitsync.objects.manifest import Manifest, at, pointer_parts
from gitsync.objects.options import Options
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.plan import jq_paths
from gitsync.plan.controlled_fields import Keys, added_fields, handed_over_fields
from gitsync.plan.drift import Drift, Path, declared_fields, find_drift
from gitsync.plan.equality import element as element_of
from gitsync.plan.equality import respelled, same_value
from gitsync.plan.field_owners import node_at, owners_of


@dataclass(frozen=True, slots=True)
class IgnoredFields:
    """
    What is left to others of one object.

    These are the ignore rules of the Application, the JSON Pointers that the object's own annotation names, and the
    keys (``field_key``) of the fields that users hold.
    """

    rules: Sequence[IgnoreRule]
    pointers: Collection[str] = ()
    held: Collection[str] = ()

    @classmethod
    def of(cls, app: Application, ref: ObjectRef, options: Options) -> IgnoredFields:
        """Return what an Application leaves to others of one of its objects."""
        return cls(app.sync.ignore, options.ignore, held_fields(app.holds, ref))

    def rules_for(self, ref: ObjectRef) -> list[IgnoreRule]:
        """Return the rules that are for an object."""
        return [rule for rule in self.rules if applies_to(rule, ref)]

    def is_held(self, path: Path) -> bool:
        """Whether a user holds a field, or one that contains it."""
        return bool(self.held) and any(field_key(human(path[: length + 1])) in self.held for length in range(len(path)))


def without_ignored_fields(
    ignored: IgnoredFields, desired: Manifest, live: Manifest, schema: Schema | None
) -> tuple[Manifest, tuple[Path, ...]]:
    """
    Return the desired object without the declared fields that rules leave to others, and the paths of these fields.

    Fields inside an atomic value stay, and so does a member that identifies an item of a list.
    """
    cover = _cover(ignored, desired, live, schema)
    if cover is None:
        return desired, ()
    known = schema or DEDUCED
    # By element instead of index: indices would shift with the first item that is left out.
    paths = [path for keys in cover.pointers if (path := _path_of(known, desired, keys)) is not None]
    paths += cover.declared
    if cover.handed_over:
        paths += _handed_over_paths(desired, live, cover.handed_over)
    if cover.roots or ignored.held:
        declared = FieldSet(declared_fields(desired, known) or {}).leaves()
        paths += [path for path in declared if cover.is_owned_by_others(path) or ignored.is_held(path)]
    result = desired
    for path in sorted(set(paths)):
        result = _put(known, result, path, ABSENT)
    return result, tuple(sorted(set(paths)))


def _handed_over_paths(desired: Manifest, live: Manifest, fields: Iterable[Keys]) -> Iterator[Path]:
    """Yield the paths of declared fields that a controller decides, each with the map that it would leave empty."""
    ours = owners_of(live, FIELD_MANAGER).ours
    for keys in fields:
        path = tuple(f"f:{key}" for key in keys)
        # What its webhook set in our own request is ours, and is sent as it is: leaving it out would remove it.
        if node_at(ours, path) is not None:
            continue
        while len(path) > 1 and len(at(desired, *keys[: len(path) - 1])) == 1:
            path = path[:-1]
        yield path


def ignored_differences(
    desired: Manifest, live: Manifest, schema: Schema | None, ignored_paths: Collection[Path]
) -> tuple[FieldDifference, ...]:
    """Return the differences of the fields that are left to others, which are shown but never applied."""
    if not ignored_paths:
        return ()
    drift = find_drift(desired, live, schema)
    return tuple(
        replace(difference, kind=Difference.IGNORED)
        for difference, path in zip(drift.differences, drift.paths, strict=True)
        if difference.kind in DRIFT and any(path[: len(above)] == above for above in ignored_paths)
    )


def _path_of(schema: Schema, value: Any, keys: Keys) -> Path | None:
    """Return the path of elements of what keys name in a value, None where it is absent or cannot be left out."""
    path: list[str] = []
    for depth, key in enumerate(keys):
        if isinstance(value, dict) and key in value and not schema.map_atomic:
            schema = schema.fields[key] or DEDUCED
            value = value[key]
            path.append(f"f:{key}")
        elif isinstance(value, list) and schema.list_type != "atomic" and key.isdecimal() and int(key) < len(value):
            item = value[int(key)]
            element = element_of(schema, item)
            if element is None or (keys[depth + 1 : depth + 2] and keys[depth + 1] in schema.keys):
                return None
            schema = schema.items or DEDUCED
            value = item
            path.append(element)
        else:
            return None
    return tuple(path)


@dataclass(frozen=True, slots=True)
class Ignored:
    """A drift without the ignored differences, and the desired object with the live values of those fields."""

    drift: Drift
    desired: Manifest


def without_ignored(
    ignored: IgnoredFields, desired: Manifest, live: Manifest, schema: Schema | None, drift: Drift
) -> Ignored:
    """Mark the differences that rules cover as ignored, and copy their live values into the desired object."""
    covers = None if drift.in_sync else _cover(ignored, desired, live, schema)
    if covers is None:
        return Ignored(drift, desired)
    known = schema or DEDUCED
    result = desired
    differences = []
    for difference, path in zip(drift.differences, drift.paths, strict=True):
        if difference.kind in DRIFT and covers(difference, path):
            result = _put(known, result, path, difference.live)
            difference = replace(difference, kind=Difference.IGNORED)
        differences.append(difference)
    return Ignored(replace(drift, differences=tuple(differences)), result)


def as_spelled(desired: Manifest, live: Manifest, schema: Schema) -> tuple[Manifest, tuple[Path, ...]]:
    """
    Return the desired object with the live spelling of values that mean the same, and the paths of these values.

    Sending the declared spelling again would be a change that nothing needs.
    """
    spelled = dict(respelled(schema, {"spec": desired.get("spec")}, {"spec": live.get("spec")}))
    result = desired
    for path, value in spelled.items():
        result = _put(schema, result, path, value)
    return result, tuple(spelled)


Covers = Callable[[FieldDifference, Path], bool]
"""Whether a difference, at a path of elements, is left to others."""


def covers_of(ignored: IgnoredFields, desired: Manifest, live: Manifest, schema: Schema | None) -> Covers:
    """Return what decides whether rules or holds cover a difference of two objects."""
    return _cover(ignored, desired, live, schema) or (lambda difference, path: False)


def applies_to(rule: IgnoreRule, ref: ObjectRef) -> bool:
    """Whether a rule is for an object."""
    wanted = ((rule.group, ref.group), (rule.kind, ref.kind), (rule.name, ref.name), (rule.namespace, ref.namespace))
    # Empty matches all, as an absent member of the rule.
    return all(want in ("*", "", have) for want, have in wanted)


def _cover(ignored: IgnoredFields, desired: Manifest, live: Manifest, schema: Schema | None) -> _Cover | None:
    """Return what decides for one pair of objects, None where nothing of it is left to others."""
    # each object of each plan asks, and few have anything
    ref = ref_of(live)
    of = ref.of
    rules = ignored.rules_for(ref)
    added = added_fields(of, desired, live)
    handed_over = handed_over_fields(of, desired, live)
    if not (rules or ignored.pointers or ignored.held or added or handed_over):
        return None
    return _Cover(ignored, rules, _Sides(desired, live, schema or DEDUCED, added, handed_over))


@dataclass(frozen=True, slots=True)
class _Sides:
    """An object as it is declared and as it is, the schema of its kind, and the fields that controllers write."""

    desired: Manifest
    live: Manifest
    schema: Schema
    added: tuple[Keys, ...]
    handed_over: tuple[Keys, ...]


class _Cover:
    """Decide whether a difference is covered by rules and holds, for one pair of objects."""

    def __init__(self, ignored: IgnoredFields, rules: Sequence[IgnoreRule], sides: _Sides) -> None:
        pointers = (*ignored.pointers, *(pointer for rule in rules for pointer in rule.json_pointers))
        self.pointers = [keys for pointer in pointers if (keys := pointer_parts(pointer))]
        self.declared: list[Path] = []
        """The fields of the declared object that jq paths name."""
        self.handed_over = sides.handed_over
        self.named = [*self.pointers, *sides.added, *sides.handed_over]
        expressions = [expression for rule in rules for expression in rule.jq_paths]
        self._paths: set[Path] = set()
        for side in (sides.desired, sides.live):
            for keys in (keys for expression in expressions for keys in _keys(expression, side)):
                path = _path_of(sides.schema, side, keys)
                # by element: an item has another index on the other side, where a controller injects one before it
                if path is not None:
                    self._paths.add(path)
                else:
                    self.named.append(keys)
                if path is not None and side is sides.desired:
                    self.declared.append(path)
        managers = {manager for rule in rules for manager in rule.managers}
        self.roots = [root for owner, root in owners_of(sides.live, "").entries if owner.manager in managers]
        self.is_held = ignored.is_held

    def is_owned_by_others(self, path: Path) -> bool:
        """Whether a manager that a rule names owns a field."""
        return any(node_at(root, path) is not None for root in self.roots)

    def __call__(self, difference: FieldDifference, path: Path) -> bool:
        where = pointer_parts(difference.pointer)
        if any(where[: len(name)] == name for name in self.named):
            return True
        if self.is_owned_by_others(path) or self.is_held(path):
            return True
        if any(path[: length + 1] in self._paths for length in range(len(path))):
            return True
        # A rule may name a part of a value that is compared as a whole: the rest of it decides.
        below = [name[len(where) :] for name in self.named if name[: len(where)] == where]
        if not below or difference.kind is not Difference.CHANGED:
            return False
        return same_value(DEDUCED, _less(difference.desired, below), _less(difference.live, below))


def _keys(expression: str, manifest: Manifest) -> list[Keys]:
    """Return the keys of the fields of an object that a jq path names."""
    paths = (tuple(str(key) for key in path) for path in jq_paths.paths(expression, manifest))
    return [path for path in paths if path]


def _less(value: Any, paths: Iterable[Keys]) -> Any:
    """Return a value without the fields at some paths."""
    # the last items first, by number: each removal moves the items behind it
    for path in sorted(
        paths, key=lambda keys: [(int(key) if key.isdecimal() else -1, key) for key in keys], reverse=True
    ):
        value = _drop(value, path)
    return value


def _drop(value: Any, path: Keys) -> Any:
    key = path[0]
    rest = path[1:]
    if isinstance(value, dict) and key in value:
        if not rest:
            return {name: member for name, member in value.items() if name != key}
        return {**value, key: _drop(value[key], rest)}
    if isinstance(value, list) and key.isdecimal() and int(key) < len(value):
        index = int(key)
        return [*value[:index], *([_drop(value[index], rest)] if rest else []), *value[index + 1 :]]
    return value


def _put(schema: Schema, value: Any, path: Path, new: Any) -> Any:
    """Return a value with the field at a path of elements replaced, added, or (``ABSENT``) removed."""
    if not path:
        return new
    element = path[0]
    rest = path[1:]
    if element.startswith("f:"):
        name = element[2:]
        members = value if isinstance(value, dict) else {}
        if not rest and new is ABSENT:
            return {key: member for key, member in members.items() if key != name}
        return {**members, name: _put(schema.fields[name] or DEDUCED, members.get(name), rest, new)}
    items = value if isinstance(value, list) else []
    for index, item in enumerate(items):
        if element_of(schema, item) == element:
            replaced = [] if not rest and new is ABSENT else [_put(schema.items or DEDUCED, item, rest, new)]
            return [*items[:index], *replaced, *items[index + 1 :]]
    return items if new is ABSENT else [*items, _put(schema.items or DEDUCED, None, rest, new)]
