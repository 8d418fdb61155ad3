"""Each call of the port against the APIs of Gitea and GitHub, over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gitsync.errors import InvalidInput, SourceDenied, SourceThrottled, SourceUnavailable
from gitsync.objects.application import GitSource
from gitsync.ports import Credentials
from gitsync.ports.hosts import (
    CodeHost,
    CommitState,
    CommitStatus,
    NewPullRequest,
    Permission,
    PullRequestState,
)
from gitsync.source.hosts.opening import ApiHosts
from gitsync.source.remote import Transport
from tests.fakes.code_host import REPOSITORY, HostServer, code_host

MARKER = "<!-- gitsync preview -->"
STATUS = CommitStatus("gitsync/preview", CommitState.FAILURE, "cannot\nbe built" + "x" * 200, "https://gitsync/pr/1")


@pytest.fixture(params=["Gitea", "GitHub"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(kind: str) -> Iterator[HostServer]:
    with code_host(HostServer(page_size=50 if kind == "Gitea" else 100)) as serving:
        yield serving


@pytest.fixture
def host(kind: str, server: HostServer) -> CodeHost:
    return opened(kind, server)


TOKEN = Credentials(password="TOKEN")


def opened(kind: str, server: HostServer, credentials: Credentials = TOKEN) -> CodeHost:
    return ApiHosts(Transport(("http",))).host_of(GitSource(repo_url=f"{server.base}/{REPOSITORY}"), kind, credentials)


def test_open_pull_requests_are_listed_over_all_pages(host: CodeHost, server: HostServer) -> None:
    for number in range(1, 204):
        server.add(number)
    server.add(203, state="closed")
    listed = host.pull_requests()
    assert {item.number for item in listed} == set(range(1, 203))
    first = next(item for item in listed if item.number == 7)
    assert (first.title, first.author, first.base_branch, first.head_branch) == ("Change 7", "ada", "main", "change/7")
    assert first.head == f"{7:040x}"
    assert not first.is_fork


def test_what_was_updated_since_costs_one_request(host: CodeHost, server: HostServer) -> None:
    for number in range(1, 201):
        server.add(number)
    newest = max(item.updated for item in host.pull_requests())
    server.add(3, "f" * 40)
    server.add(4, state="closed", merged_at="2026-11-25T01:00:00Z", merge_commit_sha="a" * 40)
    server.requests.clear()
    changed = {item.number: item for item in host.pull_requests(newest)}
    assert len(server.requests) == 1
    assert set(changed) == {200, 3, 4}
    assert changed[3].head == "f" * 40
    assert (changed[4].state, changed[4].merge_commit) == (PullRequestState.MERGED, "a" * 40)


def test_the_newest_review_of_each_user_counts(host: CodeHost, server: HostServer) -> None:
    states = ("APPROVED", "COMMENT", "CHANGES_REQUESTED", "APPROVED", "DISMISSED", "PENDING")
    logins = ("ada", "ada", "bob", "bob", "cy", "di")
    server.reviews[1] = [
        {"user": {"login": login}, "state": state, "commit_id": f"{index:040x}"}
        for index, (login, state) in enumerate(zip(logins, states, strict=True))
    ]
    server.reviews[1].append({"user": None, "state": "APPROVED", "commit_id": "a" * 40})
    listed = {review.login: (review.approves, review.commit) for review in host.reviews(1)}
    assert listed == {"ada": (True, f"{0:040x}"), "bob": (True, f"{3:040x}"), "cy": (False, f"{4:040x}")}
    assert host.reviews(2) == ()


def test_an_unchanged_list_is_answered_without_a_body(host: CodeHost, server: HostServer) -> None:
    server.add(1)
    newest = host.pull_requests()[0].updated
    assert [item.number for item in host.pull_requests(newest)] == [1]
    # the host answered 304, which costs nothing of GitHub's limit
    assert host.pull_requests(newest) == []
    server.add(2)
    assert {item.number for item in host.pull_requests(newest)} == {1, 2}


def test_a_fork_and_a_deleted_fork_are_told(host: CodeHost, server: HostServer) -> None:
    server.add(1, head={"ref": "main", "sha": "b" * 40, "repo": {"full_name": "eve/shop"}})
    server.add(2, head={"ref": "main", "sha": "c" * 40, "repo": None}, user=None)
    assert [item.is_fork for item in host.pull_requests()] == [True, True]
    assert host.pull_request(2).author == "ghost"


def test_a_status_has_one_short_line(host: CodeHost, server: HostServer) -> None:
    host.set_status("d" * 40, STATUS)
    [status] = server.statuses["d" * 40]
    assert (status["context"], status["state"]) == ("gitsync/preview", "failure")
    assert status["target_url"] == "https://gitsync/pr/1"
    assert "\n" not in status["description"]
    assert len(status["description"]) == 140


def test_the_one_comment_is_updated_in_place(kind: str, host: CodeHost, server: HostServer) -> None:
    server.comments[1] = [{"id": 1, "user": {"login": "eve"}, "body": f"{MARKER}\nall is well"}]
    host.comment(1, f"{MARKER}\nfirst", MARKER)
    host.comment(1, f"{MARKER}\nsecond", MARKER)
    # after a restart it is found again, and the one of another user is left alone
    opened(kind, server).comment(1, f"{MARKER}\nthird", MARKER)
    assert [item["body"].split("\n")[1] for item in server.comments[1]] == ["all is well", "third"]


def test_a_comment_that_was_deleted_is_created_again(host: CodeHost, server: HostServer) -> None:
    host.comment(1, f"{MARKER}\nfirst", MARKER)
    server.comments[1].clear()
    host.comment(1, f"{MARKER}\nsecond", MARKER)
    assert [item["body"] for item in server.comments[1]] == [f"{MARKER}\nsecond"]


def test_a_pull_request_is_opened(host: CodeHost, server: HostServer) -> None:
    made = host.open_pull_request(NewPullRequest("keep/shop", "main", "Keep 5 replicas", "by kubectl"))
    assert (made.title, made.base_branch, made.state) == ("Keep 5 replicas", "main", PullRequestState.OPEN)
    assert server.pulls[made.number]["body"] == "by kubectl"


def test_a_pull_request_is_closed(host: CodeHost, server: HostServer) -> None:
    server.add(1)
    host.close_pull_request(1)
    assert (host.pull_requests(), host.pull_request(1).state) == ([], PullRequestState.CLOSED)


def test_gitea_lists_a_new_branch_a_moment_later(monkeypatch: pytest.MonkeyPatch) -> None:
    delays: list[float] = []
    with code_host(HostServer()) as server:
        known = server.answer
        server.answer = lambda method, target, body: (  # type: ignore[method-assign]
            (404, {"message": "not found"}) if len(delays) < 2 else known(method, target, body)
        )
        monkeypatch.setattr("gitsync.source.hosts.rest.time.sleep", delays.append)
        made = opened("Gitea", server).open_pull_request(NewPullRequest("keep/shop", "main", "Keep", ""))
    assert made.title == "Keep"
    assert len(delays) == 2


@pytest.mark.parametrize(
    ("text", "permission"),
    [("owner", Permission.ADMIN), ("admin", Permission.ADMIN), ("write", Permission.WRITE), ("read", Permission.READ)],
)
def test_a_permission_is_one_of_four(host: CodeHost, server: HostServer, text: str, permission: Permission) -> None:
    server.permissions["ada/../.."] = text
    server.permissions["ada"] = text
    assert host.permission("ada") is permission
    assert host.permission("eve") is Permission.NONE


@pytest.mark.parametrize(
    ("failure", "limits", "error", "text"),
    [
        (401, {}, SourceDenied, "answers 401 .*: the host\\\\nfails; give the token"),
        (403, {}, SourceDenied, "answers 403"),
        (429, {"Retry-After": "7"}, SourceThrottled, "answers 429"),
        (403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "99999999999"}, SourceThrottled, "answers 403"),
        (301, {"Location": "http://127.0.0.1:1/"}, InvalidInput, "answers 301 .*set spec.source.repoURL"),
        (422, {}, InvalidInput, "answers 422"),
        (502, {}, SourceUnavailable, "answers 502"),
    ],
)
def test_a_failure_is_reported_in_the_words_of_the_host(
    host: CodeHost, server: HostServer, failure: int, limits: dict[str, str], error: type[Exception], text: str
) -> None:
    server.failure = failure
    server.limits = limits
    with pytest.raises(error, match=text) as raised:
        host.pull_requests()
    if isinstance(raised.value, SourceThrottled):
        assert raised.value.retry_after == (7.0 if "Retry-After" in limits else 3600.0)
    assert "TOKEN" not in str(raised.value)


def test_the_token_of_the_secret_goes_before_the_password(kind: str, server: HostServer) -> None:
    server.add(1)
    ssh = Credentials(ssh_key="KEY", password="of git", token="TOKEN")
    assert len(opened(kind, server, ssh).pull_requests()) == 1


def test_a_host_that_cannot_be_reached_is_tried_again(kind: str) -> None:
    nowhere = ApiHosts(Transport(("http",))).host_of(
        GitSource(repo_url="http://127.0.0.1:9/team/shop"), kind, Credentials()
    )
    with pytest.raises(SourceUnavailable, match="cannot be reached"):
        nowhere.pull_requests()
