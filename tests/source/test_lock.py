"""A mirror is one process's at a time: the command line works beside the controller on the same folder."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gitsync.objects.application import GitSource
from gitsync.ports import Credentials
from gitsync.source.remote import Transport
from gitsync.source.repositories import Repositories
from tests.child_process import child_process
from tests.git_repository import GitRepo

HOLD = """
import sys
from filelock import FileLock
with FileLock(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_mirror_waits_until_another_process_releases_it(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "git")
    commit = repo.commit({"a/b.yaml": "a: 1\n"})
    source, found = GitSource(repo_url=repo.url, path="a"), threading.Event()
    repositories = Repositories(tmp_path / "mirrors", Transport(("file",)))
    assert repositories.resolve(source, Credentials()) == commit
    (file,) = (tmp_path / "mirrors").glob("*.lock")
    command = [sys.executable, "-c", HOLD, str(file)]
    with child_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"

        def resolve() -> None:
            repositories.resolve(source, Credentials())
            found.set()

        waiting = threading.Thread(target=resolve, daemon=True)
        waiting.start()
        assert not found.wait(0.3)
        holder.communicate()
        assert found.wait(60)
        waiting.join()


def test_two_processes_may_fetch_the_same_commits(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "git")
    source = GitSource(repo_url=repo.url, path="a")
    both = [Repositories(tmp_path / "mirrors", Transport(("file",))) for _ in range(2)]  # neither knows of the other
    with ThreadPoolExecutor(4) as pool:
        for number in range(10):
            commit = repo.commit({"a/b.yaml": f"a: {number}\n"})

            def look(repositories: Repositories, commit: str = commit) -> bytes:
                found = repositories.resolve(source, Credentials())
                assert found == commit
                return repositories.snapshot(source, Credentials(), found).tree.read("a/b.yaml")

            assert set(pool.map(look, both * 2)) == {b"a: %d\n" % number}
