"""Where a build step is configured, and which fields it sets there: known to builds without provenance too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from gitsync.errors import InvalidInput
from gitsync.objects.manifest import Manifest
from gitsync.render.provenance.paths import FieldPath, indexes
from gitsync.render.yaml.reader import locations, read_all

BUILD_STEP: Final = "build"
"""Origin of changes made by the build itself, such as name hashes."""

_IDENTITY: Final = frozenset({("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace")})
"""What a merge patch repeats only to name its target."""


@lru_cache(maxsize=4)  # the fields of one file are asked for one after the other
def _documents(content: bytes, file: str) -> Sequence[Any]:
    """Return the documents of a file; they are shared, and not changed."""
    return read_all(content, file)


class SourceFile(NamedTuple):
    """The text of a file, in which the lines of fields are found on demand."""

    file: str
    content: bytes
    document: int = 0

    def where(self, path: FieldPath) -> str:
        """Return ``file:line`` of a field, or of what is nearest around it."""
        try:
            lines = locations(self.content, self.document)
            document = _documents(self.content, self.file)[self.document]
        except (InvalidInput, IndexError):
            return self.file
        parts = indexes(document, path)
        for end in range(len(parts), -1, -1):
            if parts[:end] in lines:
                return f"{self.file}:{lines[parts[:end]]}"
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
            if len(indexes(manifest, path)) == len(path):
                return text.where(path)
        return self.place

    def sets(self, path: FieldPath, manifest: Manifest) -> bool:
        """Return whether the step sets a field of the manifest, even if to the value that it had."""
        if self._is_data(path):
            return True
        if path not in _IDENTITY and any(len(indexes(merge, path)) == len(path) for merge in self.merges):
            return True
        if not self.pointers:
            return False
        parts = tuple(map(str, indexes(manifest, path)))
        return any(parts[: len(pointer)] == pointer for pointer in self.pointers)

    def _is_data(self, path: FieldPath) -> bool:
        return len(path) == 2 and path[0] in ("data", "binaryData") and path[1] in self.data
