"""
Render again after a commit that changes one file of many: ``python -m bench.rerender [COUNT ...]``.

The trees are those of ``bench.render``, in a Git repository. Two figures, each the best of some commits (what else
the machine does only ever adds), and beside each that of the first commit, of which nothing was known:

- the build itself, in this process, from the open tree of the commit to all its manifests;
- the controller's whole step, from a commit that was fetched to what it declares: which paths differ, the list of its
  files, the request to a render process and its answer, and each object placed and marked. The first one starts the
  process.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from bench.render import make_tree
from gitsync.objects.application import parse_application
from gitsync.plan.normalize import PreparedObject, desired_objects
from gitsync.ports import Credentials
from gitsync.render.build import build
from gitsync.render.kustomize.files import ParseCache
from gitsync.source.remote import Transport
from gitsync.source.repositories import Repositories
from gitsync.source.snapshot import GitTree
from gitsync.workers.pool import RenderPool

COUNTS = (1000, 5000)
_COMMITS = 7
_GIT: Final = ("git", "-c", "user.name=bench", "-c", "user.email=bench@example.com")


class Repository:
    """A repository of one tree."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folder = folder
        folder.mkdir()
        make_tree(folder, count)
        self._git("init", "-q", "-b", "main")
        self._git("add", ".")
        self._git("commit", "-q", "-m", "Start")

    def _git(self, *arguments: str) -> str:
        env = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        done = subprocess.run([*_GIT, *arguments], cwd=self.folder, env=env, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def commits(self) -> Iterator[str]:
        """Yield the commit there is, and others that each change one file."""
        yield self._git("rev-parse", "HEAD")
        changed = self.folder / "base" / "app-0.yaml"
        for number in range(_COMMITS):
            changed.write_text(changed.read_text().replace("LEVEL: ", f"LEVEL: l{number}"))
            self._git("commit", "-q", "-a", "-m", "Change")
            yield self._git("rev-parse", "HEAD")


def build_again(repository: Repository) -> tuple[float, float]:
    """Return the seconds of the first build, and of one after one file changed."""
    cache, seconds = ParseCache(), []
    gc.disable()  # as in a render process
    for commit in repository.commits():
        tree = GitTree(repository.folder / ".git", commit)
        seconds.append(_seconds(lambda tree=tree: build(tree, "over", cache=cache)))  # type: ignore[misc]
        tree.close()
    gc.enable()
    return seconds[0], min(seconds[1:])


def declare_again(repository: Repository, mirrors: Path) -> tuple[float, float]:
    """Return the seconds of the controller's step for the first commit, and for one after it."""
    source = {"repoURL": f"file://{repository.folder}", "path": "over"}
    spec = {"source": source, "destination": {"namespace": "bench"}}
    app = parse_application({"metadata": {"name": "bench", "namespace": "gitsync"}, "spec": spec})
    repositories, pool = Repositories(mirrors, Transport(("file",))), RenderPool(1, 60, 1024)
    placed: dict[int, PreparedObject] = {}
    seconds, before = [], ""

    def step(before: str, commit: str) -> None:
        if before:
            repositories.changed_paths(app.source, before, commit)
        snapshot = repositories.snapshot(app.source, Credentials(), commit)
        made = pool.render(snapshot, app.source.path, app.source.renderer)
        desired_objects(app, made.manifests, lambda _: True, placed)

    for commit in repository.commits():
        repositories.snapshot(app.source, Credentials(), commit)  # fetched
        seconds.append(_seconds(lambda before=before, commit=commit: step(before, commit)))  # type: ignore[misc]
        before = commit
    pool.close()
    return seconds[0], min(seconds[1:])


def _seconds(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def main(counts: Sequence[int] = COUNTS) -> None:
    for count in counts:
        with tempfile.TemporaryDirectory() as folder:
            repository = Repository(Path(folder) / "repository", count)
            built, built_again = build_again(repository)
            declared, declared_again = declare_again(repository, Path(folder) / "mirrors")
            print(
                f"{count:>5} resources, one file changed: build {built_again * 1000:.0f} ms "
                f"(first {built * 1000:.0f}); from commit to declared objects {declared_again * 1000:.0f} ms "
                f"(first {declared * 1000:.0f})"
            )


if __name__ == "__main__":
    main([int(count) for count in sys.argv[1:]] or COUNTS)
