"""Mirror: one bare repository per URL, shared by all applications that use it."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import fields
from pathlib import Path

from filelock import FileLock
from git import Repo
from git.exc import GitError
from gitdb.exc import BadName, BadObject, ODBError

from gitsync.errors import InvalidInput, SourceDenied, SourceUnavailable
from gitsync.objects.record import Commit
from gitsync.ports import Credentials
from gitsync.source.git import GitFailed, authenticated_env, environment, run
from gitsync.source.semver import parse_range
from gitsync.source.snapshot import AUTHORIZED, CORRUPT, Limits, mark_corrupt
from gitsync.source.validation import is_commit, shown_url

_NEVER = float("-inf")
_LOCK_POLL = 0.01
"""Seconds between attempts to lock a mirror that another thread or process holds."""
_HEADS, _TAGS = "refs/heads/", "refs/tags/"
_BROKEN = (
    *("corrupt", "bad object", "missing blob", "missing tree", "not a valid object", "inflate", "garbage"),
    *("unable to read", "unable to parse", "unable to unpack", "loose object", "packfile"),
)
_DENIED = ("could not read Username", "could not read Password", "Authentication failed", "Permission denied")


class Mirror:
    """
    Keep the tracked refs of one repository and answer what they point to.

    A fetch happens only for an object that is not here yet. Methods are safe from several threads and processes;
    fetches of one mirror follow each other. A corrupt mirror is rebuilt beside it and swapped.

    Applications share what was fetched, and answers to polls only with those of the same credentials: credentials that
    the server never accepted read nothing here.
    """

    def __init__(self, url: str, folder: Path, schemes: Sequence[str], limits: Limits) -> None:
        self.url = url
        self.path = folder / hashlib.sha256(url.encode()).hexdigest()[:24]
        self._schemes = schemes
        self._limits = limits
        self._env = environment(schemes)
        self._lock = FileLock(self.path.with_suffix(".lock"), mode=0o600, poll_interval=_LOCK_POLL)
        self._refs: dict[str, str] = {}
        self._asked_at: dict[Credentials, float] = {}

    def resolve(self, revision: str, credentials: Credentials, max_age: float) -> str:
        """Return the commit id that a branch, tag, range or commit id names at the server; see Source.resolve."""
        if is_commit(revision):
            return revision
        with self._lock:
            if time.monotonic() - self._asked_at.get(credentials, _NEVER) >= max_age:
                self._ask(credentials)
            name = self._full_name(revision)
            if name is None:
                raise InvalidInput(
                    f"the revision {revision!r} does not exist in {shown_url(self.url)}",
                    location="spec.source.revision",
                )
            return self._refs.get(f"{name}^{{}}", self._refs[name])

    def _full_name(self, revision: str) -> str | None:
        candidates = (revision, f"{_HEADS}{revision}", f"{_TAGS}{revision}")
        exact = next((name for name in candidates if name in self._refs), None)
        wanted = parse_range(revision) if exact is None else None
        if wanted is None:
            return exact
        tag = wanted.highest(name.removeprefix(_TAGS) for name in self._refs if name.startswith(_TAGS))
        return f"{_TAGS}{tag}" if tag else None

    def branch(self, revision: str) -> str:
        """Return the branch that a revision names, empty when it names a tag, a range, a commit, or nothing."""
        name = self._full_name(revision) or ""
        return name.removeprefix(_HEADS) if name.startswith(_HEADS) else ""

    def contains(self, commit: str, earlier: str) -> bool:
        """Return whether a fetched commit has an earlier one among its ancestors."""
        try:
            run(self.path, "merge-base", "--is-ancestor", earlier, commit, env=self._env)
        except GitFailed:  # also when the earlier commit is absent: histories are complete, so it is not an ancestor
            return False
        return True

    def _ask(self, credentials: Credentials) -> None:
        listing = self._talk(credentials, "ls-remote", "--heads", "--tags", "origin")
        lines = (line.split("\t", 1) for line in listing.decode(errors="replace").splitlines())
        self._refs = {name: oid for oid, name in lines}
        if credentials not in self._asked_at and not self._is_reader(credentials):
            with (self.path / AUTHORIZED).open("a") as readers:
                readers.write(f"{self._digest(credentials)}\n")
        self._asked_at[credentials] = time.monotonic()

    def _is_reader(self, credentials: Credentials) -> bool:
        """Whether the server let these credentials in before; that is remembered over a restart."""
        readers = self.path / AUTHORIZED
        return readers.exists() and self._digest(credentials) in readers.read_text().split()

    def _digest(self, credentials: Credentials) -> str:
        """Return what credentials are known by: they cannot be worked out from it."""
        text = "\0".join(getattr(credentials, field.name) for field in fields(credentials))
        return hashlib.scrypt(text.encode(), salt=self.url.encode(), n=1 << 12, r=8, p=1, dklen=24).hex()

    def fetch(self, revision: str, commit: str, credentials: Credentials) -> None:
        """
        Make sure that the commit and its files are here; fetches the ref that names it when they are not.

        Credentials that were never let in are shown to the server first, also for what is here.
        """
        with self._lock:
            if credentials not in self._asked_at and not self._is_reader(credentials):
                self._ask(credentials)
            is_damaged = (self.path / CORRUPT).exists()
            if not is_damaged and self._has(commit):
                return
            name = self._full_name(revision)
            wanted = f"+{name}:{name}" if name else f"+{commit}:refs/gitsync/{commit}"
            try:
                if is_damaged:
                    raise _Damaged
                self._fetch(wanted, credentials)
                if not self._has(commit):
                    self._fetch(f"+{commit}:refs/gitsync/{commit}", credentials)
                if not self._has(commit) and self._has(commit, "commit"):  # git fetches no files of a commit it has
                    raise _Damaged
            except _Damaged:
                self._rebuild(wanted, credentials)
            if not self._has(commit):
                raise InvalidInput(
                    f"commit {commit[:12]} does not exist in {shown_url(self.url)}", location="spec.source.revision"
                )

    def _fetch(self, refspec: str, credentials: Credentials, into: Path | None = None) -> None:
        arguments = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "origin", refspec)
        self._talk(credentials, *arguments, into=into)

    def push(self, commit: str, branch: str, credentials: Credentials) -> None:
        """Push a commit to a branch, never by force; raise GitFailed when the server refuses it."""
        with self._lock, authenticated_env(self.url, credentials, self._schemes) as env:
            run(
                self.path, "push", "--quiet", "--porcelain", "origin", f"{commit}:refs/heads/{branch}",
                env=env, timeout=self._limits.seconds,
            )  # fmt: skip
            run(self.path, "update-ref", f"refs/heads/{branch}", commit, env=self._env)
            self._asked_at = dict.fromkeys(self._asked_at, _NEVER)

    def _talk(self, credentials: Credentials, *arguments: str, into: Path | None = None) -> bytes:
        self._open()
        with authenticated_env(self.url, credentials, self._schemes) as env:
            try:
                return run(
                    into or self.path,
                    *arguments,
                    env=env,
                    timeout=self._limits.seconds,
                    max_file_bytes=self._limits.pack_bytes,
                )
            except GitFailed as error:
                if _is_damaged(str(error)):
                    raise _Damaged from error
                raise _unavailable(str(error), shown_url(self.url)) from error

    def _open(self) -> None:
        if not (self.path / "HEAD").exists():
            self._swap(self._make())

    def _make(self) -> Path:
        """Return an empty mirror beside this one."""
        beside = self.path.with_suffix(".new")
        shutil.rmtree(beside, ignore_errors=True)
        with Repo.init(beside, mkdir=True, bare=True) as repo:
            repo.create_remote("origin", self.url, allow_unsafe_protocols=True)
        return beside

    def _swap(self, beside: Path) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        beside.rename(self.path)

    def _rebuild(self, refspec: str, credentials: Credentials) -> None:
        """Fetch into a mirror beside this damaged one, and swap; until that is done the damaged one stays."""
        beside = self._make()
        self._fetch(refspec, credentials, into=beside)
        readers = self.path / AUTHORIZED
        if readers.exists():
            shutil.copy(readers, beside)
        self._swap(beside)

    def _has(self, commit: str, kind: str = "tree") -> bool:
        if not (self.path / "HEAD").exists():
            return False
        try:
            run(self.path, "cat-file", "-e", f"{commit}^{{{kind}}}", env=self._env)
        except GitFailed:
            return False
        return True

    def commit(self, commit: str) -> Commit:
        """Return author, message and time of a commit that is here."""
        return self.log(commit, 1)[0]

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

    def changed_paths(self, before: str, after: str) -> frozenset[str] | None:
        """Return the paths that differ between two commits, None when one of them is not here."""
        try:
            out = run(self.path, "diff-tree", "-r", "-z", "--name-only", "--no-renames", before, after, env=self._env)
        except GitFailed:
            return None
        return frozenset(part.decode("utf-8", "surrogateescape") for part in out.split(b"\0") if part)

    def git(self, *arguments: str, stdin: bytes = b"", env: dict[str, str] | None = None) -> bytes:
        """Run a local git command in the mirror; see ``gitsync.source.git.run``."""
        return run(self.path, *arguments, env={**self._env, **(env or {})}, stdin=stdin)

    def locked(self) -> AbstractContextManager[object]:
        """Hold the mirror while several commands belong together."""
        return self._lock


class _Damaged(SourceUnavailable):
    def __init__(self) -> None:
        super().__init__("the mirror is damaged", hint="it is rebuilt automatically")


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
