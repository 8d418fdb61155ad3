"""Mirrors that survive killed fetches, damaged files, full disks and refs that replace each other, with real git."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitsync.errors import InvalidInput, SourceUnavailable
from gitsync.objects.application import GitSource
from gitsync.ports import Credentials
from gitsync.source.remote import Transport
from gitsync.source.repositories import Repositories
from gitsync.source.snapshot import SourceLimits
from tests.child_process import child_process
from tests.git_http_server import GitServer
from tests.git_processes import processes_with
from tests.git_repository import GitRepo, git
from tests.small_disk import fill, small_disk
from tests.waiting import until

ANONYMOUS = Credentials()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    with GitServer(tmp_path / "git") as made:
        yield made


@pytest.fixture
def repo(tmp_path: Path, server: GitServer) -> GitRepo:
    return GitRepo(tmp_path / "git", server.url("origin.git"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "mirrors"


def read(folder: Path, source: GitSource, limits: SourceLimits | None = None) -> tuple[str, bytes]:
    """Return the commit that a source names and one of its files, as a controller that has just started does."""
    repositories = Repositories(folder, Transport(("http",), limits=limits or SourceLimits()))
    commit = repositories.resolve(source, ANONYMOUS)
    return commit, repositories.snapshot(source, ANONYMOUS, commit).tree.read("a.yaml")


def mirror_of(folder: Path) -> Path:
    (mirror,) = filter(Path.is_dir, folder.iterdir())
    return mirror


def leftovers(folder: Path) -> list[Path]:
    patterns = ("*.new", "*/gitsync-incoming", "*/objects/*/tmp_*", "*/*.lock", "*/refs/**/*.lock")
    return [path for pattern in patterns for path in folder.glob(pattern)]


HOLD = "import sys, filelock; lock = filelock.FileLock(sys.argv[1]); lock.acquire(); print(1, flush=True); input()"


def test_a_branch_may_be_replaced_by_one_below_its_name(repo: GitRepo, folder: Path) -> None:
    first = repo.commit({"a.yaml": "1"})
    git(repo.work, "push", "-q", "origin", "HEAD:refs/heads/release")
    assert read(folder, GitSource(repo_url=repo.url, revision="release")) == (first, b"1")
    second = repo.commit({"a.yaml": "2"})
    git(repo.work, "push", "-q", "origin", ":refs/heads/release")
    git(repo.work, "push", "-q", "origin", "HEAD:refs/heads/release/1.0")
    assert read(folder, GitSource(repo_url=repo.url, revision="release/1.0")) == (second, b"2")


def test_locks_of_killed_processes_stop_no_fetch(repo: GitRepo, folder: Path) -> None:
    repo.commit({"a.yaml": "1"})
    source = GitSource(repo_url=repo.url)
    read(folder, source)
    mirror = mirror_of(folder)
    (ref,) = mirror.glob("refs/gitsync/*")
    repositories = Repositories(folder, Transport(("http",)))
    for stale in (ref.with_suffix(".lock"), mirror / "packed-refs.lock", mirror / "config.lock"):
        stale.touch()
    second = repo.commit({"a.yaml": "2"})
    assert repositories.snapshot(source, ANONYMOUS, repositories.resolve(source, ANONYMOUS)).commit.id == second
    assert not leftovers(folder)


def test_leftovers_are_removed_at_start_unless_the_mirror_is_in_use(repo: GitRepo, folder: Path) -> None:
    repo.commit({"a.yaml": "1"})
    read(folder, GitSource(repo_url=repo.url))
    mirror = mirror_of(folder)
    for name in (f"{mirror.name}.new", f"{mirror.name}/gitsync-incoming/pack"):
        (folder / name).mkdir(parents=True)
    (mirror / "objects/pack/tmp_pack_x").touch()
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(mirror.with_suffix(".lock"))], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        Repositories(folder, Transport(("http",)))
        assert len(leftovers(folder)) == 3
        process.communicate(b"\n")
    Repositories(folder, Transport(("http",)))
    assert not leftovers(folder)


def test_a_fetch_that_takes_too_long_leaves_nothing(repo: GitRepo, folder: Path, server: GitServer) -> None:
    commit = repo.commit({"a.yaml": "1", "big": os.urandom(200_000)})
    source = GitSource(repo_url=server.url("origin.git"))
    repositories = Repositories(folder, Transport(("http",), limits=SourceLimits(seconds=2.0)))
    assert repositories.resolve(source, ANONYMOUS) == commit
    server.trickle = 0.0001
    with pytest.raises(SourceUnavailable, match="git fetch took longer than 2 s"):
        repositories.snapshot(source, ANONYMOUS, commit)
    assert not leftovers(folder)
    server.trickle = 0.0
    assert repositories.snapshot(source, ANONYMOUS, commit).commit.id == commit


FETCH = """
import sys
from pathlib import Path
from gitsync.objects.application import GitSource
from gitsync.ports import Credentials
from gitsync.source.remote import Transport
from gitsync.source.repositories import Repositories
repositories = Repositories(Path(sys.argv[1]), Transport(("http",)))
repositories.snapshot(GitSource(repo_url=sys.argv[2]), Credentials(), sys.argv[3])
"""


def test_a_killed_controller_leaves_no_git_process_and_the_next_one_no_file(
    repo: GitRepo, folder: Path, server: GitServer
) -> None:
    commit = repo.commit({"a.yaml": "1", "big": os.urandom(200_000)})
    url = server.url("origin.git")
    server.trickle = 0.001
    with child_process([sys.executable, "-c", FETCH, str(folder), url, commit]):  # killed at the end of the block
        until(lambda: list(folder.glob("*/gitsync-incoming")) and len(processes_with(str(folder))) > 3, 60)
    until(lambda: not processes_with(str(folder)), 5, lambda: processes_with(str(folder)))
    server.trickle = 0.0
    assert leftovers(folder)
    assert read(folder, GitSource(repo_url=url)) == (commit, b"1")
    assert not leftovers(folder)


def test_the_pack_limit_is_named(repo: GitRepo, folder: Path) -> None:
    repo.commit({"a.yaml": "1", **{f"{index}": os.urandom(300) for index in range(200)}})
    with pytest.raises(SourceUnavailable, match="more than the limit of 20000 bytes"):
        read(folder, GitSource(repo_url=repo.url), SourceLimits(pack_bytes=20_000))
    assert not leftovers(folder)


def test_a_full_disk_is_an_error_with_a_fix_and_ends_by_itself(repo: GitRepo, tmp_path: Path) -> None:
    commit = repo.commit({"a.yaml": "1"})
    with small_disk(tmp_path / "disk") as disk:
        folder = disk / "mirrors"
        Repositories(folder, Transport(("http",)))
        filler = fill(disk)
        with pytest.raises(
            SourceUnavailable, match=r"cannot be written: No space left on device; free space.*GITSYNC_DATA"
        ):
            read(folder, GitSource(repo_url=repo.url))
        filler.unlink()
        assert read(folder, GitSource(repo_url=repo.url)) == (commit, b"1")


def test_a_data_folder_that_cannot_be_written_is_an_error_of_the_source(repo: GitRepo, folder: Path) -> None:
    repo.commit({"a.yaml": "1"})
    repositories = Repositories(folder, Transport(("http",)))
    shutil.rmtree(folder)
    folder.touch()
    with pytest.raises(SourceUnavailable, match="the mirror of the repository cannot be written"):
        repositories.resolve(GitSource(repo_url=repo.url), ANONYMOUS)


def test_a_branch_that_is_deleted_is_reported_as_absent(repo: GitRepo, folder: Path) -> None:
    repo.commit({"a.yaml": "1"})
    git(repo.work, "push", "-q", "origin", "HEAD:refs/heads/side")
    source = GitSource(repo_url=repo.url, revision="side")
    repositories = Repositories(folder, Transport(("http",)))
    commit = repositories.resolve(source, ANONYMOUS)
    git(repo.work, "push", "-q", "origin", ":refs/heads/side")
    began = time.monotonic()
    with pytest.raises(InvalidInput, match="does not exist"):
        repositories.resolve(source, ANONYMOUS)
    assert time.monotonic() - began < 60
    assert commit
