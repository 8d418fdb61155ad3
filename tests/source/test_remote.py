"""Requests to Git servers are counted by host, operation and outcome."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from gitsync.errors import SourceUnavailable
from gitsync.objects.application import GitSource
from gitsync.ports import Credentials
from gitsync.source.remote import Transport, host_of
from gitsync.source.repositories import Repositories
from tests.git_repository import GitRepo


def requests(operation: str, outcome: str) -> float:
    labels = {"host": "file", "operation": operation, "outcome": outcome}
    return REGISTRY.get_sample_value("gitsync_git_requests_total", labels) or 0.0


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://ada@git.example.com:8443/shop.git", "git.example.com"),
        ("https://GIT.example.com/shop.git", "git.example.com"),
        ("ssh://git@git.example.com/shop.git", "git.example.com"),
        ("git@git.example.com:team/shop.git", "git.example.com"),
        ("file:///srv/shop.git", "file"),
    ],
)
def test_a_host_has_neither_user_nor_path(url: str, host: str) -> None:
    assert host_of(url) == host


def test_polls_and_fetches_are_counted_with_their_outcome(tmp_path: Path) -> None:
    repo, anonymous = GitRepo(tmp_path / "git"), Credentials()
    commit = repo.commit({"app/a.yaml": "a: 1\n"})
    repositories = Repositories(tmp_path / "mirrors", Transport(("file",)))
    source = GitSource(repo_url=repo.url, revision="main", path="app")
    counts = (("ls-remote", "Succeeded"), ("fetch", "Succeeded"), ("ls-remote", "Failed"))
    before = [requests(*one) for one in counts]
    assert repositories.resolve(source, anonymous) == commit
    repositories.snapshot(source, anonymous, commit)
    with pytest.raises(SourceUnavailable):
        repositories.resolve(GitSource(repo_url=f"{repo.url}-absent", revision="main", path="app"), anonymous)
    assert [requests(*one) - was for one, was in zip(counts, before, strict=True)] == [1, 1, 1]
    assert repositories.opened() == 2
    repositories.close()
