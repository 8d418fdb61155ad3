"""Find commits by the prefix of their id among the latest commits of a revision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gitsync.objects.application import GitSource
from gitsync.objects.record import Commit
from gitsync.ports import Credentials, Source

SHORTEST_ID: Final = 7
"""Characters that a prefix has at least."""
_SEARCHED = 200
"""Commits that are searched, newest first."""


def latest_commits(source: Source, revision: GitSource, credentials: Credentials) -> Sequence[Commit]:
    """Return the latest commits of a revision, newest first, fetched if need be."""
    head = source.resolve(revision, credentials)
    source.snapshot(revision, credentials, head)
    return source.commits(revision, head, limit=_SEARCHED)


def position_of(commits: Sequence[Commit], prefix: str) -> int | None:
    """Return the position of the newest commit whose id has a prefix of at least ``SHORTEST_ID`` characters."""
    if len(prefix) < SHORTEST_ID:
        return None
    return next((position for position, commit in enumerate(commits) if commit.id.startswith(prefix)), None)
