"""
Provenance: for each field of a rendered object, the file and line that set it, and the steps it went through.

The recorder compares each object before and after a step, so the steps themselves know nothing of it, and a build
that is not asked for provenance pays nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from gitsync.errors import InvalidInput
from gitsync.objects.manifest import Manifest
from gitsync.render.resources.field_path import split
from gitsync.render.resources.resource import Resource
from gitsync.render.yaml.reader import locations, read_all
from gitsync.render.yaml.scalar_types import text_of

FieldPath: TypeAlias = tuple[str, ...]
"""The parts of a path; an item of a list is ``[name=web]`` where it has a key, else its index."""

BUILD_STEP: Final = "build"
"""The place of what a build does by itself, such as adding hashes to names."""

_KEYS: Final = ("name", "mountPath", "containerPort", "port", "key", "type", "ip", "uid")


class FieldSetter(NamedTuple):
    """A step that gave a field its value: what kind of step, and ``file:line`` of what it was told."""

    step: str
    where: str

    def __str__(self) -> str:
        return f"{self.where}: {self.step}"


class SourceFile(NamedTuple):
    """The text of a file, in which the lines of fields are found when somebody asks."""

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
    What a step was told: the place of its configuration, and the patches that name fields one by one.

    ``data`` are the places of the values that a generator took, by key.
    """

    place: str
    patches: tuple[tuple[SourceFile, Manifest], ...] = ()
    data: Mapping[str, str] = {}

    def where(self, path: FieldPath) -> str:
        """Return where a field was set: in the first patch that has it, else where the step is configured."""
        if len(path) == 2 and path[0] in ("data", "binaryData") and path[1] in self.data:
            return self.data[path[1]]
        for text, manifest in self.patches:
            if len(_indexes(manifest, path)) == len(path):
                return text.where(path)
        return self.place


class History:
    """What is known of one object: where it comes from, and the steps that changed its fields."""

    def __init__(self, step: str, source: SourceFile | StepSource, leaves: dict[FieldPath, Any]) -> None:
        self.step = step
        self.source = source
        self.changes: dict[FieldPath, list[tuple[str, StepSource]]] = {}
        self.leaves = leaves
        self.original = frozenset(leaves)

    def of(self, path: str) -> tuple[FieldSetter, ...]:
        """Return the steps that set a field, such as ``spec.template.spec.containers.[name=web].image``, in order."""
        wanted = tuple(split(path)) if path else ()
        return self.setters(next(iter(self.below(wanted)), wanted))

    def below(self, path: Sequence[str]) -> list[FieldPath]:
        """Return the paths of the plain values at and below a path; an index also means an item with a key."""
        return [leaf for leaf in self.leaves if _starts_with(leaf, tuple(path), self.leaves)]

    def setters(self, path: FieldPath) -> tuple[FieldSetter, ...]:
        """Return the steps that set one plain value, in order; the last one decided it."""
        first = [FieldSetter(self.step, self.source.where(path))] if path in self.original else []
        return (*first, *(FieldSetter(step, told.where(path)) for step, told in self.changes.get(path, ())))


class Recorder:
    """Watch a build and write the history of each object."""

    def __init__(self) -> None:
        self._histories: dict[int, History] = {}
        self._seen: dict[int, int] = {}

    def start(self, resource: Resource, step: str, source: SourceFile | StepSource) -> None:
        """Begin the history of an object that was just read or made."""
        leaves = dict(_leaves(resource.manifest))
        self._histories[id(resource)] = History(step, source, leaves)
        self._seen[id(resource)] = resource.edits

    def absorb(self, made: Resource, old: Resource, step: str, told: StepSource) -> None:
        """Go on with an object's history in the one that a generator put in its place."""
        self._histories[id(made)] = self._histories.pop(id(old))
        self._seen[id(made)] = -1
        self.after(step, told, (made,))

    def after(self, step: str, told: StepSource, resources: Iterable[Resource]) -> None:
        """Note which fields a step changed, and what it was told."""
        for resource in resources:
            history = self._histories.get(id(resource))
            if history is None or self._seen[id(resource)] == resource.edits:
                continue
            self._seen[id(resource)] = resource.edits
            leaves = dict(_leaves(resource.manifest))
            for path, value in leaves.items():
                if path not in history.leaves or history.leaves[path] != value:
                    history.changes.setdefault(path, []).append((step, told))
            history.leaves = leaves

    def history(self, resource: Resource) -> History:
        """Return the history of an object."""
        return self._histories[id(resource)]


def _leaves(value: Any, path: FieldPath = ()) -> Iterator[tuple[FieldPath, Any]]:
    """Yield the path of each plain value, and of each empty collection."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, _part(item, index)))
    else:
        yield path, value


def _part(item: Any, index: int) -> str:
    if isinstance(item, dict):
        for key in _KEYS:
            if item.get(key) not in (None, "") and not isinstance(item[key], dict | list):
                return f"[{key}={text_of(item[key])}]"
    return str(index)


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
    """Return whether a leaf is at or below a path, in which an index may stand for an item with a key."""
    if len(leaf) < len(path):
        return False
    for depth, (part, wanted) in enumerate(zip(leaf, path, strict=False)):
        if part == wanted:
            continue
        if not (part.startswith("[") and wanted.isdigit()):
            return False
        items = list(dict.fromkeys(one[depth] for one in leaves if one[:depth] == leaf[:depth] and len(one) > depth))
        if items.index(part) != int(wanted):
            return False
    return True
