"""Compare the trees of two commits."""

from __future__ import annotations

from collections.abc import Iterator

from gitsync.errors import SourceUnavailable
from gitsync.objects.tree import Entry
from gitsync.source.objects.object_reader import ObjectReader
from gitsync.source.objects.tree_object import TreeEntry, TreeObject


def changed_paths(reader: ObjectReader, before: str, after: str) -> frozenset[str] | None:
    """
    Return the paths of files, links and submodules that differ between two commits, None when one is not here.

    Only folders that differ are read, so the cost follows the size of the change.
    """
    old, new = reader.find_commit(before), reader.find_commit(after)
    if old is None or new is None:
        return None
    try:
        return frozenset(_differences(reader, "", _folder(old.tree), _folder(new.tree)))
    except SourceUnavailable:
        return None


def _folder(id: str) -> TreeEntry:
    return TreeEntry(Entry.FOLDER, id)


def _differences(reader: ObjectReader, path: str, before: TreeEntry | None, after: TreeEntry | None) -> Iterator[str]:
    """Yield the paths at or below a path whose entries differ."""
    pending = [(path, before, after)]
    while pending:
        path, before, after = pending.pop()
        if before == after:
            continue
        folders = [entry for entry in (before, after) if entry is not None and entry.kind is Entry.FOLDER]
        if path and len(folders) < sum(entry is not None for entry in (before, after)):
            yield path
        old, new = (
            reader.tree(entry.id) if entry is not None and entry.kind is Entry.FOLDER else TreeObject()
            for entry in (before, after)
        )
        prefix = f"{path}/" if path else ""
        pending += [(f"{prefix}{name}", old.get(name), new.get(name)) for name in old.differing(new)]
