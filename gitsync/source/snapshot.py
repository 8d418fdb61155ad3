"""GitTree: the files of one commit, read from the object database without a checkout."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

from gitsync.errors import InvalidInput, SourceUnavailable
from gitsync.objects.tree import Entry
from gitsync.source.git import GitFailed, environment, run
from gitsync.source.lfs import reject_pointer

_ENTRIES = {"100644": Entry.FILE, "100755": Entry.FILE, "100664": Entry.FILE, "120000": Entry.LINK}
AUTHORIZED = "gitsync-readers"
"""Marker file: the credentials that the Git server has accepted."""
CORRUPT = "gitsync-damaged"
"""Marker file: the mirror is corrupt and must be rebuilt."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what one application may bring, so that a hostile commit cannot fill memory or disk."""

    file_bytes: int = 1 << 20
    files: int = 20_000
    read_bytes: int = 100 << 20
    pack_bytes: int = 2 << 30
    seconds: float = 120.0
    """How long one talk with the server may take."""


def mark_corrupt(git_dir: Path) -> None:
    """Mark an own mirror as corrupt, for the next fetch; other repositories are left alone."""
    if (git_dir / AUTHORIZED).exists():
        with contextlib.suppress(OSError):
            (git_dir / CORRUPT).touch()


@dataclass(frozen=True, slots=True)
class _Blob:
    entry: Entry
    id: str
    size: int


class GitTree:
    """
    The files of one commit, as ``gitsync.objects.tree.Tree``.

    Listed once when made; contents are read on demand, through one ``git cat-file --batch`` process that lives until
    ``close``. Links are never followed and submodules never entered. Safe for use from several threads.
    """

    def __init__(self, git_dir: str | Path, commit: str, limits: Limits | None = None) -> None:
        self._git_dir = Path(git_dir)
        self._limits = limits or Limits()
        self._env = environment(())
        self._blobs: dict[str, _Blob] = {}
        self._folders: dict[str, list[str]] = {"": []}
        self._batch: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._read = 0
        self._list(commit)

    def _list(self, commit: str) -> None:
        try:
            listing = run(self._git_dir, "ls-tree", "-r", "-t", "-z", "-l", commit, env=self._env)
        except GitFailed as error:
            mark_corrupt(self._git_dir)
            raise SourceUnavailable(f"commit {commit[:12]} cannot be read: {error}") from error
        for line in listing.split(b"\0"):
            if not line:
                continue
            head, _, name = line.partition(b"\t")
            mode, kind, oid, size = head.decode().split()
            path = name.decode("utf-8", "surrogateescape")
            folder, _, base = path.rpartition("/")
            self._folders[folder].append(base)
            if kind == "tree":
                self._folders[path] = []
            else:
                entry = Entry.SUBMODULE if kind == "commit" else _ENTRIES.get(mode, Entry.FILE)
                self._blobs[path] = _Blob(entry, oid, int(size) if size.isdigit() else 0)

    def entry(self, path: str) -> Entry | None:
        """Return the kind of entry at the path itself, or None."""
        blob = self._blobs.get(path)
        if blob is not None:
            return blob.entry
        return Entry.FOLDER if path in self._folders else None

    def names(self, path: str) -> tuple[str, ...]:
        """Return the sorted names in a folder; KeyError when there is none."""
        return tuple(sorted(self._folders[path]))

    def blob_id(self, path: str) -> str:
        """Return the object id of a file or link; KeyError when there is none."""
        return self._blobs[path].id

    def read(self, path: str) -> bytes:
        """Return a file's bytes, or a link's target; raise InvalidInput past the limits, KeyError when absent."""
        blob = self._blobs[path]
        if blob.entry is Entry.SUBMODULE:
            raise InvalidInput("is a submodule, and submodules are not followed", location=path)
        if blob.size > self._limits.file_bytes:
            raise InvalidInput(
                f"the file is too large: {blob.size} bytes, the limit is {self._limits.file_bytes}",
                location=path,
                hint="split it, or keep it out of the application",
            )
        with self._lock:
            self._read += blob.size
            if self._read > self._limits.read_bytes:
                raise InvalidInput(f"the files read exceed the limit of {self._limits.read_bytes} bytes", location=path)
            content = self._content(blob, path)
        if blob.entry is Entry.FILE:
            reject_pointer(content, path)
        return content

    def _content(self, blob: _Blob, path: str) -> bytes:
        batch = self._batch or self._start()
        assert batch.stdin is not None
        assert batch.stdout is not None
        try:
            batch.stdin.write(blob.id.encode() + b"\n")
            batch.stdin.flush()
            header = batch.stdout.readline().split()
            if len(header) == 3 and header[1] == b"blob":
                content = batch.stdout.read(int(header[2]))
                if batch.stdout.read(1):  # else git gave up on the way
                    return content
        except OSError:
            header = []
        self._stop()
        mark_corrupt(self._git_dir)
        raise SourceUnavailable("the object of this file is damaged or missing in the mirror", location=path)

    def _start(self) -> subprocess.Popen[bytes]:
        self._batch = subprocess.Popen(
            ["git", "--git-dir", str(self._git_dir), "cat-file", "--batch"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self._env,
        )
        return self._batch

    def _stop(self) -> None:
        batch, self._batch = self._batch, None
        if batch is not None:
            for stream in (batch.stdin, batch.stdout):
                if stream is not None:
                    stream.close()
            batch.kill()
            batch.wait()

    def close(self) -> None:
        """End the reading process; a later read starts another."""
        with self._lock:
            self._stop()

    def __del__(self) -> None:
        if getattr(self, "_batch", None) is not None:
            self._stop()

    def check_size(self, path: str) -> None:
        """Raise InvalidInput when there are more files at or below the path than the limit allows."""
        prefix = f"{path}/" if path else ""
        count = sum(1 for name in self._blobs if name.startswith(prefix))
        if count > self._limits.files:
            raise InvalidInput(f"too many files: {count}, the limit is {self._limits.files}", location=path or ".")

    def submodules(self, path: str) -> tuple[str, ...]:
        """Return the paths of submodules at or below the path; their files are not read."""
        prefix = f"{path}/" if path else ""
        found = (name for name, blob in self._blobs.items() if blob.entry is Entry.SUBMODULE)
        return tuple(name for name in found if name == path or name.startswith(prefix))
