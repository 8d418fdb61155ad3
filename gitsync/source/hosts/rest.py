"""
GitHub, and Gitea with Forgejo, which took over the paths and names of GitHub's API.

https://docs.github.com/en/rest, https://docs.gitea.com/api
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import count
from typing import Any, Final
from urllib.parse import quote

from gitsync.errors import SourceUnavailable, one_line
from gitsync.ports.hosts import CommitStatus, HostReview, NewPullRequest, Permission, PullRequest, PullRequestState
from gitsync.source.hosts.connection import ApiConnection, ConditionalPages, HostResponse, NotFoundAtHost, OwnComments

_DESCRIPTION = 140
"""Characters of a status: GitHub rejects more."""
_REVIEWS = frozenset({"APPROVED", "CHANGES_REQUESTED", "REQUEST_CHANGES", "DISMISSED"})
_MOST_PAGES = 40
"""Pages of one list: 4,000 pull requests at GitHub, 2,000 at Gitea."""


class RestHost(ABC):
    """Implement ``CodeHost`` but for what differs: how lists are paged, and who we are."""

    def __init__(self, connection: ApiConnection, repository: str) -> None:
        self._connection = connection
        self._repository = f"/repos/{quote(repository)}"
        self._pages = ConditionalPages()
        self._comments = OwnComments(connection, "PATCH")

    def pull_requests(self, since: datetime | None = None) -> Sequence[PullRequest]:
        """Return the open pull requests, or those of any state that were updated since a time; see the port."""
        state = "open" if since is None else "all"
        requests: list[PullRequest] = []
        for number in range(1, _MOST_PAGES + 1):
            page = self._pages.read(number, since, partial(self._list, number, state))
            listed = [_pull_request(item) for item in page if isinstance(item, dict)]
            requests += [item for item in listed if since is None or item.updated >= since]
            # The newest first: what follows an older one is older too.
            if len(page) < self._page_size or (since is not None and listed[-1].updated < since):
                break
        return requests

    def pull_request(self, number: int) -> PullRequest:
        """Return one pull request."""
        return _pull_request(self._connection.get(f"{self._repository}/pulls/{number}").body)

    def set_status(self, commit: str, status: CommitStatus) -> None:
        """Set the status of a commit."""
        body = {
            "context": status.context,
            "state": status.state.value,
            "description": one_line(status.description, _DESCRIPTION),
        }
        if status.url:
            body["target_url"] = status.url
        self._connection.send("POST", f"{self._repository}/statuses/{commit}", body)

    def comment(self, number: int, text: str, marker: str) -> None:
        """Create our comment on a pull request, or update it; see the port."""
        path = f"{self._repository}/issues"
        self._comments.write(
            number,
            text,
            lambda: self._own_comment(number, marker),
            list_path=f"{path}/{number}/comments",
            comments_path=f"{path}/comments",
        )

    def _own_comment(self, number: int, marker: str) -> int:
        """
        Return the id of our comment, 0 where there is none.

        Only one of ours: anyone can write the marker, and could change afterwards what we wrote into their comment.
        """
        comments = [item for item in self._comments_of(number) if str(item.get("body")).startswith(marker)]
        if not comments:
            return 0
        return next((int(item["id"]) for item in comments if self._is_ours(item)), 0)

    def open_pull_request(self, request: NewPullRequest) -> PullRequest:
        """Open a pull request."""
        body = {
            "title": request.title,
            "head": request.head_branch,
            "base": request.base_branch,
            "body": request.text,
        }
        return _pull_request(self._connection.send("POST", f"{self._repository}/pulls", body))

    def close_pull_request(self, number: int) -> None:
        """Close a pull request without a merge."""
        self._connection.send("PATCH", f"{self._repository}/pulls/{number}", {"state": "closed"})

    def reviews(self, number: int) -> Sequence[HostReview]:
        """Return the newest review of each user that approves, requests changes or was dismissed."""
        newest: dict[str, HostReview] = {}
        for number_of_page in range(1, _MOST_PAGES + 1):
            path = f"{self._repository}/pulls/{number}/reviews"
            query: dict[str, str | int] = {self._size_name: self._page_size, "page": number_of_page}
            page = self._connection.get(path, "", **query).body or []
            # the oldest first, as both hosts list them
            for item in page:
                login = str((item.get("user") or {}).get("login") or "")
                state = str(item.get("state"))
                # a comment takes no approval back; Gitea keeps the state of a review that was dismissed
                if login and state in _REVIEWS:
                    approves = state == "APPROVED" and not item.get("dismissed")
                    newest[login] = HostReview(login, str(item.get("commit_id") or ""), approves)
            if len(page) < self._page_size:
                break
        return tuple(newest.values())

    def permission(self, user: str) -> Permission:
        """Return what a user may do with the repository."""
        path = f"{self._repository}/collaborators/{quote(user, safe='')}/permission"
        try:
            text = str(self._connection.get(path).body["permission"])
        except NotFoundAtHost:  # no such user
            return Permission.NONE
        # GitHub maps maintain to write and triage to read; Gitea has owner.
        return Permission.ADMIN if text == "owner" else Permission(text)

    _size_name = "per_page"
    """The parameter that has the entries of a page."""

    @property
    @abstractmethod
    def _page_size(self) -> int:
        """Entries of a full page of pull requests."""

    @abstractmethod
    def _list(self, page: int, state: str, etag: str) -> HostResponse:
        """Return a page of pull requests, those updated last first."""

    @abstractmethod
    def _comments_of(self, number: int) -> Iterator[Mapping[str, Any]]:
        """Yield the comments on a pull request."""

    @abstractmethod
    def _is_ours(self, comment: Mapping[str, Any]) -> bool:
        """Return whether we wrote a comment."""


def _pull_request(item: Any) -> PullRequest:
    try:
        head = item["head"]
        base = item["base"]
        is_merged = bool(item.get("merged_at"))
        state = PullRequestState.OPEN if item["state"] == "open" else PullRequestState.CLOSED
        return PullRequest(
            number=int(item["number"]),
            title=str(item["title"]),
            author=str((item.get("user") or {}).get("login") or "ghost"),  # as GitHub shows deleted users
            state=PullRequestState.MERGED if is_merged else state,
            head=str(head["sha"]),
            head_branch=str(head["ref"]),
            base_branch=str(base["ref"]),
            url=str(item["html_url"]),
            updated=datetime.fromisoformat(str(item["updated_at"])).astimezone(UTC),
            merge_commit=str(item.get("merge_commit_sha") or "") if is_merged else "",
            # Without a repository: the fork was deleted.
            is_fork=(head.get("repo") or {}).get("full_name") != (base.get("repo") or {}).get("full_name"),
            is_draft=bool(item.get("draft")),
            ref=f"refs/pull/{int(item['number'])}/head",
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SourceUnavailable("the API of the Git host describes a pull request in an unknown way") from error


_LIMIT: Final = 100
"""Entries of a page: the most that GitHub returns."""
HEADERS: Final = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}


class GitHub(RestHost):
    """One repository at GitHub; ``app`` is the id of the App whose tokens sign in, empty for a user's token."""

    def __init__(self, connection: ApiConnection, repository: str, app: str = "") -> None:
        super().__init__(connection, repository)
        self._app = app
        self._login = ""

    @property
    def _page_size(self) -> int:
        return _LIMIT

    def _list(self, page: int, state: str, etag: str) -> HostResponse:
        path = f"{self._repository}/pulls"
        query = {"state": state, "sort": "updated", "direction": "desc"}
        return self._connection.get(path, etag, **query, per_page=_LIMIT, page=page)

    def _comments_of(self, number: int) -> Iterator[Mapping[str, Any]]:
        path = f"{self._repository}/issues/{number}/comments"
        for page in count(1):
            comments = self._connection.get(path, per_page=_LIMIT, page=page).body or []
            yield from comments
            if len(comments) < _LIMIT:
                return

    def _is_ours(self, comment: Mapping[str, Any]) -> bool:
        # The token of an App is that of no user: GET /user answers 403 for it.
        if self._app:
            return str((comment.get("performed_via_github_app") or {}).get("id")) == self._app
        self._login = self._login or str(self._connection.get("/user").body["login"])
        return bool((comment.get("user") or {}).get("login") == self._login)


_GITEA_PAGE = 50
"""Entries of a page: the most that Gitea returns by default (``MAX_RESPONSE_ITEMS``)."""


_DELAYS = (0.2, 0.5, 1.0, 2.0)
"""Seconds between attempts to open a pull request."""


class Gitea(RestHost):
    """One repository at a Gitea or Forgejo server."""

    _login = ""
    _size_name = "limit"

    @property
    def _page_size(self) -> int:
        return _GITEA_PAGE

    def _list(self, page: int, state: str, etag: str) -> HostResponse:
        path = f"{self._repository}/pulls"
        return self._connection.get(path, etag, state=state, sort="recentupdate", limit=_GITEA_PAGE, page=page)

    def open_pull_request(self, request: NewPullRequest) -> PullRequest:
        """Open a pull request, also from a branch that was pushed a moment ago."""
        for delay in _DELAYS:
            try:
                return super().open_pull_request(request)
            except NotFoundAtHost:  # Gitea lists a new branch some time after it has accepted the push
                time.sleep(delay)
        return super().open_pull_request(request)

    def _comments_of(self, number: int) -> Iterator[Mapping[str, Any]]:
        # Gitea returns all comments of an issue at once, whatever page is asked for.
        yield from self._connection.get(f"{self._repository}/issues/{number}/comments").body or ()

    def _is_ours(self, comment: Mapping[str, Any]) -> bool:
        self._login = self._login or str(self._connection.get("/user").body["login"])
        return bool((comment.get("user") or {}).get("login") == self._login)
