"""Make a local bare repository with a first commit, and a clone of it to edit: for demos."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from git import Actor, Repo

from gitsync.source.git import require_git

DEMO_AUTHOR = Actor("gitsync demo", "demo@localhost")


def seed(origin: Path, clone: Path, folders: Mapping[str, Path]) -> None:
    """
    Make ``origin`` (bare, branch main) and ``clone``, with copies of the folders in the first commit.

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
