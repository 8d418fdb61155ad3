"""GitLab, whose pull requests are merge requests: https://docs.gitlab.com/api/rest/"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from typing import Any, Final
from urllib.parse import quote

from gitsync.errors import InvalidInput, SourceUnavailable, one_line
from gitsync.ports.hosts import (
    CommitState,
    CommitStatus,
    HostReview,
    NewPullRequest,
    Permission,
    PullRequest,
    PullRequestState,
)
from gitsync.source.hosts.connection import ApiConnection, ConditionalPages, HostResponse, NotFoundAtHost, OwnComments

_LIMIT: Final = 100
"""Entries of a page: the most that GitLab returns."""
_MOST_PAGES: Final = 40
_DESCRIPTION: Final = 250
"""Characters of a status: GitLab rejects 256."""
_STATES: Final = {CommitState.FAILURE: "failed", CommitState.ERROR: "failed"}
_PERMISSIONS: Final = ((40, Permission.ADMIN), (30, Permission.WRITE), (10, Permission.READ))
"""The least access level of each: maintainers change protected branches, developers push, guests read."""


class GitLab:
    """Implement ``CodeHost`` for one project at GitLab."""

    def __init__(self, connection: ApiConnection, project: str) -> None:
        self._connection = connection
        # the whole path with its groups is one segment
        self._project = f"/projects/{quote(project, safe='')}"
        self._pages = ConditionalPages()
        self._comments = OwnComments(connection, "PUT")
        self._user = 0

    def pull_requests(self, since: datetime | None = None) -> Sequence[PullRequest]:
        """Return the open merge requests, or those of any state that were updated since a time; see the port."""
        query: dict[str, str | int] = {"state": "opened", "order_by": "updated_at", "sort": "desc", "per_page": _LIMIT}
        if since is not None:
            query |= {"state": "all", "updated_after": since.isoformat()}
        requests: list[PullRequest] = []
        for page in range(1, _MOST_PAGES + 1):
            items = self._page(page, since, query)
            requests += [_merge_request(item) for item in items]
            if len(items) < _LIMIT:
                break
        return requests

    def _page(self, page: int, since: datetime | None, query: Mapping[str, str | int]) -> list[Any]:
        def request(etag: str) -> HostResponse:
            return self._connection.get(f"{self._project}/merge_requests", etag, **query, page=page)

        return self._pages.read(page, since, request)

    def pull_request(self, number: int) -> PullRequest:
        """Return one merge request."""
        return _merge_request(self._connection.get(self._path(number)).body)

    def set_status(self, commit: str, status: CommitStatus) -> None:
        """Set the status of a commit."""
        body = {
            "context": status.context,
            "state": _STATES.get(status.state, status.state.value),
            "description": one_line(status.description, _DESCRIPTION),
        }
        if status.url:
            body["target_url"] = status.url
        try:
            self._connection.send("POST", f"{self._project}/statuses/{commit}", body)
        except InvalidInput as error:
            # GitLab rejects the state that a status has already: "Cannot transition status via :enqueue from :pending"
            if "Cannot transition status" not in str(error):
                raise

    def comment(self, number: int, text: str, marker: str) -> None:
        """Create our note on a merge request, or update it; see the port."""
        notes = f"{self._path(number)}/notes"
        self._comments.write(number, text, lambda: self._own_note(number, marker), notes, notes)

    def _own_note(self, number: int, marker: str) -> int:
        """Return the id of our note, 0 where there is none; anyone can write the marker into a note of their own."""
        notes = [item for item in self._notes(number) if str(item.get("body")).startswith(marker)]
        if not notes:
            return 0
        self._user = self._user or int(self._connection.get("/user").body["id"])
        return next((int(item["id"]) for item in notes if (item.get("author") or {}).get("id") == self._user), 0)

    def _notes(self, number: int) -> Iterator[Mapping[str, Any]]:
        for page in count(1):
            notes = self._connection.get(f"{self._path(number)}/notes", per_page=_LIMIT, page=page).body or []
            yield from notes
            if len(notes) < _LIMIT:
                return

    def open_pull_request(self, request: NewPullRequest) -> PullRequest:
        """Open a merge request."""
        body = {
            "source_branch": request.head_branch,
            "target_branch": request.base_branch,
            "title": request.title,
            "description": request.text,
        }
        return _merge_request(self._connection.send("POST", f"{self._project}/merge_requests", body))

    def close_pull_request(self, number: int) -> None:
        """Close a merge request without a merge."""
        self._connection.send("PUT", self._path(number), {"state_event": "close"})

    def reviews(self, number: int) -> Sequence[HostReview]:
        """Return nothing: approvals of GitLab name no commit, so that they may be about an earlier one."""
        return ()

    def permission(self, user: str) -> Permission:
        """Return what a user may do with the project."""
        users = self._connection.get("/users", username=user).body or []
        if not users:
            return Permission.NONE
        try:
            # all: members of the groups above are members too
            member = self._connection.get(f"{self._project}/members/all/{int(users[0]['id'])}").body
        except NotFoundAtHost:
            return Permission.NONE
        level = int(member["access_level"])
        return next((permission for least, permission in _PERMISSIONS if level >= least), Permission.NONE)

    def _path(self, number: int) -> str:
        return f"{self._project}/merge_requests/{number}"


def _merge_request(item: Any) -> PullRequest:
    try:
        # "locked" is the moment of a merge
        states = {"opened": PullRequestState.OPEN, "merged": PullRequestState.MERGED, "locked": PullRequestState.OPEN}
        state = states.get(str(item["state"]), PullRequestState.CLOSED)
        merge_commit = item.get("merge_commit_sha") or item.get("squash_commit_sha") or item.get("sha")
        number = int(item["iid"])
        return PullRequest(
            number=number,
            title=str(item["title"]),
            author=str((item.get("author") or {}).get("username") or "ghost"),
            state=state,
            # null while GitLab has not read the branch yet
            head=str(item.get("sha") or ""),
            head_branch=str(item["source_branch"]),
            base_branch=str(item["target_branch"]),
            url=str(item["web_url"]),
            updated=datetime.fromisoformat(str(item["updated_at"])).astimezone(UTC),
            # of a fast-forward merge it is the head
            merge_commit=str(merge_commit or "") if state is PullRequestState.MERGED else "",
            is_fork=item.get("source_project_id") != item.get("target_project_id"),
            is_draft=bool(item.get("draft")),
            ref=f"refs/merge-requests/{number}/head",
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SourceUnavailable("the API of the Git host describes a merge request in an unknown way") from error
