"""
Provenance: for each field of a rendered object, the file and line that set it, and the steps it went through.

The recorder compares each object before and after a step, so steps do not depend on it, and a build without
provenance has no cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple, TypeVar

from gitsync.objects.manifest import Manifest
from gitsync.render.provenance.paths import FieldPath, indexes, leaves_of, lists_of, starts_with, with_all_keys
from gitsync.render.provenance.step_source import FieldChange, SourceFile, StepSource
from gitsync.render.resources.field_path import split
from gitsync.render.resources.resource import Resource
from gitsync.render.yaml.scalar_types import text_of

T = TypeVar("T")


class FieldSetter(NamedTuple):
    """A step that gave a field its value: the kind of step, and ``file:line`` of its configuration."""

    step: str
    where: str

    def __str__(self) -> str:
        return f"{self.where}: {self.step}"


class _Change(NamedTuple):
    """A step that set a field, and the change with all keys of items in its path: they may be renamed later."""

    step: str
    source: StepSource
    change: FieldChange


class History:
    """The history of one object: its origin, and the steps that set its fields."""

    def __init__(self, step: str, source: SourceFile | StepSource, manifest: Manifest) -> None:
        self.step = step
        self.source = source
        self.changes: dict[FieldPath, list[_Change]] = {}
        self.leaves = dict(leaves_of(manifest))
        self.original: dict[FieldPath, FieldPath] = {path: path for path in self.leaves}
        """The path in the source of each field that was in it, by its path now."""
        self._lists = dict(lists_of(manifest))

    def of(self, path: str) -> tuple[FieldSetter, ...]:
        """Return the steps that set a field, such as ``spec.template.spec.containers.[name=web].image``, in order."""
        wanted = tuple(split(path)) if path else ()
        return self.setters(next(iter(self.below(wanted)), wanted))

    def below(self, path: Sequence[str]) -> list[FieldPath]:
        """Return the paths of the plain values at and below a path; an index also means an item with a key."""
        return [leaf for leaf in self.leaves if starts_with(leaf, tuple(path), self.leaves)]

    def setters(self, path: FieldPath) -> tuple[FieldSetter, ...]:
        """Return the steps that set one plain value, in order; the last one decided it."""
        first = [FieldSetter(self.step, self.source.where(self.original[path]))] if path in self.original else []
        changes = (
            FieldSetter(step, place)
            for step, source, change in self.changes.get(path, ())
            for place in source.places(change)
        )
        return (*first, *dict.fromkeys(changes))

    def record(self, step: str, source: StepSource, manifest: Manifest) -> None:
        """Add the fields that a step set, given the manifest after it."""
        leaves = dict(leaves_of(manifest))
        lists = dict(lists_of(manifest))
        self._follow_moves(lists, leaves)
        self._follow_renames(lists)
        meta = manifest.get("metadata")
        name = text_of(meta.get("name")) if isinstance(meta, dict) else ""
        for path, value in leaves.items():
            is_changed = path not in self.leaves or self.leaves[path] != value
            full = with_all_keys(manifest, path)
            change = FieldChange(full, self.leaves.get(path), value, text_of(manifest.get("kind")), name)
            if is_changed or source.sets(change, manifest):
                change = change._replace(position=tuple(map(str, indexes(manifest, full))), manifest=manifest)
                self.changes.setdefault(path, []).append(_Change(step, source, change))
        self.leaves = leaves

    def _follow_moves(self, lists: dict[FieldPath, list[str]], leaves: dict[FieldPath, Any]) -> None:
        """Give the fields of list items without keys the history of the equal item, which an added one has moved."""
        for path, parts in lists.items():
            old_parts = self._lists.get(path, [])
            if len(parts) == len(old_parts) or not any(map(str.isdecimal, (*parts, *old_parts))):
                continue
            old_items = [_below(self.leaves, (*path, part)) for part in old_parts]
            items = [_below(leaves, (*path, part)) for part in parts]
            blocks = SequenceMatcher(None, old_items, items, autojunk=False).get_matching_blocks()
            pairs = [(old_parts[a + n], parts[b + n]) for a, b, size in blocks for n in range(size)]
            # All at once: one item takes the index that another one had. The others are new, or are gone.
            tables: tuple[dict[FieldPath, Any], ...] = (self.leaves, self.original, self.changes, self._lists)
            for table in tables:
                kept: dict[FieldPath, Any] = {}
                for old, new in pairs:
                    moved = _take(table, (*path, old))
                    kept |= {(*path, new, *rest): value for rest, value in moved.items()}
                for part in old_parts:
                    _take(table, (*path, part))
                table |= kept

    def _follow_renames(self, lists: dict[FieldPath, list[str]]) -> None:
        """Give the fields of list items whose keys have changed the history of the item that was in their place."""
        for path, parts in lists.items():
            old_parts = self._lists.get(path, [])
            for old, new in zip(old_parts, parts, strict=False):  # a step may also append
                if old not in parts and new not in old_parts:
                    for table in (self.leaves, self.original, self.changes, self._lists):
                        _move(table, (*path, old), (*path, new))
        self._lists = lists


class Recorder:
    """Record the history of each object during a build."""

    def __init__(self) -> None:
        self._histories: dict[int, History] = {}
        self._seen: dict[int, int] = {}

    def start(self, resource: Resource, step: str, source: SourceFile | StepSource) -> None:
        """Begin the history of an object that was just read or made."""
        self._histories[id(resource)] = History(step, source, resource.manifest)
        self._seen[id(resource)] = resource.edits

    def absorb(self, made: Resource, old: Resource, step: str, source: StepSource) -> None:
        """Continue an object's history in the one that a generator put in its place."""
        self._histories[id(made)] = self._histories.pop(id(old))
        # No resource has so few edits: the next step always compares.
        self._seen[id(made)] = -1
        self.after(step, source, (made,))

    def after(self, step: str, source: StepSource, resources: Iterable[Resource]) -> None:
        """Record which fields a step set, and where it is configured."""
        for resource in resources:
            history = self._histories.get(id(resource))
            # Most steps touch few objects; comparing all of them would be quadratic.
            if history is None or self._seen[id(resource)] == resource.edits:
                continue
            self._seen[id(resource)] = resource.edits
            history.record(step, source, resource.manifest)

    def history(self, resource: Resource) -> History:
        """Return the history of an object."""
        return self._histories[id(resource)]


def _below(leaves: dict[FieldPath, Any], path: FieldPath) -> tuple[tuple[FieldPath, str], ...]:
    """Return the fields below a path with their values, to compare and to hash."""
    return tuple((leaf[len(path) :], repr(value)) for leaf, value in leaves.items() if leaf[: len(path)] == path)


def _take(table: dict[FieldPath, T], path: FieldPath) -> dict[FieldPath, T]:
    """Remove what a table has at and below a path, and return it by the rest of its paths."""
    return {leaf[len(path) :]: table.pop(leaf) for leaf in list(table) if leaf[: len(path)] == path}


def _move(table: dict[FieldPath, T], old: FieldPath, new: FieldPath) -> None:
    """Give what a table has at and below a path another one."""
    for path in [path for path in table if path[: len(old)] == old]:
        table[new + path[len(old) :]] = table.pop(path)
