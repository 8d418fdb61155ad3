from __future__ import annotations

from pathlib import Path

import pytest

from gitsync.errors import InvalidInput
from gitsync.objects.tree import Entry
from gitsync.source.snapshot import GitTree, MeteredTree
from gitsync.workers.tree_cache import TreeCache
from tests.git_repository import GitRepo


def test_a_build_may_read_only_so_much(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path)
    tree = GitTree(repo.origin, repo.commit({"a/x": "1" * 60, "a/y": "2" * 60}))
    metered = MeteredTree(tree, 100)
    assert metered.entry("a") is Entry.FOLDER
    assert metered.names("a") == ("x", "y")
    assert metered.blob_id("a/x") == tree.blob_id("a/x")
    assert metered.read("a/x") == b"1" * 60
    with pytest.raises(InvalidInput, match="a/y: the files read exceed the limit"):
        metered.read("a/y")
    assert MeteredTree(tree, 100).read("a/y") == b"2" * 60
    tree.close()


def test_the_tree_follows_the_commit(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path)
    before, after = repo.commit({"x": "old"}), repo.commit({"x": "new"})
    trees = TreeCache()
    read = [trees.open(str(repo.origin), commit, 1 << 20).read("x") for commit in (before, before, after, before)]
    assert read == [b"old", b"old", b"new", b"old"]
