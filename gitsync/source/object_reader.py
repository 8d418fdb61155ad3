"""
ObjectReader: read the objects of one repository through one long-lived git process, and compare trees of commits.

Commit and tree objects are parsed here as Git stores them.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Final, NamedTuple

from gitsync.errors import SourceUnavailable
from gitsync.objects.record import Commit
from gitsync.objects.tree import Entry
from gitsync.source.git import environment
from gitsync.source.landlock import Confinement
from gitsync.source.left_out import left_out, not_fetched

_PERSON = re.compile(r"^(?P<name>.*?) ?<(?P<email>[^>]*)>(?: (?P<time>-?\d+) (?P<sign>[+-])(?P<zone>\d{4}))?")


class ParsedCommit(NamedTuple):
    """A commit's metadata and parents, apart from its files, which are below the tree object ``tree``."""

    commit: Commit
    tree: str
    parents: tuple[str, ...]


def parse_commit(id: str, content: bytes) -> ParsedCommit:
    """Return what a commit object says; text that is not valid is replaced."""
    head, _, message = content.partition(b"\n\n")
    fields: dict[bytes, bytes] = {}
    parents: list[str] = []
    for line in head.split(b"\n"):
        name, _, value = line.partition(b" ")
        if name == b"parent":
            parents.append(value.decode("ascii", "replace"))
        fields.setdefault(name, value)  # a line of a signature starts with a space: its name is empty
    encoding = fields.get(b"encoding", b"utf-8").decode("ascii", "replace")
    person = _PERSON.match(_decoded(fields.get(b"author", b""), encoding))
    commit = Commit(
        id=id,
        author=person["name"].strip() if person else "",
        email=person["email"] if person else "",
        message=_decoded(message, encoding).strip(),
        time=_time(_decoded(fields.get(b"committer", b""), encoding)),
    )
    return ParsedCommit(commit, fields[b"tree"].decode(), tuple(parents))


def _decoded(text: bytes, encoding: str) -> str:
    try:
        return text.decode(encoding, "replace")
    except LookupError:  # the header names an encoding that Python does not know, or nonsense
        return text.decode("utf-8", "replace")


def _time(committer: str) -> datetime:
    """Return the time of a commit with its zone; the epoch where it is not valid."""
    person = _PERSON.match(committer)
    if person is None or person["time"] is None:
        return datetime.fromtimestamp(0, UTC)
    minutes = int(person["zone"][:2]) * 60 + int(person["zone"][2:])
    try:
        offset = timezone(timedelta(minutes=-minutes if person["sign"] == "-" else minutes))
        return datetime.fromtimestamp(int(person["time"]), offset)
    except (ValueError, OverflowError, OSError):  # git stores any number: a zone of 99:99, a year beyond 9999
        return datetime.fromtimestamp(0, UTC)


_KINDS: Final = {b"40000": Entry.FOLDER, b"120000": Entry.LINK, b"160000": Entry.SUBMODULE}
# bytes of an id of SHA-1 and of SHA-256
_SIZES = (20, 32)
_ENTRY: Final = {size: re.compile(rb"0*([0-7]+) ([^\0]+)\0(.{%d})" % size, re.DOTALL) for size in _SIZES}
_WHOLE: Final = {size: re.compile(rb"(?:[0-7]+ [^\0]+\0.{%d})*" % size, re.DOTALL) for size in _SIZES}


class TreeEntry(NamedTuple):
    """What a name in a folder is, and the id of its object."""

    kind: Entry
    id: str


class TreeObject(Mapping[str, TreeEntry]):
    """
    The entries of a folder by name; ``content`` is that of a tree object, whose ids have ``id_bytes``.

    Entries are ``MODE NAME NUL ID``, see git-mktree(1). They are decoded when they are read: of a folder with
    thousands of entries, a commit changes few. Raise ValueError for other content.
    """

    def __init__(self, content: bytes = b"", id_bytes: int = 20) -> None:
        if _WHOLE[id_bytes].fullmatch(content) is None:
            raise ValueError("not the content of a tree object")
        self._entries = {fields[1]: fields for fields in _ENTRY[id_bytes].findall(content)}

    def __getitem__(self, name: str) -> TreeEntry:
        return _entry(self._entries[name.encode("utf-8", "surrogateescape")])

    def find(self, name: str) -> TreeEntry | None:
        """Return an entry, None where there is none: builds ask for many."""
        fields = self._entries.get(name.encode("utf-8", "surrogateescape"))
        return _entry(fields) if fields is not None else None

    def __iter__(self) -> Iterator[str]:
        return map(_decoded_name, self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def differing(self, other: TreeObject) -> Iterator[str]:
        """Yield the names that are not the same entry in both."""
        # raw fields are compared: of a folder with thousands of entries, only those that differ are decoded
        for name, fields in self._entries.items():
            if other._entries.get(name) != fields:
                yield _decoded_name(name)
        yield from map(_decoded_name, other._entries.keys() - self._entries.keys())


def _entry(fields: tuple[bytes, bytes, bytes]) -> TreeEntry:
    mode, _, id = fields
    # every other mode is a file: old repositories have 100664, see fsck.badFilemode in git-fsck(1)
    return TreeEntry(_KINDS.get(mode, Entry.FILE), id.hex())


def _decoded_name(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")  # Git stores bytes, in whatever encoding the author had


AUTHORIZED = "gitsync-readers"
"""Marker file: the credentials that the Git server has accepted."""
CORRUPT = "gitsync-damaged"
"""Marker file: the mirror is corrupt and must be rebuilt."""
# entries of tree objects that are cached, about 6 MB; unchanged folders of two commits are the same object
_CACHED_ENTRIES = 20_000
# what a tree object of any size counts, in entries: each commit adds one for every folder above a changed file
_TREE_OVERHEAD = 20
_CACHED_COMMITS = 256
# commits that are compared with an earlier one before git is asked; fewer than are cached, so that most were read
_NEAREST = 128
_MAX_TREE = 64 << 20
# entries that differ between two commits; a commit that changes more is compared as if it changed everything
_MOST_DIFFERENCES = 200_000


class TooLarge(Exception):
    """An object has more bytes than its reader may load; ``size`` says how many."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


class ObjectReader:
    """
    Read objects by id, through one ``git cat-file --batch`` process that is started on demand and ended by ``close``.

    Objects never change, so parsed trees and commits are cached. Safe for use from several threads. ``on_start`` is
    called when a process is started, which changes no file, has no network, and is under the ``confinement``.
    """

    def __init__(
        self,
        git_dir: str | Path,
        on_start: Callable[[ObjectReader], None] = lambda reader: None,
        confinement: Confinement | None = None,
    ) -> None:
        self.git_dir = Path(git_dir)
        self._on_start = on_start
        self._confinement = confinement or Confinement()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._trees: OrderedDict[str, TreeObject] = OrderedDict()
        self._cached_entries = 0
        self._commits: OrderedDict[str, ParsedCommit] = OrderedDict()

    def commit(self, id: str) -> ParsedCommit:
        """Return a commit; raise SourceUnavailable when the mirror does not have it."""
        parsed = self.find_commit(id)
        if parsed is None:
            raise self._corrupt(f"commit {id[:12]} cannot be read from the mirror")
        return parsed

    def find_commit(self, id: str) -> ParsedCommit | None:
        """Return a commit, None when the mirror does not have it."""
        with self._lock:
            known = self._commits.get(id)
            content = self._find(id, b"commit", _MAX_TREE) if known is None else None
            if content is not None:
                known = self._commits[id] = parse_commit(id, content)
                if len(self._commits) > _CACHED_COMMITS:
                    self._commits.popitem(last=False)
            return known

    def has_commit(self, id: str, *, with_files: bool = True) -> bool:
        """Return whether a commit is in the repository now, with the list of its files; nothing cached counts."""
        with self._lock:
            content = self._find(id, b"commit", _MAX_TREE)
        return content is not None and not (with_files and self.find_tree(parse_commit(id, content).tree) is None)

    def tree(self, id: str) -> TreeObject:
        """Return the entries of a folder by name; raise SourceUnavailable when the mirror does not have it."""
        entries = self.find_tree(id)
        if entries is None:
            raise self._corrupt("a folder of the commit is damaged or missing in the mirror")
        return entries

    def find_tree(self, id: str) -> TreeObject | None:
        """Return the entries of a folder by name, None when the mirror does not have it."""
        with self._lock:
            known = self._trees.get(id)
            if known is not None:
                self._trees.move_to_end(id)
                return known
            content = self._find(id, b"tree", _MAX_TREE)
            try:
                return self._cache(id, TreeObject(content, len(id) // 2)) if content is not None else None
            except ValueError:  # git checks only the hash, so a server may send any content as a tree
                return None

    def blob(self, id: str, limit: int) -> bytes:
        """
        Return the content of a file.

        Raise TooLarge past the limit, FileNotFetched when it was left out, SourceUnavailable when it cannot be read.
        """
        with self._lock:
            content = self._find(id, b"blob", limit)
        if content is None and id in left_out(self.git_dir):
            raise not_fetched(self.git_dir, id)
        if content is None:
            raise self._corrupt("the object of this file is damaged or missing in the mirror")
        return content

    def close(self, *, wait: bool = True) -> None:
        """End the process, a later read starts another; without ``wait`` only when no read is running."""
        if self._lock.acquire(blocking=wait):
            try:
                self._stop()
            finally:
                self._lock.release()

    def _cache(self, id: str, entries: TreeObject) -> TreeObject:
        self._trees[id] = entries
        self._cached_entries += len(entries) + _TREE_OVERHEAD
        while self._cached_entries > _CACHED_ENTRIES and len(self._trees) > 1:
            self._cached_entries -= len(self._trees.popitem(last=False)[1]) + _TREE_OVERHEAD
        return entries

    def _corrupt(self, reason: str) -> SourceUnavailable:
        mark_corrupt(self.git_dir)
        return SourceUnavailable(reason)

    def _find(self, id: str, kind: bytes, limit: int) -> bytes | None:
        """Return the content of an object, None when it is missing, of another kind, or cannot be read."""
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(id.encode() + b"\n")
            process.stdin.flush()
            header = process.stdout.readline().split()
            if len(header) == 2:  # "ID missing"
                return None
            if len(header) == 3 and header[1] == kind and int(header[2]) > limit:
                self._stop()  # rather than read all of it
                raise TooLarge(int(header[2]))
            if len(header) == 3 and header[1] == kind:
                content = process.stdout.read(int(header[2]))
                if process.stdout.read(1):  # else git gave up on the way
                    return content
        except OSError:  # the process has ended, such as at a pack that cannot be read
            pass
        self._stop()
        return None

    def _start(self) -> subprocess.Popen[bytes]:
        def begin() -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                ["git", "--git-dir", str(self.git_dir), "cat-file", "--batch"],  # it sees packs that a later fetch adds
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment(()),
            )

        self._process = self._confinement.start(begin, None, has_network=False)
        # A tree of the command line has a reader that nothing closes. Not __del__: of garbage in a cycle, Python may
        # finalize the process and its pipes before their reader, and warn of each.
        self._finalizer = weakref.finalize(self, _end, self._process)
        self._on_start(self)
        return self._process

    def _stop(self) -> None:
        if self._process is not None:
            self._process = None
            self._finalizer()


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and close its pipes."""
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):  # a write that failed is still in the buffer
                stream.close()
    process.kill()
    process.wait()


def mark_corrupt(git_dir: Path) -> None:
    """Mark an own mirror as corrupt, for the next fetch; other repositories are left alone."""
    if (git_dir / AUTHORIZED).exists():
        with contextlib.suppress(OSError):
            (git_dir / CORRUPT).touch()


def has_near_ancestor(reader: ObjectReader, commit: str, earlier: str) -> bool:
    """
    Return whether a commit is another one, or that is among its nearest ancestors.

    False says nothing: it may be a farther one.
    """
    # late: render processes read objects too, and start without the models that it imports
    from gitsync.source.validation import is_commit

    pending = deque([commit])
    known = {commit}
    while pending:
        if (id := pending.popleft()) == earlier:
            return True
        parsed = reader.find_commit(id) if is_commit(id) else None
        for parent in parsed.parents if parsed is not None else ():
            if parent not in known and len(known) < _NEAREST:
                known.add(parent)
                pending.append(parent)
    return False


def changed_paths(reader: ObjectReader, old_commit: str, new_commit: str) -> frozenset[str] | None:
    """
    Return the paths of files, links and submodules that differ between two commits, None when one is not here.

    Only folders that differ are read, so the cost follows the size of the change. None also for a change of too many
    entries to compare: any path may differ then.
    """
    old = reader.find_commit(old_commit)
    new = reader.find_commit(new_commit)
    if old is None or new is None:
        return None
    try:
        return _differences(reader, _folder(old.tree), _folder(new.tree))
    except SourceUnavailable:  # a damaged folder: the next fetch rebuilds the mirror, and until then all may differ
        return None


def _folder(id: str) -> TreeEntry:
    return TreeEntry(Entry.FOLDER, id)


def _differences(reader: ObjectReader, old: TreeEntry | None, new: TreeEntry | None) -> frozenset[str] | None:
    """Return the paths of the entries that differ; None for too many."""
    paths: set[str] = set()
    path = ""
    compared = 0
    pending = [(path, old, new)]  # a list, since a hostile tree may be nested deeper than Python recurses
    while pending:
        path, old, new = pending.pop()
        if old == new:  # equal ids: everything below is equal too
            continue
        compared += 1
        if compared > _MOST_DIFFERENCES:  # few objects can be a tree of 10^11 paths
            return None
        if path and (_is_other_than_folder(old) or _is_other_than_folder(new)):
            paths.add(path)
        old_entries = _entries(reader, old)
        new_entries = _entries(reader, new)
        prefix = f"{path}/" if path else ""
        pending += [
            (f"{prefix}{name}", old_entries.get(name), new_entries.get(name))
            for name in old_entries.differing(new_entries)
        ]
    return frozenset(paths)


def _is_other_than_folder(entry: TreeEntry | None) -> bool:
    return entry is not None and entry.kind is not Entry.FOLDER


def _entries(reader: ObjectReader, entry: TreeEntry | None) -> TreeObject:
    return reader.tree(entry.id) if entry is not None and entry.kind is Entry.FOLDER else TreeObject()
