"""What the history of a mirror tells of files: real git, in the mirror of a real repository."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from gitsync.objects.application import GitSource
from gitsync.ports import Credentials, FileVersion
from gitsync.source import history
from gitsync.source.remote import Transport
from gitsync.source.repositories import Repositories
from tests.git_repository import GitRepo, git

ODD = "app/-L 1,ü:2 \udcff.yaml"
ODD_PROMPT = "app/-L 1,ü:2 *\udcff.md"


@pytest.fixture
def repo(tmp_path: Path) -> GitRepo:
    return GitRepo(tmp_path / "git")


def blamed(tmp_path: Path, repo: GitRepo, commit: str, *places: str) -> dict[str, str]:
    repositories = Repositories(tmp_path / "mirrors", Transport(("file",)))
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


def test_no_line_is_blamed_on_a_commit_that_is_not_an_id(tmp_path: Path, repo: GitRepo) -> None:
    commit = repo.commit({"app/a.yaml": "a: 1\n"})
    repositories = Repositories(tmp_path / "mirrors", Transport(("file",)))
    source = GitSource(repo_url=repo.url, revision="main", path="app")
    repositories.fetch(source, Credentials(), commit)
    assert repositories.blame(source, "--help", ["app/a.yaml:1"]) == {}


def test_histories_that_take_too_long_are_left_out(
    tmp_path: Path, repo: GitRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = repo.commit({"app/a.yaml": "a: 1\n"})
    monkeypatch.setattr(history, "_BLAME_SECONDS", 1e-9)
    assert blamed(tmp_path, repo, commit, "app/a.yaml:1") == {}


def versions(tmp_path: Path, repo: GitRepo, commit: str, file: str) -> list[tuple[str, bytes]]:
    repositories = Repositories(tmp_path / "mirrors", Transport(("file",)))
    source = GitSource(repo_url=repo.url, revision="main", path="app")
    repositories.fetch(source, Credentials(), commit)
    found: tuple[FileVersion, ...] = repositories.file_versions(source, commit, [file]).get(file, ())
    repositories.close()
    return [(one.commit.id, one.content) for one in found]


def test_each_commit_that_changed_a_file_is_listed_with_its_content(tmp_path: Path, repo: GitRepo) -> None:
    first = repo.commit({"app/prompt.md": "Be kind.\n", ODD_PROMPT: "1", "app/-L 1,ü:2 x\udcff.md": "no"})
    repo.commit({"app/other.md": "Other.\n"})
    gone = repo.commit({"app/prompt.md": None})
    back = repo.commit({"app/prompt.md": "Be brief.\n"})
    later = repo.commit({"app/prompt.md": "Be late.\n"})

    assert versions(tmp_path, repo, back, "app/prompt.md") == [(back, b"Be brief.\n"), (first, b"Be kind.\n")]
    assert versions(tmp_path, repo, later, "app/prompt.md")[0] == (later, b"Be late.\n")
    assert versions(tmp_path, repo, later, ODD_PROMPT) == [(first, b"1")]
    assert versions(tmp_path, repo, gone, "app/gone.md") == []


def test_a_renamed_file_has_the_versions_of_its_former_name(tmp_path: Path, repo: GitRepo) -> None:
    text = "".join(f"Rule {number}.\n" for number in range(20))
    first = repo.commit({"app/prompt.md": text})
    moved = repo.commit({"app/prompt.md": None, "app/agents/prompt.md": f"{text}Rule 20.\n"})
    assert versions(tmp_path, repo, moved, "app/agents/prompt.md") == [
        (moved, f"{text}Rule 20.\n".encode()),
        (first, text.encode()),
    ]


def test_commits_of_a_merged_branch_are_listed(tmp_path: Path, repo: GitRepo) -> None:
    first = repo.commit({"app/prompt.md": "Be kind.\n"})
    git(repo.work, "checkout", "-q", "-b", "topic")
    topic = repo.commit({"app/prompt.md": "Be brief.\n"}, push=False)
    git(repo.work, "checkout", "-q", "main")
    repo.commit({"app/other.md": "Other.\n"})
    git(repo.work, "merge", "-q", "--no-ff", "-m", "Merge topic", "topic")
    merged = repo.commit({"app/other.md": "Another.\n"})
    assert [id for id, _ in versions(tmp_path, repo, merged, "app/prompt.md")] == [topic, first]


def test_versions_are_limited_in_number_and_size(
    tmp_path: Path, repo: GitRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = [repo.commit({"app/prompt.md": f"Rule {number}.\n"}) for number in range(22)]
    assert [id for id, _ in versions(tmp_path, repo, commits[-1], "app/prompt.md")] == commits[:1:-1]
    monkeypatch.setattr(history, "_BYTES", 8)
    assert [id for id, _ in versions(tmp_path, repo, commits[-1], "app/prompt.md")] == commits[9:1:-1]


@pytest.mark.parametrize("file", ["app", "--output=/tmp/x", ":(exclude)app", "", "../x", "/etc/passwd"])
def test_what_is_not_a_file_of_the_commit_has_no_versions(tmp_path: Path, repo: GitRepo, file: str) -> None:
    commit = repo.commit({"app/link/a.md": "a"}, symlinks={"app/b.md": "link/a.md"})
    assert versions(tmp_path, repo, commit, file) == []
    assert versions(tmp_path, repo, commit, "app/b.md") == []


def test_no_versions_are_read_for_a_commit_that_is_not_an_id(tmp_path: Path, repo: GitRepo) -> None:
    repo.commit({"app/prompt.md": "a"})
    repositories = Repositories(tmp_path / "mirrors", Transport(("file",)))
    source = GitSource(repo_url=repo.url, revision="main", path="app")
    assert repositories.file_versions(source, "--help", ["app/prompt.md"]) == {}


def test_of_a_history_that_takes_too_long_the_newest_part_is_listed(
    tmp_path: Path, repo: GitRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = repo.commit({"app/prompt.md": "Be kind.\n"})
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text(f'#!/bin/sh\n{shutil.which("git")} "$@" || exit\ncase "$*" in *--follow*) sleep 60;; esac\n')
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
    assert versions(tmp_path, repo, commit, "app/prompt.md") == [(commit, b"Be kind.\n")]
    monkeypatch.setattr(history, "_LOG_SECONDS", 0)
    assert versions(tmp_path, repo, commit, "app/prompt.md") == []
