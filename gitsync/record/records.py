"""SqlRecords: the Records port over one database, and the metrics of finished syncs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import chain, islice
from typing import Unpack

import orjson
from prometheus_client import Counter, Histogram
from sqlalchemy import Connection, Integer, bindparam, delete, func, insert, select, update

from gitsync.objects.change import Review, Risk
from gitsync.objects.record import AuditFilter, AuditHead, AuditRecord, Outcome, SyncRecord
from gitsync.ports import Advice
from gitsync.record import reviews
from gitsync.record.audit_chain import (
    AUDIT_COLUMNS,
    AuditHeads,
    append,
    broken,
    lock,
    lost,
    record_of,
    trim,
    unresolved,
)
from gitsync.record.database import GroupCommit, RecordDatabase
from gitsync.record.tables import ADVICE, AUDIT, HISTORY, history_body, history_record

# links of the audit that are appended in one transaction
_PART = 500
# number of reasoner answers that are kept
_ANSWERS = 1000
# statements of each sync are built once
_SAVE = insert(HISTORY).returning(HISTORY.c.id)
_OF_HISTORY = HISTORY.c.application == bindparam("application")
_NEWEST_DROPPED = (
    select(HISTORY.c.id)
    .where(_OF_HISTORY)
    .order_by(HISTORY.c.id.desc())
    .limit(1)
    .offset(bindparam("keep", type_=Integer))
    # the scalar subquery is NULL where fewer are kept, and a comparison with NULL deletes nothing
    .scalar_subquery()
)
_TRIM = delete(HISTORY).where(_OF_HISTORY, HISTORY.c.id <= _NEWEST_DROPPED)
# The other replica saved its record a moment ago: bodies of a large Application are not searched to the oldest one.
_RECENT = select(HISTORY.c.id, HISTORY.c.body).where(_OF_HISTORY).order_by(HISTORY.c.id.desc()).limit(5).subquery()
_OF_SYNC = select(_RECENT).where(_RECENT.c.body.like(bindparam("member"))).limit(1)
_NEWEST = (
    select(*AUDIT_COLUMNS).where(AUDIT.c.application == bindparam("application")).order_by(AUDIT.c.id.desc()).limit(1)
)


class SqlRecords:
    """Implement ``gitsync.ports.Records`` and ``AdviceCache``; safe from several threads."""

    def __init__(self, database: RecordDatabase, heads: AuditHeads | None = None) -> None:
        self._database = database
        self._commits = GroupCommit(database.writing)
        self._heads = heads or AuditHeads()

    def size(self) -> int:
        """Return how many bytes the database takes on its disk; raise RecordUnavailable where it does not answer."""
        return self._database.size()

    def audit(self, records: Iterable[AuditRecord]) -> None:
        """
        Append links to the audit chain, durably, before returning; more than ``_PART`` in several transactions.

        As one transaction, those of a plan of thousands would be in memory at once, each with its differences.
        """
        iterator = iter(records)
        while links := tuple(islice(iterator, _PART)):
            self._keep_head(self._commits.run(partial(append, records=links)))

    def save(self, record: SyncRecord, *, keep: int = 0) -> SyncRecord:
        """Keep the record of a sync once, and of its Application the newest ``keep``; return it with its id."""
        application = record.application
        members = {"application": application, "body": history_body(record)}

        def write(connection: Connection) -> tuple[SyncRecord, bool]:
            known = _of_sync(connection, record)
            if known is not None:
                return known, False
            id = int(connection.execute(_SAVE, members).scalar_one())
            if keep > 0:
                # in the same transaction: a crash leaves neither too many nor too few
                connection.execute(_TRIM, {"application": application, "keep": keep})
            return replace(record, id=id), True

        saved, is_new = self._commits.run(write)
        # after the commit: a write that failed is not a sync that ended
        if is_new:
            count(record)
        return saved

    def mark_failed(self, application: str, commit: str, message: str) -> None:
        """Turn the newest successful sync of a commit into a failed one; see the port."""
        # the newest one only: older syncs of the commit were good at their time
        for record in self.history(application):
            if record.commit.id == commit and record.outcome is Outcome.SUCCEEDED:
                failed = replace(record, outcome=Outcome.FAILED, message=message)
                with self._database.writing() as connection:
                    row = update(HISTORY).where(HISTORY.c.id == record.id)
                    connection.execute(row.values(body=history_body(failed)))
                return

    def history(self, application: str = "", *, limit: int = 20, before: int = 0) -> tuple[SyncRecord, ...]:
        """Return records, newest first; see the port."""
        query = select(HISTORY.c.id, HISTORY.c.body).order_by(HISTORY.c.id.desc()).limit(limit)
        if application:
            query = query.where(HISTORY.c.application == application)
        if before:
            query = query.where(HISTORY.c.id < before)
        with self._database.reading() as connection:
            return tuple(history_record(*row) for row in connection.execute(query))

    def record(self, id: int) -> SyncRecord | None:
        """Return one record."""
        with self._database.reading() as connection:
            row = connection.execute(select(HISTORY.c.id, HISTORY.c.body).where(HISTORY.c.id == id)).first()
        return history_record(*row) if row else None

    def audit_records(
        self, application: str = "", *, limit: int = 100, before: int = 0, **wanted: Unpack[AuditFilter]
    ) -> tuple[AuditRecord, ...]:
        """Return audit records, newest first; an empty filter lets all pass."""
        query = select(*AUDIT_COLUMNS).order_by(AUDIT.c.id.desc()).limit(limit)
        for column, value in {"application": application, **wanted}.items():
            if value:
                query = query.where(AUDIT.c[column] == value)
        if before:
            query = query.where(AUDIT.c.id < before)
        with self._database.reading() as connection:
            return tuple(record_of(row) for row in connection.execute(query))

    def decisions(
        self, application: str = "", *, actions: Collection[str] = (), limit: int = 100, before: int = 0
    ) -> tuple[AuditRecord, ...]:
        """Return the audit records that belong to no sync, newest first; see the port."""
        query = select(*AUDIT_COLUMNS).where(AUDIT.c.sync == "").order_by(AUDIT.c.id.desc()).limit(limit)
        if actions:
            query = query.where(AUDIT.c.action.in_(actions))
        if application:
            query = query.where(AUDIT.c.application == application)
        if before:
            query = query.where(AUDIT.c.id < before)
        with self._database.reading() as connection:
            return tuple(record_of(row) for row in connection.execute(query))

    def export(self, application: str = "", batch: int = 1000) -> Iterator[AuditRecord]:
        """Yield the chain of one application or of all, oldest first, a batch in memory at a time."""
        # by id, not OFFSET: each batch starts at the index, and links that are appended meanwhile move nothing
        last = 0
        while True:
            query = select(*AUDIT_COLUMNS).where(AUDIT.c.id > last).order_by(AUDIT.c.id).limit(batch)
            if application:
                query = query.where(AUDIT.c.application == application)
            with self._database.reading() as connection:
                records = [record_of(row) for row in connection.execute(query)]
            # outside the connection: a slow consumer must not hold it
            yield from records
            if len(records) < batch:
                return
            last = records[-1].id

    def unresolved(self, application: str = "") -> tuple[AuditRecord, ...]:
        """Return the intents of unresolved writes, which no outcome follows; of one Application where it is named."""
        with self._database.reading() as connection:
            return unresolved(connection, application)

    def keep_review(self, link: AuditRecord) -> None:
        """Append the link of a review, and store that it is one."""
        with self._database.writing() as connection:
            written = append(connection, [link])
            if written is not None:
                reviews.keep(connection, written)
        self._keep_head(written)  # after the commit: the file must never have a link that the chain lacks

    def review(
        self, application: str, digest: str, now: datetime, *, sync: str = "", kept: AuditHead | None = None
    ) -> Review | None:
        """Return the last review of this plan; an approval only while it is valid, see the port."""
        heads = [head for head in (kept, *self._heads.last()) if head is not None]
        with self._database.reading() as connection:
            links = reviews.find(connection, application, digest, heads)
            return reviews.last_review(connection, links, now, sync)

    def reviewed(self, digests: Collection[str]) -> frozenset[tuple[str, str]]:
        """Return Application and digest of the plans that have reviews; see the port."""
        if not digests:
            return frozenset()
        with self._database.reading() as connection:
            return reviews.plans_of(connection, digests)

    def end_approval(self, application: str, digest: str) -> None:
        """Drop the approvals of a plan: its sync is over."""
        with self._database.writing() as connection:
            reviews.end(connection, application, digest)

    def head(self, application: str, kept: AuditHead | None = None) -> AuditHead | None:
        """Return the newest link about an application; see the port."""
        with self._database.reading() as connection:
            row = connection.execute(_NEWEST, {"application": application}).first()
            newest = AuditHead.of(record_of(row)) if row else None
            is_kept = kept is not None and newest is not None and (newest.id, newest.hash) == (kept.id, kept.hash)
            # a head that is missing proves a loss; the newest one would replace the proof
            if kept is not None and not is_kept and [*lost(connection, [kept])]:
                return kept
        return newest

    def advice(self, digest: str, asked: str) -> Advice | None:
        """Return the advice on a plan by the endpoint whose hash is ``asked``, None when there is none."""
        query = select(ADVICE.c.body).where(ADVICE.c.digest == digest, ADVICE.c.asked == asked)
        with self._database.reading() as connection:
            body = connection.execute(query).scalar()
        if body is None:
            return None
        explanation, risk, reason = orjson.loads(body)
        return Advice(explanation, Risk(risk), reason)

    def keep_advice(self, digest: str, asked: str, advice: Advice) -> None:
        """Keep an answer; the oldest beyond the limit are dropped."""
        body = orjson.dumps([advice.explanation, advice.risk.value, advice.reason]).decode()
        with self._database.writing() as connection:
            # delete and insert: an upsert is written differently in SQLite and PostgreSQL
            connection.execute(delete(ADVICE).where(ADVICE.c.digest == digest, ADVICE.c.asked == asked))
            connection.execute(insert(ADVICE).values(digest=digest, asked=asked, body=body))
            newest = connection.execute(select(func.max(ADVICE.c.id))).scalar_one()
            connection.execute(delete(ADVICE).where(ADVICE.c.id <= newest - _ANSWERS))

    def verify(self, heads: Iterable[AuditHead] = (), *, first: int = 0) -> tuple[str, ...]:
        """Return what is wrong with the audit chain, from a link on, one line each; see the port."""
        with self._database.reading() as connection:
            return (*broken(connection, first), *lost(connection, chain(heads, self._heads.kept())))

    def trim(self, now: datetime, *, before: datetime | None = None, keep: int = 0) -> int:
        """Drop the oldest audit records, and return how many; see the port."""
        with self._database.writing() as connection:
            dropped, last = trim(connection, now, before, keep)
            # after the links: a review without its link cannot be verified
            reviews.drop_dangling(connection)
        self._keep_head(last)
        return dropped

    def _keep_head(self, link: AuditRecord | None) -> None:
        if link is not None:
            self._heads.add(link)

    def close(self) -> None:
        """Close the database."""
        self._database.close()


_SYNCS = Counter("gitsync_syncs", "Finished syncs", ["outcome", "trigger"])
_DURATION = Histogram(
    "gitsync_sync_duration_seconds",
    "How long syncs took, with waiting for health",
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 180, 600),
)
_STEPS = Counter("gitsync_sync_steps", "Objects written by syncs", ["action", "outcome"])


def _of_sync(connection: Connection, record: SyncRecord) -> SyncRecord | None:
    """Return the record of the same sync that is kept already; until the transaction ends, no other one is saved."""
    if not record.sync:
        return None
    # two replicas may record one sync: that which wrote it, and that which took the Application over
    lock(connection)
    # the start of the id: the late part of a slow repair has the id of the repair with an addition
    members = {"application": record.application, "member": f'%"sync":"{record.sync}%'}
    row = connection.execute(_OF_SYNC, members).first()
    return history_record(*row) if row is not None else None


def count(record: SyncRecord) -> None:
    """Count a sync that is over."""
    _SYNCS.labels(record.outcome.value, record.trigger).inc()
    _DURATION.observe(record.duration_ms / 1000)
    for step in record.steps:
        _STEPS.labels(step.action, step.outcome.value).inc()
