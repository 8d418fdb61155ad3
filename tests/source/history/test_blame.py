"""Who wrote a line: real git, in the mirror of a real repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitsync.objects.application import GitSource
from gitsync.ports import Credentials
from gitsync.source.history import blame
from gitsync.source.repositories import Repositories
from tests.git_repository import GitRepo

ODD = "app/-L 1,ü:2 \udcff.yaml"


@pytest.fixture
def repo(tmp_path: Path) -> GitRepo:
    return GitRepo(tmp_path / "git")


def blamed(tmp_path: Path, repo: GitRepo, commit: str, *places: str) -> dict[str, str]:
    repositories = Repositories(tmp_path / "mirrors", schemes=("file",))
    source = GitSource(repo_url=repo.url, revision="main", path="app")
    repositories.fetch(source, Credentials(), commit)
    return {place: author.id for place, author in repositories.blame(source, commit, places).items()}


def test_each_line_names_the_commit_that_wrote_it_last(tmp_path: Path, repo: GitRepo) -> None:
    first = repo.commit({"app/a.yaml": "a: 1\nb: 1\nc: 1\n", ODD: "a: 1\n"})
    second = repo.commit({"app/a.yaml": "a: 1\nb: 2\nc: 1\n"})
    moved = repo.commit({"app/a.yaml": None, "app/moved.yaml": "a: 1\nb: 2\nc: 1\nd: 1\n"})

    at_second = blamed(tmp_path, repo, second, "app/a.yaml:1", "app/a.yaml:2", "app/a.yaml:3", f"{ODD}:1")
    assert at_second == {"app/a.yaml:1": first, "app/a.yaml:2": second, "app/a.yaml:3": first, f"{ODD}:1": first}
    assert blamed(tmp_path, repo, moved, "app/moved.yaml:2", "app/moved.yaml:4") == {
        "app/moved.yaml:2": second,
        "app/moved.yaml:4": moved,
    }


@pytest.mark.parametrize(
    "place",
    ["gone.yaml:1", "app/a.yaml:9", "app/a.yaml:0", "app/a.yaml", "app:1", "--contents=/etc/passwd:1", ":1", ""],
)
def test_what_is_not_a_line_of_the_commit_is_left_out(tmp_path: Path, repo: GitRepo, place: str) -> None:
    commit = repo.commit({"app/a.yaml": "a: 1\n", "app/b.yaml": "b: 1\n"})
    assert blamed(tmp_path, repo, commit, place, "app/b.yaml:1") == {"app/b.yaml:1": commit}


def test_a_commit_that_is_no_id_is_asked_nothing(tmp_path: Path, repo: GitRepo) -> None:
    commit = repo.commit({"app/a.yaml": "a: 1\n"})
    repositories = Repositories(tmp_path / "mirrors", schemes=("file",))
    source = GitSource(repo_url=repo.url, revision="main", path="app")
    repositories.fetch(source, Credentials(), commit)
    assert repositories.blame(source, "--help", ["app/a.yaml:1"]) == {}


def test_histories_that_take_too_long_are_left_out(
    tmp_path: Path, repo: GitRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = repo.commit({"app/a.yaml": "a: 1\n"})
    monkeypatch.setattr(blame, "_SECONDS", 1e-9)
    assert blamed(tmp_path, repo, commit, "app/a.yaml:1") == {}
