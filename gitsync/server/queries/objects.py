"""Rows of objects: sync, health, reason, and the order in which they need a person. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from gitsync.objects.change import DRIFT, Difference, FieldDifference, Risk
from gitsync.objects.health import Health
from gitsync.objects.keys import AGENTS_MANAGER
from gitsync.objects.phase import SyncStatus
from gitsync.plan.risk.drift import added_risk
from gitsync.ports import ResourceView
from gitsync.server.formatting import visible

_BOOKKEEPING = re.compile(
    r"""\.metadata\.annotations(\.|\[")(deployment\.kubernetes\.io/revision|pv\.kubernetes\.io/|volume\.(beta\.)?kubernetes\.io/)"""
)
"""Annotations in which the controllers of Kubernetes keep their state."""
_OPERATOR = frozenset({AGENTS_MANAGER, f"{AGENTS_MANAGER}-removal"})
"""The managers of the operator, which has finalizers on what it expands."""
_BADNESS = {Health.DEGRADED: 4, Health.MISSING: 3, Health.PROGRESSING: 2, Health.UNKNOWN: 1}


@dataclass(frozen=True, slots=True)
class ResourceRow:
    """One object of an application."""

    path: str
    kind: str
    group: str
    namespace: str
    name: str
    sync: str
    health: str
    reason: str
    action: str
    risk: str


def resource_row(view: ResourceView) -> ResourceRow:
    """Return the row of an object; its reason is what is wrong, else what its health says."""
    ref = view.ref
    drift = sum(1 for difference in view.change.differences if difference.kind in DRIFT)
    differ = f"{drift} {'field differs' if drift == 1 else 'fields differ'}" if drift else ""
    words = [view.problem, view.health.message, differ]
    # what waits for a person is often the fix of what is broken: what is broken comes first
    if view.health.health is Health.DEGRADED and view.health.message != view.problem:
        words.insert(0, "; ".join(filter(None, (view.health.message, view.problem))))
    return ResourceRow(
        path=ref.path,
        kind=visible(ref.kind),
        group=ref.group,
        namespace=ref.namespace,
        name=visible(ref.name),
        sync=view.sync,
        health=view.health.health.value,
        reason=visible(next((word for word in words if word), "")),
        action=view.change.action.value,
        risk=view.change.risk.value,
    )


def severity(view: ResourceView) -> int:
    """Return how urgently an object needs a person; 0 when all is well."""
    # a problem outweighs every health, and every health outweighs drift
    return 10 * bool(view.problem) + 2 * _BADNESS.get(view.health.health, 0) + (view.sync != SyncStatus.SYNCED)


def by_severity(view: ResourceView) -> tuple[int, str, str, str]:
    """Sort objects: those with problems first, then by kind and name."""
    return (-severity(view), view.ref.kind, view.ref.namespace, view.ref.name)


def ignored_counts(view: ResourceView) -> list[tuple[str, int]]:
    """Return how many differences of each kind are not drift, such as ignored ones."""
    numbers = Counter(item.kind for item in view.change.differences if item.kind not in DRIFT)
    numbers.update(item.kind for item in view.foreign if item.kind not in DRIFT | {Difference.FOREIGN})
    kept = sum(item.kind is Difference.FOREIGN for item in view.foreign) - len(foreign_fields(view))
    bookkeeping = [("kept by Kubernetes controllers", kept)] if kept else []
    return [(kind.value, numbers[kind]) for kind in Difference if numbers[kind]] + bookkeeping


def drifted(view: ResourceView) -> list[FieldDifference]:
    """Return the differences of an object that count as drift."""
    return [difference for difference in view.change.differences if difference.kind in DRIFT]


def foreign_fields(view: ResourceView) -> list[FieldDifference]:
    """Return the fields that others added, but expected ones and what controllers keep of their own."""
    return [item for item in view.foreign if item.kind is Difference.FOREIGN and not _is_bookkeeping(item)]


def _is_bookkeeping(item: FieldDifference) -> bool:
    # by the exact names of our operator: a finalizer that another client adds keeps an object from its deletion
    is_ours = bool(item.owners) and all(owner.manager in _OPERATOR for owner in item.owners)
    return bool(_BOOKKEEPING.match(item.path)) or (is_ours and item.path == ".metadata.finalizers")


def foreign_counts(views: Iterable[ResourceView]) -> list[tuple[str, int]]:
    """Return how many objects have fields that each manager added and Git does not declare."""
    numbers = Counter(
        manager
        for view in views
        for manager in {owner.manager for difference in foreign_fields(view) for owner in difference.owners}
    )
    return [(visible(manager), count) for manager, count in sorted(numbers.items())]


@dataclass(frozen=True, slots=True)
class AddedSettings:
    """Who added what, as text of a cluster, and the newest time (RFC 3339) at which a field was set."""

    reason: str
    since: str


def added_settings(view: ResourceView) -> AddedSettings | None:
    """Return what others added to an object where that is Dangerous, else None."""
    fields = foreign_fields(view) if view.foreign else []
    risk = added_risk(fields)
    if risk is None or risk.risk is not Risk.DANGEROUS:
        return None
    owners = [owner for field in fields for owner in field.owners]
    managers = ", ".join(sorted({owner.manager for owner in owners}))
    since = max((owner.time for owner in owners), default="")
    return AddedSettings(f"{managers} {risk.reason}, which Git does not declare", since)
