"""Mirrors that no Application uses are deleted, all others stay."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock

from gitsync.objects.application import GitSource
from gitsync.ports import Credentials
from gitsync.source.repositories import MirrorCleanup, Repositories
from tests.git_http_server import GitServer
from tests.git_repository import GitRepo
from tests.waiting import until

NOBODY = Credentials()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    with GitServer(tmp_path) as made:
        yield made


def test_a_mirror_is_deleted_when_no_application_uses_it_at_two_checks(tmp_path: Path, server: GitServer) -> None:
    repositories = Repositories(tmp_path / "mirrors", schemes=("http",))
    sources = []
    for name in ("kept", "left"):
        repo = GitRepo(tmp_path / name)
        repo.commit({"a.yaml": name})
        sources.append(GitSource(repo_url=server.url(f"{name}/origin.git")))
        repositories.snapshot(sources[-1], NOBODY, repositories.resolve(sources[-1], NOBODY)).tree.read("a.yaml")
    kept, left = sources
    urls = {kept.repo_url}
    cleanup = MirrorCleanup(repositories, lambda: urls)
    files = sorted((tmp_path / "mirrors").iterdir())
    assert len(files) == 4
    cleanup.clean()
    urls.add(left.repo_url)
    cleanup.clean()
    urls.remove(left.repo_url)
    cleanup.clean()
    assert sorted((tmp_path / "mirrors").iterdir()) == files, "it was used again in between"
    (unused,) = repositories.unused_mirrors(urls)
    with FileLock(tmp_path / "mirrors" / f"{unused}.lock"):
        cleanup.clean()
        assert sorted((tmp_path / "mirrors").iterdir()) == files, "another process uses it"
    cleanup.clean()
    assert len(list((tmp_path / "mirrors").iterdir())) == 2
    commit = repositories.resolve(left, NOBODY)
    assert repositories.snapshot(left, NOBODY, commit).tree.read("a.yaml") == b"left"
    assert repositories.snapshot(kept, NOBODY, repositories.resolve(kept, NOBODY)).tree.read("a.yaml") == b"kept"


def test_the_cleanup_runs_by_itself_until_it_is_stopped(tmp_path: Path, server: GitServer) -> None:
    repo = GitRepo(tmp_path / "git")
    repo.commit({"a.yaml": "1"})
    repositories = Repositories(tmp_path / "mirrors", schemes=("http",))
    repositories.resolve(GitSource(repo_url=server.url("git/origin.git")), NOBODY)
    cleanup = MirrorCleanup(repositories, frozenset, every=0.02)
    cleanup.start()
    until(lambda: not list((tmp_path / "mirrors").iterdir()))
    cleanup.stop()
