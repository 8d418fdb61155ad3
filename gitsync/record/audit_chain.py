"""The audit chain in its table: append links, cut old ones off, check that it is whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, and_, delete, exists, func, insert, select, update

from gitsync.objects.record import AuditRecord, Outcome
from gitsync.record.serialization import GENESIS, audit_body, audit_record, link_hash
from gitsync.record.tables import AUDIT, CHAIN

AUDIT_COLUMNS = (AUDIT.c.id, AUDIT.c.body, AUDIT.c.previous, AUDIT.c.hash)
TRIM = "trim"
"""The action of a link that says up to which one older ones were cut off."""


def record_of(row: Row[int, str, str, str]) -> AuditRecord:
    """Return the record of a row of ``LINK``."""
    return audit_record(*row)


def append(connection: Connection, records: Iterable[AuditRecord]) -> None:
    """Append links; the transaction must be one that writes."""
    bodies = [(record, audit_body(record)) for record in records]
    if not bodies:
        return
    length, head = _locked(connection)
    rows = []
    for record, body in bodies:
        length += 1
        previous, head = head, link_hash(head, length, body)
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


def _locked(connection: Connection) -> tuple[int, str]:
    """Return length and head; taking the row first makes writers of several replicas follow each other."""
    connection.execute(update(CHAIN).values(length=CHAIN.c.length))
    length, head = connection.execute(select(CHAIN.c.length, CHAIN.c.head)).one()
    return int(length), str(head)


def unfinished(connection: Connection, application: str = "") -> tuple[AuditRecord, ...]:
    """Return intents that no outcome follows, oldest first; of one Application where it is named."""
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
    query = select(*AUDIT_COLUMNS).where(AUDIT.c.outcome == Outcome.INTENDED.value, ~followed).order_by(AUDIT.c.id)
    if application:
        query = query.where(AUDIT.c.application == application)
    return tuple(record_of(row) for row in connection.execute(query))


def trim(connection: Connection, before: datetime, now: datetime) -> int:
    """Cut off the links older than a time, but for the first unfinished one and what follows it; return how many."""
    length, _ = _locked(connection)
    first = connection.execute(select(func.min(AUDIT.c.id))).scalar()
    if first is None:
        return 0
    open_intents = unfinished(connection)
    end = min(_first_since(connection, int(first), length, before), open_intents[0].id if open_intents else length + 1)
    if end <= first:
        return 0
    last = record_of(connection.execute(select(*AUDIT_COLUMNS).where(AUDIT.c.id == end - 1)).one())
    connection.execute(delete(AUDIT).where(AUDIT.c.id < end))
    message = f"records up to {last.id} are older than {before:%Y-%m-%d} and were dropped"
    details = {"through": last.id, "hash": last.hash}
    append(connection, [AuditRecord("", TRIM, "", Outcome.SUCCEEDED, now, "", message=message, details=details)])
    return int(end - first)


def _first_since(connection: Connection, low: int, length: int, time: datetime) -> int:
    """Return the first id that is not older than a time, by bisection: links are in the order of time."""
    high = length + 1
    while low < high:
        middle = (low + high) // 2
        row = connection.execute(select(*AUDIT_COLUMNS).where(AUDIT.c.id == middle)).first()
        if row is not None and record_of(row).timestamp < time:
            low = middle + 1
        else:
            high = middle
    return low


def broken(connection: Connection) -> Iterator[str]:
    """Yield what is wrong with the chain, one line each."""
    length, head = connection.execute(select(CHAIN.c.length, CHAIN.c.head)).one()
    cut = _cut(connection)
    expected, previous_hash = int(cut.get("through", 0)) + 1, str(cut.get("hash", GENESIS))
    rows = connection.execution_options(yield_per=1000).execute(select(*AUDIT_COLUMNS).order_by(AUDIT.c.id))
    for id, body, previous, hash in rows:
        if id != expected:
            yield f"audit record {expected} is missing" + (f" (up to {id - 1})" if id - expected > 1 else "")
        elif previous != previous_hash:
            yield f"audit record {id} does not follow the one before it"
        if link_hash(previous, id, body) != hash:
            yield f"audit record {id} was changed"
        expected, previous_hash = id + 1, hash
    if expected - 1 != length:
        yield f"the audit ends at record {expected - 1}, {length} were written"
    elif previous_hash != head:
        yield "the last audit record is not the one that was written last"


def _cut(connection: Connection) -> Mapping[str, Any]:
    """Return up to which link, and with which hash, older ones were cut off, as the chain itself says."""
    query = select(*AUDIT_COLUMNS).where(AUDIT.c.action == TRIM).order_by(AUDIT.c.id.desc()).limit(1)
    row = connection.execute(query).first()
    return record_of(row).details if row is not None else {}
