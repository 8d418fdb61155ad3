"""
JoinedMirror: the commits of several sources as one commit, with the files of each source in a folder of its name.

What identifies a commit of one source (status, history, plans, approvals, caches, render processes) identifies those of
several then. The id depends on the names, URLs and commits of the sources alone, so that every replica has the same.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from gitsync.errors import GitsyncError, InvalidInput, Refused
from gitsync.files import PRIVATE, write_file
from gitsync.objects.application import NamedSource, SourceGroup
from gitsync.objects.record import Commit, joined_commits, joined_message
from gitsync.objects.urls import revisions_of
from gitsync.ports import Credentials, Tag
from gitsync.source.git import GitFailed
from gitsync.source.left_out import left_out, record_left_out
from gitsync.source.mirror import Mirror
from gitsync.source.object_reader import CORRUPT, ObjectReader, mark_corrupt
from gitsync.source.remote import Transport
from gitsync.source.server_errors import disk_failure, unusable
from gitsync.source.validation import is_commit, shown_url

_ALTERNATES: Final = Path("objects/info/alternates")
_NOT_IN_PERSON: Final = re.compile(r"[\x00-\x1f<>]")
_SOURCE: Final = "spec.source."


class JoinedSource(NamedTuple):
    """A source of several, and the mirror of its repository."""

    source: NamedSource
    mirror: Mirror


class JoinedMirror(Mirror):
    """
    Join commits of several mirrors, whose objects it uses in place: it has folders of its own, and no files.

    A commit is made when it is resolved, after those of all sources were fetched: nothing is ever joined from sources
    of which one did not answer.
    """

    def __init__(
        self,
        group: SourceGroup,
        folder: Path,
        transport: Transport,
        mirror_of: Callable[[NamedSource], Mirror],
        on_read: Callable[[ObjectReader], None],
        clock: Callable[[], float],
    ) -> None:
        super().__init__(group.repo_url, folder, transport, on_read, clock)
        self._group = group
        # asked for with each use: a mirror that no Application used for long is removed and rebuilt
        self._mirror_of = mirror_of

    def resolve(self, revision: str, credentials: Credentials, max_age: float) -> str:
        """Return the commit that joins what the revisions name now; see Source.resolve."""
        if is_commit(revision):
            return revision
        commits: dict[str, str] = {}
        for (source, mirror), own in self._parts(revision, credentials):
            with told_of(source.name):
                commit = mirror.resolve(source.revision, own, max_age)
                mirror.fetch(source.revision, commit, own, max_age)
            commits[source.name] = commit
        return self.join(commits)

    def repack(self) -> bool:
        """
        Do nothing: it has two small objects for each commit.

        Before Git 2.41, packs of the mirrors that it reads would be copied into this one (its release notes).
        """
        return False

    def join(self, commits: Mapping[str, str]) -> str:
        """Return the commit that joins one fetched commit of each source, by its name."""
        if len({len(commit) for commit in commits.values()}) > 1:
            raise InvalidInput(
                "the ids of some sources are SHA-1, those of others SHA-256",
                location="spec.sources",
                hint="charts and artifacts have SHA-1: use Git repositories with SHA-1 beside them",
            )
        parts = [(source, mirror.objects.commit(commits[source.name])) for source, mirror in self._sources()]
        newest = max((parsed.commit for _, parsed in parts), key=lambda commit: (_seconds(commit), commit.id))
        name = next(source.name for source, parsed in parts if parsed.commit.id == newest.id)
        tree = "".join(f"040000 tree {parsed.tree}\t{source.name}\n" for source, parsed in parts)
        urls = {source.name: shown_url(source.repo_url) for source, _ in parts}
        message = joined_message(f"{name}: {newest.subject}", commits, urls)
        with self._locked():
            self._open_at(newest.id)
            try:
                id = self.git("mktree", stdin=tree.encode()).decode().strip()
                content = f"tree {id}\n{_people(newest)}\n\n{message}".encode("utf-8", "replace")
                return self.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=content).decode().strip()
            except GitFailed as error:
                raise disk_failure(str(error)) or unusable(str(error)) from error

    def fetch(self, revision: str, commit: str, credentials: Credentials, max_age: float = 0.0) -> None:
        """Make sure that the commits that one joins are here; their servers decide whether they may be read."""
        if (self.path / CORRUPT).exists():
            # which of them lacks an object is not known
            for _, mirror in self._sources():
                mark_corrupt(mirror.path)
            (self.path / CORRUPT).unlink(missing_ok=True)
        if not (self.path / "HEAD").exists() or self.objects.find_commit(commit) is None:
            self.resolve(revision, credentials, 0.0)
        if self.objects.find_commit(commit) is None:
            raise InvalidInput(
                f"commit {commit[:12]} of several sources is not kept here any more",
                location="spec.sources",
                hint="set the revisions of the sources to their commits, which the history shows",
            )
        commits = self.commits_of(commit)
        for (source, mirror), own in self._parts(revision, credentials):
            with told_of(source.name):
                mirror.fetch(source.revision, commits[source.name], own, max_age)
        self.note_left_out()

    def note_left_out(self) -> None:
        """Write down which files the mirrors lack: a reader of this one finds theirs."""
        missing = frozenset().union(*(left_out(mirror.path) for _, mirror in self._sources()))
        if missing != left_out(self.path):
            record_left_out(self.path, missing)

    def commits_of(self, commit: str) -> Mapping[str, str]:
        """Return the commits that one joins, by the names of their sources."""
        return joined_commits(self.objects.commit(commit).commit)

    def split(self, commit: str) -> Iterator[tuple[JoinedSource, str]]:
        """Yield the sources with their commits in a joined one."""
        commits = self.commits_of(commit)
        return ((part, commits[part.source.name]) for part in self._sources())

    def split_for(
        self, revision: str, commit: str, credentials: Credentials
    ) -> Iterator[tuple[JoinedSource, str, Credentials]]:
        """Yield the sources at their revisions with their commits in a joined one, and the credentials for each."""
        commits = self.commits_of(commit)
        return ((part, commits[part.source.name], own) for part, own in self._parts(revision, credentials))

    def branch(self, revision: str) -> str:
        """Return nothing: several sources are on no branch."""
        return ""

    def is_forward(self, revision: str, earlier: str, later: str) -> bool:
        """Return whether no branch of a source was rewritten between two joined commits."""
        if self.objects.find_commit(earlier) is None:
            return True  # lost: which commits it joined, so that a rewritten branch is not noticed
        old = self.commits_of(earlier)
        new = self.commits_of(later)
        return all(
            not mirror.branch(source.revision) or mirror.contains(new[source.name], old[source.name])
            for (source, mirror), _ in self._parts(revision, Credentials())
        )

    def authors(self, earlier: str, later: str) -> frozenset[str]:
        """Return who wrote the commits that were joined since an earlier one."""
        return frozenset().union(*(part.mirror.authors(old, new) for part, old, new in self._steps(earlier, later)))

    def steps(self, earlier: str, later: str) -> Iterator[tuple[Mirror, tuple[str, ...]]]:
        """Yield the mirror of each source with its commits since an earlier joined one."""
        return ((part.mirror, part.mirror.since(old, new)) for part, old, new in self._steps(earlier, later))

    def _steps(self, earlier: str, later: str) -> Iterator[tuple[JoinedSource, str, str]]:
        is_known = bool(earlier) and self.objects.find_commit(earlier) is not None
        old = self.commits_of(earlier) if is_known else {}
        for part, commit in self.split(later):
            if old.get(part.source.name) != commit:
                yield part, old.get(part.source.name, ""), commit

    def hidden_range(self, revision: str) -> str:
        """Return a warning about the revision of a source."""
        parts = (part for part, _ in self._parts(revision, Credentials()))
        return next((text for source, mirror in parts if (text := mirror.hidden_range(source.revision))), "")

    def tag(self, revision: str, commit: str, credentials: Credentials) -> Tag | None:
        """Return nothing: the tags of the sources name their own commits."""
        return None

    def push(self, commit: str, branch: str, credentials: Credentials) -> None:
        """Raise Refused: commits are pushed to one repository."""
        raise several_sources()

    def _sources(self) -> list[JoinedSource]:
        return [JoinedSource(source, self._mirror_of(source)) for source in self._group.members]

    def _parts(self, revision: str, credentials: Credentials) -> Iterator[tuple[JoinedSource, Credentials]]:
        """Yield the sources, at the revisions of an Application, with the credentials for each."""
        revisions = revisions_of(revision)
        own = credentials.parts or (Credentials(),) * len(self._group.members)
        for part, credentials in zip(self._sources(), own, strict=True):
            source = part.source.model_copy(update={"revision": revisions[part.source.name]})
            yield part._replace(source=source), credentials

    def _open_at(self, id: str) -> None:
        """Make the repository, for objects with ids such as this one, that reads the objects of the mirrors."""
        self._open(id)
        paths = "".join(f"{mirror.path / 'objects'}\n" for _, mirror in self._sources())
        file = self.path / _ALTERNATES
        if not file.exists() or file.read_text() != paths:
            write_file(file, paths, PRIVATE)
            self.objects.close()  # git reads the list once


def several_sources(what: str = "this") -> Refused:
    """Return the error for what is done in one repository."""
    return Refused(
        f"the Application has several sources, and {what} is done in one repository",
        location="spec.sources",
        hint="commit to the repository of the source",
    )


@contextlib.contextmanager
def told_of(name: str) -> Iterator[None]:
    """Have errors of one source name it: their fields are those of ``spec.source`` elsewhere."""
    try:
        yield
    except GitsyncError as error:
        if error.location.startswith(_SOURCE):
            error.location = f"spec.sources[{name}].{error.location.removeprefix(_SOURCE)}"
        elif not error.location:
            error.location = f"spec.sources[{name}]"
        error.hint = error.hint.replace(_SOURCE, f"spec.sources[{name}].")
        raise


def _seconds(commit: Commit) -> float:
    return commit.time.timestamp() if commit.time is not None else 0.0


def _people(commit: Commit) -> str:
    """Return the lines of author and committer, with the time of the commit, so that it is the same everywhere."""
    name = _NOT_IN_PERSON.sub("", commit.author).strip() or "unknown"
    time = f"{max(int(_seconds(commit)), 0)} +0000"
    return f"author {name} <{_NOT_IN_PERSON.sub('', commit.email)}> {time}\ncommitter gitsync <> {time}"
