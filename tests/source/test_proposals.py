"""The result of a merge, read without a work tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitsync.errors import InvalidInput, Refused
from gitsync.source.proposals import LocalRepository, merge
from tests.git_repository import GitRepo, git


@pytest.fixture
def repo(tmp_path: Path) -> GitRepo:
    made = GitRepo(tmp_path)
    made.commit({"a.txt": "1\n2\n3\n", "b.txt": "b\n"}, "Base")
    git(made.work, "checkout", "-q", "-b", "change")
    made.commit({"a.txt": "1\n2\nthree\n"}, "Change the third line", push=False)
    git(made.work, "checkout", "-q", "main")
    return made


def test_a_merge_has_what_both_sides_changed(repo: GitRepo) -> None:
    repo.commit({"b.txt": "B\n"}, "Change another file")
    local = LocalRepository(repo.work)
    merged = merge(local, local.commit("main"), local.commit("change"))
    tree = local.tree(merged.commit)

    assert (tree.read("a.txt"), tree.read("b.txt")) == (b"1\n2\nthree\n", b"B\n")
    assert merged.changed == {"a.txt"}
    assert git(repo.work, "status", "--porcelain") == ""
    assert "Preview" not in git(repo.work, "log", "--all", "--format=%s")
    tree.close()


def test_a_conflict_names_the_files(repo: GitRepo) -> None:
    repo.commit({"a.txt": "1\n2\nTHREE\n"}, "Change the same line")
    local = LocalRepository(repo.work)

    with pytest.raises(Refused, match=r"conflict in a\.txt"):
        merge(local, local.commit("main"), local.commit("change"))


def test_lines_have_the_commit_that_wrote_them(repo: GitRepo) -> None:
    local = LocalRepository(repo.work)
    merged = merge(local, local.commit("main"), local.commit("change"))
    authors = local.authors(merged.commit, {"a.txt:1", "a.txt:3"})

    assert {place: commit.subject for place, commit in authors.items()} == {
        "a.txt:1": "Base",
        "a.txt:3": "Change the third line",
    }


def test_what_is_staged_is_compared_with_the_commit(repo: GitRepo) -> None:
    (repo.work / "b.txt").write_text("staged\n")
    git(repo.work, "add", "b.txt")
    (repo.work / "a.txt").write_text("not staged\n")
    local = LocalRepository(repo.work)
    merged = local.staged()
    tree = local.tree(merged.commit)

    assert merged.changed == {"b.txt"}
    assert tree.read("b.txt") == b"staged\n"
    tree.close()


def test_histories_that_share_nothing_are_refused_with_a_hint(repo: GitRepo) -> None:
    git(repo.work, "checkout", "-q", "--orphan", "alone")
    git(repo.work, "commit", "-q", "-m", "Alone")
    local = LocalRepository(repo.work)

    with pytest.raises(InvalidInput, match="share no history") as caught:
        merge(local, local.commit("main"), local.commit("alone"))
    assert "fetch-depth: 0" in caught.value.hint


def test_a_folder_outside_of_git_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="not inside a Git repository"):
        LocalRepository(tmp_path)


@pytest.mark.parametrize("revision", ["absent", "--help", "main:a.txt", "main^{tree}", ""])
def test_what_names_no_commit_is_refused(repo: GitRepo, revision: str) -> None:
    with pytest.raises(InvalidInput, match="not found"):
        LocalRepository(repo.work).commit(revision)


def test_a_merge_driver_of_the_change_does_not_run(repo: GitRepo, tmp_path: Path) -> None:
    git(repo.work, "config", "merge.own.driver", f"touch {tmp_path / 'ran'}; false")
    repo.commit({".gitattributes": "*.txt merge=own\n", "a.txt": "one\n2\n3\n"}, "Change the first line")
    local = LocalRepository(repo.work)
    merged = merge(local, local.commit("main"), local.commit("change"))
    tree = local.tree(merged.commit)

    assert not (tmp_path / "ran").exists()
    assert tree.read("a.txt") == b"one\n2\nthree\n"
    tree.close()
