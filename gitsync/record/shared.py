"""
What replicas share beside history and audit: what is known of pull requests, and sessions and saved views of users.

A backup has the saved views only: the others come back by a poll or a sign-in.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Final

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import Delete, bindparam, delete, func, insert, select

from gitsync.errors import InvalidInput
from gitsync.objects.user import BrowserSession, SavedView
from gitsync.ports.previews import KeptProposal
from gitsync.record.database import RecordDatabase
from gitsync.record.tables import PROPOSALS, SESSIONS, VIEWS

MOST_SESSIONS: Final = 200
"""Sessions of one user, which bounds the table: names come from the operator and the provider, not from clients."""
MOST_VIEWS: Final = 100
"""Saved views of one user."""


class SqlProposals:
    """Implement ``gitsync.ports.previews.ProposalStore``; safe from several threads."""

    def __init__(self, database: RecordDatabase) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._read: dict[tuple[str, str], tuple[str, KeptProposal | None]] = {}
        """The rows as they were last read, by repository and name, with their digests."""

    def all(self) -> Mapping[str, Mapping[str, KeptProposal]]:
        """Return what is kept, by repository and name; rows that are the same as at the last read are not read."""
        with self._lock:
            self._refresh()
            kept: dict[str, dict[str, KeptProposal]] = {}
            for (repository, name), (_, row) in self._read.items():
                if row is not None:
                    kept.setdefault(repository, {})[name] = row
            return kept

    def _refresh(self) -> None:
        query = select(PROPOSALS.c.repository, PROPOSALS.c.name, PROPOSALS.c.digest)
        with self._database.reading() as connection:
            digests = {(repository, name): digest for repository, name, digest in connection.execute(query)}
            self._read = {key: row for key, row in self._read.items() if digests.get(key) == row[0]}
            for repository, name in digests.keys() - self._read.keys():
                # one at a time: a report may have a megabyte
                row = select(PROPOSALS.c.digest, PROPOSALS.c.body).where(
                    PROPOSALS.c.repository == repository, PROPOSALS.c.name == name
                )
                for digest, body in connection.execute(row):
                    self._read[repository, name] = (digest, _parsed(body))

    def keep(self, repository: str, rows: Mapping[str, KeptProposal | None]) -> None:
        """Write rows of a repository by name; None deletes one."""
        if not rows:
            return
        written = []
        for name, row in rows.items():
            if row is not None:
                body = _rows().dump_json(row).decode()
                digest = hashlib.sha256(body.encode()).hexdigest()
                written.append({"repository": repository, "name": name, "digest": digest, "body": body})
        with self._database.writing() as connection:
            # delete and insert: an upsert is written differently in SQLite and PostgreSQL
            for name in rows:
                connection.execute(
                    delete(PROPOSALS).where(PROPOSALS.c.repository == repository, PROPOSALS.c.name == name)
                )
            if written:
                connection.execute(insert(PROPOSALS), written)

    def forget(self, repository: str) -> None:
        """Delete all rows of a repository."""
        with self._database.writing() as connection:
            connection.execute(delete(PROPOSALS).where(PROPOSALS.c.repository == repository))


# built at the first use: pydantic takes longer to build it than a command without it takes to run
@cache
def _rows() -> TypeAdapter[KeptProposal]:
    return TypeAdapter(KeptProposal)


def _parsed(body: str) -> KeptProposal | None:
    try:
        return _rows().validate_json(body)
    except ValidationError:  # another version wrote it: its pull request is previewed again
        return None


class SqlSessions:
    """Implement ``gitsync.ports.SessionStore``; safe from several threads."""

    def __init__(self, database: RecordDatabase) -> None:
        self._database = database

    def start(self, session: BrowserSession) -> None:
        """Keep a session; see the port."""
        row = {
            "id": session.id,
            "owner": session.owner,
            "started": _stamp(session.started),
            "ends": _stamp(session.ends),
            "address": session.address,
            "browser": session.browser,
        }
        newest = (
            select(SESSIONS.c.id)
            .where(SESSIONS.c.owner == session.owner)
            .order_by(SESSIONS.c.started.desc(), SESSIONS.c.id)
            .limit(MOST_SESSIONS)
        )
        with self._database.writing() as connection:
            connection.execute(delete(SESSIONS).where(SESSIONS.c.ends <= row["started"]))
            connection.execute(insert(SESSIONS), row)
            # in the same transaction: two sign-ins at once leave no more than one does
            connection.execute(delete(SESSIONS).where(SESSIONS.c.owner == session.owner, SESSIONS.c.id.not_in(newest)))

    def is_open(self, id: str) -> bool:
        """Return whether a session was started and not ended since."""
        with self._database.reading() as connection:
            return connection.execute(_OPEN, {"session": id}).first() is not None

    def of(self, owner: str) -> tuple[BrowserSession, ...]:
        """Return the sessions of a user, newest first."""
        query = select(SESSIONS).where(SESSIONS.c.owner == owner).order_by(SESSIONS.c.started.desc(), SESSIONS.c.id)
        with self._database.reading() as connection:
            return tuple(
                BrowserSession(
                    row.id,
                    row.owner,
                    datetime.fromisoformat(row.started),
                    datetime.fromisoformat(row.ends),
                    row.address,
                    row.browser,
                )
                for row in connection.execute(query)
            )

    def end(self, ids: Collection[str]) -> None:
        """End sessions: no replica accepts them after this returned."""
        with self._database.writing() as connection:
            connection.execute(delete(SESSIONS).where(SESSIONS.c.id.in_(ids)))


# built once: each request of a browser runs it
_OPEN = select(SESSIONS.c.id).where(SESSIONS.c.id == bindparam("session"))


def _stamp(time: datetime) -> str:
    # always with microseconds: text without them sorts behind one with them
    return time.astimezone(UTC).isoformat(timespec="microseconds")


class SqlViews:
    """Implement ``gitsync.ports.ViewStore``; safe from several threads."""

    def __init__(self, database: RecordDatabase) -> None:
        self._database = database

    def of(self, owner: str) -> tuple[SavedView, ...]:
        """Return the saved views of a user, by list and name."""
        query = select(VIEWS).where(VIEWS.c.owner == owner).order_by(VIEWS.c.page, VIEWS.c.name)
        with self._database.reading() as connection:
            return tuple(SavedView(row.name, row.page, row.query) for row in connection.execute(query))

    def save(self, owner: str, view: SavedView) -> None:
        """Save a view; see the port."""
        row = {"owner": owner, "page": view.page, "name": view.name, "query": view.query}
        with self._database.writing() as connection:
            connection.execute(_view(owner, view.page, view.name))
            count = select(func.count()).where(VIEWS.c.owner == owner)
            if connection.execute(count).scalar_one() >= MOST_VIEWS:
                # raised inside: the transaction takes the delete back
                raise InvalidInput(f"you have {MOST_VIEWS} saved views", hint="delete some on the page Settings")
            connection.execute(insert(VIEWS), row)

    def delete(self, owner: str, page: str, name: str) -> None:
        """Delete a saved view, if there is one."""
        with self._database.writing() as connection:
            connection.execute(_view(owner, page, name))


def _view(owner: str, page: str, name: str) -> Delete:
    return delete(VIEWS).where(VIEWS.c.owner == owner, VIEWS.c.page == page, VIEWS.c.name == name)
