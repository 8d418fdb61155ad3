"""
Provenance: for each field of a rendered object, the file and line that set it, and the steps it went through.

The recorder compares each object before and after a step, so steps do not depend on it, and a build without
provenance has no cost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from gitsync.errors import InvalidInput
from gitsync.objects.manifest import Manifest
from gitsync.render.resources.field_path import split
from gitsync.render.resources.resource import Resource
from gitsync.render.yaml.reader import locations, read_all
from gitsync.render.yaml.scalar_types import text_of

T = TypeVar("T")

FieldPath: TypeAlias = tuple[str, ...]
"""The parts of a path; an item of a list is ``[name=web]`` where it has a key, else its index."""

BUILD_STEP: Final = "build"
"""Origin of changes made by the build itself, such as name hashes."""

_IDENTITY: Final = frozenset({("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace")})
"""What a merge patch repeats only to name its target."""

_KEYS: Final = ("name", "mountPath", "containerPort", "port", "key", "type", "ip", "uid")


class FieldSetter(NamedTuple):
    """A step that gave a field its value: the kind of step, and ``file:line`` of its configuration."""

    step: str
    where: str

    def __str__(self) -> str:
        return f"{self.where}: {self.step}"


class SourceFile(NamedTuple):
    """The text of a file, in which the lines of fields are found on demand."""

    file: str
    content: bytes
    document: int = 0

    def where(self, path: FieldPath) -> str:
        """Return ``file:line`` of a field, or of what is nearest around it."""
        try:
            lines = locations(self.content, self.document)
            document = read_all(self.content, self.file)[self.document]
        except (InvalidInput, IndexError):
            return self.file
        indexes = _indexes(document, path)
        for end in range(len(indexes), -1, -1):
            if indexes[:end] in lines:
                return f"{self.file}:{lines[indexes[:end]]}"
        return self.file


class StepSource(NamedTuple):
    """
    The configuration of a step: its place, and what it sets field by field.

    ``patches`` are merge patches with their files, ``data`` the places of the values that a generator took, by key.
    ``merges`` and ``pointers`` are all merge patches, and the JSON pointers that a JSON patch writes to.
    """

    place: str
    patches: tuple[tuple[SourceFile, Manifest], ...] = ()
    data: Mapping[str, str] = {}
    merges: tuple[Manifest, ...] = ()
    pointers: tuple[tuple[str, ...], ...] = ()

    def where(self, path: FieldPath) -> str:
        """Return where a field was set: in the first patch that has it, else where the step is configured."""
        if self._is_data(path):
            return self.data[path[1]]
        for text, manifest in self.patches:
            if len(_indexes(manifest, path)) == len(path):
                return text.where(path)
        return self.place

    def sets(self, path: FieldPath, manifest: Manifest) -> bool:
        """Return whether the step sets a field of the manifest, even if to the value that it had."""
        if self._is_data(path):
            return True
        if path not in _IDENTITY and any(len(_indexes(merge, path)) == len(path) for merge in self.merges):
            return True
        if not self.pointers:
            return False
        parts = tuple(map(str, _indexes(manifest, path)))
        return any(parts[: len(pointer)] == pointer for pointer in self.pointers)

    def _is_data(self, path: FieldPath) -> bool:
        return len(path) == 2 and path[0] in ("data", "binaryData") and path[1] in self.data


class _Change(NamedTuple):
    """A step that set a field, and the field's path then: an item of a list may be renamed later."""

    step: str
    source: StepSource
    path: FieldPath


class History:
    """The history of one object: its origin, and the steps that set its fields."""

    def __init__(self, step: str, source: SourceFile | StepSource, leaves: dict[FieldPath, Any]) -> None:
        self.step = step
        self.source = source
        self.changes: dict[FieldPath, list[_Change]] = {}
        self.leaves = leaves
        self.original: dict[FieldPath, FieldPath] = {path: path for path in leaves}
        """The path in the source of each field that was in it, by its path now."""

    def of(self, path: str) -> tuple[FieldSetter, ...]:
        """Return the steps that set a field, such as ``spec.template.spec.containers.[name=web].image``, in order."""
        wanted = tuple(split(path)) if path else ()
        return self.setters(next(iter(self.below(wanted)), wanted))

    def below(self, path: Sequence[str]) -> list[FieldPath]:
        """Return the paths of the plain values at and below a path; an index also means an item with a key."""
        return [leaf for leaf in self.leaves if _starts_with(leaf, tuple(path), self.leaves)]

    def setters(self, path: FieldPath) -> tuple[FieldSetter, ...]:
        """Return the steps that set one plain value, in order; the last one decided it."""
        first = [FieldSetter(self.step, self.source.where(self.original[path]))] if path in self.original else []
        changes = self.changes.get(path, ())
        return (*first, *(FieldSetter(change.step, change.source.where(change.path)) for change in changes))

    def record(self, step: str, source: StepSource, manifest: Manifest) -> None:
        """Add the fields that a step set, given the manifest after it."""
        leaves = dict(_leaves(manifest))
        self._follow_renames(leaves)
        for path, value in leaves.items():
            is_changed = path not in self.leaves or self.leaves[path] != value
            if is_changed or source.sets(path, manifest):
                self.changes.setdefault(path, []).append(_Change(step, source, path))
        self.leaves = leaves

    def _follow_renames(self, leaves: Mapping[FieldPath, Any]) -> None:
        """Give the fields of list items whose key has changed the history of the item that was in their place."""
        for old, new in _renamed_items(self.leaves, leaves):
            _move(self.leaves, old, new)
            _move(self.original, old, new)
            _move(self.changes, old, new)


class Recorder:
    """Record the history of each object during a build."""

    def __init__(self) -> None:
        self._histories: dict[int, History] = {}
        self._seen: dict[int, int] = {}

    def start(self, resource: Resource, step: str, source: SourceFile | StepSource) -> None:
        """Begin the history of an object that was just read or made."""
        leaves = dict(_leaves(resource.manifest))
        self._histories[id(resource)] = History(step, source, leaves)
        self._seen[id(resource)] = resource.edits

    def absorb(self, made: Resource, old: Resource, step: str, source: StepSource) -> None:
        """Continue an object's history in the one that a generator put in its place."""
        self._histories[id(made)] = self._histories.pop(id(old))
        self._seen[id(made)] = -1
        self.after(step, source, (made,))

    def after(self, step: str, source: StepSource, resources: Iterable[Resource]) -> None:
        """Record which fields a step set, and where it is configured."""
        for resource in resources:
            history = self._histories.get(id(resource))
            if history is None or self._seen[id(resource)] == resource.edits:
                continue
            self._seen[id(resource)] = resource.edits
            history.record(step, source, resource.manifest)

    def history(self, resource: Resource) -> History:
        """Return the history of an object."""
        return self._histories[id(resource)]


def _leaves(value: Any, path: FieldPath = ()) -> Iterator[tuple[FieldPath, Any]]:
    """Yield the path of each plain value, and of each empty collection."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    elif isinstance(value, list) and value:
        for part, item in zip(_parts(value), value, strict=True):
            yield from _leaves(item, (*path, part))
    else:
        yield path, value


def _parts(items: list[Any]) -> list[str]:
    """Return the part of a path for each item of a list: its key, or its index where it has none of its own."""
    parts = [_part(item, index) for index, item in enumerate(items)]
    count = Counter(parts)
    return [part if count[part] == 1 else str(index) for index, part in enumerate(parts)]


def _part(item: Any, index: int) -> str:
    if isinstance(item, dict):
        for key in _KEYS:
            if item.get(key) not in (None, "") and not isinstance(item[key], dict | list):
                return f"[{key}={text_of(item[key])}]"
    return str(index)


def _renamed_items(old: Iterable[FieldPath], new: Iterable[FieldPath]) -> Iterator[tuple[FieldPath, FieldPath]]:
    """Yield the paths, old and new, of list items that stayed in their place and have another key."""
    before, after = _items(old), _items(new)
    for path, parts in before.items():
        others = after.get(path, [])
        if parts == others or len(parts) != len(others):
            continue
        for part, other in zip(parts, others, strict=True):
            if part not in others and other not in parts:
                yield (*path, part), (*path, other)


def _move(table: dict[FieldPath, T], old: FieldPath, new: FieldPath) -> None:
    """Give what a table has at and below a path another one."""
    for path in [path for path in table if path[: len(old)] == old]:
        table[new + path[len(old) :]] = table.pop(path)


def _items(leaves: Iterable[FieldPath]) -> dict[FieldPath, list[str]]:
    """Return the parts of the items of each list whose items have keys, in order."""
    found: dict[FieldPath, dict[str, None]] = {}
    for leaf in leaves:
        for depth, part in enumerate(leaf):
            if part.startswith("["):
                found.setdefault(leaf[:depth], {})[part] = None
    return {path: list(parts) for path, parts in found.items()}


def _indexes(value: Any, path: FieldPath) -> tuple[str | int, ...]:
    """Return a path in which items are indexes, as far as the value has it."""
    found: list[str | int] = []
    for part in path:
        if isinstance(value, dict) and part in value:
            found.append(part)
            value = value[part]
        elif isinstance(value, list):
            index = next((index for index, item in enumerate(value) if part in (_part(item, index), str(index))), None)
            if index is None:
                break
            found.append(index)
            value = value[index]
        else:
            break
    return tuple(found)


def _starts_with(leaf: FieldPath, path: FieldPath, leaves: Mapping[FieldPath, Any]) -> bool:
    """Return whether a leaf is at or below a path, in which an index may mean an item with a key."""
    if len(leaf) < len(path):
        return False
    for depth, (part, wanted) in enumerate(zip(leaf, path, strict=False)):
        if part == wanted:
            continue
        if not (part.startswith("[") and wanted.isdigit()):
            return False
        items = list(
            dict.fromkeys(other[depth] for other in leaves if other[:depth] == leaf[:depth] and len(other) > depth)
        )
        if items.index(part) != int(wanted):
            return False
    return True
