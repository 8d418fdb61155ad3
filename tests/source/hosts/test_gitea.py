"""
The port against a real Gitea or Forgejo: ``GITSYNC_TEST_GITEA`` is its URL with the token of an administrator.

``GITSYNC_TEST_GITEA=https://TOKEN@localhost:3443``, and ``SSL_CERT_FILE`` where its certificate is its own.
"""

from __future__ import annotations

import json
import os
import secrets
import ssl
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from gitsync.errors import SourceDenied, SourceUnavailable
from gitsync.objects.application import GitSource
from gitsync.ports import Credentials
from gitsync.ports.hosts import (
    CodeHost,
    CommitState,
    CommitStatus,
    NewPullRequest,
    Permission,
    PullRequest,
    PullRequestState,
)
from gitsync.source.hosts.opening import ApiHosts
from gitsync.source.remote import Transport
from gitsync.source.repositories import Repositories
from tests.git_repository import GitRepo, git

ADDRESS = os.environ.get("GITSYNC_TEST_GITEA", "")
MARKER = "<!-- gitsync preview -->"
pytestmark = pytest.mark.skipif(not ADDRESS, reason="GITSYNC_TEST_GITEA names no server")


@dataclass
class Server:
    """A repository of its own at the server, and a clone of it."""

    url: str
    token: str
    name: str
    repo: GitRepo

    def api(self, method: str, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(f"{self.url}/api/v1{path}", json.dumps(body).encode(), method=method)
        request.add_header("Authorization", f"token {self.token}")
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, context=ssl.create_default_context()) as answer:
            content = answer.read()
        return json.loads(content) if content else None

    @property
    def source(self) -> GitSource:
        return GitSource(repo_url=f"{self.url}/{self.name}.git")

    def host(self, token: str = "") -> CodeHost:
        return ApiHosts(Transport(("http",))).host_of(self.source, "Gitea", Credentials(password=token or self.token))

    def push(self, branch: str, text: str) -> str:
        git(self.repo.work, "checkout", "-q", "-B", branch, "main")
        commit = self.repo.commit({"a.txt": text}, f"Write {text}", push=False)
        self.git("push", "-q", "-f", "origin", branch)
        git(self.repo.work, "checkout", "-q", "main")
        return commit

    def git(self, *arguments: str) -> str:
        header = f"http.extraHeader=Authorization: token {self.token}"
        return git(
            self.repo.work, "-c", header, "-c", f"http.sslCAInfo={os.environ.get('SSL_CERT_FILE', '')}", *arguments
        )

    def opened(self, branch: str, text: str) -> PullRequest:
        self.push(branch, text)
        return self.host().open_pull_request(NewPullRequest(branch, "main", f"Change {text}", "for a test"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    parts = urlsplit(ADDRESS)
    made = Server(
        f"{parts.scheme}://{parts.hostname}:{parts.port or 443}",
        parts.username or "",
        "",
        GitRepo(tmp_path_factory.mktemp("gitea")),
    )
    login = made.api("GET", "/user")["login"]
    name = f"test-{secrets.token_hex(4)}"
    made.api("POST", "/user/repos", {"name": name, "default_branch": "main"})
    made.name = f"{login}/{name}"
    git(made.repo.work, "remote", "set-url", "origin", made.source.repo_url)
    made.repo.commit({"a.txt": "base"}, "Base", push=False)
    made.git("push", "-q", "origin", "HEAD:main")
    yield made
    made.api("DELETE", f"/repos/{made.name}")


def until(read: Any, wanted: Any) -> Any:
    """Return what is read once it is as wanted: Gitea updates pull requests in the background."""
    end = time.monotonic() + 60
    while (value := read()) != wanted and time.monotonic() < end:
        time.sleep(0.1)
    return value


def test_a_pull_request_is_opened_listed_and_updated(server: Server) -> None:
    opened = server.opened("change/one", "one")
    assert opened.head == server.push("change/one", "one") or opened.state is PullRequestState.OPEN
    host = server.host()
    listed = {pull.number: pull for pull in host.pull_requests()}
    assert (listed[opened.number].base_branch, listed[opened.number].title) == ("main", "Change one")
    since = max(pull.updated for pull in listed.values())
    time.sleep(1.1)  # times of Gitea are in seconds
    head = server.push("change/one", "two")
    # the list by the time of the update shows a push, also one by force
    assert (
        until(lambda: {pull.number: pull.head for pull in host.pull_requests(since)}.get(opened.number), head) == head
    )
    server.api("PATCH", f"/repos/{server.name}/pulls/{opened.number}", {"state": "closed"})
    states = {pull.number: pull.state for pull in host.pull_requests(since)}
    assert states[opened.number] is PullRequestState.CLOSED
    assert opened.number not in {pull.number for pull in host.pull_requests()}


def test_a_pull_request_is_closed_with_a_comment(server: Server) -> None:
    opened = server.opened("change/closed", "closed")
    host = server.host()
    host.comment(opened.number, f"{MARKER}\nnothing is left", MARKER)
    host.close_pull_request(opened.number)
    assert host.pull_request(opened.number).state is PullRequestState.CLOSED


@pytest.mark.parametrize("style", ["merge", "squash", "rebase"])
def test_a_merge_is_seen_with_its_commit(server: Server, style: str) -> None:
    opened = server.opened(f"change/{style}", style)
    git(server.repo.work, "checkout", "-q", "main")
    path = f"/repos/{server.name}/pulls/{opened.number}"
    until(lambda: server.api("GET", path)["mergeable"], True)
    server.api("POST", f"{path}/merge", {"Do": style})
    merged = server.host().pull_request(opened.number)
    assert merged.state is PullRequestState.MERGED
    server.git("pull", "-q", "--rebase", "origin", "main")
    assert git(server.repo.work, "rev-parse", "main") == merged.merge_commit


def test_a_fork_is_previewed_by_the_base_repository_alone(server: Server, tmp_path: Path) -> None:
    name = f"fork-{secrets.token_hex(3)}"
    organization = f"org-{secrets.token_hex(3)}"
    server.api("POST", "/orgs", {"username": organization})
    server.api("POST", f"/repos/{server.name}/forks", {"organization": organization, "name": name})
    git(server.repo.work, "checkout", "-q", "-B", "forked", "main")
    head = server.repo.commit({"fork.txt": "x"}, "Fork", push=False)
    server.git("push", "-q", f"{server.url}/{organization}/{name}.git", "forked")
    git(server.repo.work, "checkout", "-q", "main")
    body = {"head": f"{organization}:forked", "base": "main", "title": "From a fork"}
    number = server.api("POST", f"/repos/{server.name}/pulls", body)["number"]
    pull = server.host().pull_request(number)
    assert (pull.is_fork, pull.head) == (True, head)
    repositories = Repositories(tmp_path / "mirrors")
    base = repositories.resolve(server.source, Credentials(password=server.token))
    merged, snapshot = repositories.merge(
        server.source, Credentials(password=server.token), base, head, ref=f"refs/pull/{number}/head"
    )
    assert merged.changed == {"fork.txt"}
    assert snapshot.tree.read("fork.txt") == b"x"
    repositories.close()
    server.api("DELETE", f"/repos/{organization}/{name}")
    server.api("DELETE", f"/orgs/{organization}")


def test_a_status_is_stored_and_replaced(server: Server) -> None:
    commit = server.push("status", "status")
    host = server.host()
    for state in (CommitState.PENDING, CommitState.FAILURE, CommitState.SUCCESS):
        host.set_status(
            commit, CommitStatus("gitsync/preview", state, f"is {state}" + "x" * 200, "https://example.com/")
        )
    combined = server.api("GET", f"/repos/{server.name}/commits/{commit}/status")
    assert combined["state"] == "success"
    [latest] = [item for item in combined["statuses"] if item["context"] == "gitsync/preview"]
    assert latest["description"].startswith("is success")
    # Gitea answers 500 for it
    with pytest.raises(SourceUnavailable):
        host.set_status("f" * 40, CommitStatus("gitsync/preview", CommitState.SUCCESS, "x"))


def test_one_comment_is_kept_up_to_date(server: Server) -> None:
    opened = server.opened("comment", "comment")
    host = server.host()
    host.comment(opened.number, f"{MARKER}\nfirst", MARKER)
    host.comment(opened.number, f"{MARKER}\nsecond", MARKER)
    server.host().comment(opened.number, f"{MARKER}\nthird", MARKER)
    path = f"/repos/{server.name}/issues/{opened.number}/comments"
    [comment] = server.api("GET", path)
    assert comment["body"] == f"{MARKER}\nthird"
    server.api("DELETE", f"/repos/{server.name}/issues/comments/{comment['id']}")
    host.comment(opened.number, f"{MARKER}\nfourth", MARKER)
    assert [item["body"] for item in server.api("GET", path)] == [f"{MARKER}\nfourth"]


def test_a_permission_is_that_of_the_user(server: Server) -> None:
    host = server.host()
    assert host.permission(server.name.partition("/")[0]) is Permission.ADMIN
    assert host.permission("does-not-exist") is Permission.NONE


def test_a_wrong_token_is_denied(server: Server) -> None:
    with pytest.raises(SourceDenied, match="answers 401"):
        server.host("wrong").pull_requests()


def test_the_review_of_another_user_is_read_with_its_commit(server: Server) -> None:
    opened = server.opened("change/review", "reviewed")
    login = f"reviewer-{secrets.token_hex(3)}"
    password = secrets.token_hex(12) + "aA1!"
    server.api(
        "POST",
        "/admin/users",
        {"username": login, "email": f"{login}@example.com", "password": password, "must_change_password": False},
    )
    server.api("PUT", f"/repos/{server.name}/collaborators/{login}", {"permission": "write"})
    path = f"/repos/{server.name}/pulls/{opened.number}/reviews?sudo={login}"
    assert server.host().reviews(opened.number) == ()
    server.api("POST", path, {"event": "APPROVED", "body": "fine", "commit_id": opened.head})
    [review] = server.host().reviews(opened.number)
    assert (review.login, review.commit, review.approves) == (login, opened.head, True)
    server.api("POST", path, {"event": "REQUEST_CHANGES", "body": "no", "commit_id": opened.head})
    [review] = server.host().reviews(opened.number)
    assert not review.approves
