"""
Whatever fails while git clones, fetches and pushes, the next run recovers, and the mirror folder has no leftovers.

A run without faults counts the processes that git starts and the requests that it makes. Each process is then killed at
its start and while it works, and each answer of the server ends early; each file of a mirror is damaged in turn.
``make faults`` takes every process and answer, other runs every fourth one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gitsync.errors import GitsyncError, Refused, TransientError
from gitsync.objects.application import GitSource
from gitsync.ports import Credentials
from gitsync.source import git as git_runner
from gitsync.source import object_reader
from gitsync.source.remote import Transport
from gitsync.source.repositories import Repositories
from tests.git_http_server import GitServer
from tests.git_repository import GitRepo, git

NO_CREDENTIALS = Credentials()
STEP = 1 if os.environ.get("GITSYNC_FAULTS") == "all" else 4
FILES: dict[str, str | bytes | None] = {f"{number}.yaml": str(number) for number in range(120)}
LEFTOVERS = ("*.new", "*/gitsync-incoming", "*/objects/*/tmp_*", "*/*.lock", "*/refs/**/*.lock")


class Run:
    """One run of a controller: clone a repository, fetch another commit, and push the revert of the last one."""

    def __init__(self, folder: Path, server: GitServer, repo: GitRepo) -> None:
        self.folder, self.server, self.repo = folder, server, repo
        self.source = GitSource(repo_url=server.url("origin.git"))

    def all(self, branch: str) -> None:
        repositories = Repositories(self.folder, Transport(("http",)))
        for commit in (git(self.repo.work, "rev-parse", "HEAD~1"), git(self.repo.work, "rev-parse", "HEAD")):
            git(self.repo.origin, "update-ref", "refs/heads/main", commit)
            assert repositories.resolve(self.source, NO_CREDENTIALS) == commit
            assert len(repositories.snapshot(self.source, NO_CREDENTIALS, commit).tree.read("a.yaml")) == 1
        result = repositories.revert(self.source, NO_CREDENTIALS, [commit], author="Ada", branch=branch)
        assert git(self.repo.origin, "rev-parse", f"{branch}^") == commit
        assert git(self.repo.origin, "show", f"{result.commit.id}:a.yaml") == "1"

    def recovers(self, number: int) -> bool:
        """Run with whatever fault is set, and again without it; return whether the fault had an effect."""
        is_failed = False
        try:
            self.all(f"undo-{number}")
        except (TransientError, Refused):  # retried by itself, or by the user who reverts
            is_failed = True
        self.server.cut = (0, 0.0)
        self.all(f"undo-{number}-again")
        assert not [path for pattern in LEFTOVERS for path in self.folder.glob(pattern)]
        assert "missing" not in git(self.repo.origin, "fsck", "--connectivity-only")
        return is_failed


@pytest.fixture
def repo(tmp_path: Path) -> GitRepo:
    made = GitRepo(tmp_path / "git")
    made.commit({"a.yaml": "1", **FILES})
    made.commit({"a.yaml": "2"})
    git(made.origin, "config", "http.receivepack", "true")
    return made


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    with GitServer(tmp_path / "git") as made:
        yield made


class Killer:
    """Kill one of the processes that the source starts, by its number, after some seconds; count all of them."""

    def __init__(self, number: int = 0, after: float = 0.0) -> None:
        self.count = 0
        self._number = number
        self._after = after

    def __call__(self, *arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        process: subprocess.Popen[bytes] = subprocess.Popen(*arguments, **options)
        self.count += 1
        if self.count == self._number:
            if self._after:
                threading.Timer(self._after, process.kill).start()
            else:
                process.kill()
        return process


def with_killer(monkeypatch: pytest.MonkeyPatch, killer: Killer) -> Killer:
    class Module:
        Popen = killer

        def __getattr__(self, name: str) -> Any:
            return getattr(subprocess, name)

    for module in (git_runner, object_reader):
        monkeypatch.setattr(module, "subprocess", Module())
    return killer


@pytest.mark.parametrize("after", [0.0, 0.02], ids=["at its start", "while it works"])
def test_each_process_of_git_is_killed_in_turn(
    tmp_path: Path, server: GitServer, repo: GitRepo, monkeypatch: pytest.MonkeyPatch, after: float
) -> None:
    count = with_killer(monkeypatch, Killer())
    Run(tmp_path / "clean", server, repo).all("clean")
    struck = 0
    for number in range(1, count.count + 1, STEP):
        with_killer(monkeypatch, Killer(number, after))
        struck += Run(tmp_path / f"run-{number}", server, repo).recovers(number)
    assert count.count > 8
    assert struck > count.count / STEP / 2 or after


@pytest.mark.parametrize("part", [0.0, 0.9])
def test_each_answer_of_the_server_ends_early_in_turn(
    tmp_path: Path, server: GitServer, repo: GitRepo, part: float
) -> None:
    Run(tmp_path / "clean", server, repo).all("clean")
    count = server.requests
    struck = 0
    for number in range(1, count + 1, STEP):
        server.cut = (server.requests + number, part)
        struck += Run(tmp_path / f"run-{number}", server, repo).recovers(number)
    assert count > 8
    assert struck > count / STEP / 2


def garbage(content: bytes) -> bytes:
    return b"\xff[garbage\n"


DAMAGES: dict[str, Callable[[bytes], bytes] | None] = {
    "empty": lambda content: b"",
    "truncated": lambda content: content[: len(content) // 2],
    "garbage": garbage,
    "missing": None,
}


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("form", ["pack", "loose objects", "pack without a large file"])
def test_each_file_of_a_mirror_is_damaged_in_turn(tmp_path: Path, server: GitServer, how: str, form: str) -> None:
    repo = GitRepo(tmp_path / "git")
    large = {"large": "large " * 200_000} if form == "pack without a large file" else {}
    first = repo.commit({"a.yaml": "1", **large, **(FILES if form.startswith("pack") else {"sub/b.yaml": "b"})})
    git(repo.origin, "config", "uploadpack.allowFilter", "true")
    source, whole = GitSource(repo_url=server.url("origin.git")), tmp_path / "whole"
    repositories = Repositories(whole, Transport(("http",)))
    repositories.snapshot(source, NO_CREDENTIALS, repositories.resolve(source, NO_CREDENTIALS)).tree.read("a.yaml")
    second = repo.commit({"a.yaml": "2"})
    (mirror,) = filter(Path.is_dir, whole.iterdir())
    parts = [path.relative_to(whole) for path in sorted(mirror.rglob("*"))]
    assert len(parts) > 10
    assert bool(large) == (Path(mirror.name, "gitsync-left-out") in parts)
    for number, part in enumerate(parts):
        folder = tmp_path / str(number)
        shutil.copytree(whole, folder)
        damage(folder / part, DAMAGES[how])
        for commit, content in ((first, b"1"), (second, b"2")):
            assert read(folder, source, commit) == content, f"{part} was {how}"
        left = [path for pattern in LEFTOVERS for path in folder.glob(pattern)]
        assert not left, f"{part} was {how}"
        shutil.rmtree(folder)


def damage(path: Path, how: Callable[[bytes], bytes] | None) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    elif how is None:
        path.unlink()
    else:
        content = path.read_bytes()
        path.chmod(0o600)
        path.write_bytes(how(content))


def read(folder: Path, source: GitSource, commit: str) -> bytes:
    """Return a file of a commit, as a controller that has just started and retries twice."""
    repositories = Repositories(folder, Transport(("http",)))
    for _ in range(2):
        with contextlib.suppress(GitsyncError):
            repositories.resolve(source, NO_CREDENTIALS)
            return repositories.snapshot(source, NO_CREDENTIALS, commit).tree.read("a.yaml")
    repositories.resolve(source, NO_CREDENTIALS)
    return repositories.snapshot(source, NO_CREDENTIALS, commit).tree.read("a.yaml")
