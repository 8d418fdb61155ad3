"""Each call of the port as a request to GitLab, by the examples of its documentation."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from gitsync.errors import InvalidInput, SourceUnavailable
from gitsync.objects.application import GitSource
from gitsync.ports import Credentials
from gitsync.ports.hosts import CommitState, CommitStatus, NewPullRequest, Permission, PullRequestState
from gitsync.source.hosts.connection import HostResponse, NotFoundAtHost
from gitsync.source.hosts.gitlab import GitLab
from gitsync.source.hosts.opening import ApiHosts

PROJECT = "/projects/team%2Fshop%2Fapi"
MERGE_REQUEST = {
    "id": 901,
    "iid": 1,
    "title": "test1",
    "state": "opened",
    "author": {"id": 1, "username": "admin"},
    "source_branch": "test1",
    "target_branch": "master",
    "source_project_id": 2,
    "target_project_id": 3,
    "sha": "8" * 40,
    "merge_commit_sha": None,
    "squash_commit_sha": None,
    "updated_at": "2017-04-29T08:46:00Z",
    "web_url": "http://gitlab.example.com/team/shop/api/-/merge_requests/1",
    "draft": True,
}


@dataclass
class Connection:
    """Answers by method and path, and what was requested."""

    answers: dict[tuple[str, str], Any] = field(default_factory=dict)
    requests: list[tuple[str, str, Any]] = field(default_factory=list)

    def get(self, path: str, etag: str = "", **query: Any) -> HostResponse:
        self.requests.append(("GET", path, query))
        answer = self._answer("GET", path)
        return HostResponse(None if etag == "same" else answer, "same")

    def send(self, method: str, path: str, body: Any) -> Any:
        self.requests.append((method, path, body))
        return self._answer(method, path)

    def _answer(self, method: str, path: str) -> Any:
        answer = self.answers.get((method, path), {"id": 7})
        if isinstance(answer, Exception):
            raise answer
        return answer


def host(**answers: Any) -> tuple[GitLab, Connection]:
    """Return a host with answers to methods and paths, written as ``GET_/path``."""
    connection = Connection({(*key.split("_", 1),): answer for key, answer in answers.items()})  # type: ignore[misc]
    opened: Any = connection
    return GitLab(opened, "team/shop/api"), connection


def test_open_merge_requests_are_read_with_head_and_fork() -> None:
    gitlab, connection = host(**{f"GET_{PROJECT}/merge_requests": [MERGE_REQUEST]})
    [pull] = gitlab.pull_requests()
    assert (pull.number, pull.author, pull.head, pull.base_branch) == (1, "admin", "8" * 40, "master")
    assert (pull.state, pull.is_fork, pull.is_draft) == (PullRequestState.OPEN, True, True)
    assert pull.ref == "refs/merge-requests/1/head"
    assert connection.requests[0][2]["state"] == "opened"


def test_updates_since_a_time_are_of_any_state_and_conditional() -> None:
    merged = {**MERGE_REQUEST, "state": "merged", "squash_commit_sha": "a" * 40}
    gitlab, connection = host(**{f"GET_{PROJECT}/merge_requests": [merged]})
    since = datetime(2017, 4, 29, tzinfo=UTC)
    [pull] = gitlab.pull_requests(since)
    assert (pull.state, pull.merge_commit) == (PullRequestState.MERGED, "a" * 40)
    assert connection.requests[0][2]["updated_after"] == "2017-04-29T00:00:00+00:00"
    assert gitlab.pull_requests(since) == []


def test_a_status_has_the_words_of_gitlab() -> None:
    gitlab, connection = host()
    gitlab.set_status("d" * 40, CommitStatus("gitsync/preview", CommitState.ERROR, "no\nway", "https://g/pulls/1"))
    body = {
        "context": "gitsync/preview",
        "state": "failed",
        "description": "no\\nway",
        "target_url": "https://g/pulls/1",
    }
    assert connection.requests == [("POST", f"{PROJECT}/statuses/{'d' * 40}", body)]


@pytest.mark.parametrize(("message", "is_error"), [("Cannot transition status via :enqueue", False), ("no", True)])
def test_the_state_that_a_status_has_already_is_no_error(message: str, is_error: bool) -> None:
    gitlab, _ = host(**{f"POST_{PROJECT}/statuses/{'d' * 40}": InvalidInput(message)})
    status = CommitStatus("gitsync/preview", CommitState.PENDING, "waits")
    if is_error:
        with pytest.raises(InvalidInput):
            gitlab.set_status("d" * 40, status)
    else:
        gitlab.set_status("d" * 40, status)


def test_only_our_own_note_is_updated() -> None:
    notes = [
        {"id": 5, "body": "<!-- m --> x", "author": {"id": 1}},
        {"id": 6, "body": "<!-- m -->", "author": {"id": 7}},
    ]
    gitlab, connection = host(**{f"GET_{PROJECT}/merge_requests/1/notes": notes})
    gitlab.comment(1, "<!-- m --> new", "<!-- m -->")
    gitlab.comment(1, "<!-- m --> newer", "<!-- m -->")
    assert [request[:2] for request in connection.requests if request[0] == "PUT"] == [
        ("PUT", f"{PROJECT}/merge_requests/1/notes/6")
    ] * 2


def test_a_deleted_note_is_written_again() -> None:
    gitlab, connection = host(**{f"PUT_{PROJECT}/merge_requests/1/notes/7": NotFoundAtHost("gone")})
    connection.answers["GET", f"{PROJECT}/merge_requests/1/notes"] = []
    gitlab.comment(1, "a", "a")
    gitlab.comment(1, "b", "b")
    assert [body for method, _, body in connection.requests if method == "POST"] == [{"body": "a"}, {"body": "b"}]


def test_a_merge_request_is_opened() -> None:
    gitlab, connection = host(**{f"POST_{PROJECT}/merge_requests": MERGE_REQUEST})
    assert gitlab.open_pull_request(NewPullRequest("a", "main", "Title", "text")).number == 1
    assert connection.requests[0][2] == {
        "source_branch": "a",
        "target_branch": "main",
        "title": "Title",
        "description": "text",
    }


@pytest.mark.parametrize(
    ("member", "permission"),
    [
        ({"access_level": 50}, Permission.ADMIN),
        ({"access_level": 30}, Permission.WRITE),
        ({"access_level": 20}, Permission.READ),
        ({"access_level": 5}, Permission.NONE),
        (NotFoundAtHost("no member"), Permission.NONE),
    ],
)
def test_permissions_follow_access_levels(member: Any, permission: Permission) -> None:
    gitlab, _ = host(**{"GET_/users": [{"id": 9}], f"GET_{PROJECT}/members/all/9": member})
    assert gitlab.permission("ada") is permission


def test_an_unknown_user_may_nothing() -> None:
    gitlab, _ = host(**{"GET_/users": []})
    assert gitlab.permission("eve") is Permission.NONE


def test_another_form_of_answer_is_an_error() -> None:
    gitlab, _ = host(**{f"GET_{PROJECT}/merge_requests": {}, f"GET_{PROJECT}/merge_requests/2": {"iid": 2}})
    with pytest.raises(SourceUnavailable):
        gitlab.pull_requests()
    with pytest.raises(SourceUnavailable):
        gitlab.pull_request(2)


def test_the_project_is_the_whole_path_of_the_url() -> None:
    opened: Any = ApiHosts().host_of(
        GitSource(repo_url="https://gitlab.example.com/team/shop/api.git"), "GitLab", Credentials(password="T")
    )
    assert (opened._project, opened._connection._api) == (PROJECT, "https://gitlab.example.com/api/v4")


def test_a_merge_request_is_closed() -> None:
    gitlab, connection = host()
    gitlab.close_pull_request(1)
    assert connection.requests == [("PUT", f"{PROJECT}/merge_requests/1", {"state_event": "close"})]
