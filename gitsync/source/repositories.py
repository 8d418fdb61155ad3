"""
Repositories: the Source port over Git mirrors below one folder.

Mirrors that no Application uses are deleted.
"""

from __future__ import annotations

import contextlib
import logging
import re
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

from filelock import FileLock, Timeout

from gitsync.errors import InvalidInput, Refused, SourceUnavailable, WrongState
from gitsync.objects.application import GitSource, NamedSource, SourceGroup
from gitsync.objects.record import Commit
from gitsync.objects.signers import Trust
from gitsync.objects.tree import Entry
from gitsync.objects.urls import is_artifact, repository_key
from gitsync.ports import (
    CREDENTIALS_SECRET,
    Credentials,
    FileEdit,
    FileVersion,
    MergeResult,
    RevertResult,
    Snapshot,
    SourcePart,
    Tag,
)
from gitsync.ports.source import ArtifactServers
from gitsync.runtime.clock import Periodic
from gitsync.source.artifacts import ArtifactMirror
from gitsync.source.edits import CommitIdentity, make_edit, make_revert
from gitsync.source.git import GitFailed, require_git
from gitsync.source.history import blame, file_versions
from gitsync.source.joined import JoinedMirror, several_sources, told_of
from gitsync.source.left_out import left_out, manifests
from gitsync.source.mirror import Mirror, mirror_name
from gitsync.source.object_reader import ObjectReader
from gitsync.source.proposals import merge
from gitsync.source.quarantine import remove_all_leftovers
from gitsync.source.refs import HEADS
from gitsync.source.remote import Transport
from gitsync.source.signatures import signing_users
from gitsync.source.snapshot import GitTree, MeteredTree
from gitsync.source.validation import (
    check_revision,
    check_source,
    clean_path,
    is_commit,
    shown_url,
)

# repositories whose objects are read by a process that stays
_READERS = 32
# seconds for which the server's answer at the start of a push counts until its end
_BRANCHES_AGE = 600.0
"""Seconds that an answer may be old in which a branch of ours is searched: nothing hurries its deletion."""
_ANSWER_AGE = 60.0


class Repositories:
    """
    Implement ``gitsync.ports.Source``: one mirror per URL, kept in ``folder`` across restarts.

    ``transport`` has what the operator allows and trusts; ``file`` and ``http`` only where it names them.
    ``artifacts`` reach Helm repositories and OCI registries.
    """

    def __init__(
        self,
        folder: Path,
        transport: Transport | None = None,
        artifacts: ArtifactServers | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        require_git()
        self._clock = clock
        self._folder = folder
        self.transport = transport or Transport()
        self._artifacts = artifacts
        self._mirrors: dict[str, Mirror] = {}
        self._readers: list[ObjectReader] = []
        self._lock = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)
        remove_all_leftovers(folder)

    def opened(self) -> int:
        """Return how many mirrors are open."""
        return len(self._mirrors)

    def check(self, source: GitSource) -> None:
        """Raise InvalidInput when the URL, revision or path may not be used; touches nothing outside."""
        for part in source.parts:
            with told_of(part.name) if isinstance(part, NamedSource) else contextlib.nullcontext():
                check_source(part, self.transport.schemes, self.transport.plain)

    def resolve(self, source: GitSource, credentials: Credentials, *, max_age: float = 0.0) -> str:
        """Return the commit that the revision names now; see the port."""
        return self._mirror(source).resolve(source.revision, credentials, max_age)

    def snapshot(self, source: GitSource, credentials: Credentials, commit: str, *, max_age: float = 0.0) -> Snapshot:
        """Return the files of a commit, fetched if need be; see the port."""
        mirror = self._mirror(source)
        mirror.fetch(source.revision, commit, credentials, max_age)
        fetch_file = partial(fetch_requested, mirror, source, credentials, commit)
        tree = GitTree(mirror.path, commit, self.transport.limits, mirror.objects, fetch_file)
        paths = [clean_path(folder) for folder in _folders(source)]
        for path in paths:
            _reject_submodule(tree, path)
            tree.check_size(path)
        fetch_manifests(mirror, source, credentials, commit, max_age)
        warnings = [
            f"{name}: the files of this Git submodule are not read" for path in paths for name in tree.submodules(path)
        ]
        if warning := mirror.hidden_range(source.revision):
            warnings.append(warning)
        metered = MeteredTree(tree, self.transport.limits.read_bytes)
        parts = (
            tuple(SourcePart(part.source, str(part.mirror.path), id) for part, id in mirror.split(commit))
            if isinstance(mirror, JoinedMirror)
            else ()
        )
        return Snapshot(
            mirror.commit(commit), metered, str(mirror.path), tuple(warnings), fetch_file=fetch_file, parts=parts
        )

    def branches(self, source: GitSource, credentials: Credentials, *, max_age: float = 0.0) -> Mapping[str, str]:
        """Return the commits of all branches by name; see the port ``ProposalSource``."""
        _reject_several(source, "a proposal")
        return self._mirror(source).branches(source.revision, credentials, max_age)

    def merge(
        self, source: GitSource, credentials: Credentials, base: str, head: str, *, ref: str = ""
    ) -> tuple[MergeResult, Snapshot]:
        """Return the merge of a head into a base, and its files; see the port ``ProposalSource``."""
        _reject_several(source, "a merge")
        mirror = self._mirror(source)
        mirror.fetch(source.revision, base, credentials)
        mirror.fetch(ref or source.revision, head, credentials)
        fetch_different(mirror, source, credentials, base, head)
        merged = merge(mirror, base, head)
        tree = GitTree(mirror.path, merged.commit, self.transport.limits, mirror.objects)
        fetch_file = partial(fetch_requested, mirror, source, credentials, head)
        return merged, Snapshot(Commit(merged.commit), tree, str(mirror.path), fetch_file=fetch_file)

    def merge_among(
        self,
        group: SourceGroup,
        credentials: Credentials,
        names: Collection[str],
        merge: MergeResult,
        *,
        max_age: float,
    ) -> tuple[MergeResult, Snapshot]:
        """Return a merge in some of several sources as one of all; see the port ``ProposalSource``."""
        mirror = self._mirror(group)
        assert isinstance(mirror, JoinedMirror)
        current = mirror.commits_of(mirror.resolve(group.revision, credentials, max_age))
        base, result = (mirror.join({**current, **dict.fromkeys(names, id)}) for id in (merge.base, merge.commit))
        mirror.note_left_out()
        changed = frozenset(f"{name}/{path}" for name in names for path in merge.changed)
        tree = GitTree(mirror.path, result, self.transport.limits, mirror.objects)
        fetch_file = partial(fetch_requested, mirror, group, credentials, base)
        files = Snapshot(Commit(result), tree, str(mirror.path), fetch_file=fetch_file)
        return MergeResult(base, merge.head, result, changed), files

    def fetch(self, source: GitSource, credentials: Credentials, commit: str, *, max_age: float = 0.0) -> None:
        """Fetch a commit into the mirror unless it is there; see the port."""
        mirror = self._mirror(source)
        mirror.fetch(source.revision, commit, credentials, max_age)
        fetch_manifests(mirror, source, credentials, commit, max_age)

    def tag(self, source: GitSource, credentials: Credentials, commit: str) -> Tag | None:
        """Return the annotated tag by which the revision names a commit; see the port."""
        return self._mirror(source).tag(source.revision, commit, credentials)

    def fetch_signatures(self, source: GitSource, credentials: Credentials, commit: str) -> str:
        """Fetch the signatures of an artifact and return its digest; see the port."""
        return self._mirror(source).fetch_signatures(commit, credentials)

    def changed_paths(self, source: GitSource, earlier: str, later: str) -> frozenset[str] | None:
        """Return the paths that differ between two commits of the mirror; None when that is not known."""
        return self._mirror(source).changed_paths(earlier, later)

    def is_forward(self, source: GitSource, earlier: str, later: str) -> bool:
        """Return whether the revision may have moved so without a rewritten branch; see the port."""
        mirror = self._mirror(source)
        if isinstance(mirror, JoinedMirror):
            return mirror.is_forward(source.revision, earlier, later)
        return not mirror.branch(source.revision) or mirror.contains(later, earlier)

    def authors(self, source: GitSource, earlier: str, later: str) -> frozenset[str]:
        """Return who wrote a commit and those since an earlier one; see the port."""
        return self._mirror(source).authors(earlier, later)

    def signing_users(self, source: GitSource, earlier: str, later: str, trust: Trust) -> frozenset[str]:
        """Return the users whose keys signed a commit and those since an earlier one; see the port."""
        mirror = self._mirror(source)
        if isinstance(mirror, JoinedMirror):
            steps = mirror.steps(earlier, later)
            return frozenset().union(*(_signing_users(part, commits, trust) for part, commits in steps))
        return _signing_users(mirror, mirror.since(earlier, later), trust)

    def blame(self, source: GitSource, commit: str, places: Collection[str]) -> Mapping[str, Commit]:
        """Return the commits that wrote lines, from the mirror; see the port."""
        mirror = self._mirror(source)
        if isinstance(mirror, JoinedMirror):
            return {
                f"{part.source.name}/{place}": author
                for part, id in mirror.split(commit)
                for place, author in _blamed(part.mirror, id, _below(part.source.name, places)).items()
            }
        return _blamed(mirror, commit, places)

    def file_versions(
        self, source: GitSource, commit: str, files: Collection[str]
    ) -> Mapping[str, tuple[FileVersion, ...]]:
        """Return the latest versions of files, from the mirror; see the port."""
        mirror = self._mirror(source)
        if isinstance(mirror, JoinedMirror):
            return {
                f"{part.source.name}/{file}": versions
                for part, id in mirror.split(commit)
                for file, versions in file_versions(part.mirror, id, _below(part.source.name, files)).items()
            }
        return file_versions(mirror, commit, files)

    def commits(self, source: GitSource, commit: str, *, limit: int = 20) -> tuple[Commit, ...]:
        """Return the commit and its first parents, newest first."""
        return self._mirror(source).log(commit, limit)

    def tree(self, source: GitSource, credentials: Credentials, commit: str) -> str:
        """Return the id of the files of a commit; see the port ``ProposalSource``."""
        mirror = self._mirror(source)
        mirror.fetch(source.revision, commit, credentials)
        return mirror.git("rev-parse", "--verify", f"{commit}^{{tree}}").decode().strip()

    def revert(
        self,
        source: GitSource,
        credentials: Credentials,
        commits: Sequence[str],
        *,
        author: str,
        branch: str = "",
        reason: str = "",
    ) -> RevertResult:
        """Make a commit that undoes these, newest first, and push it; see the port."""
        _reject_several(source, "a revert")
        mirror = self._mirror(source)
        with mirror.locked():
            head = mirror.resolve(source.revision, credentials, 0.0)
            tracked = mirror.branch(source.revision)
            if not tracked:
                raise Refused(
                    "the application follows a tag, a range or a fixed commit, not a branch",
                    location="spec.source.revision",
                )
            target = self._target(branch) or tracked
            # by the answer of a moment ago: the lock is held since
            if target != tracked and target in mirror.branches(source.revision, credentials, _ANSWER_AGE):
                raise _existing(target)
            mirror.fetch(source.revision, head, credentials)
            wanted = [self._known(mirror, commit) for commit in commits]
            fetch_changed(mirror, source, credentials, head, wanted)
            try:
                reverted = make_revert(mirror, head, wanted, CommitIdentity(author, credentials.signing_key), reason)
            except GitFailed as error:
                raise SourceUnavailable(f"the revert could not be made: {error}", hint="try again") from error
            _push(mirror, reverted, target, credentials, "revert")
            return RevertResult(mirror.commit(reverted), target)

    def prepare_revert(self, source: GitSource, credentials: Credentials, commits: Sequence[str]) -> tuple[str, str]:
        """Return the head of the tracked branch and a commit in the mirror that undoes these; see the port."""
        _reject_several(source, "a revert")
        mirror = self._mirror(source)
        with mirror.locked():
            head = mirror.resolve(source.revision, credentials, 0.0)
            mirror.fetch(source.revision, head, credentials)
            wanted = [self._known(mirror, commit) for commit in commits]
            fetch_changed(mirror, source, credentials, head, wanted)
            return head, make_revert(mirror, head, wanted, CommitIdentity("gitsync"))

    def edit(self, source: GitSource, credentials: Credentials, edit: FileEdit) -> tuple[Commit, str]:
        """Return a commit with new contents of files and its patch; it is pushed where a branch is named."""
        _reject_several(source, "an edit")
        mirror = self._mirror(source)
        with mirror.locked():
            mirror.fetch(source.revision, edit.head, credentials)
            target = self._target(edit.branch)
            if edit.is_direct:
                return self._commit_on_tracked(mirror, source, credentials, edit)
            branch_head = mirror.branches(source.revision, credentials, 0.0).get(target, "") if target else ""
            if branch_head:
                mirror.fetch(f"refs/heads/{target}", branch_head, credentials)
            commit = make_edit(mirror, edit, branch_head, credentials.signing_key)
            if branch_head and not _may_use(mirror, edit, branch_head, commit):
                raise _existing(target)
            patch = mirror.git("diff", "--no-ext-diff", edit.head, commit) if branch_head else b""
            patch = patch or mirror.git("format-patch", "--stdout", "--no-signature", "-1", commit)
            if target and commit != branch_head:
                _push(mirror, commit, target, credentials, "edit")
            return mirror.commit(commit), patch.decode(errors="replace")

    def _commit_on_tracked(
        self, mirror: Mirror, source: GitSource, credentials: Credentials, edit: FileEdit
    ) -> tuple[Commit, str]:
        """Push an edit to the tracked branch; raise WrongState where that moved since the edit was made."""
        target = self._target(edit.branch)
        tracked = mirror.branch(source.revision)
        if not tracked or target != tracked:
            raise Refused("a commit goes to the branch that is tracked", location="spec.source.revision")
        commit = make_edit(mirror, edit, signing_key=credentials.signing_key)
        patch = mirror.git("format-patch", "--stdout", "--no-signature", "-1", commit)
        try:
            # never by force: the server takes it only on top of the commit that the edit was made on
            mirror.push(commit, target, credentials)
        except GitFailed as error:
            if mirror.resolve(source.revision, credentials, 0.0) != edit.head:
                raise WrongState(
                    f"branch {target} moved meanwhile", hint="the edit is edited again on top of it"
                ) from error
            raise _refused_push(error, target, "edit") from error
        return mirror.commit(commit), patch.decode(errors="replace")

    def edited_branch(self, source: GitSource, credentials: Credentials, branch: str, trailer: str) -> str:
        """Return the head of a branch whose newest commit is an edit with this last line; see the port."""
        if isinstance(source, SourceGroup):
            # each of its sources is asked by itself
            return ""
        mirror = self._mirror(source)
        with mirror.locked():
            head = mirror.branches(source.revision, credentials, _BRANCHES_AGE).get(branch, "")
            if not head:
                return ""
            mirror.fetch(f"{HEADS}{branch}", head, credentials)
            return head if trailer in mirror.commit(head).message.splitlines() else ""

    def delete_branch(self, source: GitSource, credentials: Credentials, branch: str, head: str) -> None:
        """Delete a branch that still has this head, or is gone; see the port."""
        mirror = self._mirror(source)
        try:
            mirror.delete_branch(branch, head, credentials)
        except GitFailed as error:
            if branch in mirror.branches(source.revision, credentials, 0.0):
                raise _refused_push(error, branch, "deletion") from error

    def messages(self, source: GitSource, commit: str, text: str, *, limit: int) -> tuple[str, ...]:
        """Return the messages with a text of a commit and of all before it, newest first; see the port."""
        mirror = self._mirror(source)
        if isinstance(mirror, JoinedMirror):
            # a registry keeps no messages
            parts = ((part, id) for part, id in mirror.split(commit) if not is_artifact(part.source.repo_url))
            listed = (self.messages(part.source, id, text, limit=limit) for part, id in parts)
            return tuple(chain.from_iterable(listed))
        # all parents: a merge has the commits of its branch behind the second one
        options = ("--topo-order", "--fixed-strings", f"--grep={text}", f"--max-count={limit}")
        log = mirror.git("log", "-z", "--format=%B", *options, commit)
        return tuple(filter(None, log.decode(errors="replace").split("\0")))

    @staticmethod
    def _target(branch: str) -> str:
        """Return the name of a branch to push to, below ``refs/heads/``; raise InvalidInput for another ref."""
        name = branch.removeprefix(HEADS)
        if name.startswith("refs/") or (branch and not name):
            raise InvalidInput(f"{branch[:80]!r} is not a branch", location="--branch", hint="name a branch to push to")
        if name:
            check_revision(name, "--branch")
        return name

    @staticmethod
    def _known(mirror: Mirror, commit: str) -> str:
        if not is_commit(commit):
            raise InvalidInput(f"{commit!r} is not a full commit id", location="commit")
        return commit

    def _mirror(self, source: GitSource) -> Mirror:
        self.check(source)
        with self._lock:
            key = repository_key(source.repo_url)
            mirror = self._mirrors.get(key)
            if mirror is None:
                mirror = self._mirrors[key] = self._new_mirror(source)
            return mirror

    def _new_mirror(self, source: GitSource) -> Mirror:
        if isinstance(source, SourceGroup):
            return JoinedMirror(source, self._folder, self.transport, self._mirror, self._on_read, self._clock)
        url = source.repo_url
        if not is_artifact(url):
            return Mirror(url, self._folder, self.transport, self._on_read, self._clock)
        if self._artifacts is None:
            raise InvalidInput("charts and artifacts of registries are not read here", location="spec.source.repoURL")
        return ArtifactMirror(url, self._folder, self.transport, self._artifacts, self._on_read, self._clock)

    def unused_mirrors(self, urls: Collection[str]) -> frozenset[str]:
        """Return the names of the mirrors of all other repositories than these."""
        used = {mirror_name(url) for url in urls}
        return frozenset(path.name for path in self._folder.iterdir() if path.is_dir() and path.stem not in used)

    def remove_mirror(self, name: str) -> bool:
        """Delete a mirror; return whether it was deleted, which it is not while it is in use."""
        path = self._folder / name
        try:
            with FileLock(path.with_suffix(".lock"), timeout=0, mode=0o600), self._lock:
                for key in [key for key, mirror in self._mirrors.items() if mirror.path.name == path.stem]:
                    self._mirrors.pop(key).objects.close()
                shutil.rmtree(path)
        except Timeout:
            return False
        path.with_suffix(".lock").unlink(missing_ok=True)
        return True

    def repack(self) -> None:
        """Put the objects of many fetches into few packs, in each mirror that has many."""
        with self._lock:
            mirrors = list(self._mirrors.values())
        for mirror in mirrors:
            try:
                if mirror.repack():
                    _log.info("repacked the mirror of %s", shown_url(mirror.url))
            except (GitFailed, SourceUnavailable) as error:  # it stays as it is, and works
                _log.warning("the mirror of %s was not repacked: %s", shown_url(mirror.url), error)

    def close(self) -> None:
        """End the reading processes and the connections to servers; a later read starts others."""
        with self._lock:
            mirrors = list(self._mirrors.values())
        self.transport.connections.close()
        for mirror in mirrors:
            mirror.objects.close()

    def _on_read(self, reader: ObjectReader) -> None:
        """Limit the reading processes: when another one starts, the one that was started first is ended."""
        with self._lock:
            self._readers = [other for other in self._readers if other is not reader] + [reader]
            oldest = self._readers.pop(0) if len(self._readers) > _READERS else None
        if oldest is not None:
            oldest.close(wait=False)  # one that is being read has to finish first


def _folders(source: GitSource) -> tuple[str, ...]:
    """Return the folders that are rendered of a source, or of several."""
    if isinstance(source, SourceGroup):
        return tuple(member.folder for member in source.members if member.folder)
    return (source.path,)


def _reject_several(source: GitSource, what: str) -> None:
    if isinstance(source, SourceGroup):
        raise several_sources(what)


def _below(name: str, places: Collection[str]) -> list[str]:
    """Return the places in the folder of a source, without that folder."""
    return [place.removeprefix(f"{name}/") for place in places if place.startswith(f"{name}/")]


def _signing_users(mirror: Mirror, commits: Collection[str], trust: Trust) -> frozenset[str]:
    return signing_users(mirror.path, {commit: mirror.digest(commit) for commit in commits}, trust)


def _blamed(mirror: Mirror, commit: str, places: Collection[str]) -> dict[str, Commit]:
    commits = {place: mirror.objects.find_commit(id) for place, id in blame(mirror, commit, places).items()}
    return {place: parsed.commit for place, parsed in commits.items() if parsed is not None}


def _reject_submodule(tree: GitTree, path: str) -> None:
    """Raise InvalidInput for a path that is a submodule or below one: another repository has its files."""
    parts = path.split("/")
    for count in range(1, len(parts) + 1):
        place = "/".join(parts[:count])
        if tree.entry(place) is Entry.SUBMODULE:
            raise InvalidInput(
                f"the path {path} is {'in ' if place != path else ''}the Git submodule {place}, whose files are in "
                "another repository",
                location="spec.source.path",
                hint="set spec.source.repoURL to that repository; its URL is in .gitmodules",
            )


def _may_use(mirror: Mirror, edit: FileEdit, branch_head: str, commit: str) -> bool:
    """Return whether a branch that exists is one of ours that has the edit, or that the edit updates."""
    is_ours = edit.trailer in mirror.commit(branch_head).message.splitlines()
    return is_ours and (edit.updates or commit == branch_head)


def _existing(branch: str) -> Refused:
    """Return the error for a branch that exists: others may deploy it, and a push to it would not wait for a merge."""
    return Refused(f"branch {branch} exists already", hint="the same may be proposed: merge it, or name another")


def _push(mirror: Mirror, commit: str, branch: str, credentials: Credentials, what: str) -> None:
    """Push a commit to a branch; raise Refused with the server's reason where it rejects that."""
    try:
        mirror.push(commit, branch, credentials)
    except GitFailed as error:
        raise _refused_push(error, branch, what) from error


def _refused_push(error: GitFailed, branch: str, what: str) -> Refused:
    return Refused(
        f"the Git server did not take the {what} on {branch}: {_push_reason(str(error))}", hint=_push_fix(str(error))
    )


def _push_reason(text: str) -> str:
    """Return why a server refused a push: the lines that it printed, and git's own line about the ref."""
    lines = [line.strip() for line in text.splitlines()]
    printed = [line.removeprefix("remote:").strip() for line in lines if line.startswith("remote:")]
    refs = [line.partition("] ")[2].partition(" -> ")[2] or line for line in lines if line.startswith("! [")]
    return "; ".join(line for line in (*printed, *refs) if line) or text.splitlines()[-1]


def _push_fix(text: str) -> str:
    """Return how to fix a refused push; by SSH, servers print the lack of a right as ``Permission denied``."""
    # of Gitea and Forgejo, and of GitHub and GitLab
    if re.search(r"unverified commit|verified signature|must be signed", text):
        where = f"{CREDENTIALS_SECRET}: signing-privatekey"
        return f"set a key in {where} that the account verified at its host, with gitsync@localhost among its addresses"
    if re.search(r"returned error: 40[13]|Permission denied|could not read (?:Username|Password)", text):
        return f"grant write access to the credentials in {CREDENTIALS_SECRET}, or set others that have it"
    return "try again if the branch moved; otherwise push to another branch for review"


# seconds between checks; a mirror is deleted at the second check without an Application
_EVERY = 600.0
_log = logging.getLogger(__name__)


class MirrorCleanup(Periodic):
    """
    Delete mirrors that no Application has named for some minutes, and repack those of many fetches.

    ``urls`` returns those that Applications name.
    """

    def __init__(
        self, repositories: Repositories, urls: Callable[[], Collection[str]], *, every: float = _EVERY
    ) -> None:
        super().__init__("mirror-cleanup", self._clean_or_log, every, at_start=False)
        self._repositories = repositories
        self._urls = urls
        self._unused: frozenset[str] = frozenset()

    def clean(self) -> None:
        """Delete the mirrors that were unused at this check and at the one before, and repack the others."""
        unused = self._repositories.unused_mirrors(self._urls())
        for name in unused & self._unused:
            if self._repositories.remove_mirror(name):
                _log.info("deleted the mirror %s, which no Application uses", name)
        self._unused = unused
        self._repositories.repack()

    def _clean_or_log(self) -> None:
        try:
            self.clean()
        except OSError as error:
            _log.warning("unused mirrors were not deleted: %s", error)


def fetch_manifests(
    mirror: Mirror, source: GitSource, credentials: Credentials, commit: str, max_age: float = 0.0
) -> None:
    """Fetch the manifests below a source's path."""
    if not left_out(mirror.path):
        return
    if isinstance(mirror, JoinedMirror):
        for part, id, own in mirror.split_for(source.revision, commit, credentials):
            fetch_manifests(part.mirror, _at_path(source, part.source), own, id, max_age)
        mirror.note_left_out()
        return
    tree = GitTree(mirror.path, commit, reader=mirror.objects)
    below = tree.below(clean_path(source.path))
    files = manifests((path, entry.id) for path, entry in below)
    mirror.fetch_files(files, source.revision, commit, credentials, max_age)


def fetch_requested(mirror: Mirror, source: GitSource, credentials: Credentials, commit: str, id: str) -> None:
    """Fetch a file that a build reads, with all manifests of the commit: the build is about to read others of them."""
    if isinstance(mirror, JoinedMirror):
        for part, own_commit, own in mirror.split_for(source.revision, commit, credentials):
            if id in left_out(part.mirror.path):
                fetch_requested(part.mirror, part.source, own, own_commit, id)
        mirror.note_left_out()
        return
    tree = GitTree(mirror.path, commit, reader=mirror.objects)
    files = manifests((path, entry.id) for path, entry in tree.below(""))
    mirror.fetch_files(files | {id}, source.revision, commit, credentials)


def _at_path(source: GitSource, part: NamedSource) -> NamedSource:
    """Return a part with the path that this group gives it: another one of the same repositories shares the mirror."""
    return next(member for member in source.parts if isinstance(member, NamedSource) and member.name == part.name)


def fetch_changed(
    mirror: Mirror, source: GitSource, credentials: Credentials, head: str, commits: Sequence[str]
) -> None:
    """Fetch the files that a revert of commits reads: what they changed, before, after and at the head."""
    if not left_out(mirror.path):
        return
    files = {id for commit in commits for id in _changed(mirror, head, commit)}
    mirror.fetch_files(files, source.revision, head, credentials)


def fetch_different(mirror: Mirror, source: GitSource, credentials: Credentials, base: str, head: str) -> None:
    """Fetch the files that a merge reads: those that differ between two commits, on both sides."""
    if not left_out(mirror.path):
        return
    trees = [GitTree(mirror.path, commit, reader=mirror.objects) for commit in (base, head)]
    files: set[str] = set()
    for path in mirror.changed_paths(base, head) or ():
        for tree in trees:
            with contextlib.suppress(KeyError):  # a side that does not have the file
                files.add(tree.blob_id(path))
    mirror.fetch_files(files, source.revision, base, credentials)


def _changed(mirror: Mirror, head: str, commit: str) -> Iterator[str]:
    with contextlib.suppress(GitFailed):  # of the first commit, which cannot be reverted, or of an unknown one
        parent = mirror.git("rev-parse", "--verify", "--quiet", f"{commit}^1").decode().strip()
        trees = [GitTree(mirror.path, revision, reader=mirror.objects) for revision in (head, commit, parent)]
        for path in mirror.changed_paths(parent, commit) or ():
            for tree in trees:
                with contextlib.suppress(KeyError):
                    yield tree.blob_id(path)
