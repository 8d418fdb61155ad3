"""Records to JSON text and back."""

from __future__ import annotations

import hashlib
from dataclasses import fields, replace
from datetime import UTC
from functools import cache
from typing import Any

import orjson
from pydantic import TypeAdapter

from gitsync.objects.record import AuditRecord, SyncRecord

GENESIS = "0" * 64
"""The previous hash of the first link of the audit chain."""

_CHAINED = ("id", "previous", "hash")
_AUDITED = tuple(member.name for member in fields(AuditRecord) if member.name not in _CHAINED)
_KEPT = tuple(member.name for member in fields(SyncRecord) if member.name != "id")


def dump(members: dict[str, Any]) -> str:
    """Return canonical JSON: sorted keys, times in UTC."""
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
    return hashlib.sha256(f"{previous}\n{id}\n{body}".encode()).hexdigest()


@cache
def _sync_records() -> TypeAdapter[SyncRecord]:
    return TypeAdapter(SyncRecord)


@cache
def _audit_records() -> TypeAdapter[AuditRecord]:
    return TypeAdapter(AuditRecord)
