"""Mirror: one bare repository per URL, shared by all applications that use it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import fields
from pathlib import Path
from typing import TypeVar

from filelock import FileLock
from git import Repo
from git.exc import GitError
from gitdb.exc import BadName, BadObject, ODBError

from gitsync.errors import InvalidInput, SourceDenied, SourceUnavailable
from gitsync.objects.record import Commit
from gitsync.ports import Credentials
from gitsync.source.failures import RecentFailures
from gitsync.source.git import REMOTE, GitFailed, authenticated_env, environment, run
from gitsync.source.object_reader import AUTHORIZED, CORRUPT, ObjectReader, mark_corrupt
from gitsync.source.quarantine import NEW, largest_file, quarantine, remove_leftovers
from gitsync.source.refs import HEADS, branch_name, find_ref
from gitsync.source.snapshot import Limits
from gitsync.source.tree_diff import changed_paths
from gitsync.source.validation import is_commit, shown_url

_T = TypeVar("_T")
_NEVER = float("-inf")
_LOCK_POLL = 0.01
"""Seconds between attempts to lock a mirror that another thread or process holds."""
_CACHED_PAIRS = 256
"""Pairs of commits whose comparison is cached."""
_BROKEN = (
    *("corrupt", "bad object", "missing blob", "missing tree", "not a valid object", "inflate", "garbage"),
    *("unable to read", "unable to parse", "unable to unpack", "loose object", "packfile"),
)
_FULL = ("No space left on device", "Disk quota exceeded", "Read-only file system")
_DENIED = ("could not read Username", "could not read Password", "Authentication failed", "Permission denied")


class Mirror:
    """
    Keep the tracked refs of one repository and answer what they point to.

    A fetch happens only for an object that is not here yet. Methods are safe from several threads and processes;
    fetches of one mirror follow each other. A corrupt mirror is rebuilt beside it and swapped.

    Applications share what was fetched, and answers to polls only with those of the same credentials: credentials that
    the server never accepted read nothing here.
    """

    def __init__(
        self,
        url: str,
        folder: Path,
        schemes: Sequence[str],
        limits: Limits,
        on_read: Callable[[ObjectReader], None] = lambda reader: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = url
        self._clock = clock
        self.path = folder / hashlib.sha256(url.encode()).hexdigest()[:24]
        self._schemes = schemes
        self._limits = limits
        self._env = environment(schemes)
        self._lock = FileLock(self.path.with_suffix(".lock"), mode=0o600, poll_interval=_LOCK_POLL)
        self._refs: dict[str, str] = {}
        self._asked_at: dict[Credentials, float] = {}
        self._failures = RecentFailures(clock)
        self.objects = ObjectReader(self.path, on_read)
        self._changes: dict[tuple[str, str], frozenset[str]] = {}
        self._ancestors: dict[tuple[str, str], bool] = {}

    def resolve(self, revision: str, credentials: Credentials, max_age: float) -> str:
        """Return the commit id that a branch, tag, range or commit id names at the server; see Source.resolve."""
        if is_commit(revision):
            return revision
        with self._locked():
            if self._clock() - self._asked_at.get(credentials, _NEVER) >= max_age:
                with self._failures.shared(credentials, max_age):
                    self._ask(credentials)
            name = self._full_name(revision)
            if name is None:
                raise InvalidInput(
                    f"the revision {revision!r} does not exist in {shown_url(self.url)}",
                    location="spec.source.revision",
                )
            return self._refs.get(f"{name}^{{}}", self._refs[name])

    def _full_name(self, revision: str) -> str | None:
        return find_ref(revision, self._refs)

    def branch(self, revision: str) -> str:
        """
        Return the branch that a revision names, empty when it names a tag, a range, a commit, or nothing.

        Before the server has answered, a name that could be a branch is one.
        """
        name = (self._full_name(revision) if self._refs else branch_name(revision)) or ""
        return name.removeprefix(HEADS) if name.startswith(HEADS) else ""

    def contains(self, commit: str, earlier: str) -> bool:
        """Return whether a fetched commit has an earlier one among its ancestors; the answer is cached."""
        pair = (commit, earlier)
        if pair not in self._ancestors:
            try:
                run(self.path, "merge-base", "--is-ancestor", earlier, commit, env=self._env)
            except GitFailed:  # also when the earlier one is absent: histories are complete, so it is not an ancestor
                return False
            _limited(self._ancestors)[pair] = True
        return True

    def changed_paths(self, before: str, after: str) -> frozenset[str] | None:
        """Return the paths that differ between two commits, None when one is not here; the answer is cached."""
        pair = (before, after)
        known = self._changes.get(pair)
        if known is None:
            known = changed_paths(self.objects, before, after)
            if known is not None:
                _limited(self._changes)[pair] = known
        return known

    def _ask(self, credentials: Credentials) -> None:
        nowhere = Path(os.devnull)  # a damaged mirror must not hide what the server answers
        listing = self._talk(nowhere, credentials, "ls-remote", "--heads", "--tags", REMOTE)
        lines = (line.split("\t", 1) for line in listing.decode(errors="replace").splitlines())
        self._refs = {name: oid for oid, name in lines}
        self._open()
        if not self._is_reader(credentials):
            with (self.path / AUTHORIZED).open("a") as readers:
                readers.write(f"{self._digest(credentials)}\n")
        self._asked_at[credentials] = self._clock()

    def _is_reader(self, credentials: Credentials) -> bool:
        """Whether the server let these credentials in before; that is remembered over a restart."""
        readers = self.path / AUTHORIZED
        if credentials in self._asked_at and readers.exists():
            return True
        return readers.exists() and self._digest(credentials) in readers.read_text(errors="replace").split()

    def _digest(self, credentials: Credentials) -> str:
        """Return what credentials are known by: they cannot be worked out from it."""
        text = "\0".join(getattr(credentials, field.name) for field in fields(credentials))
        return hashlib.scrypt(text.encode(), salt=self.url.encode(), n=1 << 12, r=8, p=1, dklen=24).hex()

    def fetch(self, revision: str, commit: str, credentials: Credentials, max_age: float = 0.0) -> None:
        """
        Make sure that the commit and its files are here; fetches the ref that names it when they are not.

        Credentials that were never let in are shown to the server first, also for what is here. A failure at most
        ``max_age`` seconds ago is raised again.
        """
        with self._locked():
            if not self._is_reader(credentials):
                with self._failures.shared(credentials, max_age):
                    self._ask(credentials)
            is_damaged = (self.path / CORRUPT).exists()
            if not is_damaged and self._has(self.path, commit):
                return
            remove_leftovers(self.path)
            with self._failures.shared((credentials, commit), max_age):
                self._get(revision, commit, credentials, is_damaged=is_damaged)
            if not self._has(self.path, commit):
                raise InvalidInput(
                    f"commit {commit[:12]} does not exist in {shown_url(self.url)}", location="spec.source.revision"
                )

    def _get(self, revision: str, commit: str, credentials: Credentials, *, is_damaged: bool) -> None:
        """Fetch a commit into this mirror, or into a new one where this one is damaged."""
        try:
            if is_damaged:
                raise _Damaged
            self._open()
            self._receive(self.path, revision, commit, credentials)
        except _Damaged:
            self._rebuild(revision, commit, credentials)

    def _receive(self, git_dir: Path, revision: str, commit: str, credentials: Credentials) -> None:
        """Fetch the ref that a revision names, or else the commit itself, into a mirror that may be a new one."""
        name = self._full_name(revision)
        for wanted in filter(None, (name, commit)):
            if not self._has(git_dir, commit):
                self._fetch(git_dir, wanted, credentials)
        if self._has(git_dir, commit):
            self._update_private_ref(git_dir, revision, commit)
        elif self._has(git_dir, commit, "commit"):  # git fetches no files of a commit it has
            raise _Damaged

    def _fetch(self, git_dir: Path, wanted: str, credentials: Credentials) -> None:
        """Fetch objects only: refs of the server's names could conflict with those of earlier fetches."""
        arguments = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--refmap=", REMOTE, wanted)
        limit = self._limits.pack_bytes
        with quarantine(git_dir) as env:
            try:
                self._talk(git_dir, credentials, *arguments, env=env)
            except SourceUnavailable as error:
                if largest_file(git_dir) < limit:
                    raise
                what = f"the Git server sends a pack of more than the limit of {limit} bytes"
                raise SourceUnavailable(what, location=shown_url(self.url)) from error

    def _update_private_ref(self, git_dir: Path, revision: str, commit: str) -> None:
        """Point the private ref of a revision to a commit, so that the next fetch gets only what is new."""
        name = f"refs/gitsync/{hashlib.sha256(revision.encode()).hexdigest()[:24]}"
        try:
            run(git_dir, "update-ref", name, commit, env=self._env)
        except GitFailed as error:
            raise _local_failure(str(error)) or _Damaged() from error

    def push(self, commit: str, branch: str, credentials: Credentials) -> None:
        """Push a commit to a branch, never by force; raise GitFailed when the server refuses it."""
        with self._locked(), authenticated_env(self.url, credentials, self._schemes) as env:
            run(
                self.path, "push", "--quiet", "--porcelain", REMOTE, f"{commit}:{HEADS}{branch}",
                env=env, timeout=self._limits.seconds, is_guarded=True,
            )  # fmt: skip
            self._asked_at = dict.fromkeys(self._asked_at, _NEVER)

    def _talk(
        self, git_dir: Path, credentials: Credentials, *arguments: str, env: Mapping[str, str] | None = None
    ) -> bytes:
        with authenticated_env(self.url, credentials, self._schemes) as ours:
            try:
                return run(
                    git_dir,
                    *arguments,
                    env={**ours, **(env or {})},
                    timeout=self._limits.seconds,
                    max_file_bytes=self._limits.pack_bytes,
                    is_guarded=True,
                )
            except GitFailed as error:
                text = str(error)
                failure = _local_failure(text)
                if failure is None and git_dir.is_dir() and (_is_damaged(text) or not self._is_intact(git_dir)):
                    failure = _Damaged()
                raise failure or _unavailable(text, shown_url(self.url)) from error

    def _is_intact(self, git_dir: Path) -> bool:
        """Return whether git can use a mirror: its configuration, its refs, and the objects that they reach."""
        try:
            run(
                git_dir, "fsck", "--connectivity-only", "--no-dangling", "--no-progress",
                env=self._env, timeout=self._limits.seconds,
            )  # fmt: skip
        except GitFailed:
            return False
        return True

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock of the mirror; raise SourceUnavailable when its folder cannot be used."""
        try:
            with self._lock:
                yield
        except OSError as error:
            raise _unusable(error.strerror or str(error)) from error

    def _open(self) -> None:
        if not (self.path / "HEAD").exists():
            self._swap(self._make())

    def _make(self) -> Path:
        """Return an empty mirror beside this one."""
        beside = self.path.with_suffix(NEW)
        shutil.rmtree(beside, ignore_errors=True)
        try:
            run(beside, "init", "--quiet", "--bare", "--template=", "--initial-branch=main", env=self._env)
        except GitFailed as error:
            shutil.rmtree(beside, ignore_errors=True)
            raise _local_failure(str(error)) or _unusable(str(error)) from error
        return beside

    def _swap(self, beside: Path) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        beside.rename(self.path)
        self.objects.close()

    def _rebuild(self, revision: str, commit: str, credentials: Credentials) -> None:
        """Fetch into a mirror beside this damaged one, and swap; until that is done the damaged one stays."""
        beside = self._make()
        try:
            self._receive(beside, revision, commit, credentials)
            readers = self.path / AUTHORIZED
            if readers.exists():
                shutil.copy(readers, beside)
            self._swap(beside)
        finally:
            shutil.rmtree(beside, ignore_errors=True)

    def _has(self, git_dir: Path, commit: str, kind: str = "tree") -> bool:
        if git_dir == self.path:
            return self.objects.has_commit(commit, with_files=kind == "tree")
        try:
            run(git_dir, "cat-file", "-e", f"{commit}^{{{kind}}}", env=self._env)
        except GitFailed:
            return False
        return True

    def commit(self, commit: str) -> Commit:
        """Return author, message and time of a commit that is here."""
        return self.objects.commit(commit).commit

    def log(self, commit: str, limit: int) -> tuple[Commit, ...]:
        """Return a commit and its first parents, newest first."""
        try:
            with Repo(self.path) as repo:
                found = repo.iter_commits(commit, max_count=limit, first_parent=True)
                return tuple(
                    Commit(
                        id=item.hexsha,
                        author=str(item.author.name or ""),
                        email=str(item.author.email or ""),
                        message=str(item.message).strip(),
                        time=item.committed_datetime,
                    )
                    for item in found
                )
        except (GitError, ODBError, BadName, BadObject, ValueError, OSError) as error:
            mark_corrupt(self.path)
            raise SourceUnavailable(f"commit {commit[:12]} cannot be read from the mirror") from error

    def git(self, *arguments: str, stdin: bytes = b"", env: dict[str, str] | None = None) -> bytes:
        """Run a local git command in the mirror; see ``gitsync.source.git.run``."""
        return run(self.path, *arguments, env={**self._env, **(env or {})}, stdin=stdin)

    def locked(self) -> AbstractContextManager[object]:
        """Hold the mirror while several commands belong together."""
        return self._lock


def _limited(cache: dict[tuple[str, str], _T]) -> dict[tuple[str, str], _T]:
    """Return a cache with room for another entry, without its oldest one where it is full."""
    if len(cache) >= _CACHED_PAIRS:
        with contextlib.suppress(KeyError, RuntimeError):  # another thread removes it too
            del cache[next(iter(cache))]
    return cache


class _Damaged(SourceUnavailable):
    def __init__(self) -> None:
        super().__init__("the mirror is damaged", hint="it is rebuilt automatically")


def _unusable(reason: str) -> SourceUnavailable:
    return SourceUnavailable(
        f"the mirror of the repository cannot be written: {reason}",
        hint="free space in the data folder of the controller (GITSYNC_DATA), or enlarge its volume",
    )


def _local_failure(text: str) -> SourceUnavailable | None:
    """Return the error of a disk that cannot be written, which neither the server nor a rebuild can fix."""
    ours = [line for line in text.splitlines() if not line.startswith("remote:")]
    full = next((reason for reason in _FULL if any(reason in line for line in ours)), None)
    return _unusable(full) if full else None


def _is_damaged(text: str) -> bool:
    """Whether git found fault with the mirror itself; what the server prints says nothing of it."""
    ours = [line for line in text.splitlines() if not line.startswith("remote:")]
    return any(word in line for line in ours for word in _BROKEN)


def _unavailable(text: str, url: str) -> SourceUnavailable:
    """Return the error for what git printed, with the fix where the credentials or the host key are wrong."""
    if "Host key verification failed" in text:
        return SourceDenied(
            "the SSH host key of the Git server is unknown or has changed",
            location=url,
            hint="set known_hosts in the Secret of spec.source.credentials to the output of ssh-keyscan HOST",
        )
    if any(word in text for word in _DENIED):
        return SourceDenied(
            "the Git server rejected the credentials, or requires some",
            location=url,
            hint="name a Secret with username and password (a token), or ssh-privatekey and known_hosts, in "
            "spec.source.credentials.secretRef",
        )
    lines = [line for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("fatal:", "error:", "remote:", "ssh:"))] or lines
    reason = "; ".join(telling[:2] or ["no reason given"])
    return SourceUnavailable(f"the Git server refused or did not answer: {reason}", location=url)
