"""Mirror: one bare repository per URL, shared by all applications that use it."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import time
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import fields
from pathlib import Path
from typing import TypeVar

from filelock import FileLock, Timeout

from gitsync.errors import GitsyncError, InvalidInput, SourceDenied, SourceUnavailable, SourceUntrusted, detached
from gitsync.files import PRIVATE, write_file
from gitsync.objects.record import Commit
from gitsync.objects.urls import repository_key
from gitsync.ports import Credentials, Tag
from gitsync.source.git import GitFailed, environment, run
from gitsync.source.left_out import left_out, list_left_out, record_fetched
from gitsync.source.object_reader import (
    AUTHORIZED,
    CORRUPT,
    ObjectReader,
    changed_paths,
    has_near_ancestor,
    mark_corrupt,
)
from gitsync.source.quarantine import NEW, remove_leftovers, size_of
from gitsync.source.refs import HEADS, TAGS, RefListing, branch_name, find_ref, hidden_range, missing_revision
from gitsync.source.remote import Remote, Transport
from gitsync.source.server_errors import Damaged, disk_failure, unusable
from gitsync.source.snapshot import SourceLimits
from gitsync.source.validation import is_commit

_T = TypeVar("_T")
_NEVER = float("-inf")
# seconds after which credentials are shown to the server again before they read what is here: they may be revoked
_CONFIRM = 3600.0
# seconds for which a name counts as missing without another request, for Applications that follow it together
_MISSING_AGE = 10.0
# seconds between measurements of the size of a mirror, which may have 100,000 files
_MEASURED_EVERY = 60.0
# seconds between attempts to lock a mirror that another thread or process holds
_LOCK_POLL = 0.01
# packs, and single objects in one of 256 folders, from which on a mirror is repacked: gc.autoPackLimit of git-config(1)
# and a third of gc.auto, since each object takes a block of the disk
_MANY_PACKS = 50
_MANY_OBJECTS = 9
_REPACK = ("repack", "--geometric=2", "-d", "-l", "-n", "-q")
_INIT = ("init", "--quiet", "--bare", "--template=", "--initial-branch=main")
_PRIVATE_REFS = "refs/gitsync"
_REACHABLE_REFS = "refs/gitsync-reachable"
_DEFAULT_BRANCHES = (f"{HEADS}main", f"{HEADS}master")
_PULLS = "refs/pull/"
# digits of an object id in a repository with SHA-256
_SHA256 = 64
# commits that a fetch names to the server as being here
_HAVES = 64
# pairs of commits whose comparison is cached
_CACHED_PAIRS = 256


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
        transport: Transport,
        on_read: Callable[[ObjectReader], None] = lambda reader: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = url
        self._clock = clock
        self.path = folder / mirror_name(url)
        self._remote = Remote(url, transport)
        self._seconds = transport.limits.seconds
        self._memory_bytes = transport.limits.memory_bytes
        self._max_bytes = self.max_bytes(transport.limits)
        self._size = 0
        self._measured_at = _NEVER
        self._env = environment(())
        self._confinement = transport.confinement
        self._lock = FileLock(self.path.with_suffix(".lock"), mode=0o600, poll_interval=_LOCK_POLL)
        self._refs = RefListing()
        self._asked_at: dict[Credentials, float] = {}
        # when the server accepted credentials last
        self._confirmed_at: dict[Credentials, float] = {}
        # when an answer that was requested for a name lacked it
        self._missing_at: dict[tuple[str, Credentials], float] = {}
        self._failures = RecentFailures(clock)
        self.objects = ObjectReader(self.path, on_read, transport.confinement)
        self._changes: dict[tuple[str, str], frozenset[str]] = {}
        self._ancestors: dict[tuple[str, str], bool] = {}
        self._authors: dict[tuple[str, str], frozenset[str]] = {}
        # commits whose fetch has ended; of others, some objects may be here already
        self._complete: set[str] = set()
        # those of them that a branch or tag contains, of what was named by its id
        self._reachable: set[str] = set()

    @staticmethod
    def max_bytes(limits: SourceLimits) -> int:
        """Return the bytes of the disk that a mirror of this kind may take."""
        return limits.mirror_bytes

    def resolve(self, revision: str, credentials: Credentials, max_age: float) -> str:
        """Return the commit id that a branch, tag, range or commit id names at the server; see Source.resolve."""
        if is_commit(revision):
            return revision
        if self._is_answered(revision, credentials, max_age):
            return self._commit_of(revision)  # without the lock, which a slow transfer may hold
        with self._locked():
            # another thread may have asked while this one waited for the lock
            if not self._is_answered(revision, credentials, max_age):
                with self._failures.shared(credentials, max_age):
                    self._ask(credentials)
                if not self._has_name(revision):
                    self._note_missing(revision, credentials)
            return self._commit_of(revision)

    def branches(self, revision: str, credentials: Credentials, max_age: float) -> dict[str, str]:
        """Return the commits of the branches that the server lists, by name, for those who follow a revision."""
        self.resolve(revision, credentials, max_age)
        return {name.removeprefix(HEADS): id for name, id in self._refs.pairs() if name.startswith(HEADS)}

    def _is_answered(self, revision: str, credentials: Credentials, max_age: float) -> bool:
        """
        Return whether the last answer of the server is new enough for a revision.

        A name that it lacks may have been pushed since, so that it counts only if it was requested for that name.
        """
        if self._has_name(revision):
            asked_at = self._asked_at.get(credentials, _NEVER)
        else:
            asked_at = self._missing_at.get((revision, credentials), _NEVER)
            max_age = min(max_age, _MISSING_AGE)
        return self._clock() - asked_at < max_age

    def _has_name(self, revision: str) -> bool:
        try:
            return find_ref(revision, self._refs) is not None
        except InvalidInput:  # it names a branch and a tag, which ``_commit_of`` reports
            return True

    def _note_missing(self, revision: str, credentials: Credentials) -> None:
        now = self._clock()
        self._missing_at = {name: time for name, time in self._missing_at.items() if now - time < _MISSING_AGE}
        self._missing_at[revision, credentials] = now

    def _commit_of(self, revision: str) -> str:
        """Return the commit of a revision by the last answer of the server."""
        refs = self._refs
        name = find_ref(revision, refs)
        if name is None:
            raise missing_revision(revision, refs, self._remote.shown)
        return self._peeled(name)

    def _peeled(self, name: str) -> str:
        """Return the commit of a branch or tag: an annotated tag is listed as itself and as what it names."""
        refs = self._refs
        return refs.get(f"{name}^{{}}", refs[name])

    def _full_name(self, revision: str) -> str | None:
        return find_ref(revision, self._refs)

    def hidden_range(self, revision: str) -> str:
        """Return a warning where a revision names a branch or tag, and could be a range; see ``refs.hidden_range``."""
        return hidden_range(revision, self._refs)

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
                # a process for each commit would take a tenth of what the commit costs
                if not has_near_ancestor(self.objects, commit, earlier):
                    self.git("merge-base", "--is-ancestor", earlier, commit)
            except GitFailed:  # also when the earlier one is absent: histories are complete, so it is not an ancestor
                return False
            _limited(self._ancestors)[pair] = True
        return True

    def changed_paths(self, earlier: str, later: str) -> frozenset[str] | None:
        """Return the paths that differ between two commits, None when one is not here; the answer is cached."""
        pair = (earlier, later)
        paths = self._changes.get(pair)
        if paths is None:
            paths = changed_paths(self.objects, earlier, later)
            if paths is not None:  # an absent commit may be fetched later
                _limited(self._changes)[pair] = paths
        return paths

    def _ask(self, credentials: Credentials) -> None:
        # replaced as a whole: readers take it without the lock
        self._refs = self._answer(credentials, lambda: self._remote.list_refs(credentials))
        self._open(next((id for _, id in self._refs.pairs()), ""))
        self._let_in(credentials)

    def _answer(self, credentials: Credentials, request: Callable[[], _T]) -> _T:
        """Return the answer of the server to a request; credentials that it denies read nothing here any more."""
        try:
            return request()
        except SourceUntrusted:  # says nothing about the credentials: the server was asked nothing
            raise
        except SourceDenied:  # such as revoked ones, which must not go on reading what others fetched
            self._forget_reader(credentials)
            raise

    def _let_in(self, credentials: Credentials) -> None:
        """Record that the server accepted credentials now."""
        if not self._is_reader(credentials):
            with (self.path / AUTHORIZED).open("a") as readers:
                readers.write(f"{self._digest(credentials)}\n")
        self._asked_at[credentials] = self._confirmed_at[credentials] = self._clock()

    def _is_reader(self, credentials: Credentials) -> bool:
        """Whether the server let these credentials in before; that is remembered over a restart."""
        readers = self.path / AUTHORIZED
        if credentials in self._asked_at and readers.exists():
            return True
        return readers.exists() and self._digest(credentials) in readers.read_text(errors="replace").split()

    def _is_admitted(self, credentials: Credentials) -> bool:
        confirmed_at = self._confirmed_at.get(credentials, _NEVER)
        return self._is_reader(credentials) and self._clock() - confirmed_at < _CONFIRM

    def _admit(self, credentials: Credentials, max_age: float) -> None:
        """Show credentials to the server unless it accepted them lately: of a fixed commit, nothing else is asked."""
        if self._is_admitted(credentials):
            return
        try:
            with self._failures.shared(credentials, max_age):
                self._ask(credentials)
        except SourceUnavailable as error:
            is_denied = isinstance(error, SourceDenied) and not isinstance(error, SourceUntrusted)
            if is_denied or not self._is_reader(credentials):
                raise
            self._confirmed_at[credentials] = self._clock()  # the server is away: what it accepted is used until then

    def _forget_reader(self, credentials: Credentials) -> None:
        self._asked_at.pop(credentials, None)
        self._confirmed_at.pop(credentials, None)
        readers = self.path / AUTHORIZED
        if not readers.exists():
            return
        digest = self._digest(credentials)
        digests = readers.read_text(errors="replace").split()
        if digest in digests:  # the file stays, also empty: it marks the folder as a mirror
            write_file(readers, "".join(f"{other}\n" for other in digests if other != digest), PRIVATE)

    def _digest(self, credentials: Credentials) -> str:
        """Return what credentials are known by: they cannot be worked out from it."""
        members = (getattr(credentials, field.name) for field in fields(credentials))
        text = "\0".join(member for member in members if isinstance(member, str))
        return hashlib.scrypt(
            text.encode(), salt=repository_key(self.url).encode(), n=1 << 12, r=8, p=1, dklen=24
        ).hex()

    def fetch(self, revision: str, commit: str, credentials: Credentials, max_age: float = 0.0) -> None:
        """
        Make sure that the commit and its files are here; fetches the ref that names it when they are not.

        Credentials that were never let in are shown to the server first, also for what is here. A failure at most
        ``max_age`` seconds ago is raised again.
        """
        complete = self._reachable if is_commit(revision) else self._complete
        if commit in complete and self._is_usable(commit, credentials):
            return  # without the lock, which a slow transfer may hold
        with self._locked():
            self._admit(credentials, max_age)
            is_damaged = (self.path / CORRUPT).exists()
            if is_damaged or not self._has(self.path, commit):
                remove_leftovers(self.path)
                with self._failures.shared((credentials, commit), max_age):
                    self._get(revision, commit, credentials, is_damaged=is_damaged)
                if not self._has(self.path, commit):
                    raise self._no_commit(revision, commit)
            self._complete.add(commit)
            if is_commit(revision):
                with self._failures.shared((credentials, commit, "branches"), max_age):
                    self._require_reachable(commit, credentials)
                self._reachable.add(commit)

    def _require_reachable(self, commit: str, credentials: Credentials) -> None:
        """
        Raise InvalidInput unless a branch or tag of the server contains a commit that a revision names by its id.

        By its id, servers also show commits that were not merged: of forks, pull requests and deleted branches. GitHub
        describes it under "Commit exists on GitHub but not in my local clone".

        One that was contained once stays so: what is deployed does not depend on whether its branch is deleted later.
        """
        mark = f"{_REACHABLE_REFS}/{commit}"
        if (self.path / mark).exists() or self._is_in(commit, self._refs.values()):
            return self._mark_reachable(mark, commit)
        self._ask(credentials)  # it may have been pushed after the last answer
        for names in _by_likelihood(self._refs):
            absent = [name for name in names if not self._has(self.path, self._peeled(name), "commit")]
            self._remote.fetch_refs(self.path, absent, credentials)
            if self._is_in(commit, [self._refs[name] for name in names]):
                return self._mark_reachable(mark, commit)
        raise InvalidInput(
            f"commit {commit[:12]} is in no branch and no tag of {self._remote.shown}: it may be of a fork, or of a"
            " branch that was deleted",
            location="spec.source.revision",
            hint="push it to a branch or tag of the repository, or name one that contains it",
        )

    def _is_in(self, commit: str, tips: Collection[str]) -> bool:
        """Return whether a commit is one of some others or their ancestor; those that are not here do not count."""
        excluded = "".join(f"^{tip}\n" for tip in tips)
        try:
            # prints the commit where none of the others contains it
            listed = self.git(
                "rev-list", "--ignore-missing", "--max-count=1", "--stdin", stdin=f"{commit}\n{excluded}".encode()
            )
        except GitFailed as error:
            raise SourceUnavailable(f"the history of commit {commit[:12]} cannot be read from the mirror") from error
        return not listed.strip()

    def _mark_reachable(self, mark: str, commit: str) -> None:
        try:
            self.git("update-ref", mark, commit)
        except GitFailed as error:
            raise disk_failure(str(error)) or unusable(str(error)) from error

    def _no_commit(self, revision: str, id: str) -> GitsyncError:
        """Return why a fetched object is not usable as a commit: it is of another type, or it could not be read."""
        try:
            is_other = self.git("cat-file", "-t", id).strip() != b"commit"
        except GitFailed:
            is_other = False
        if not is_other:
            return SourceUnavailable(f"commit {id[:12]} was fetched and cannot be read", hint="it is fetched again")
        return InvalidInput(
            f"{revision!r} names an object in {self._remote.shown} that is not a commit",
            location="spec.source.revision",
            hint="tag a commit, or name another revision",
        )

    def tag(self, revision: str, commit: str, credentials: Credentials) -> Tag | None:
        """Return the annotated tag by which a revision names a fetched commit, by the last answer of the server."""
        refs = self._refs
        name = self._full_name(revision) or ""
        if not name.startswith(TAGS) or refs.get(f"{name}^{{}}") != commit:
            return None
        with self._locked():
            if not self._has(self.path, refs[name], "tag"):
                self._remote.fetch(self.path, name, credentials)
        return Tag(refs[name], name.removeprefix(TAGS))

    def digest(self, commit: str) -> str:
        """Return the digest of the artifact that a commit is, empty for one of Git."""
        return ""

    def fetch_signatures(self, commit: str, credentials: Credentials) -> str:
        """Return nothing: commits of Git have their signatures in them."""
        return ""

    def _is_usable(self, commit: str, credentials: Credentials) -> bool:
        """Return whether a commit that was fetched completely is still here, and these credentials may read it."""
        is_damaged = (self.path / CORRUPT).exists()
        return not is_damaged and self._is_admitted(credentials) and self._has(self.path, commit)

    def _get(self, revision: str, commit: str, credentials: Credentials, *, is_damaged: bool) -> None:
        """Fetch a commit into this mirror, or into a new one where this one is damaged or has none."""
        try:
            # what forced pushes left behind stays in a mirror: one that is too large is rebuilt
            if is_damaged or not (self.path / _PRIVATE_REFS).is_dir() or self._is_too_large():
                raise Damaged
            self._receive(self.path, revision, commit, credentials)
        except Damaged:
            self._rebuild(revision, commit, credentials)

    def repack(self) -> bool:
        """
        Put the objects of many fetches into few packs; return whether there were many, and no fetch was running.

        Each git process searches all packs. A large one is not written again (``--geometric`` in git-repack(1)), and an
        object that no ref reaches stays. Raise GitFailed, GitTimedOut.
        """
        if not self._is_scattered():
            return False
        try:
            # held meanwhile: what a fetch or another process puts in its place must not be deleted
            with self._lock.acquire(timeout=0):
                run(
                    self.path,
                    *_REPACK,
                    env=self._env,
                    timeout=self._seconds,
                    max_memory_bytes=self._memory_bytes,
                    confinement=self._confinement,
                )
        except Timeout:
            return False
        # it keeps the old packs open, and so on the disk
        self.objects.close(wait=False)
        return True

    def _is_scattered(self) -> bool:
        objects = self.path / "objects"
        packs = sum(1 for _ in objects.glob("pack/*.idx"))
        # ids are evenly distributed, so that one folder has as many as any other
        return packs > _MANY_PACKS or sum(1 for _ in objects.glob("17/*")) > _MANY_OBJECTS

    def _is_too_large(self) -> bool:
        """Return whether the mirror takes more of the disk than it may, as measured within the last minute."""
        now = self._clock()
        if now - self._measured_at >= _MEASURED_EVERY:
            self._size = size_of(self.path)
            self._measured_at = now
        return self._size > self._max_bytes

    def fetch_files(
        self, ids: Collection[str], revision: str, commit: str, credentials: Credentials, max_age: float = 0.0
    ) -> None:
        """Fetch those of the files that were left out, or all of them where the server serves none by its id."""
        if left_out(self.path).isdisjoint(ids):
            return  # without the lock, which a slow transfer may hold
        with self._locked(), self._failures.shared((credentials, commit, "files"), max_age):
            missing = left_out(self.path).intersection(ids)
            try:
                self._remote.fetch_files(self.path, sorted(missing), credentials)
                record_fetched(self.path, missing)
            except Damaged:
                mark_corrupt(self.path)
                raise
            except InvalidInput:
                self._rebuild(revision, commit, credentials, with_all_files=True)

    def _receive(
        self, git_dir: Path, revision: str, commit: str, credentials: Credentials, *, is_new: bool = False
    ) -> None:
        """Fetch the ref that a revision names, or else the commit itself; into a new mirror without large files."""
        # pull requests are not among the refs that are listed, but most servers let them be fetched by name
        name = revision if revision.startswith(_PULLS) else self._full_name(revision)
        if not is_new:
            self._remote.fetch_commit(git_dir, commit, _tips(git_dir), credentials)
        # the name first: a server may serve no commit by its id (uploadpack.allowReachableSHA1InWant in git-config(1))
        for wanted in filter(None, (name, commit)):
            if not self._has(git_dir, commit):
                self._remote.fetch(git_dir, wanted, credentials, is_new=is_new)
        if self._has(git_dir, commit):
            self._record(git_dir, revision, commit, is_new=is_new)
        elif self._has(git_dir, commit, "commit"):  # git fetches no files of a commit it has
            raise Damaged

    def _record(self, git_dir: Path, revision: str, commit: str, *, is_new: bool) -> None:
        """Point the private ref of a revision to a commit, so that the next fetch gets only what is new."""
        name = f"{_PRIVATE_REFS}/{hashlib.sha256(revision.encode()).hexdigest()[:24]}"
        try:
            if is_new:
                list_left_out(git_dir, commit, self._seconds, self._confinement)
            run(git_dir, "update-ref", name, commit, env=self._env, confinement=self._confinement)
        except GitFailed as error:
            raise disk_failure(str(error)) or Damaged() from error

    def push(self, commit: str, branch: str, credentials: Credentials) -> None:
        """Push a commit to a branch, never by force; raise GitFailed when the server refuses it."""
        with self._locked():
            self._remote.push(self.path, commit, branch, credentials)
            self._asked_at = dict.fromkeys(self._asked_at, _NEVER)  # what was answered is older than our own push

    def delete_branch(self, branch: str, head: str, credentials: Credentials) -> None:
        """Delete a branch of the server that has this head; raise GitFailed when it has another, or is refused."""
        with self._locked():
            self._remote.delete_branch(self.path, branch, head, credentials)
            self._asked_at = dict.fromkeys(self._asked_at, _NEVER)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock of the mirror; raise SourceUnavailable when its folder cannot be used."""
        try:
            with self._lock:
                yield
        except OSError as error:
            raise unusable(error.strerror or str(error)) from error

    def _open(self, id: str) -> None:
        if not (self.path / "HEAD").exists():
            self._swap(self._make(id))

    def _make(self, id: str) -> Path:
        """Return an empty mirror beside this one, for objects with ids such as this one."""
        beside = self.path.with_suffix(NEW)
        shutil.rmtree(beside, ignore_errors=True)
        try:
            beside.mkdir(parents=True, exist_ok=True)  # what a confined git may change has to exist
            digest = "sha256" if len(id) == _SHA256 else "sha1"
            run(beside, *_INIT, f"--object-format={digest}", env=self._env, confinement=self._confinement)
        except GitFailed as error:
            shutil.rmtree(beside, ignore_errors=True)
            raise disk_failure(str(error)) or unusable(str(error)) from error
        return beside

    def _swap(self, beside: Path) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        beside.rename(self.path)
        self.objects.close()  # it has the packs of the folder that was removed open

    def _rebuild(self, revision: str, commit: str, credentials: Credentials, *, with_all_files: bool = False) -> None:
        """Fetch into a mirror beside this one, and swap; until that is done this one stays, even if it is damaged."""
        beside = self._make(commit)
        try:
            self._receive(beside, revision, commit, credentials, is_new=not with_all_files)
            if size_of(beside) > self._max_bytes:
                raise InvalidInput(
                    f"the history of {revision} takes more than the limit of {self._max_bytes >> 20} MiB of the disk",
                    location=self._remote.shown,
                    hint="remove large files from it, or raise GITSYNC_GIT_MIRROR",
                )
            readers = self.path / AUTHORIZED
            if readers.exists():  # or all other Applications would have to show their credentials again
                shutil.copy(readers, beside)
            self._swap(beside)
            self._measured_at = _NEVER
        finally:
            shutil.rmtree(beside, ignore_errors=True)

    def _has(self, git_dir: Path, commit: str, kind: str = "tree") -> bool:
        if git_dir == self.path and kind != "tag":
            return self.objects.has_commit(commit, with_files=kind == "tree")
        try:
            check = ("cat-file", "-e", f"{commit}^{{{kind}}}")
            run(git_dir, *check, env=self._env, confinement=self._confinement)
        except GitFailed:
            return False
        return True

    def commit(self, commit: str) -> Commit:
        """Return author, message and time of a commit that is here."""
        return self.objects.commit(commit).commit

    def authors(self, earlier: str, later: str) -> frozenset[str]:
        """Return names and e-mail addresses of who wrote a commit and those since an earlier one; cached."""
        pair = (earlier, later)
        if pair not in self._authors:
            _limited(self._authors)[pair] = self._read_authors(earlier, later)
        return self._authors[pair]

    def _read_authors(self, earlier: str, later: str) -> frozenset[str]:
        names = ("log", "-z", "--format=%an%x00%ae%x00%cn%x00%ce")
        try:
            texts = [self.git(*names, "--max-count=1", later)]
            if earlier and self._has(self.path, earlier, "commit"):
                texts.append(self.git(*names, later, f"^{earlier}"))
        except GitFailed as error:
            raise SourceUnavailable(f"the authors of commit {later[:12]} cannot be read from the mirror") from error
        return frozenset(b"\0".join(texts).decode(errors="replace").split("\0")) - {""}

    def since(self, earlier: str, later: str) -> tuple[str, ...]:
        """Return a commit and those since an earlier one, newest first; without that one in the mirror, it alone."""
        arguments = [later]
        if earlier and self._has(self.path, earlier, "commit"):
            arguments.append(f"^{earlier}")
        else:
            arguments.append("--max-count=1")
        try:
            listed = self.git("rev-list", *arguments).decode().split()
        except GitFailed as error:
            raise SourceUnavailable(f"the commits up to {later[:12]} cannot be read from the mirror") from error
        # back to an earlier commit, nothing is newer
        return tuple(listed) or (later,)

    def log(self, commit: str, limit: int) -> tuple[Commit, ...]:
        """Return a commit and its first parents, newest first."""
        try:
            listed = self.git("rev-list", "--first-parent", f"--max-count={limit}", commit)
        except GitFailed as error:
            mark_corrupt(self.path)
            raise SourceUnavailable(f"commit {commit[:12]} cannot be read from the mirror") from error
        return tuple(self.commit(id) for id in listed.decode().split())

    def git(
        self, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None, timeout: float = 60.0
    ) -> bytes:
        """Run a local git command in the mirror; see ``gitsync.source.git.run``."""
        return run(
            self.path,
            *arguments,
            env={**self._env, **(env or {})},
            stdin=stdin,
            timeout=timeout,
            # an index and keys for signing are elsewhere
            confinement=None if env else self._confinement,
        )

    def locked(self) -> AbstractContextManager[object]:
        """Hold the mirror while several commands belong together."""
        return self._lock


def _by_likelihood(refs: Collection[str]) -> Iterator[list[str]]:
    """Yield branches and tags in groups, those first that most commits are in: what is left is not fetched."""
    names = [name for name in refs if not name.endswith("^{}")]
    default = [name for name in names if name in _DEFAULT_BRANCHES]
    yield default
    yield [name for name in names if name.startswith(HEADS) and name not in default]
    yield [name for name in names if name.startswith(TAGS)]


def _tips(git_dir: Path) -> list[str]:
    """Return the commits of the private refs, those of the revisions that were fetched last first."""
    # read as files, whose names are digests: a process takes longer. Nothing packs the refs of a mirror.
    files = sorted((git_dir / _PRIVATE_REFS).glob("*[0-9a-f]"), key=lambda file: -file.stat().st_mtime)
    commits = dict.fromkeys(file.read_text(errors="replace").strip() for file in files[:_HAVES])
    return [commit for commit in commits if is_commit(commit)]


def mirror_name(url: str) -> str:
    """Return the name of the folder of a repository's mirror."""
    return hashlib.sha256(repository_key(url).encode()).hexdigest()[:24]


def _limited(cache: dict[tuple[str, str], _T]) -> dict[tuple[str, str], _T]:
    """Return a cache with room for another entry, without its oldest one where it is full."""
    if len(cache) >= _CACHED_PAIRS:
        with contextlib.suppress(KeyError, RuntimeError):  # another thread removes it too
            del cache[next(iter(cache))]
    return cache


# seconds after which a failure is dropped; no interval of a shared poll is longer in practice
_KEPT = 3600.0


class RecentFailures:
    """The last failure of each request, by what was requested and with which credentials; ``clock`` is monotonic."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures: dict[Hashable, tuple[float, SourceUnavailable | InvalidInput]] = {}

    @contextlib.contextmanager
    def shared(self, request: Hashable, max_age: float) -> Iterator[None]:
        """Make a request, unless it failed at most ``max_age`` seconds ago: then raise that error again."""
        now = self._clock()
        failed_at, error = self._failures.get(request, (0.0, None))
        if error is not None and now - failed_at < max_age:
            raise detached(error)
        try:
            yield
        except (SourceUnavailable, InvalidInput) as error:
            now = self._clock()
            self._failures = {key: value for key, value in self._failures.items() if now - value[0] < _KEPT}
            self._failures[request] = (now, detached(error))
            raise
        self._failures.pop(request, None)
