from __future__ import annotations

from gitsync.sync.polling.branches import PathIndex, reads


def test_a_changed_path_affects_those_who_read_it_or_a_folder_above_it() -> None:
    index = PathIndex()
    index.set("file", frozenset({"a/b/c.yaml", "a/b"}))
    index.set("folder", frozenset({"a/b/"}))
    index.set("root", frozenset({"/"}))
    index.set("absent", frozenset({"a/b/kustomization.yaml"}))
    assert index.affected(["a/b/c.yaml"]) == {"file", "folder", "root"}
    assert index.affected(["a/b/new.yaml"]) == {"folder", "root"}
    assert index.affected(["a/b/kustomization.yaml"]) == {"folder", "root", "absent"}
    assert index.affected(["other"]) == {"root"}
    assert index.affected([]) == frozenset()


def test_only_what_was_read_last_counts() -> None:
    index = PathIndex()
    index.set("shop", frozenset({"a", "b"}))
    index.set("shop", frozenset({"b", "c"}))
    assert [index.affected([path]) for path in "abc"] == [frozenset(), {"shop"}, {"shop"}]
    assert "shop" in index
    index.remove("shop")
    assert "shop" not in index
    assert index.affected("abc") == frozenset()


def test_a_new_file_at_the_root_changes_what_lists_the_root() -> None:
    assert reads(frozenset({"/"}), ["new.yaml"])
    assert reads(frozenset({"a/"}), ["a/b/new.yaml"])
    assert not reads(frozenset({"a", "a/x"}), ["a/b", "b"])
