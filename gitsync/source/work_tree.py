"""Commit and push a change of files in a user's own work tree: with their git, identity, hooks and signing."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
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


def commit_files(top: Path, files: Sequence[str], message: str, branch: str = "") -> str:
    """Commit the files as they are on disk, on a new branch if one is named, and return the id of the commit."""
    if branch:
        if branch.startswith("-"):
            raise InvalidInput(f"{branch} is not a valid branch name", location="--branch")
        _git(top, "switch", "--quiet", "--create", branch)
    _git(top, "commit", "--quiet", "--message", message, "--", *files)
    return _git(top, "rev-parse", "HEAD").strip()


@dataclass(frozen=True, slots=True)
class Upstream:
    """The branch that is checked out, and the remote that its pull requests are at; ``url`` is where that is read."""

    branch: str
    remote: str
    url: str

    @classmethod
    def of(cls, top: Path) -> Upstream:
        """Return that of a work tree; raise InvalidInput where no branch is checked out, or it has no remote."""
        branch = _git(top, "branch", "--show-current").strip()
        if not branch:
            raise InvalidInput("no branch is checked out", location="--pr", hint="check out the branch to merge into")
        remotes = _git(top, "remote").split()
        configured = _git(top, "config", "--default", "origin", "--get", f"branch.{branch}.remote").strip()
        # "." is the repository itself, which has no pull requests
        remote = configured if configured in remotes else "origin"
        if remote not in remotes:
            raise InvalidInput("the repository has no remote", location="--pr", hint="git remote add origin URL")
        return cls(branch, remote, _git(top, "remote", "get-url", remote).strip())


def push_branch(top: Path, remote: str, branch: str) -> None:
    """Push a branch with the user's own credentials; raise InvalidInput where the server rejects it."""
    _git(top, "push", "--quiet", "--set-upstream", remote, branch)


def _git(top: Path, *arguments: str) -> str:
    require_git()
    try:
        run = subprocess.run(
            ["git", *arguments], cwd=top, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise InvalidInput(f"git {arguments[0]} took longer than {_SECONDS:.0f} s", hint="does a hook wait?") from None
    if run.returncode:
        reason = (run.stderr or run.stdout).strip().replace("\n", "; ")
        raise InvalidInput(f"git {arguments[0]} failed: {reason}", hint="correct it, and commit the file by hand")
    return run.stdout
