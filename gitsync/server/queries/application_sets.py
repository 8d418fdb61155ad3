"""ApplicationSets as rows of lists. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gitsync.objects.conditions import READY, SOURCE_READY, find_condition
from gitsync.objects.manifest import Manifest, at, metadata_of
from gitsync.server.formatting import visible
from gitsync.server.queries.filters import Filter

NAMES: Final = ("ns", "name", "state")
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


def matching(rows: Iterable[SetRow], query: Filter) -> list[SetRow]:
    """Return the sets that match a filter, those with problems first."""
    matched = filter(query.matcher(_READ, lambda row: f"{row.namespace}/{row.name} {row.state} {row.reason}"), rows)
    return sorted(matched, key=lambda row: (row.state in _AT_WORK, row.namespace, row.name))


def set_problems(sets: Iterable[Manifest]) -> list[SetRow]:
    """Return the sets that wait for an approval or failed, the oldest first."""
    troubled = (row for row in map(set_row, sets) if row.state not in _AT_WORK)
    return sorted(troubled, key=lambda row: (row.since, row.namespace, row.name))


_READ = {
    "ns": lambda row: (row.namespace,),
    "name": lambda row: (row.name,),
    "state": lambda row: (row.state,),
}
