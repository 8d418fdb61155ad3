"""Gitea and Forgejo, which have the same API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gitsync.source.hosts.connection import HostResponse
from gitsync.source.hosts.rest import RestHost

_LIMIT = 50
"""Entries of a page: the most that Gitea returns by default (``MAX_RESPONSE_ITEMS``)."""


class Gitea(RestHost):
    """One repository at a Gitea or Forgejo server."""

    _login = ""

    @property
    def _page_size(self) -> int:
        return _LIMIT

    def _list(self, page: int, state: str, etag: str) -> HostResponse:
        path = f"{self._repository}/pulls"
        return self._connection.get(path, etag, state=state, sort="recentupdate", limit=_LIMIT, page=page)

    def _comments_of(self, number: int) -> Iterator[Mapping[str, Any]]:
        # Gitea returns all comments of an issue at once, whatever page is asked for.
        yield from self._connection.get(f"{self._repository}/issues/{number}/comments").body or ()

    def _is_ours(self, comment: Mapping[str, Any]) -> bool:
        self._login = self._login or str(self._connection.get("/user").body["login"])
        return bool((comment.get("user") or {}).get("login") == self._login)
