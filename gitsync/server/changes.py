"""Read the timeline of changes from history, audit and current drift: newest first, filtered, a page at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from heapq import merge

from gitsync.objects.record import SyncRecord
from gitsync.server.backend import Backend
from gitsync.server.rows.query import Query
from gitsync.server.rows.timeline import Entry, decision_entry, drift_entries, grouped, sync_entry

NAMES = ("app", "ns", "kind", "by", "commit", "state", "since", "until")
"""The members of a filter that the timeline accepts."""
_BATCH = 50
SYNCS = 400
"""Syncs that a comparison reads at most."""
_SCANNED = 400
"""Records that one page reads at most; the next page continues there."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where a page of the timeline begins: the ids and the time that everything on it is below; 0 and None: newest."""

    history: int = 0
    audit: int = 0
    time: datetime | None = None

    def __str__(self) -> str:
        return f"{self.history}-{self.audit}-{self.time.timestamp() if self.time else ''}"

    @classmethod
    def parse(cls, text: str) -> Position:
        """Return the position that ``str`` wrote, the newest for what is not valid."""
        history, _, rest = text.partition("-")
        audit, _, time = rest.partition("-")
        if not (history.isdecimal() and audit.isdecimal() and len(text) < 80):
            return cls()
        try:
            moment = datetime.fromtimestamp(float(time)).astimezone() if time else None
        except (ValueError, OverflowError, OSError):
            return cls()
        return cls(int(history) % (1 << 62), int(audit) % (1 << 62), moment)


@dataclass(frozen=True, slots=True)
class Changes:
    """One page of the timeline; ``older`` is where the next page begins, None at the end."""

    entries: list[Entry] = field(default_factory=list)
    older: Position | None = None


def changes(backend: Backend, query: Query, position: Position, limit: int) -> Changes:
    """Return a page of the entries that match, newest first."""
    only = query.application
    matches = query.matcher(_READ, lambda entry: entry.text)
    found: list[Entry] = []
    for read, entry in enumerate(_entries(backend, position, only)):
        if query.since is not None and entry.time < query.since:
            return Changes(grouped(found))
        if len(found) >= limit or read >= _SCANNED:
            return Changes(grouped(found), position)
        position = _below(position, entry)
        if query.is_in_time(entry.time) and matches(entry):
            found.append(entry)
    return Changes(grouped(found))


def records_between(backend: Backend, query: Query) -> list[SyncRecord]:
    """Return the records of the syncs in the period of a filter, newest first, without corrected drift."""
    only = query.application
    found: list[SyncRecord] = []
    before = 0
    while len(found) < SYNCS:
        records = backend.records.history(only, limit=_BATCH, before=before)
        found += [item for item in records if item.trigger != "drift" and query.is_in_time(item.started)]
        if len(records) < _BATCH or (query.since is not None and records[-1].started < query.since):
            break
        before = records[-1].id
    return found


def _entries(backend: Backend, position: Position, only: str) -> Iterator[Entry]:
    drift = [
        entry
        for entry in drift_entries(backend.view.applications())
        if (position.time is None or entry.time < position.time) and only in ("", *entry.applications)
    ]
    drift.sort(key=_time, reverse=True)
    streams = (_syncs(backend, position.history, only), _decisions(backend, position.audit, only), drift)
    return merge(*streams, key=_time, reverse=True)


def _syncs(backend: Backend, before: int, only: str) -> Iterator[Entry]:
    while True:
        records = backend.records.history(only, limit=_BATCH, before=before)
        yield from map(sync_entry, records)
        if len(records) < _BATCH:
            return
        before = records[-1].id


def _decisions(backend: Backend, before: int, only: str) -> Iterator[Entry]:
    while True:
        links = backend.records.decisions(only, limit=_BATCH, before=before)
        yield from map(decision_entry, links)
        if len(links) < _BATCH:
            return
        before = links[-1].id


def _below(position: Position, entry: Entry) -> Position:
    """Return the position after an entry was read."""
    if entry.history:
        position = replace(position, history=entry.history)
    if entry.audit:
        position = replace(position, audit=entry.audit)
    return replace(position, time=entry.time)


def _time(entry: Entry) -> datetime:
    return entry.time


_READ = {
    "app": lambda entry: [name for key in entry.applications for name in (key, key.rpartition("/")[2])],
    "ns": lambda entry: [key.partition("/")[0] for key in entry.applications],
    "kind": lambda entry: (entry.kind,),
    "by": lambda entry: entry.people,
    "commit": lambda entry: (entry.commit, entry.commit[:7], entry.commit[:12]),
    "state": lambda entry: [result.state for result in entry.results],
}
