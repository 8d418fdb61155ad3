"""History, audit, reviews, and what is kept of users: their sessions and saved views."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from typing import Protocol, Unpack

from gitsync.objects.change import Review
from gitsync.objects.record import AuditFilter, AuditHead, AuditRecord, SyncRecord
from gitsync.objects.user import BrowserSession, SavedView


class Reviews(Protocol):
    """Reviews of plans. Called by the gate before each sync."""

    # ``sync`` lets a sync that already wrote continue by its approval; for every other one that approval is used up
    def review(
        self, application: str, digest: str, now: datetime, *, sync: str = "", kept: AuditHead | None = None
    ) -> Review | None:
        """
        Return the last review of this plan; an approval only while it is valid, with those who approved before.

        It expires, and it is for one sync: the first one that names its approver in an intent and writes something. A
        sync that was interrupted before its first write, and ``sync`` itself, may continue with it. Raise AuditMismatch
        where the chain since the review does not verify, or lacks the head that was ``kept`` outside the database.
        """
        ...


class Records(Reviews, Protocol):
    """
    History, audit and reviews. Every method raises RecordUnavailable when the database fails.

    Called by the applier around each write, by a reconcile when a sync ends, by the review service, and by the
    dashboard and the commands for reading.
    """

    def reviewed(self, digests: Collection[str]) -> frozenset[tuple[str, str]]:
        """Return Application and digest of the plans that have reviews; ``review`` tells whether these are valid."""
        ...

    # durable first: a write whose intent is lost with the machine would have no record at all
    def audit(self, records: Iterable[AuditRecord]) -> None:
        """Append links to the audit chain, durably, before returning."""
        ...

    def save(self, record: SyncRecord, *, keep: int = 0) -> SyncRecord:
        """
        Keep the record of a sync; return it with its id, or the one of the same ``sync`` that is kept already.

        Of the records of its Application only the newest ``keep`` stay (0: all); the audit is kept.
        """
        ...

    # a commit counts as good in the history until its analysis fails, which is after its sync was saved
    def mark_failed(self, application: str, commit: str, message: str) -> None:
        """Turn the newest successful sync of a commit into a failed one: the commit did not become good."""
        ...

    def history(self, application: str = "", *, limit: int = 20, before: int = 0) -> tuple[SyncRecord, ...]:
        """Return records, newest first, of one application or of all, with ids below ``before`` when it is given."""
        ...

    def record(self, id: int) -> SyncRecord | None:
        """Return one record."""
        ...

    def audit_records(
        self, application: str = "", *, limit: int = 100, before: int = 0, **wanted: Unpack[AuditFilter]
    ) -> tuple[AuditRecord, ...]:
        """Return audit records, newest first; an empty filter lets all pass."""
        ...

    def decisions(
        self, application: str = "", *, actions: Collection[str] = (), limit: int = 100, before: int = 0
    ) -> tuple[AuditRecord, ...]:
        """
        Return the audit records that belong to no sync, newest first: reviews, requests of users, refusals.

        With ``actions`` only those of them.
        """
        ...

    def export(self, application: str = "") -> Iterator[AuditRecord]:
        """Yield the audit chain of one application or of all, oldest first, without holding all of it in memory."""
        ...

    def unresolved(self, application: str = "") -> tuple[AuditRecord, ...]:
        """Return the intents of unresolved writes, which no outcome follows; of one Application where it is named."""
        ...

    def keep_review(self, link: AuditRecord) -> None:
        """Append the link of a review (``objects.record``) to the audit, and store that it is one."""
        ...

    # a later plan may have the same digest, and must not be allowed by an approval of the past
    def end_approval(self, application: str, digest: str) -> None:
        """Drop the approvals of a plan: its sync is over."""
        ...

    def head(self, application: str, kept: AuditHead | None = None) -> AuditHead | None:
        """
        Return the newest link about an application, None when there is none.

        A head that was ``kept`` before and that the chain lacks is returned instead: it proves that links were lost.
        """
        ...

    # heads from elsewhere, since a writer of the database can replace a whole chain by another valid one
    def verify(self, heads: Iterable[AuditHead] = (), *, first: int = 0) -> tuple[str, ...]:
        """
        Return the errors of the audit chain, one line each; empty when it is intact.

        ``heads`` are those that other places keep; each must be in the chain. With ``first`` the links from that one on
        are read alone.
        """
        ...

    # only from its start: a link that is missing anywhere else breaks the chain
    def trim(self, now: datetime, *, before: datetime | None = None, keep: int = 0) -> int:
        """
        Drop the audit records older than a time, and those before the newest ``keep`` (0: all); return how many.

        The chain stays verifiable: its newest link then records the last link that was dropped, and its hash. A write
        without an outcome, and what follows it, stays.
        """
        ...


class SessionStore(Protocol):
    """
    The sessions of users, shared by all replicas. Every method raises RecordUnavailable when the database fails.

    Called at sign-in and sign-out, by the settings of a user, and by each request of a browser.
    """

    # a session that is not kept is ended: whatever is dropped here fails closed
    def start(self, session: BrowserSession) -> None:
        """Keep a session; drop those that have expired, and the oldest of an owner who has too many."""
        ...

    def is_open(self, id: str) -> bool:
        """Return whether a session was started and not ended since."""
        ...

    def of(self, owner: str) -> tuple[BrowserSession, ...]:
        """Return the sessions of a user, newest first."""
        ...

    def end(self, ids: Collection[str]) -> None:
        """End sessions: no replica accepts them after this returned."""
        ...


class ViewStore(Protocol):
    """
    The saved views of users whose names are proven.

    Every method raises RecordUnavailable when the database fails.
    """

    def of(self, owner: str) -> tuple[SavedView, ...]:
        """Return the saved views of a user, by list and name."""
        ...

    def save(self, owner: str, view: SavedView) -> None:
        """Save a view in place of the one of its list and name; raise InvalidInput where the user has too many."""
        ...

    def delete(self, owner: str, page: str, name: str) -> None:
        """Delete a saved view, if there is one."""
        ...
