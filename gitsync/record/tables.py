"""The tables, the same for SQLite and PostgreSQL, and records as the JSON text in their rows."""

from __future__ import annotations

import hashlib
from dataclasses import fields, replace
from datetime import UTC
from functools import cache
from typing import Any

import orjson
from pydantic import TypeAdapter
from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, String, Table, Text

from gitsync.objects.record import AuditRecord, SyncRecord

METADATA = MetaData()

# SQLite counts ids by itself only for a column that is spelled INTEGER
_ID = BigInteger().with_variant(Integer, "sqlite")

HISTORY = Table(
    "history",
    METADATA,
    Column("id", _ID, primary_key=True, autoincrement=True),
    Column("application", String(512), nullable=False),
    Column("body", Text, nullable=False),
    Index("history_application", "application", "id"),
)

AUDIT = Table(
    "audit",
    METADATA,
    # not by the database: the number is part of the hash, and the chain has no gaps
    Column("id", _ID, primary_key=True, autoincrement=False),
    Column("application", String(512), nullable=False),
    Column("sync", String(64), nullable=False),
    Column("action", String(32), nullable=False),
    Column("resource", String(1024), nullable=False),
    Column("outcome", String(16), nullable=False),
    Column("body", Text, nullable=False),
    Column("previous", String(64), nullable=False),
    Column("hash", String(64), nullable=False),
    Index("audit_application", "application", "id"),
    Index("audit_sync", "sync", "resource", "action"),
    Index("audit_outcome", "outcome", "sync"),
)

CHAIN = Table(
    "chain",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("length", _ID, nullable=False),
    Column("head", String(64), nullable=False),
)
"""One row: how long the audit chain is and the hash of its last link, so that a cut end shows."""

REVIEWS = Table(
    "plan_reviews",
    METADATA,
    Column("link", _ID, primary_key=True, autoincrement=False),
    Column("application", String(512), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("approves", Integer, nullable=False),
    # ISO 8601 in UTC: text compares as time does, in both databases
    Column("until", String(40), nullable=False),
    Index("plan_reviews_of", "application", "digest"),
)
"""The links of the audit that are the reviews of plans; the links say what they are, these rows only find them."""

ADVICE = Table(
    "advice",
    METADATA,
    Column("id", _ID, primary_key=True, autoincrement=True),
    Column("digest", String(64), nullable=False),
    Column("asked", String(64), nullable=False),
    Column("body", Text, nullable=False),
    Index("advice_of", "digest", "asked", unique=True),
)
"""Answers of reasoners; ``asked`` is a hash of endpoint and model."""

PROPOSALS = Table(
    "proposals",
    METADATA,
    Column("repository", String(1024), primary_key=True),
    Column("name", String(1024), primary_key=True),
    Column("digest", String(64), nullable=False),
    Column("body", Text, nullable=False),
)
"""What is known of pull requests: a preview and what was reported of it. A backup leaves it out."""

SESSIONS = Table(
    "sessions",
    METADATA,
    Column("id", String(64), primary_key=True),
    Column("owner", String(512), nullable=False),
    # ISO 8601 in UTC, as in the reviews
    Column("started", String(40), nullable=False),
    Column("ends", String(40), nullable=False),
    Column("address", String(100), nullable=False),
    Column("browser", String(100), nullable=False),
    Index("sessions_of", "owner", "started"),
)
"""Browsers that are signed in; ``id`` is a hash. A backup leaves them out: after a restore users sign in again."""

VIEWS = Table(
    "saved_views",
    METADATA,
    Column("owner", String(512), primary_key=True),
    Column("page", String(64), primary_key=True),
    Column("name", String(64), primary_key=True),
    Column("query", String(512), nullable=False),
)
"""Filters of lists that users named."""


GENESIS = "0" * 64
"""The previous hash of the first link of the audit chain."""

_CHAINED = ("id", "previous", "hash")
_AUDITED = tuple(member.name for member in fields(AuditRecord) if member.name not in _CHAINED)
_KEPT = tuple(member.name for member in fields(SyncRecord) if member.name != "id")


def dump(members: dict[str, Any]) -> str:
    """Return canonical JSON: sorted keys, times in UTC."""
    # canonical, since a hash is over the text: the same members must give the same bytes
    return orjson.dumps(members, option=orjson.OPT_SORT_KEYS | orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS).decode()


def history_body(record: SyncRecord) -> str:
    """Return a sync record as JSON, without its id."""
    return dump({name: getattr(record, name) for name in _KEPT})


def history_record(id: int, body: str) -> SyncRecord:
    """Return the sync record that ``history_body`` wrote; its start is in UTC."""
    record = _sync_records().validate_json(body)
    return replace(record, id=id, started=record.started.astimezone(UTC))


def audit_body(record: AuditRecord) -> str:
    """Return an audit record as JSON, without its place in the chain."""
    return dump({name: getattr(record, name) for name in _AUDITED})


def audit_record(id: int, body: str, previous: str, hash: str) -> AuditRecord:
    """Return the audit record that ``audit_body`` wrote."""
    record = _audit_records().validate_json(body)
    return replace(record, id=id, previous=previous, hash=hash, timestamp=record.timestamp.astimezone(UTC))


def link_hash(previous: str, id: int, body: str) -> str:
    """Return the hash of one link: SHA-256 over the hash before it, its number and its body."""
    # the number is hashed too, so that links cannot change places
    return hashlib.sha256(f"{previous}\n{id}\n{body}".encode()).hexdigest()


# built at the first use: pydantic takes longer to build them than a command without history takes to run
@cache
def _sync_records() -> TypeAdapter[SyncRecord]:
    return TypeAdapter(SyncRecord)


@cache
def _audit_records() -> TypeAdapter[AuditRecord]:
    return TypeAdapter(AuditRecord)
