"""GitTree: the files of one commit, read from the object database without a checkout."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gitsync.errors import FileNotFetched, InvalidInput, SourceUnavailable
from gitsync.objects.tree import Entry, Tree
from gitsync.source.local import FILE_MIB, reject_pointer
from gitsync.source.object_reader import ObjectReader, TooLarge, TreeEntry, TreeObject

_EMPTY = TreeObject()
MOST_ENTRIES = 1_000_000
"""Files or folders of a commit that are walked through at most: about two seconds."""


@dataclass(frozen=True, slots=True)
class SourceLimits:
    """Bounds on what one application may bring, so that a hostile commit cannot fill memory or disk."""

    file_bytes: int = FILE_MIB << 20
    files: int = 20_000
    read_bytes: int = 100 << 20
    pack_bytes: int = 2 << 30
    mirror_bytes: int = 3 << 30
    """What a mirror may take on the disk, which has history and audit too."""
    artifact_bytes: int = 100 << 20
    """An archive of a chart or artifact, and what it unpacks to."""
    memory_bytes: int = 1 << 30
    """What each git process that reads from a server may allocate."""
    refs_bytes: int = 32 << 20
    """What a server may list: half a million branches and tags."""
    seconds: float = 120.0
    """How long one talk with the server may take."""
    first_bytes: int = 1 << 20
    """Larger files are fetched when they are needed."""


class GitTree:
    """
    The files of one commit, as ``gitsync.objects.tree.Tree``.

    Folders are listed and files read on demand, through a reader that all trees of a repository may share; without
    one, the tree has its own. A file that the mirror lacks is fetched by ``fetch_file`` from its id; without it,
    reading one raises FileNotFetched. Links are never followed and submodules never entered. Safe for use from several
    threads.
    """

    def __init__(
        self,
        git_dir: str | Path,
        commit: str,
        limits: SourceLimits | None = None,
        reader: ObjectReader | None = None,
        fetch_file: Callable[[str], None] | None = None,
    ) -> None:
        self._limits = limits or SourceLimits()
        self._reader = reader or ObjectReader(git_dir)
        self._fetch_file = fetch_file
        self._root = TreeEntry(Entry.FOLDER, self._reader.commit(commit).tree)
        self._last_folder: tuple[str | None, TreeObject] = (None, _EMPTY)

    def entry(self, path: str) -> Entry | None:
        """Return the kind of entry at the path itself, or None."""
        entry = self._find(path)
        return entry.kind if entry is not None else None

    def names(self, path: str) -> tuple[str, ...]:
        """Return the sorted names in a folder; KeyError when there is none."""
        entry = self._find(path)
        if entry is None or entry.kind is not Entry.FOLDER:
            raise KeyError(path)
        return tuple(sorted(self._reader.tree(entry.id)))

    def blob_id(self, path: str) -> str:
        """Return the object id of a file or link; KeyError when there is none."""
        return self._file(path).id

    def read(self, path: str) -> bytes:
        """Return a file's bytes, or a link's target; raise InvalidInput past the limits, KeyError when absent."""
        file = self._file(path)
        if file.kind is Entry.SUBMODULE:
            raise InvalidInput("is a submodule, and submodules are not followed", location=path)
        try:
            content = self._content(file.id)
        except TooLarge as error:
            raise InvalidInput(
                f"the file is too large: {error.size} bytes, the limit is {self._limits.file_bytes}",
                location=path,
                hint="split it, keep it out of the application, or raise GITSYNC_FILE_MIB",
            ) from error
        except SourceUnavailable as error:
            error.location = error.location or path
            raise
        if file.kind is Entry.FILE:  # the target of a link is not content that could be applied
            reject_pointer(content, path)
        return content

    def _content(self, id: str) -> bytes:
        try:
            return self._reader.blob(id, self._limits.file_bytes)
        except FileNotFetched:
            if self._fetch_file is None:
                raise
            self._fetch_file(id)
        return self._reader.blob(id, self._limits.file_bytes)

    def check_size(self, path: str) -> None:
        """Raise InvalidInput when there are more files, or more folders, at or below the path than the limit allows."""
        for _ in self.below(path, self._limits.files):
            pass

    def submodules(self, path: str) -> tuple[str, ...]:
        """Return the paths of submodules at or below the path; their files are not read."""
        entry = self._find(path)
        if entry is not None and entry.kind is Entry.SUBMODULE:
            return (path,)
        return tuple(sorted(name for name, entry in self.below(path) if entry.kind is Entry.SUBMODULE))

    def below(self, path: str, limit: int = MOST_ENTRIES) -> Iterator[tuple[str, TreeEntry]]:
        """
        Yield paths and entries below a folder at any depth, other than folders.

        Raise InvalidInput after ``limit`` files or folders. Twelve objects can be a tree of 10^11 files, or of as many
        empty folders, since folders with equal content are one object: a walk to the end of it would not return.
        """
        pending = [(f"{path}/" if path else "", self._find(path))]
        files = folders = 0
        while pending:
            prefix, folder = pending.pop()
            for name, entry in self._entries(folder).items():
                if entry.kind is Entry.FOLDER:
                    pending.append((f"{prefix}{name}/", entry))
                    folders += 1
                else:
                    files += 1
                if max(files, folders) > limit:
                    raise InvalidInput(
                        f"too many files or folders: more than {limit}, the limit",
                        location=path or ".",
                        hint="point the path at a smaller folder",
                    )
                if entry.kind is not Entry.FOLDER:
                    yield f"{prefix}{name}", entry

    def close(self) -> None:
        """End the reading process; a later read starts another."""
        self._reader.close()

    def _find(self, path: str) -> TreeEntry | None:
        if not path:
            return self._root
        folder, _, name = path.rpartition("/")
        last, entries = self._last_folder
        if folder != last:  # a build asks for the files of one folder in turn
            parent: TreeEntry | None = self._root
            for part in folder.split("/") if folder else ():
                parent = self._entries(parent).find(part)
            entries = self._entries(parent)
            self._last_folder = folder, entries  # one assignment, since several threads may read
        return entries.find(name)

    def _file(self, path: str) -> TreeEntry:
        entry = self._find(path)
        if entry is None or entry.kind is Entry.FOLDER:
            raise KeyError(path)
        return entry

    def _entries(self, folder: TreeEntry | None) -> TreeObject:
        return self._reader.tree(folder.id) if folder is not None and folder.kind is Entry.FOLDER else _EMPTY


class MeteredTree:
    """A tree of which one user, such as a build, may read a limited number of bytes."""

    def __init__(self, tree: Tree, limit: int) -> None:
        self._tree = tree
        self._limit = limit
        self._read = 0

    def entry(self, path: str) -> Entry | None:
        """Return the kind of entry at the path itself, or None."""
        return self._tree.entry(path)

    def names(self, path: str) -> tuple[str, ...]:
        """Return the sorted names in a folder."""
        return self._tree.names(path)

    def blob_id(self, path: str) -> str:
        """Return an id of the content."""
        return self._tree.blob_id(path)

    def read(self, path: str) -> bytes:
        """Return the bytes of a file; raise InvalidInput when more than the limit was read."""
        content = self._tree.read(path)
        self._read += len(content)
        if self._read > self._limit:
            raise InvalidInput(
                f"the files read exceed the limit of {_size(self._limit)}", location=path, hint="divide the application"
            )
        return content


def open_remotes(remotes: Iterable[Sequence[str]], limits: SourceLimits) -> tuple[dict[str, Tree], dict[str, str]]:
    """
    Return the trees of other repositories, by where they are mounted, and the folders that references name there.

    Each is listed as reference, mount, folder, mirror and commit.
    """
    trees: dict[str, Tree] = {}
    folders: dict[str, str] = {}
    for reference, mount, folder, git_dir, commit in remotes:
        folders[reference] = folder
        if mount not in trees:
            trees[mount] = MeteredTree(GitTree(git_dir, commit, limits), limits.read_bytes)
    return trees, folders


def _size(limit: int) -> str:
    return f"{limit >> 20} MiB" if limit >> 20 else f"{limit} bytes"
