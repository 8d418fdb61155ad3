"""The tables, the same for SQLite and PostgreSQL."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, String, Table, Text

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
