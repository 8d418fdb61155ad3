"""Make a local bare repository with a first commit, and a clone of it to edit: for demos."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from git import Actor, Repo

from gitsync.source.git import require_git

DEMO_AUTHOR = Actor("gitsync demo", "demo@localhost")


@dataclass(frozen=True, slots=True)
class ProposedEdit:
    """A branch that proposes to replace a text in a file, with the message of its commit."""

    branch: str
    file: str
    old: str
    new: str
    message: str


def seed(origin: Path, clone: Path, folders: Mapping[str, Path], proposal: ProposedEdit | None = None) -> None:
    """
    Make ``origin`` (bare, branch main) and ``clone``, with copies of the folders in the first commit.

    A branch of ``origin`` has the proposal.

    Existing files stay as they are, so a second run continues where the first stopped.
    """
    require_git()
    if not origin.exists():
        Repo.init(origin, bare=True, initial_branch="main").close()
        shutil.rmtree(clone, ignore_errors=True)
    if clone.exists():
        return
    with Repo.clone_from(str(origin), str(clone)) as repo:
        with repo.config_writer() as config:
            config.set_value("user", "name", str(DEMO_AUTHOR.name))
            config.set_value("user", "email", str(DEMO_AUTHOR.email))
            config.set_value("push", "default", "upstream")
        if repo.head.is_valid():
            return
        for name, folder in folders.items():
            shutil.copytree(folder, clone / name)
        repo.git.add(all=True)
        repo.index.commit("Add the support desk", author=DEMO_AUTHOR, committer=DEMO_AUTHOR)
        repo.git.push("--set-upstream", "origin", "main")
        if proposal is not None:
            _propose(repo, clone / proposal.file, proposal)


def _propose(repo: Repo, file: Path, proposal: ProposedEdit) -> None:
    repo.git.switch("--create", proposal.branch)
    file.write_text(file.read_text(encoding="utf-8").replace(proposal.old, proposal.new), encoding="utf-8")
    repo.index.add([proposal.file])
    repo.index.commit(proposal.message, author=DEMO_AUTHOR, committer=DEMO_AUTHOR)
    repo.git.push("origin", proposal.branch)
    repo.git.switch("main")
    # the user commits on main; a branch that is here would be in their way when they make one of its name
    repo.git.branch("--delete", "--force", proposal.branch)
