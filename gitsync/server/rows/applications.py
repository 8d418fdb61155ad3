"""What lists of applications show, worked out from views: rows, counts, order, filters. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from gitsync.objects.conditions import READY, find_condition, main_message
from gitsync.objects.health import Health
from gitsync.objects.manifest import at
from gitsync.objects.phase import Phase
from gitsync.ports import ApplicationView
from gitsync.server.formatting import age, visible

SYNC_STATES = ("Synced", "OutOfSync", "Unknown")
HEALTH_STATES = tuple(health.value for health in Health)
_BAD_PHASES = (Phase.FAILED, Phase.AWAITING_APPROVAL, Phase.DRIFTED)
PAGE = 50


@dataclass(frozen=True, slots=True)
class AppRow:
    """
    One application as lists show it; ``rank`` is lower the more it needs a person.

    ``commit`` is what Git has, with its message and author; ``applied`` is what the cluster was brought to last.
    """

    key: str
    namespace: str
    name: str
    sync: str
    health: str
    phase: Phase
    reason: str
    commit: str
    message: str
    author: str
    applied: str
    since: str
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
    sync, health, phase = status.get("sync", "Unknown"), status.get("health", "Unknown"), Phase.of(status)
    ready = find_condition(status, READY)
    counts = status.get("resources") or {}
    total, synced = counts.get("total", 0), counts.get("synced", 0)
    return AppRow(
        key=view.key,
        namespace=namespace,
        name=name,
        sync=sync,
        health=health,
        phase=phase,
        reason=visible(main_message(status)),
        commit=str(at(status, "revision", "fetched", default=""))[:7],
        message=visible(at(status, "revision", "message", default="")).partition("\n")[0],
        author=visible(at(status, "revision", "author", default="")),
        applied=str(at(status, "revision", "applied", default=""))[:7],
        since=age(ready.get("lastTransitionTime"), now),
        resources=f"{synced}/{total}" if total else "",
        rank=_rank(sync, health, phase),
        sequence=view.sequence,
    )


def _rank(sync: str, health: str, phase: Phase) -> int:
    if phase is Phase.FAILED or health == "Degraded":
        return 0
    if phase in _BAD_PHASES or health in ("Missing", "Unknown") or sync == "Unknown":
        return 1
    if phase.is_in_progress or health == "Progressing" or sync == "OutOfSync":
        return 2
    return 3


def needs_attention(row: AppRow) -> bool:
    """Tell whether a person should look."""
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
    """What a list is narrowed to, as its URL says."""

    q: str = ""
    sync: str = ""
    health: str = ""
    ns: str = ""
    sort: str = "worst"
    after: str = ""

    def matches(self, row: AppRow) -> bool:
        """Tell whether a row is wanted."""
        return (
            self.q.lower() in f"{row.key} {row.reason} {row.message}".lower()
            and self.sync in ("", row.sync)
            and self.health in ("", row.health)
            and self.ns in ("", row.namespace)
        )

    def ordered(self, rows: Iterable[AppRow]) -> list[AppRow]:
        """Return the wanted rows in the wanted order."""
        wanted = [row for row in rows if self.matches(row)]
        return sorted(wanted, key=lambda row: (row.key,) if self.sort == "name" else (row.rank, row.key))

    def page(self, rows: Sequence[AppRow]) -> tuple[Sequence[AppRow], str]:
        """Return the rows after the cursor, a page of them, and the cursor of the next page (empty at the end)."""
        start = next((index + 1 for index, row in enumerate(rows) if row.key == self.after), 0)
        shown = rows[start : start + PAGE]
        return shown, shown[-1].key if shown and start + PAGE < len(rows) else ""
