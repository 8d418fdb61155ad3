"""Rows of lists of Applications and ApplicationSets: their content, counts, order and filters. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar

from gitsync.gate.explain import PolicySummary
from gitsync.objects.conditions import READY, SOURCE_READY, find_condition
from gitsync.objects.health import Health
from gitsync.objects.manifest import Manifest, at, metadata_of
from gitsync.objects.phase import Phase
from gitsync.objects.record import SyncRecord
from gitsync.objects.user import User
from gitsync.ports import ApplicationView
from gitsync.server.backend import Backend
from gitsync.server.formatting import visible
from gitsync.server.queries.filters import Filter
from gitsync.server.queries.verdict import AppVerdict, verdict_of

SYNC_STATES = ("Synced", "OutOfSync", "Unknown")
HEALTH_STATES = tuple(health.value for health in Health)
NAMES: Final = ("app", "set", "ns", "state", "sync", "health", "by", "commit", "is")
"""The members of a filter that the list of applications accepts."""
PAGE = 50
_DIFFERING = re.compile(r"\S*/\S*|\d+|[0-9a-f]{7,}")


T = TypeVar("T")


class PerView(Generic[T]):
    """
    Compute a value for each view, and reuse it while the view is the same object.

    A view never changes: a reconcile publishes another one. Only the values of the views of the last call are kept, so
    those of deleted applications are not. Concurrent calls compute a value twice at worst.
    """

    def __init__(self, make: Callable[[ApplicationView], T]) -> None:
        self._make = make
        self._made: dict[str, tuple[ApplicationView, T]] = {}

    def all_of(self, views: Iterable[ApplicationView]) -> list[T]:
        """Return the values of views, which are all that there are."""
        known = self._made
        made = dict[str, tuple[ApplicationView, T]]()
        for view in views:
            last = known.get(view.key)
            made[view.key] = last if last is not None and last[0] is view else (view, self._make(view))
        # replaced as a whole: other threads read the old or the new one
        self._made = made
        return [value for _, value in made.values()]


@dataclass(frozen=True, slots=True)
class AppRow:
    """
    One application as lists show it; ``rank`` is lower the more it needs a person.

    ``state``, ``reason`` and ``since_time`` (RFC 3339) are its worst verdict, ``also`` the others. ``commit`` is the
    newest in Git, with its message and author; ``applied`` is what the cluster was brought to last. ``set`` is the
    ApplicationSet that yields it.
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
    since_time: str
    resources: str
    rank: int
    sequence: int
    set: str = ""
    object: str = ""
    """The path of the object that the reason is about."""
    cause: str = ""
    """The applied commit that may be why, empty where it is none."""
    also: tuple[AppVerdict, ...] = ()

    @property
    def by_verdict(self) -> tuple[AppRow, ...]:
        """A row for each verdict, the worst first."""
        others = (
            replace(
                self,
                state=other.state,
                reason=other.reason,
                since_time=other.since,
                rank=other.rank,
                object=other.object,
                cause=other.cause,
                also=(),
            )
            for other in self.also
        )
        return (self, *others)

    @property
    def states(self) -> tuple[str, ...]:
        """The states of all verdicts."""
        return (self.state, *(other.state for other in self.also))

    @property
    def is_behind(self) -> bool:
        """Whether Git has a commit that is not applied yet."""
        return self.commit != self.applied


def app_row(view: ApplicationView) -> AppRow:
    """Return the row of an application."""
    status = view.status
    namespace, _, name = view.key.partition("/")
    verdict = verdict_of(view)
    counts = status.get("resources") or {}
    total = counts.get("total", 0)
    synced = counts.get("synced", 0)
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
        since_time=verdict.since,
        resources=f"{synced}/{total}" if total else "",
        rank=verdict.rank,
        sequence=view.sequence,
        set=view.application.set if view.application is not None else "",
        object=verdict.object,
        cause=verdict.cause[:7],
        also=verdict.also,
    )


_ROWS: Final = PerView(app_row)


def app_rows(views: Iterable[ApplicationView]) -> list[AppRow]:
    """Return the rows of all applications."""
    return _ROWS.all_of(views)


def policy_summaries(backend: Backend, user: User) -> tuple[PolicySummary, ...]:
    """Return who may do what: all policies for a user who sees all Applications, else those that are about some."""
    seen = (view.application for view in backend.view.applications())
    policies = backend.policies.summaries(app for app in seen if app is not None)
    sees_all = backend.policies.sees_all(user)
    return tuple(policy for policy in policies if sees_all or policy.applications)


def needs_attention(row: AppRow) -> bool:
    """Tell whether a person has to act."""
    return row.rank <= 1


def is_busy(row: AppRow) -> bool:
    """Tell whether work is under way."""
    return row.phase.is_in_progress or row.health == "Progressing"


def newest_syncs(records: Iterable[SyncRecord], rows: Iterable[AppRow]) -> dict[int, AppRow]:
    """Return the row of the application for the newest of its syncs in a list that is newest first."""
    known = {row.key: row for row in rows}
    first: dict[str, int] = {}
    for record in records:
        # the list is newest first
        first.setdefault(record.application, record.id)
    return {id: known[key] for key, id in first.items() if key in known}


def counts(rows: Iterable[AppRow], member: str, order: Sequence[str]) -> list[tuple[str, int]]:
    """Return how many rows have each value of a member, in order, without those that nothing has."""
    numbers = Counter(getattr(row, member) for row in rows)
    return [(state, numbers[state]) for state in order if numbers[state]]


def matching(rows: Iterable[AppRow], query: Filter, sort: str = "worst") -> list[AppRow]:
    """Return the rows that match, the worst first or sorted ``name``."""
    wanted = filter(query.matcher(_READ, _text), rows)
    return sorted(wanted, key=lambda row: (row.key,) if sort == "name" else (row.rank, row.key))


def _text(row: AppRow) -> str:
    reasons = " ".join((row.reason, *(other.reason for other in row.also)))
    return f"{row.key} {reasons} {row.message} {row.author} {row.commit}"


_READ: Final[Mapping[str, Callable[[AppRow], Iterable[str]]]] = {
    "app": lambda row: (row.key, row.name),
    "set": lambda row: (row.set,),
    "ns": lambda row: (row.namespace,),
    "state": lambda row: row.states,
    "sync": lambda row: (row.sync,),
    "health": lambda row: (row.health,),
    "by": lambda row: (row.author,),
    "commit": lambda row: (row.commit, row.applied),
    "is": lambda row: [name for name, is_so in (("suspended", row.is_suspended), ("behind", row.is_behind)) if is_so],
}


@dataclass(frozen=True, slots=True)
class ProblemGroup:
    """Applications with the same problem: the reason without what differs between them, and since when."""

    rows: tuple[AppRow, ...]

    @property
    def first(self) -> AppRow:
        """The application that represents all."""
        return self.rows[0]

    @property
    def since(self) -> str:
        """When the oldest of them began (RFC 3339)."""
        return min((row.since_time for row in self.rows if row.since_time), default="")


def problems(rows: Iterable[AppRow]) -> list[ProblemGroup]:
    """Return the problems of applications that need a person, equal ones as one, the most urgent and oldest first."""
    rows_by_reason: dict[tuple[str, str], list[AppRow]] = {}
    for row in rows:
        for part in filter(needs_attention, row.by_verdict):
            rows_by_reason.setdefault((part.state, _common_reason(part)), []).append(part)
    grouped = [ProblemGroup(tuple(members)) for members in rows_by_reason.values()]
    # "~" sorts after every time: an unknown one is not the oldest
    return sorted(grouped, key=lambda item: (item.first.rank, item.since or "~", item.first.key))


def _common_reason(row: AppRow) -> str:
    """Return the reason without names, paths and numbers, which differ between applications with one problem."""
    text = row.reason.replace(row.key, "").replace(row.name, "")
    return _DIFFERING.sub("", text)


SET_NAMES: Final = ("ns", "name", "state")
"""The members that a filter of sets may have."""
_AT_WORK = ("Current", "Writing", "Unknown")


@dataclass(frozen=True, slots=True)
class SetRow:
    """
    A set: the reason of its condition Ready as ``state``, what to do as ``reason``, and since when (RFC 3339).

    Where it is Ready and Git does not answer, these are of the condition SourceReady.

    ``applications`` are as many as its elements yield; ``current``, ``failed`` and ``waiting`` are some of its own.
    """

    namespace: str
    name: str
    state: str
    reason: str
    since: str
    applications: int
    current: int
    failed: int
    waiting: int


def set_row(manifest: Manifest) -> SetRow:
    """Return the row of a set."""
    status = manifest.get("status") or {}
    ready = find_condition(status, READY)
    source = find_condition(status, SOURCE_READY)
    if ready.get("status") == "True" and source.get("status") == "False":
        ready = source
    counts = at(status, "counts", default={})
    return SetRow(
        namespace=str(metadata_of(manifest).get("namespace", "")),
        name=str(metadata_of(manifest).get("name", "")),
        state=str(ready.get("reason") or "Unknown"),
        reason=visible(str(ready.get("message", ""))),
        # since when they are held: the condition changes also for other reasons
        since=str(at(status, "heldDeletions", "since") or ready.get("lastTransitionTime", "")),
        applications=int(counts.get("desired", 0)),
        current=int(counts.get("current", 0)),
        failed=int(counts.get("failed", 0)),
        waiting=int(counts.get("waiting", 0)),
    )


def matching_sets(rows: Iterable[SetRow], query: Filter) -> list[SetRow]:
    """Return the sets that match a filter, those with problems first."""
    matched = filter(query.matcher(_READ_SET, lambda row: f"{row.namespace}/{row.name} {row.state} {row.reason}"), rows)
    return sorted(matched, key=lambda row: (row.state in _AT_WORK, row.namespace, row.name))


def set_problems(sets: Iterable[Manifest]) -> list[SetRow]:
    """Return the sets that wait for an approval or failed, the oldest first."""
    troubled = (row for row in map(set_row, sets) if row.state not in _AT_WORK)
    return sorted(troubled, key=lambda row: (row.since, row.namespace, row.name))


_READ_SET = {
    "ns": lambda row: (row.namespace,),
    "name": lambda row: (row.name,),
    "state": lambda row: (row.state,),
}
