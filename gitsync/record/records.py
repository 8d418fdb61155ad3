"""SqlRecords: the Records port over one database."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime

import orjson
from sqlalchemy import ColumnElement, Connection, Table, and_, delete, exists, func, insert, select, update

from gitsync.objects.change import Review, Risk
from gitsync.objects.record import AuditRecord, Outcome, SyncRecord
from gitsync.objects.user import User
from gitsync.ports import Advice
from gitsync.record.audit_chain import AUDIT_COLUMNS, append, broken, record_of, trim, unfinished
from gitsync.record.database import Database
from gitsync.record.metrics import count
from gitsync.record.serialization import history_body, history_record
from gitsync.record.tables import ADVICE, AUDIT, HISTORY, REVIEWS

_ANSWERS = 1000
"""Number of reasoner answers that are kept."""


class SqlRecords:
    """Implement ``gitsync.ports.Records`` and ``AdviceCache``; safe from several threads."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def audit(self, records: Iterable[AuditRecord]) -> None:
        """Append links to the audit chain, durably, before returning; an intent uses the approval that it names."""
        links = tuple(records)
        if not links:
            return
        with self._database.writing() as connection:
            append(connection, links)
            for application, digest, sync in {
                (link.application, link.digest, link.sync)
                for link in links
                if link.outcome is Outcome.INTENDED and link.approver
            }:
                connection.execute(update(REVIEWS).where(_plan(REVIEWS, application, digest)).values(sync=sync))

    def save(self, record: SyncRecord) -> SyncRecord:
        """Keep the record of a sync; return it with its id."""
        with self._database.writing() as connection:
            done = connection.execute(insert(HISTORY).values(application=record.application, body=history_body(record)))
            key = done.inserted_primary_key
            assert key is not None
        count(record)
        return replace(record, id=int(key[0]))

    def mark_failed(self, application: str, commit: str, message: str) -> None:
        """Turn the newest successful sync of a commit into a failed one; see the port."""
        for record in self.history(application):
            if record.commit.id == commit and record.outcome is Outcome.SUCCEEDED:
                failed = replace(record, outcome=Outcome.FAILED, message=message)
                with self._database.writing() as connection:
                    found = update(HISTORY).where(HISTORY.c.id == record.id)
                    connection.execute(found.values(body=history_body(failed)))
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
        query = select(*AUDIT_COLUMNS).order_by(AUDIT.c.id.desc()).limit(limit)
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
            return tuple(record_of(row) for row in connection.execute(query))

    def decisions(self, application: str = "", *, limit: int = 100, before: int = 0) -> tuple[AuditRecord, ...]:
        """Return the audit records that belong to no sync, newest first; see the port."""
        query = select(*AUDIT_COLUMNS).where(AUDIT.c.sync == "").order_by(AUDIT.c.id.desc()).limit(limit)
        if application:
            query = query.where(AUDIT.c.application == application)
        if before:
            query = query.where(AUDIT.c.id < before)
        with self._database.reading() as connection:
            return tuple(record_of(row) for row in connection.execute(query))

    def export(self, application: str = "", batch: int = 1000) -> Iterator[AuditRecord]:
        """Yield the chain of one application or of all, oldest first, a batch in memory at a time."""
        last = 0
        while True:
            query = select(*AUDIT_COLUMNS).where(AUDIT.c.id > last).order_by(AUDIT.c.id).limit(batch)
            if application:
                query = query.where(AUDIT.c.application == application)
            with self._database.reading() as connection:
                records = [record_of(row) for row in connection.execute(query)]
            yield from records
            if len(records) < batch:
                return
            last = records[-1].id

    def unfinished(self, application: str = "") -> tuple[AuditRecord, ...]:
        """Return intents that no outcome follows: what a crash interrupted; of one Application where it is named."""
        with self._database.reading() as connection:
            return unfinished(connection, application)

    def keep_review(self, application: str, digest: str, review: Review, link: AuditRecord) -> None:
        """Store the review of exactly this plan, replacing an earlier one, together with its audit link."""
        with self._database.writing() as connection:
            connection.execute(delete(REVIEWS).where(_plan(REVIEWS, application, digest)))
            connection.execute(insert(REVIEWS).values(application=application, digest=digest, **_row(review)))
            append(connection, [link])

    def review(self, application: str, digest: str, now: datetime, *, sync: str = "") -> Review | None:
        """Return the last review of this plan; an approval only while it is valid, see the port."""
        with self._database.reading() as connection:
            row = connection.execute(select(REVIEWS).where(_plan(REVIEWS, application, digest))).first()
            if row is None or (row.approves and (row.until <= _stamp(now) or _is_used(connection, row.sync, sync))):
                return None
        by = User(row.reviewer, tuple(orjson.loads(row.groups)), bool(row.is_known))
        return Review(by, bool(row.approves), row.reason, datetime.fromisoformat(row.until) if row.until else None)

    def end_approval(self, application: str, digest: str) -> None:
        """Drop the approval of a plan: its sync is over."""
        with self._database.writing() as connection:
            connection.execute(delete(REVIEWS).where(_plan(REVIEWS, application, digest), REVIEWS.c.approves == 1))

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
            connection.execute(delete(ADVICE).where(ADVICE.c.digest == digest, ADVICE.c.asked == asked))
            connection.execute(insert(ADVICE).values(digest=digest, asked=asked, body=body))
            newest = connection.execute(select(func.max(ADVICE.c.id))).scalar_one()
            connection.execute(delete(ADVICE).where(ADVICE.c.id <= newest - _ANSWERS))

    def verify(self) -> tuple[str, ...]:
        """Return what is wrong with the audit chain, one line each; empty when it is whole."""
        with self._database.reading() as connection:
            return tuple(broken(connection))

    def trim(self, before: datetime, now: datetime) -> int:
        """Drop the audit records older than a time, and return how many; see the port."""
        with self._database.writing() as connection:
            return trim(connection, before, now)

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


def _row(review: Review) -> dict[str, str | int]:
    return {
        "approves": int(review.approves),
        "reviewer": review.by.name,
        "groups": orjson.dumps(review.by.groups).decode(),
        "is_known": int(review.by.is_authenticated),
        "reason": review.reason,
        "until": _stamp(review.until) if review.until else "",
        "sync": "",
    }


def _is_used(connection: Connection, by: str, sync: str) -> bool:
    """Return whether another sync used the approval and wrote something of the plan."""
    if by in ("", sync):
        return False
    done = exists().where(AUDIT.c.sync == by, AUDIT.c.outcome == Outcome.SUCCEEDED.value)
    return bool(connection.execute(select(done)).scalar())


def _plan(table: Table, application: str, digest: str) -> ColumnElement[bool]:
    return and_(table.c.application == application, table.c.digest == digest)


def _stamp(time: datetime) -> str:
    return time.astimezone(UTC).isoformat()
