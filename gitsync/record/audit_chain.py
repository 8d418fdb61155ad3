"""
The audit chain in its table: append links, cut old ones off, check that it is whole.

Its heads are also kept outside the database, in memory, and in an append-only file where one is configured. How long
links are kept is the operator's.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import orjson
from sqlalchemy import Connection, Row, bindparam, delete, exists, func, insert, select, update

from gitsync.errors import RecordUnavailable
from gitsync.objects.record import AuditHead, AuditRecord, Outcome
from gitsync.ports import Clock, Records
from gitsync.record.tables import AUDIT, CHAIN, GENESIS, audit_body, audit_record, link_hash
from gitsync.runtime.clock import Periodic

AUDIT_COLUMNS = (AUDIT.c.id, AUDIT.c.body, AUDIT.c.previous, AUDIT.c.hash)
TRIM = "trim"
"""The action of a link that says up to which one older ones were cut off."""
ACCEPT = "accept"
"""The action of a link by which an operator accepts the chain as it is, after links were lost."""
COPIES = (AUDIT.c.application, AUDIT.c.sync, AUDIT.c.action, AUDIT.c.resource, AUDIT.c.outcome)
"""Columns that contain members of the body, to be searched."""
# statements of each sync are built once
_INSERT = insert(AUDIT)
_ADVANCE = update(CHAIN)
# an UPDATE that changes nothing: it locks the row in PostgreSQL and SQLite alike, where SELECT FOR UPDATE is unknown to
# SQLite
_LOCK = update(CHAIN).values(length=CHAIN.c.length).returning(CHAIN.c.length, CHAIN.c.head)
_HASH = select(AUDIT.c.hash).where(AUDIT.c.id == bindparam("id"))
_DONE = AUDIT.alias()
_IS_FOLLOWED = exists().where(
    _DONE.c.sync == AUDIT.c.sync,
    _DONE.c.resource == AUDIT.c.resource,
    _DONE.c.action == AUDIT.c.action,
    # the number grows with time: an earlier outcome belongs to an earlier intent of the same step
    _DONE.c.id > AUDIT.c.id,
    _DONE.c.outcome != Outcome.INTENDED.value,
)
_UNRESOLVED = (
    select(*AUDIT_COLUMNS).where(AUDIT.c.outcome == Outcome.INTENDED.value, ~_IS_FOLLOWED).order_by(AUDIT.c.id)
)
_UNRESOLVED_OF = _UNRESOLVED.where(AUDIT.c.application == bindparam("application"))


def record_of(row: Row[int, str, str, str]) -> AuditRecord:
    """Return the record of a row of ``LINK``."""
    return audit_record(*row)


def append(connection: Connection, records: Iterable[AuditRecord]) -> AuditRecord | None:
    """Append links and return the last one, None without any; the transaction must be one that writes."""
    bodies = [(record, audit_body(record)) for record in records]
    if not bodies:
        return None
    # before the bodies are hashed: another writer may move the head until the row is locked
    length, head = lock(connection)
    rows = []
    for record, body in bodies:
        length += 1
        previous = head
        head = link_hash(previous, length, body)
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
    connection.execute(_INSERT, rows)
    connection.execute(_ADVANCE, {"length": length, "head": head})
    return replace(bodies[-1][0], id=length, previous=previous, hash=head)


def lock(connection: Connection) -> tuple[int, str]:
    """Return length and head; taking the row first makes writers of several replicas follow each other."""
    length, head = connection.execute(_LOCK).one()
    return int(length), str(head)


def unresolved(connection: Connection, application: str = "") -> tuple[AuditRecord, ...]:
    """Return intents that no outcome follows, oldest first; of one Application where it is named."""
    query, members = (_UNRESOLVED_OF, {"application": application}) if application else (_UNRESOLVED, {})
    return tuple(record_of(row) for row in connection.execute(query, members))


def trim(connection: Connection, now: datetime, oldest: datetime | None, keep: int) -> tuple[int, AuditRecord | None]:
    """
    Cut off the links older than a time and those before the newest ``keep``, each where given.

    The first unresolved write and what follows it stay. Return how many were cut off, and the link that says so.
    """
    length, _ = lock(connection)
    first = connection.execute(select(func.min(AUDIT.c.id))).scalar()
    if first is None:
        return 0, None
    # before anything is deleted: an intent without an outcome is needed to resolve its write
    intents = unresolved(connection)
    end = _first_since(connection, int(first), length, oldest) if oldest else int(first)
    if keep and length - int(first) > keep:  # one more is kept, the link that says what was cut off
        end = max(end, length + 1 - keep)
    end = min(end, intents[0].id if intents else length + 1)
    if end <= first:
        return 0, None
    # read before the delete: its hash is what the rest of the chain continues from
    last = record_of(connection.execute(select(*AUDIT_COLUMNS).where(AUDIT.c.id == end - 1)).one())
    connection.execute(delete(AUDIT).where(AUDIT.c.id < end))
    limits = [f"older than {oldest:%Y-%m-%d}" if oldest else "", f"more than {keep}" if keep else ""]
    message = f"records up to {last.id} were dropped: {' or '.join(filter(None, limits))}"
    details = {"through": last.id, "hash": last.hash}
    link = AuditRecord("", TRIM, "", Outcome.SUCCEEDED, now, "", message=message, details=details)
    # appended in the same transaction, so that no reader finds a chain that lost its start without a record
    return int(end - first), append(connection, [link])


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


def broken(connection: Connection, first: int = 0) -> Iterator[str]:
    """Yield what is wrong with the chain from a link on, one line each; 0 for all of it."""
    length, head = connection.execute(select(CHAIN.c.length, CHAIN.c.head)).one()
    start, start_hash = _start(connection)
    # from a link in the middle, the hash before it is not known and cannot be compared
    expected, previous_hash = (first, "") if first > start else (start, start_hash)
    query = select(*AUDIT_COLUMNS, *COPIES).where(AUDIT.c.id >= first).order_by(AUDIT.c.id)
    # in parts: the chain may be larger than memory
    for id, body, previous, hash, *copies in connection.execution_options(yield_per=1000).execute(query):
        if id != expected:
            yield f"audit record {expected} is missing" + (f" (up to {id - 1})" if id - expected > 1 else "")
        elif previous_hash not in ("", previous):
            yield f"audit record {id} does not follow the one before it"
        # the columns are searched and not hashed: a change of them would hide a link from a query
        if link_hash(previous, id, body) != hash or copies != _copied(body):
            yield f"audit record {id} was changed"
        expected = id + 1
        previous_hash = hash
    if expected - 1 != length:
        # the length is stored apart, since a chain that was cut at its end is consistent in itself
        yield f"the audit ends at record {expected - 1}, {length} were written"
    elif previous_hash not in ("", head):
        yield "the last audit record is not the one that was written last"


def lost(connection: Connection, heads: Iterable[AuditHead]) -> Iterator[str]:
    """Yield the heads that the chain lacks, one line each; not those that age dropped or an operator accepted."""
    missing = [head for head in heads if connection.execute(_HASH, {"id": head.id}).scalar() != head.hash]
    if not missing:
        return
    start, _ = _start(connection)
    accepted = _newest(connection, ACCEPT)
    for head in missing:
        # links that age dropped, and those before an acceptance, are missing on purpose
        if head.id >= start and (accepted is None or head.time > accepted.timestamp):
            yield f"audit record {head.id} is not the one of {head.time:%Y-%m-%d %H:%M:%S} in {head.place}"


def _start(connection: Connection) -> tuple[int, str]:
    """Return the id of the first link, and the hash of the one before it: age may have dropped older ones."""
    cut = _newest(connection, TRIM)
    return (int(cut.details["through"]) + 1, str(cut.details["hash"])) if cut is not None else (1, GENESIS)


def _copied(body: str) -> list[str]:
    """Return what the columns beside the body have to contain."""
    members = orjson.loads(body)
    return [members[column.name] for column in COPIES]


def _newest(connection: Connection, action: str) -> AuditRecord | None:
    """Return the newest link of an action about the chain itself: up to where it was cut off, or accepted."""
    query = select(*AUDIT_COLUMNS).where(AUDIT.c.application == "", AUDIT.c.action == action)
    row = connection.execute(query.order_by(AUDIT.c.id.desc()).limit(1)).first()
    return record_of(row) if row is not None else None


# bytes at the end of the file that are read for its last line
_TAIL = 4096


class AuditHeads:
    """
    Keep the newest link that this process wrote, and append each to a file with one JSON object a line.

    The file may lack links (a crash before it was written, or other replicas), but never has one that the chain has
    not. Thread-safe.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._written: AuditHead | None = None

    def add(self, link: AuditRecord) -> None:
        """Keep the head of a chain that ends with this link; raise RecordUnavailable when the file is not writable."""
        head = AuditHead.of(link, "what this process wrote")
        with self._lock:
            # threads may arrive in another order than their links were appended
            if self._written is None or self._written.id < head.id:
                self._written = head
            if self._file is not None:
                _append(self._file, orjson.dumps(head.to_json()) + b"\n")

    def last(self) -> tuple[AuditHead, ...]:
        """Return the newest head of each place."""
        with self._lock:
            written = (self._written,) if self._written is not None else ()
        return (*written, *deque(self.kept(_TAIL), maxlen=1))

    def kept(self, tail: int = 0) -> Iterator[AuditHead]:
        """Yield the heads in the file, oldest first: all, or those in its last ``tail`` bytes."""
        if self._file is None or not self._file.exists():
            return
        with self._file.open("rb") as file:
            if tail:
                # the first line of the tail may be cut, which _parsed leaves out
                file.seek(max(0, file.seek(0, os.SEEK_END) - tail))
            for line in file:
                head = AuditHead.from_json(_parsed(line), str(self._file))
                if head is not None:
                    yield head


def _append(file: Path, line: bytes) -> None:
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, line)  # O_APPEND: one write, so that lines of two processes do not mix
        finally:
            os.close(descriptor)
    except OSError as error:
        raise RecordUnavailable(
            f"the head of the audit chain cannot be kept: {error.strerror}",
            location=str(file),
            hint="correct GITSYNC_AUDIT_HEADS or the permissions of its folder; nothing is applied meanwhile",
        ) from error


def _parsed(line: bytes) -> object:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return None  # a line that was cut by a crash or by reading only the tail


# seconds between two checks
_EVERY = 600.0
_log = logging.getLogger(__name__)


class Retention(Periodic):
    """Drop audit records older than ``days`` and before the newest ``keep`` (0: none), at the start and repeatedly."""

    def __init__(self, records: Records, clock: Clock, *, days: int = 0, keep: int = 0) -> None:
        super().__init__("retention", self.trim, _EVERY)
        self._records = records
        self._clock = clock
        self._age = timedelta(days=days)
        self._keep = keep

    def trim(self) -> None:
        """Drop the records that are too old or too many now."""
        if not self._age and not self._keep:
            return
        try:
            now = self._clock.now()
            dropped = self._records.trim(now, before=now - self._age if self._age else None, keep=self._keep)
        # lost: nothing; the next check tries again
        except RecordUnavailable as error:
            _log.warning("the audit was not trimmed: %s", error)
        else:
            if dropped:
                _log.info("dropped %d audit records (kept: %s days, %s records)", dropped, *self._limits())

    def _limits(self) -> tuple[int | str, int | str]:
        return self._age.days or "all", self._keep or "all"
