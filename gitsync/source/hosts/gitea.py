"""Gitea and Forgejo, which have the same API."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from gitsync.ports.hosts import NewPullRequest, PullRequest
from gitsync.source.hosts.connection import HostResponse, NotFoundAtHost
from gitsync.source.hosts.rest import RestHost

_LIMIT = 50
"""Entries of a page: the most that Gitea returns by default (``MAX_RESPONSE_ITEMS``)."""


_DELAYS = (0.2, 0.5, 1.0, 2.0)
"""Seconds between attempts to open a pull request."""


class Gitea(RestHost):
    """One repository at a Gitea or Forgejo server."""

    _login = ""

    @property
    def _page_size(self) -> int:
        return _LIMIT

    def _list(self, page: int, state: str, etag: str) -> HostResponse:
        path = f"{self._repository}/pulls"
        return self._connection.get(path, etag, state=state, sort="recentupdate", limit=_LIMIT, page=page)

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
