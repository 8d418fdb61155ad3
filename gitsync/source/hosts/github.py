"""GitHub, at github.com or as Enterprise Server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any, Final

from gitsync.source.hosts.connection import ApiConnection, HostResponse
from gitsync.source.hosts.rest import RestHost

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
