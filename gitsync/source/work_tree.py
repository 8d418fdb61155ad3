"""Commit and push a change of files in a user's own repository: with their git, identity, hooks and signing."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gitsync.errors import InvalidInput
from gitsync.source.git import require_git

_SECONDS = 120.0
"""A hook of the user may run tests, and signing may ask for a touch of a key."""


def require_unchanged(top: Path, files: Sequence[str]) -> None:
    """Raise InvalidInput where a file differs from the last commit: a new commit would contain that too."""
    changes = _git(top, "status", "--porcelain", "--", *files)
    if changes:
        raise InvalidInput(
            f"{changes.splitlines()[0][3:]} has changes that are not committed", hint="commit or stash them first"
        )


def has_changes(top: Path, files: Sequence[str]) -> bool:
    """Return whether a file is new, or differs from the last commit."""
    return bool(_git(top, "status", "--porcelain", "--", *files))


def commit_files(top: Path, files: Sequence[str], message: str, branch: str = "") -> str:
    """Commit the files as they are on disk, new ones too, on a new branch if one is named; return the commit's id."""
    if branch:
        if branch.startswith("-"):
            raise InvalidInput(f"{branch} is not a valid branch name", location="--branch")
        _git(top, "switch", "--quiet", "--create", branch)
    # without it git commits no file that it does not know; the content is not staged, for a commit that a hook refuses
    _git(top, "add", "--intent-to-add", "--", *files)
    _git(top, "commit", "--quiet", "--message", message, "--", *files)
    return _git(top, "rev-parse", "HEAD").strip()


_FORGET = ("-r", "--cached", "--force", "--quiet", "--ignore-unmatch")
"""Options of git rm that remove files from an index, whatever the work tree has."""


@dataclass(frozen=True, slots=True)
class FolderCommit:
    """The files of a folder, by their paths in it, to commit to a branch instead of all that it has there."""

    branch: str
    folder: str
    files: Mapping[str, bytes]
    message: str


def commit_folder(top: Path, wanted: FolderCommit) -> str:
    """
    Commit a folder to a branch that is not checked out, and return the id; empty where the branch has these files.

    The work tree and its index stay as they are. A branch that does not exist starts with the commit, or at the remote
    branch of its name. Hooks for commits of the work tree do not run. Raise InvalidInput where the branch moves
    meanwhile.
    """
    branch = _git(top, "check-ref-format", "--branch", wanted.branch).strip()
    if branch == _git(top, "branch", "--show-current").strip():
        raise InvalidInput(f"the branch {branch} is checked out", location="--to-branch", hint="name another branch")
    ref = f"refs/heads/{branch}"
    tips = _git(top, "for-each-ref", "--format=%(objectname)", ref, f"refs/remotes/origin/{branch}").split()
    local = _git(top, "for-each-ref", "--format=%(objectname)", ref).strip()
    with tempfile.TemporaryDirectory(prefix="gitsync-render-") as temporary:
        index = Path(temporary, "index")
        if tips:
            _git(top, "read-tree", tips[0], index=index)
            _git(top, "--literal-pathspecs", "rm", *_FORGET, "--", wanted.folder, index=index)
        lines = _index_lines(top, wanted, Path(temporary, "files"))
        _git(top, "update-index", "--add", "-z", "--index-info", index=index, stdin=lines)
        tree = _git(top, "write-tree", index=index).strip()
    if tips and tree == _git(top, "rev-parse", f"{tips[0]}^{{tree}}").strip():
        return ""
    is_signed = _git(top, "config", "--default", "false", "--type=bool", "--get", "commit.gpgSign").strip() == "true"
    # commit-tree does not read that setting
    signature = ("-S",) if is_signed else ()
    parents = ("-p", tips[0]) if tips else ()
    commit = _git(top, "commit-tree", *signature, *parents, "-F", "-", tree, stdin=wanted.message).strip()
    # the former value, so that a commit of someone else is not lost; all zeros: it must not exist
    _git(top, "update-ref", ref, commit, local or "0" * len(commit))
    return commit


def _index_lines(top: Path, wanted: FolderCommit, temporary: Path) -> str:
    """Return the entries of the files for an index, with their contents stored in the repository."""
    temporary.mkdir()
    paths = []
    # numbered: a name of an object may have what a file name cannot
    for number, content in enumerate(wanted.files.values()):
        paths.append(temporary / str(number))
        paths[-1].write_bytes(content)
    stored = _git(top, "hash-object", "-w", "--no-filters", "--stdin-paths", stdin="".join(f"{p}\n" for p in paths))
    rows = zip(stored.split(), wanted.files, strict=True)
    return "".join(f"100644 {id}\t{wanted.folder}/{file}\0" for id, file in rows)


def trailer(top: Path, revision: str, name: str) -> str:
    """Return the value of a trailer in the message of a commit, empty where it has none."""
    return _git(top, "log", "-1", f"--format=%(trailers:key={name},valueonly)", revision).strip()


@dataclass(frozen=True, slots=True)
class Upstream:
    """The branch that is checked out, and the remote that its pull requests are at; ``url`` is where that is read."""

    branch: str
    remote: str
    url: str

    @classmethod
    def of(cls, top: Path, location: str = "--pr") -> Upstream:
        """Return that of a work tree; raise InvalidInput where no branch is checked out, or it has no remote."""
        branch = _git(top, "branch", "--show-current").strip()
        if not branch:
            raise InvalidInput("no branch is checked out", location=location, hint="check out the branch to merge into")
        remotes = _git(top, "remote").split()
        configured = _git(top, "config", "--default", "origin", "--get", f"branch.{branch}.remote").strip()
        # "." is the repository itself, which has no pull requests
        remote = configured if configured in remotes else "origin"
        if remote not in remotes:
            raise InvalidInput("the repository has no remote", location=location, hint="git remote add origin URL")
        return cls(branch, remote, _git(top, "remote", "get-url", remote).strip())


def push_branch(top: Path, remote: str, branch: str) -> None:
    """Push a branch with the user's own credentials; raise InvalidInput where the server rejects it."""
    _git(top, "push", "--quiet", "--set-upstream", remote, branch)


def _git(top: Path, *arguments: str, index: Path | None = None, stdin: str | None = None) -> str:
    """Return what git prints; with an ``index`` it is that instead of the one of the work tree."""
    require_git()
    environment = {**os.environ, "GIT_INDEX_FILE": str(index)} if index else None
    try:
        run = subprocess.run(
            ["git", *arguments],
            cwd=top,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
            env=environment,
            input=stdin,
        )
    except subprocess.TimeoutExpired:
        raise InvalidInput(f"git {arguments[0]} took longer than {_SECONDS:.0f} s", hint="does a hook wait?") from None
    if run.returncode:
        reason = (run.stderr or run.stdout).strip().replace("\n", "; ")
        raise InvalidInput(f"git {arguments[0]} failed: {reason}", hint="correct it, and commit the file by hand")
    return run.stdout
