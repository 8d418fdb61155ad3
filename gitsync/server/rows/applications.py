"""Rows of lists of applications: their content, counts, order and filters. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from gitsync.objects.health import Health
from gitsync.objects.manifest import at
from gitsync.objects.phase import Phase
from gitsync.ports import ApplicationView
from gitsync.server.formatting import age, visible
from gitsync.server.rows.verdict import verdict_of

SYNC_STATES = ("Synced", "OutOfSync", "Unknown")
HEALTH_STATES = tuple(health.value for health in Health)
PAGE = 50


@dataclass(frozen=True, slots=True)
class AppRow:
    """
    One application as lists show it; ``rank`` is lower the more it needs a person.

    ``state``, ``reason`` and ``since`` are its verdict. ``commit`` is the newest in Git, with its message and author;
    ``applied`` is what the cluster was brought to last.
    """

    key: str
    namespace: str
    name: str
    state: str
    is_suspended: bool
    sync: str
    health: str
    phase: Phase
    reason: str
    commit: str
    message: str
    author: str
    applied: str
    since: str
    since_time: str
    resources: str
    rank: int
    sequence: int

    @property
    def is_behind(self) -> bool:
        """Whether Git has a commit that is not applied yet."""
        return self.commit != self.applied


def app_row(view: ApplicationView, now: datetime) -> AppRow:
    """Return the row of an application."""
    status = view.status
    namespace, _, name = view.key.partition("/")
    verdict = verdict_of(view)
    counts = status.get("resources") or {}
    total, synced = counts.get("total", 0), counts.get("synced", 0)
    return AppRow(
        key=view.key,
        namespace=namespace,
        name=name,
        state=verdict.state,
        is_suspended=verdict.is_suspended,
        sync=status.get("sync", "Unknown"),
        health=status.get("health", "Unknown"),
        phase=Phase.of(status),
        reason=verdict.reason,
        commit=str(at(status, "revision", "fetched", default=""))[:7],
        message=visible(at(status, "revision", "message", default="")).partition("\n")[0],
        author=visible(at(status, "revision", "author", default="")),
        applied=str(at(status, "revision", "applied", default=""))[:7],
        since=age(verdict.since, now),
        since_time=verdict.since,
        resources=f"{synced}/{total}" if total else "",
        rank=verdict.rank,
        sequence=view.sequence,
    )


def needs_attention(row: AppRow) -> bool:
    """Tell whether a person has to act."""
    return row.rank <= 1


def is_busy(row: AppRow) -> bool:
    """Tell whether work is under way."""
    return row.phase.is_in_progress or row.health == "Progressing"


def counts(rows: Iterable[AppRow], member: str, order: Sequence[str]) -> list[tuple[str, int]]:
    """Return how many rows have each value of a member, in order, without those that nothing has."""
    found = Counter(getattr(row, member) for row in rows)
    return [(state, found[state]) for state in order if found[state]]


@dataclass(frozen=True, slots=True)
class Filter:
    """The filter of a list, as its URL has it."""

    q: str = ""
    sync: str = ""
    health: str = ""
    ns: str = ""
    sort: str = "worst"
    start: int = 0
    suspended: str = ""

    def matches(self, row: AppRow) -> bool:
        """Tell whether a row is wanted."""
        return (
            self.q.lower() in f"{row.key} {row.reason} {row.message}".lower()
            and self.sync in ("", row.sync)
            and self.health in ("", row.health)
            and self.ns in ("", row.namespace)
            and (not self.suspended or row.is_suspended)
        )

    def ordered(self, rows: Iterable[AppRow]) -> list[AppRow]:
        """Return the wanted rows in the wanted order."""
        wanted = [row for row in rows if self.matches(row)]
        return sorted(wanted, key=lambda row: (row.key,) if self.sort == "name" else (row.rank, row.key))
