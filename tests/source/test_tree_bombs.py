"""A few objects can be a tree of 10^11 files or folders; every walk over one ends, with a clear error."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitsync.applicationsets.generators import find
from gitsync.applicationsets.model import Directory
from gitsync.errors import InvalidInput
from gitsync.objects.tree import Entry
from gitsync.preview.roots import find_roots
from gitsync.source.object_reader import ObjectReader, changed_paths
from gitsync.source.snapshot import GitTree
from tests.git_repository import git

LEVELS = 11


@pytest.fixture(params=["files", "empty folders"])
def bomb(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str, str]:
    """Return a repository, a small commit, and its child with a tree of 10 subfolders at each of 11 levels."""
    git_dir = tmp_path / "bomb.git"
    git(tmp_path, "init", "-q", "--bare", str(git_dir))

    def write(*arguments: str, stdin: str = "") -> str:
        return git(git_dir, *arguments, stdin=stdin.encode())

    blob = write("hash-object", "-w", "--stdin", stdin="kind: ConfigMap\n")
    leaves = "".join(f"100644 blob {blob}\tf{n}.yaml\n" for n in range(10)) if request.param == "files" else ""
    tree = write("mktree", stdin=leaves)
    small = write("commit-tree", write("mktree", stdin=f"100644 blob {blob}\tREADME\n"), "-m", "Small")
    for _ in range(LEVELS):
        tree = write("mktree", stdin="".join(f"040000 tree {tree}\td{n}\n" for n in range(10)))
    return git_dir, small, write("commit-tree", tree, "-p", small, "-m", "Bomb")


def test_the_size_of_a_path_is_checked_up_to_the_limit(bomb: tuple[Path, str, str]) -> None:
    tree = GitTree(bomb[0], bomb[2])
    with pytest.raises(InvalidInput, match="too many files or folders: more than 20000"):
        tree.check_size("")
    tree.close()


def test_too_many_changed_paths_are_not_listed(bomb: tuple[Path, str, str]) -> None:
    git_dir, small, large = bomb
    reader = ObjectReader(git_dir)
    assert changed_paths(reader, small, large) is None
    reader.close()


@pytest.mark.parametrize("pattern", ["**/x", "**/**/**/x", "*/*/*/*/*/*/*/*/x"])
def test_a_pattern_of_a_set_searches_up_to_a_limit(bomb: tuple[Path, str, str], pattern: str) -> None:
    tree = GitTree(bomb[0], bomb[2])
    with pytest.raises(InvalidInput, match="searches more than 200000 files and folders"):
        find(tree, [Directory(path=pattern)], Entry.FOLDER)
    tree.close()


def test_a_preview_searches_up_to_a_limit(bomb: tuple[Path, str, str]) -> None:
    tree = GitTree(bomb[0], bomb[2])
    with pytest.raises(InvalidInput, match="more than 200000 files and folders"):
        find_roots(tree, lambda url: True)
    tree.close()
