"""Records to JSON text and back."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

import orjson

from gitsync.objects.record import AuditRecord, Commit, Outcome, Step, SyncRecord

GENESIS = "0" * 64
"""What stands before the first link of the audit chain."""

_CHAINED = ("id", "previous", "hash")


def _plain(value: Any) -> Any:
    if isinstance(value, Outcome):
        return value.value
    raise TypeError(type(value).__name__)


def dump(members: dict[str, Any]) -> str:
    """Return canonical JSON: sorted keys, times in UTC."""
    return orjson.dumps(
        members, default=_plain, option=orjson.OPT_SORT_KEYS | orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS
    ).decode()


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def history_body(record: SyncRecord) -> str:
    """Return a sync record as JSON, without its id."""
    members = asdict(record)
    del members["id"]
    return dump(members)


def history_record(id: int, body: str) -> SyncRecord:
    """Read what ``history_body`` wrote."""
    members = orjson.loads(body)
    commit = members.pop("commit")
    if commit["time"]:
        commit["time"] = datetime.fromisoformat(commit["time"])
    steps = tuple(
        Step(**{**step, "outcome": Outcome(step["outcome"]), "differences": tuple(step["differences"])})
        for step in members.pop("steps")
    )
    members["started"] = _time(members["started"])
    members["outcome"] = Outcome(members["outcome"])
    return SyncRecord(**members, commit=Commit(**commit), steps=steps, id=id)


def audit_body(record: AuditRecord) -> str:
    """Return an audit record as JSON, without its place in the chain."""
    members = asdict(record)
    for name in _CHAINED:
        del members[name]
    return dump(members)


def audit_record(id: int, body: str, previous: str, hash: str) -> AuditRecord:
    """Read what ``audit_body`` wrote."""
    members = orjson.loads(body)
    members["timestamp"] = _time(members["timestamp"])
    members["outcome"] = Outcome(members["outcome"])
    return replace(AuditRecord(**members), id=id, previous=previous, hash=hash)


def link_hash(previous: str, id: int, body: str) -> str:
    """Return the hash of one link: SHA-256 over the hash before it, its number and its body."""
    return hashlib.sha256(f"{previous}\n{id}\n{body}".encode()).hexdigest()
