"""A mirror is one process's at a time: the command line works beside the controller on the same folder."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gitsync.objects.application import GitSource
from gitsync.ports import Credentials
from gitsync.source.lock import FolderLock
from gitsync.source.repositories import Repositories
from tests.git_repository import GitRepo

HOLD = """
import sys
from pathlib import Path
from gitsync.source.lock import FolderLock
with FolderLock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_another_process_waits_until_the_folder_is_let_go(tmp_path: Path) -> None:
    file = tmp_path / "new" / "a.lock"
    entered = threading.Event()
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"

    def enter() -> None:
        with FolderLock(file):
            entered.set()

    waiting = threading.Thread(target=enter, daemon=True)
    waiting.start()
    assert not entered.wait(0.3)
    holder.communicate()
    assert entered.wait(10)
    waiting.join()


def test_the_same_thread_enters_again_and_others_follow(tmp_path: Path) -> None:
    lock, inside, most = FolderLock(tmp_path / "a.lock"), [], []

    def enter(number: int) -> None:
        with lock, lock:
            inside.append(number)
            most.append(len(inside))
            inside.remove(number)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(enter, range(50)))
    assert (len(most), max(most)) == (50, 1)


def test_two_processes_may_fetch_the_same_commits(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "git")
    source = GitSource(repo.url, path="a")
    both = [Repositories(tmp_path / "mirrors", schemes=("file",)) for _ in range(2)]  # neither knows of the other
    with ThreadPoolExecutor(4) as pool:
        for number in range(10):
            commit = repo.commit({"a/b.yaml": f"a: {number}\n"})

            def look(repositories: Repositories, commit: str = commit) -> bytes:
                found = repositories.resolve(source, Credentials())
                assert found == commit
                return repositories.snapshot(source, Credentials(), found).tree.read("a/b.yaml")

            assert set(pool.map(look, both * 2)) == {b"a: %d\n" % number}
