"""SqlRecords: the Records port over one database."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, Row, Table, and_, delete, exists, insert, select, update

from gitsync.objects.record import AuditRecord, Outcome, SyncRecord
from gitsync.record.database import Database
from gitsync.record.metrics import count
from gitsync.record.rows import (
    GENESIS,
    audit_body,
    audit_record,
    history_body,
    history_record,
    link,
)
from gitsync.record.tables import APPROVALS, AUDIT, CHAIN, HISTORY, REJECTIONS


class SqlRecords:
    """Implement ``gitsync.ports.Records``; safe from several threads."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def audit(self, records: Iterable[AuditRecord]) -> None:
        """Append links to the audit chain, durably, before returning."""
        bodies = [(record, audit_body(record)) for record in records]
        if not bodies:
            return
        with self._database.writing() as connection:
            # taking the row first makes writers of several replicas follow each other
            connection.execute(update(CHAIN).values(length=CHAIN.c.length))
            length, head = connection.execute(select(CHAIN.c.length, CHAIN.c.head)).one()
            rows = []
            for record, body in bodies:
                length += 1
                previous, head = head, link(head, length, body)
                rows.append(
                    {
                        "id": length,
                        "application": record.application,
                        "sync": record.sync,
                        "action": record.action,
                        "resource": record.resource,
                        "outcome": record.outcome.value,
                        "body": body,
                        "previous": previous,
                        "hash": head,
                    }
                )
            connection.execute(insert(AUDIT), rows)
            connection.execute(update(CHAIN).values(length=length, head=head))

    def save(self, record: SyncRecord) -> SyncRecord:
        """Keep the record of a sync; return it with its id."""
        with self._database.writing() as connection:
            done = connection.execute(insert(HISTORY).values(application=record.application, body=history_body(record)))
            key = done.inserted_primary_key
            assert key is not None
        count(record)
        return replace(record, id=int(key[0]))

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
        self,
        application: str = "",
        *,
        sync: str = "",
        action: str = "",
        outcome: str = "",
        limit: int = 100,
        before: int = 0,
    ) -> tuple[AuditRecord, ...]:
        """Return audit records, newest first; an empty filter lets all pass."""
        query = select(*_LINK).order_by(AUDIT.c.id.desc()).limit(limit)
        for column, wanted in (
            (AUDIT.c.application, application),
            (AUDIT.c.sync, sync),
            (AUDIT.c.action, action),
            (AUDIT.c.outcome, outcome),
        ):
            if wanted:
                query = query.where(column == wanted)
        if before:
            query = query.where(AUDIT.c.id < before)
        with self._database.reading() as connection:
            return tuple(_audit(row) for row in connection.execute(query))

    def export(self, application: str = "", batch: int = 1000) -> Iterator[AuditRecord]:
        """Yield the chain of one application or of all, oldest first, a batch in memory at a time."""
        last = 0
        while True:
            query = select(*_LINK).where(AUDIT.c.id > last).order_by(AUDIT.c.id).limit(batch)
            if application:
                query = query.where(AUDIT.c.application == application)
            with self._database.reading() as connection:
                records = [_audit(row) for row in connection.execute(query)]
            yield from records
            if len(records) < batch:
                return
            last = records[-1].id

    def unfinished(self) -> tuple[AuditRecord, ...]:
        """Return intents that no outcome follows: what a crash interrupted."""
        done = AUDIT.alias()
        followed = exists().where(
            and_(
                done.c.sync == AUDIT.c.sync,
                done.c.resource == AUDIT.c.resource,
                done.c.action == AUDIT.c.action,
                done.c.id > AUDIT.c.id,
                done.c.outcome != Outcome.INTENDED.value,
            )
        )
        query = select(*_LINK).where(AUDIT.c.outcome == Outcome.INTENDED.value, ~followed).order_by(AUDIT.c.id)
        with self._database.reading() as connection:
            return tuple(_audit(row) for row in connection.execute(query))

    def approve(self, application: str, digest: str, *, approver: str, reason: str, until: datetime) -> None:
        """Store an approval of exactly this plan; a newer one replaces an older one."""
        values = {"approver": approver, "reason": reason, "until": _stamp(until), "used": 0}
        with self._database.writing() as connection:
            for table in (APPROVALS, REJECTIONS):
                connection.execute(delete(table).where(_plan(table, application, digest)))
            connection.execute(insert(APPROVALS).values(application=application, digest=digest, **values))

    def approval(self, application: str, digest: str, now: datetime) -> str:
        """Return who approved this plan, empty when nobody did or it lapsed or was used."""
        query = select(APPROVALS.c.approver).where(APPROVALS.c.used == 0, APPROVALS.c.until > _stamp(now))
        with self._database.reading() as connection:
            found = connection.execute(query.where(_plan(APPROVALS, application, digest))).scalar()
        return str(found) if found else ""

    def use_approval(self, application: str, digest: str) -> None:
        """Mark the approval used; it never counts again."""
        with self._database.writing() as connection:
            connection.execute(update(APPROVALS).where(_plan(APPROVALS, application, digest)).values(used=1))

    def reject(self, application: str, digest: str, *, by: str, reason: str) -> None:
        """Store that a person turned exactly this plan down; an approval of it does not count any more."""
        with self._database.writing() as connection:
            for table in (APPROVALS, REJECTIONS):
                connection.execute(delete(table).where(_plan(table, application, digest)))
            connection.execute(
                insert(REJECTIONS).values(application=application, digest=digest, rejected_by=by, reason=reason)
            )

    def rejection(self, application: str, digest: str) -> tuple[str, str] | None:
        """Return who turned this plan down and why; see the port."""
        query = select(REJECTIONS.c.rejected_by, REJECTIONS.c.reason)
        with self._database.reading() as connection:
            found = connection.execute(query.where(_plan(REJECTIONS, application, digest))).first()
        return (str(found[0]), str(found[1])) if found else None

    def verify(self) -> tuple[str, ...]:
        """Return what is wrong with the audit chain, one line each; empty when it is whole."""
        with self._database.reading() as connection:
            length, head = connection.execute(select(CHAIN.c.length, CHAIN.c.head)).one()
            rows = connection.execution_options(yield_per=1000).execute(select(*_LINK).order_by(AUDIT.c.id))
            return tuple(_broken(rows, int(length), str(head)))

    def forget(self, application: str, *, keep: int) -> None:
        """Drop the oldest history records of an application beyond ``keep``; the audit is kept."""
        kept = select(HISTORY.c.id).where(HISTORY.c.application == application).order_by(HISTORY.c.id.desc())
        with self._database.writing() as connection:
            oldest = connection.execute(kept.offset(keep - 1).limit(1)).scalar() if keep > 0 else None
            if oldest is not None:
                connection.execute(delete(HISTORY).where(HISTORY.c.application == application, HISTORY.c.id < oldest))

    def close(self) -> None:
        """Close the database."""
        self._database.close()


_LINK = (AUDIT.c.id, AUDIT.c.body, AUDIT.c.previous, AUDIT.c.hash)


def _audit(row: Row[int, str, str, str]) -> AuditRecord:
    return audit_record(*row)


def _plan(table: Table, application: str, digest: str) -> ColumnElement[bool]:
    return and_(table.c.application == application, table.c.digest == digest)


def _stamp(time: datetime) -> str:
    return time.astimezone(UTC).isoformat()


def _broken(rows: Iterable[Row[int, str, str, str]], length: int, head: str) -> Iterator[str]:
    expected, previous_hash = 1, GENESIS
    for id, body, previous, hash in rows:
        if id != expected:
            yield f"audit record {expected} is missing" + (f" (up to {id - 1})" if id - expected > 1 else "")
        elif previous != previous_hash:
            yield f"audit record {id} does not follow the one before it"
        if link(previous, id, body) != hash:
            yield f"audit record {id} was changed"
        expected, previous_hash = id + 1, hash
    if expected - 1 != length:
        yield f"the audit ends at record {expected - 1}, {length} were written"
    elif previous_hash != head:
        yield "the last audit record is not the one that was written last"
