"""Where a build step is configured, and which fields it sets there: known to builds without provenance too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from gitsync.errors import InvalidInput
from gitsync.objects.manifest import Manifest
from gitsync.render.provenance.paths import FieldPath, indexes
from gitsync.render.yaml.reader import locations, read_all
from gitsync.render.yaml.scalar_types import text_of

BUILD_STEP: Final = "build"
"""Origin of changes made by the build itself, such as name hashes."""

_IDENTITY: Final = frozenset({("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace")})
"""What a merge patch repeats only to name its target."""


@lru_cache(maxsize=4)  # the fields of one file are asked for one after the other
def _documents(content: bytes, file: str) -> Sequence[Any]:
    """Return the documents of a file; they are shared, and not changed."""
    return read_all(content, file)


class FieldChange(NamedTuple):
    """A field of an object that a step changed: its path with all keys of items, and its value on both sides."""

    path: FieldPath
    old: Any = None
    new: Any = None
    kind: str = ""
    name: str = ""
    position: tuple[str, ...] = ()
    """The path with indexes of items, as it was then."""
    manifest: Manifest | None = None
    """The object after the step."""


class SourceFile(NamedTuple):
    """
    The text of a file, in which the lines of fields are found on demand.

    A text inside a file begins after ``first_line`` of its lines; one that is not written line by line has a ``place``.
    """

    file: str
    content: bytes
    document: int = 0
    first_line: int = 0
    place: str = ""

    def where(self, path: Sequence[str | int]) -> str:
        """Return ``file:line`` of a field, or of what is nearest around it."""
        if self.place:
            return self.place
        try:
            lines = locations(self.content, self.document)
            document = _documents(self.content, self.file)[self.document]
        except (InvalidInput, IndexError):
            return self.file
        parts = indexes(document, tuple(map(str, path)))
        for end in range(len(parts), -1, -1):
            if parts[:end] in lines:
                return f"{self.file}:{lines[parts[:end]] + self.first_line}"
        return self.file


class StepSource(NamedTuple):
    """
    The configuration of a step: its place, and what it sets field by field.

    ``patches`` are merge patches with their files, ``data`` the places of the values that a generator took, by key.
    ``merges`` and ``pointers`` are all merge patches, and the JSON pointers that a JSON patch writes to. ``find``
    returns the places that hold the value of a change, the one that decided it last; none where it does not know any.
    """

    place: str
    patches: tuple[tuple[SourceFile, Manifest], ...] = ()
    data: Mapping[str, str] = {}
    merges: tuple[Manifest, ...] = ()
    pointers: tuple[tuple[str, ...], ...] = ()
    find: Callable[[FieldChange], Sequence[str]] | None = None

    def where(self, path: FieldPath) -> str:
        """Return where a field was set: in the first patch that has it, else where the step is configured."""
        return self.places(FieldChange(path))[-1]

    def places(self, change: FieldChange) -> tuple[str, ...]:
        """Return where a value is written that a change took, the place that decided it last."""
        path = change.path
        if self._is_data(path):
            return (self.data[path[1]],)
        places = tuple(self.find(change)) if self.find else ()
        if places:
            return places
        for text, manifest in self.patches:
            if _is_for(manifest, change, len(self.patches)) and len(indexes(manifest, path)) == len(path):
                return (text.where(path),)
        return (self.place,)

    def sets(self, change: FieldChange, manifest: Manifest) -> bool:
        """Return whether the step sets a field of the manifest, even if to the value that it had."""
        path = change.path
        if self._is_data(path):
            return True
        if path not in _IDENTITY and any(
            _is_for(merge, change, len(self.merges)) and len(indexes(merge, path)) == len(path) for merge in self.merges
        ):
            return True
        if not self.pointers:
            return False
        parts = tuple(map(str, indexes(manifest, path)))
        # what "-" adds was not there: nothing that keeps its value is set by it
        return any(is_at(parts, pointer) for pointer in self.pointers if "-" not in pointer)

    def _is_data(self, path: FieldPath) -> bool:
        return len(path) == 2 and path[0] in ("data", "binaryData") and path[1] in self.data


def value_at(manifest: Any, position: Sequence[str]) -> Any:
    """Return what a manifest has at a path with indexes, None where that is absent."""
    value = manifest
    for part in position:
        if isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        elif isinstance(value, dict) and part in value:
            value = value[part]
        else:
            return None
    return value


def is_at(parts: Sequence[str], pointer: Sequence[str]) -> bool:
    """Return whether a path is at or below a JSON pointer, in which ``-`` may be any item: the list has grown since."""
    return len(parts) >= len(pointer) and all(
        part == wanted or wanted == "-" for part, wanted in zip(parts, pointer, strict=False)
    )


def _is_for(merge: Manifest, change: FieldChange, count: int) -> bool:
    """Return whether a merge patch of a file with several is meant for the object; transformers may add to its name."""
    if count == 1 or not change.kind:
        return True
    meta = merge.get("metadata")
    name = text_of(meta.get("name")) if isinstance(meta, dict) else ""
    return text_of(merge.get("kind")) == change.kind and name in change.name
