"""A proposed change in a local repository: the result of its merge, the files that differ, and who wrote them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Protocol

from gitsync.errors import InvalidInput, Refused
from gitsync.objects.record import Commit
from gitsync.ports import MergeResult
from gitsync.source.git import GitFailed, environment, require_git, run
from gitsync.source.history import blame
from gitsync.source.local import file_limit, repository_of
from gitsync.source.object_reader import ObjectReader
from gitsync.source.snapshot import GitTree, SourceLimits

_SECONDS = 60.0
_CONFLICTS_SHOWN = 10
_IDENTITY = {
    "GIT_AUTHOR_NAME": "gitsync",
    "GIT_AUTHOR_EMAIL": "gitsync@localhost",
    "GIT_COMMITTER_NAME": "gitsync",
    "GIT_COMMITTER_EMAIL": "gitsync@localhost",
}


class MergeableRepository(Protocol):
    """A repository whose objects git reads and adds to, without a work tree."""

    def git(self, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] = ..., timeout: float = ...) -> bytes:
        """Run git with fixed arguments and return its output; raise GitFailed."""
        ...


def merge(repository: MergeableRepository, base: str, head: str) -> MergeResult:
    """
    Return the merge of a head into a base, both commit ids, without a work tree.

    Nothing of the change is executed: hooks, filters and merge drivers of the machine are off. Raise Refused, with the
    files, when they conflict, and InvalidInput where the history that they share is absent.
    """
    try:
        repository.git("merge-base", base, head)
    except GitFailed as error:
        raise InvalidInput(
            f"commits {base[:12]} and {head[:12]} share no history here",
            hint="in a shallow clone fetch all of it: git fetch --unshallow (actions/checkout: fetch-depth: 0)",
        ) from error
    try:
        printed = repository.git("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", base, head)
    except GitFailed as error:
        files = error.printed.split("\0")[1:]
        names = ", ".join(sorted({file for file in files if file})[:_CONFLICTS_SHOWN])
        raise Refused(
            f"commits {base[:12]} and {head[:12]} conflict in {names or 'their files'}",
            hint="merge or rebase, and resolve the conflicts",
        ) from error
    return _result(repository, base, head, printed.split(b"\0", 1)[0].decode().strip())


def _result(repository: MergeableRepository, base: str, head: str, tree: str) -> MergeResult:
    # a commit, though no branch names it: git blames commits, and prunes this one in two weeks (gc.pruneExpire)
    parents = [option for parent in dict.fromkeys((base, head)) for option in ("-p", parent)]
    commit = repository.git("commit-tree", tree, *parents, "-m", "Preview", env=_IDENTITY).decode().strip()
    paths = repository.git("diff-tree", "-r", "-z", "--name-only", "--no-renames", base, commit).split(b"\0")
    changed = frozenset(path.decode("utf-8", "surrogateescape") for path in paths if path)
    return MergeResult(base, head, commit, changed, tree)


class LocalRepository:
    """
    The repository around a folder, read through its object database; no file of the work tree is read or written.
    """

    def __init__(self, folder: Path) -> None:
        """Raise InvalidInput where the folder is in no repository."""
        require_git()
        top, git_dir = repository_of(folder.resolve())
        if top is None or git_dir is None:
            raise InvalidInput("is not inside a Git repository", location=str(folder))
        self.top = top
        self._git_dir = git_dir

    def git(self, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] = {}, timeout: float = _SECONDS) -> bytes:
        """Run git with fixed arguments; see ``gitsync.source.git.run``."""
        return run(self._git_dir, *arguments, env={**environment(()), **env}, stdin=stdin, timeout=timeout)

    def urls(self) -> frozenset[str]:
        """Return the URLs of the remotes."""
        try:
            text = self.git("config", "--get-regexp", r"^remote\..*\.url$").decode(errors="replace")
        except GitFailed:  # there is none
            return frozenset()
        urls = (line.partition(" ")[2] for line in text.splitlines())
        # Applications name a folder of this machine by its URL
        return frozenset(f"file://{url}" if url.startswith("/") else url for url in urls)

    def commit(self, revision: str, option: str = "the range") -> str:
        """Return the id of the commit that a revision names; raise InvalidInput where there is none."""
        commit = self.find_commit(revision)
        if not commit:
            raise InvalidInput(
                f"revision {revision!r} not found", location=option, hint="fetch it, for example: git fetch origin"
            )
        return commit

    def find_commit(self, revision: str) -> str:
        """Return the id of the commit that a revision names, empty where there is none."""
        try:
            commit = self.git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        except GitFailed:
            return ""
        return commit.decode().strip()

    def tree(self, commit: str) -> GitTree:
        """Return the files of a commit."""
        return GitTree(self._git_dir, commit, SourceLimits(file_bytes=file_limit()))

    def staged(self) -> MergeResult:
        """Return what ``git commit`` would add to the current commit."""
        head = self.commit("HEAD")
        return _result(self, head, head, self.git("write-tree").decode().strip())

    def authors(self, commit: str, places: Collection[str]) -> dict[str, Commit]:
        """Return the commits that wrote lines, by ``file:line``, as far as git answers within a second."""
        writers = blame(self, commit, places)
        reader = ObjectReader(self._git_dir)
        try:
            commits = {id: reader.commit(id).commit for id in set(writers.values()) - {commit}}
        finally:
            reader.close()
        # a line of the merge itself is one that no commit has yet
        return {place: commits[id] for place, id in writers.items() if id in commits}
