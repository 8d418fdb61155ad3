"""
Files: the tree as a build may see it, and a record of every path the result depends on.

A link is followed inside the tree and refused where it leads out of it. Paths are relative to the tree's root.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Final, TypeVar

from gitsync.errors import InvalidInput
from gitsync.objects.tree import Entry, MountedTree, Tree
from gitsync.render.build_cache import BuildCache

CHART_FILE: Final = "Chart.yaml"
"""The file that makes a folder a Helm chart."""
_MAX_LINKS: Final = 40
T = TypeVar("T")
_Key = tuple[str, str]
"""The id of a content, and the purpose for which it was parsed."""


class ParseCache:
    """
    Cache parsed files, by the id of their content and the purpose, and the results of builds.

    What it returns is shared: callers must not change it, and one build at a time may use it. It forgets the oldest
    entries beyond its limit, and the builds of the folders that were not built for longest.

    Within ``building`` it keeps what the last builds read, and nothing older: a parsed file takes ten times the memory
    of its text, and each commit may change a large one.
    """

    def __init__(self, limit: int = 20_000, folders: int = 64) -> None:
        self._limit = limit
        self._folders = folders
        self._entries: dict[_Key, object] = {}
        self._memos: dict[str, BuildCache] = {}
        self._read: set[_Key] = set()
        """What the current build has used of the entries."""
        self._last_reads: dict[Hashable, frozenset[_Key]] = {}
        self._readers: Counter[_Key] = Counter()

    def get(self, blob_id: str, purpose: str, parse: Callable[[], T]) -> T:
        """Return what is kept, or what ``parse`` returns."""
        key = (blob_id, purpose)
        self._read.add(key)
        if key not in self._entries:
            # Dicts keep their order of insertion: the first is the oldest.
            if len(self._entries) >= self._limit:
                del self._entries[next(iter(self._entries))]
            self._entries[key] = parse()
        return self._entries[key]  # type: ignore[return-value]

    @contextlib.contextmanager
    def building(self, what: Hashable) -> Iterator[None]:
        """Forget at the end of a build what only the last one of ``what`` read, or what one that failed read alone."""
        self._read = set()
        try:
            yield
        except BaseException:
            self._forget(self._read)
            raise
        last = self._last_reads.pop(what, frozenset())
        self._last_reads[what] = frozenset(self._read)
        self._readers.update(self._read - last)
        self._end_reading(last - self._read)
        if len(self._last_reads) > self._folders:
            self._end_reading(self._last_reads.pop(next(iter(self._last_reads))))

    def forget(self, what: Hashable, memo: str) -> None:
        """Forget what the last build of ``what`` read, and what it made."""
        self._end_reading(self._last_reads.pop(what, frozenset()))
        self._memos.pop(memo, None)

    def _end_reading(self, keys: Iterable[_Key]) -> None:
        # not by the difference of two Counters, which examines all entries
        for key in keys:
            self._readers[key] -= 1
            if not self._readers[key]:
                del self._readers[key]
                self._entries.pop(key, None)

    def _forget(self, keys: Iterable[_Key]) -> None:
        for key in keys:
            if key not in self._readers:
                self._entries.pop(key, None)

    def memo(self, folder: str) -> BuildCache:
        """Return what the last build of a folder made."""
        # Taken out and put in again, so that it becomes the newest.
        memo = self._memos.pop(folder) if folder in self._memos else BuildCache()
        self._memos[folder] = memo  # at the end
        if len(self._memos) > self._folders:
            del self._memos[next(iter(self._memos))]
        return memo


class Files:
    """Read the files of a tree, following links, and record each path that was looked up."""

    def __init__(self, tree: Tree, cache: ParseCache | None = None) -> None:
        self._tree = tree
        self._mounted = tree if isinstance(tree, MountedTree) else None
        self._cache = cache
        self._entries: dict[str, Entry | None] = {}
        self._listed: set[str] = set()

    @property
    def looked_at(self) -> frozenset[str]:
        """Every path that was looked up; one that ends in ``/`` means all below it."""
        return frozenset((*self._entries, *self._listed))

    @property
    def is_cached(self) -> bool:
        """Whether parsed files are shared with other builds."""
        return self._cache is not None

    def remote(self, reference: str) -> str | None:
        """Return the path of the folder in another repository that a reference names, None where it is not here."""
        return self._mounted.references.get(reference) if self._mounted else None

    def resolve(self, folder: str, path: str, location: str = "") -> tuple[str, Entry | None]:
        """
        Return the real path of ``path``, seen from a real folder, and the kind of entry there.

        Raise InvalidInput for a path, or a link, that leads out of the tree, or into another repository.
        """
        real, entry = self._resolve(folder, path, location)
        if self._mounted and self._mounted.mount_of(real) != self._mounted.mount_of(folder):
            raise _outside(path, location)
        return real, entry

    def _resolve(self, folder: str, path: str, location: str) -> tuple[str, Entry | None]:
        if path.startswith("/"):
            raise InvalidInput(
                f"{path} is an absolute path, which lies outside the repository",
                location=location,
                hint="use a path relative to the file that names it",
            )
        real = folder.split("/") if folder else []
        waiting = [part for part in reversed(path.split("/")) if part not in ("", ".")]
        links = 0
        entry: Entry | None = Entry.FOLDER
        while waiting:
            part = waiting.pop()
            # Resolved against the real folder, as the kernel does, not against the text of the path.
            if part == "..":
                if not real:
                    raise _outside(f"{path} (a symlink)" if links else path, location)
                real.pop()
                entry = Entry.FOLDER
                continue
            here = "/".join((*real, part))
            entry = self._entry(here)
            if entry is Entry.LINK:
                links += 1
                target = self._tree.read(here).decode("utf-8", "replace")
                # A commit has only relative paths.
                if target.startswith("/"):
                    raise _outside(f"{path} (a symlink to {target})", location)
                if links > _MAX_LINKS:
                    raise InvalidInput(
                        f"{path} leads through a loop of symlinks", location=location, hint="remove a link"
                    )
                waiting += [step for step in reversed(target.split("/")) if step not in ("", ".")]
                continue
            real.append(part)
            if entry is None or (waiting and entry is not Entry.FOLDER):
                return "/".join((*real, *reversed(waiting))), None
        return "/".join(real), entry

    def _entry(self, path: str) -> Entry | None:
        if path in self._entries:
            return self._entries[path]
        entry = self._entries[path] = self._tree.entry(path)
        return entry

    def read(self, path: str) -> bytes:
        """Return the bytes of a file at a real path."""
        return self._tree.read(path)

    def parsed(self, path: str, purpose: str, parse: Callable[[], T]) -> T:
        """Return what was parsed from the file at a real path, from the cache where there is one."""
        if self._cache is None:
            return parse()
        return self._cache.get(self._tree.blob_id(path), purpose, parse)

    def blob_id(self, path: str) -> str:
        """Return an id of the content of the file at a real path."""
        return self._tree.blob_id(path)

    def kept(self, digest: str, purpose: str, make: Callable[[], T]) -> T:
        """Return what was made of several files, from the cache where there is one; ``digest`` covers all of them."""
        return make() if self._cache is None else self._cache.get(digest, purpose, make)

    def names(self, folder: str) -> tuple[str, ...]:
        """Return the sorted names in a real folder; the result then depends on the whole folder."""
        self._listed.add(f"{folder}/" if folder else "/")
        return self._tree.names(folder)


def _outside(path: str, location: str) -> InvalidInput:
    return InvalidInput(
        f"{path} leads outside the repository", location=location, hint="keep what is built inside the repository"
    )


def is_below(path: str, folder: str) -> bool:
    """Return whether a real path is the folder or below it."""
    return not folder or path == folder or path.startswith(f"{folder}/")


def join(folder: str, name: str) -> str:
    """Return the path of a name in a folder."""
    return f"{folder}/{name}" if folder else name


def is_chart(files: Files, folder: str) -> bool:
    """Return whether a folder holds a Helm chart."""
    return files.resolve(folder, CHART_FILE)[1] is Entry.FILE
