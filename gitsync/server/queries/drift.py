"""
Drift of all applications: the fields that differ now, and how often each was changed and corrected before.

The history of drift is read from the audit: each field that others changed, and how that ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from gitsync.edit.adopt import ClusterValue
from gitsync.objects.change import ABSENT, Action, FieldDifference
from gitsync.objects.keys import FIELD_MANAGER
from gitsync.objects.phase import SyncStatus
from gitsync.objects.record import AuditRecord, Outcome, SyncRecord
from gitsync.objects.ref import ObjectRef
from gitsync.plan.drift_history import (
    DRIFT_ACTION,
    EDIT_ACTION,
    AuditedWrite,
    ClusterEdit,
    PastField,
    editor_of,
    past_fields,
    person_of,
    writes_of,
)
from gitsync.plan.jq_paths import expression_of
from gitsync.plan.mask import json_value
from gitsync.plan.risk.drift import DriftRisk
from gitsync.ports import ApplicationView, Records, ResourceView
from gitsync.server.backend import Backend
from gitsync.server.formatting import parse_time, visible
from gitsync.server.queries.applications import PerView
from gitsync.server.queries.differences import changed_in_cluster
from gitsync.server.queries.fields import FieldRow, field_row
from gitsync.server.queries.filters import Filter
from gitsync.server.queries.objects import drifted, foreign_fields
from gitsync.server.queries.timeline import changed_fields

NAMES: Final = ("app", "ns", "kind", "name", "by", "risk", "since", "until")
"""The members of a filter that the list of drift accepts."""
PAST_NAMES: Final = ("app", "ns", "kind", "name", "by", "since", "until")
"""The members of a filter that the history of drift accepts; ``by`` is a field manager."""


SYNCS: Final = 200
"""The latest syncs in which corrected drift is found."""
_ROWS = 20
"""Objects of one page."""
_BATCH = 500
"""Links that are read at a time."""
_SEARCHED = 20 * _BATCH
"""Links that one page reads at most: a filter that matches little must not read the whole audit."""


@dataclass(frozen=True, slots=True)
class DriftRow:
    """One object that was changed in the cluster: its fields, the class of the change, and since when (RFC 3339)."""

    application: str
    ref: ObjectRef
    risk: DriftRisk
    fields: tuple[FieldRow, ...]
    managers: tuple[str, ...]
    since: str
    action: str
    persons: tuple[str, ...] = ()
    """Who changed it, where the audit sink received that."""
    jq_paths: tuple[str, ...] = ()
    """The paths of the fields as a rule of ``ignoreDifferences`` names them."""

    @property
    def ignore_rule(self) -> str:
        """The rule of ``spec.sync.ignoreDifferences`` that leaves these fields to others."""
        lines = [f"- kind: {self.ref.kind}", *([f"  group: {self.ref.group}"] if self.ref.group else [])]
        # quotes of YAML are doubled inside of them
        paths = (path.replace("'", "''") for path in self.jq_paths)
        lines += [f"  name: {self.ref.name}", "  jqPathExpressions:", *(f"  - '{path}'" for path in paths)]
        return visible("\n".join(lines))


@dataclass(frozen=True, slots=True)
class PodRow:
    """A Pod that runs otherwise than its workload declares: what, and since when (RFC 3339, empty when unknown)."""

    application: str
    ref: ObjectRef
    """The workload."""
    pod: str
    kind: str
    message: str
    since: str


@dataclass(frozen=True, slots=True)
class PastDrift:
    """
    A field that was changed in the cluster and corrected: by which manager, how often, and the last time.

    ``path`` and ``manager`` are empty where the object was deleted.
    """

    application: str
    ref: ObjectRef
    path: str
    manager: str
    times: int
    last: datetime
    repaired: timedelta
    url: str


def _risks_of(view: ApplicationView) -> tuple[tuple[ResourceView, DriftRisk | None], ...]:
    different = (item for item in view.resources if item.sync != SyncStatus.SYNCED)
    return tuple((item, changed_in_cluster(view, item)) for item in different)


# classifying a change costs more than showing it: once for each state of an Application, not at each view
_RISKS: Final = PerView(lambda view: (view, _risks_of(view)))


def drift_rows(views: Iterable[ApplicationView], query: Filter, writes: Sequence[AuditedWrite] = ()) -> list[DriftRow]:
    """
    Return the objects that differ from Git because of what was done in the cluster, the riskiest first.

    ``writes`` name the persons.
    """
    rows = [
        row
        for view, risks in _RISKS.all_of(views)
        for item, risk in risks
        if (row := _row(view, item, risk, writes)) is not None
    ]
    matches = query.matcher(_READ, _text)
    matched = [row for row in rows if matches(row) and query.is_in_time(parse_time(row.since))]
    return sorted(matched, key=lambda row: (-row.risk.risk.level, row.application, row.ref))


def pod_rows(views: Iterable[ApplicationView], query: Filter) -> list[PodRow]:
    """Return the Pods that run otherwise than declared, sorted by workload."""
    rows = [
        PodRow(
            view.key,
            item.ref,
            visible(finding.pod.name),
            finding.kind.value,
            visible(finding.message),
            finding.since,
        )
        for view in views
        for item in view.resources
        for finding in item.running
    ]
    # neither a manager nor a class is known of what runs
    matches = query.without("by").without("risk").matcher(_READ_POD, lambda row: f"{row.ref} {row.pod} {row.message}")
    matched = [row for row in rows if matches(row) and query.is_in_time(parse_time(row.since))]
    return sorted(matched, key=lambda row: (row.application, row.ref, row.pod))


def past_drift(records: Iterable[SyncRecord], query: Filter) -> list[PastDrift]:
    """Return the fields and deletions that self-heal corrected, those that were changed most often first."""
    corrections: dict[tuple[str, str, str, str], PastDrift] = {}
    for record in records:  # newest first
        end = record.started + timedelta(milliseconds=record.duration_ms)
        if record.trigger != "drift" or not query.is_in_time(end):
            continue
        failed = {step.ref for step in record.steps if step.outcome is not Outcome.SUCCEEDED}
        for path, item, manager in (*changed_fields(record), *_deleted(record)):
            if path in failed:
                continue  # it was tried, and not corrected
            key = (record.application, path, str(item["path"]), manager)
            known = corrections.get(key)
            if known is None:
                owner: Mapping[str, Any] = next(iter(item.get("owners") or ()), {})
                written = parse_time(str(owner.get("time") or ""))
                corrections[key] = PastDrift(
                    record.application,
                    ObjectRef.from_path(path),
                    visible(item["path"]),
                    manager,
                    1,
                    end,
                    # the clock of the API server may be ahead of ours; without the time of the edit, that of the sync
                    max(end - written, timedelta()) if written is not None else end - record.started,
                    str(record.id),
                )
            else:
                corrections[key] = replace(known, times=known.times + 1)
    # history keeps no class of drift
    matches = query.without("risk").matcher(_READ_PAST, lambda row: f"{row.application} {row.ref} {row.path}")
    return sorted(filter(matches, corrections.values()), key=lambda row: (-row.times, -row.last.timestamp()))


def _deleted(record: SyncRecord) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield the objects that a repair created again, as ``changed_fields``; nothing says who deleted them."""
    for step in record.steps:
        if step.action == Action.CREATE.value:
            yield step.ref, {"path": ""}, ""


def corrected(backend: Backend, query: Filter) -> list[PastDrift]:
    """Return the fields that self-heal corrected in the latest syncs."""
    return past_drift(backend.records.history(query.application, limit=SYNCS), query)


def kept_values(view: ApplicationView, links: Iterable[AuditRecord], ref: ObjectRef, path: str) -> list[ClusterValue]:
    """
    Return the values of an object that users changed, as they are now; of one field where its path is given.

    Of an object without any, those before they were corrected: ``links`` are the ended drift, newest first.
    """
    items = [item for item in view.resources if item.ref == ref]
    differences = [difference for item in items for difference in (*drifted(item), *foreign_fields(item))]
    open_values = [_cluster_value(ref, item) for item in differences if path in ("", item.path)]
    if open_values:
        return open_values
    corrected_values: dict[str, ClusterValue] = {}
    for past in past_fields(links):
        # what a Pod ran is not in a manifest
        if past.ref == ref and past.path and not past.pod and path in ("", past.path):
            time = past.edited.isoformat(timespec="seconds") if past.edited else ""
            kept = ClusterValue(ref, past.path, past.changed_to, past.manager, time)
            corrected_values.setdefault(past.path, kept)
    return list(corrected_values.values())


def _cluster_value(ref: ObjectRef, difference: FieldDifference) -> ClusterValue:
    owner = next(iter(difference.owners), None)
    value = None if difference.live is ABSENT else json_value(difference.live)
    manager = owner.manager if owner is not None else ""
    return ClusterValue(ref, difference.path, value, manager, str(owner.time or "") if owner is not None else "")


def received_writes(records: Records, application: str = "") -> tuple[AuditedWrite, ...]:
    """Return the newest edits that the audit sink received, of one Application or of all that are shown."""
    return tuple(writes_of(records.audit_records(application, action=EDIT_ACTION, limit=_BATCH)))


def _row(
    view: ApplicationView, item: ResourceView, risk: DriftRisk | None, writes: Sequence[AuditedWrite]
) -> DriftRow | None:
    if risk is None:
        return None
    fields = drifted(item)
    owners = [owner for difference in fields for owner in difference.owners if owner.manager != FIELD_MANAGER]
    is_applied = view.plan is not None and (view.status.get("revision") or {}).get("applied") == view.plan.revision
    if not (owners or is_applied or item.change.is_repair):
        return None  # it differs because of a commit that is not applied yet
    first_seen = str((view.status.get("drift") or {}).get("detectedAt", ""))
    times = sorted(owner.time for owner in owners if owner.time)
    is_deleted = item.change.action is Action.CREATE
    detected = parse_time(first_seen) or view.seen
    edits = [
        ClusterEdit(item.ref, owner.manager, parse_time(owner.time) if owner.time else None, detected)
        for owner in owners
    ]
    edits += [ClusterEdit(item.ref, "", None, detected, is_deletion=True)] if is_deleted else []
    persons = (editor_of(edit, writes) for edit in edits)
    return DriftRow(
        view.key,
        item.ref,
        risk,
        tuple(
            field_row(difference, live=item.change.live, first_seen=first_seen, objects=_ROWS) for difference in fields
        ),
        tuple(dict.fromkeys(visible(owner.manager) for owner in owners)),
        times[0] if times else first_seen,
        # what a sync would create again was deleted in the cluster
        {Action.CREATE: "deleted", Action.PRUNE: "not declared"}.get(item.change.action, "changed"),
        tuple(dict.fromkeys(visible(person) for person in persons if person)),
        tuple(expression_of(difference.path, item.change.live, item.change.desired) for difference in fields),
    )


def _text(row: DriftRow) -> str:
    return f"{row.application} {row.ref} {' '.join(field.path for field in row.fields)} {row.risk.reason}"


_READ: Final[Mapping[str, Callable[[DriftRow], Iterable[str]]]] = {
    "app": lambda row: (row.application, row.application.rpartition("/")[2]),
    "ns": lambda row: (row.ref.namespace,),
    "kind": lambda row: (row.ref.kind,),
    "name": lambda row: (row.ref.name,),
    "by": lambda row: row.managers,
    "risk": lambda row: (row.risk.risk.value,),
}
_READ_POD: Final[Mapping[str, Callable[[PodRow], Iterable[str]]]] = {
    "app": lambda row: (row.application, row.application.rpartition("/")[2]),
    "ns": lambda row: (row.ref.namespace,),
    "kind": lambda row: (row.ref.kind,),
    "name": lambda row: (row.ref.name, row.pod),
}
_READ_PAST: Final[Mapping[str, Callable[[PastDrift], Iterable[str]]]] = {
    "app": lambda row: (row.application, row.application.rpartition("/")[2]),
    "ns": lambda row: (row.ref.namespace,),
    "kind": lambda row: (row.ref.kind,),
    "name": lambda row: (row.ref.name,),
    "by": lambda row: (row.manager,),
}


@dataclass(frozen=True, slots=True)
class DriftHistory:
    """A page of the history, newest first; ``older`` is the id of the link before which the next page begins, or 0."""

    fields: tuple[PastField, ...]
    older: int


def drift_history(records: Records, query: Filter, *, limit: int, before: int = 0) -> DriftHistory:
    """Return the fields that match, of as many whole links as it takes to have ``limit`` of them."""
    matches = query.matcher(_READ_FIELD, lambda field: f"{field.application} {field.ref} {field.pod} {field.path}")
    fields: list[PastField] = []
    writes = received_writes(records, query.application)
    position = before
    for _ in range(_SEARCHED // _BATCH):
        links = records.audit_records(query.application, action=DRIFT_ACTION, limit=_BATCH, before=position)
        for link in links:
            fields += [
                replace(field, person=person_of(field, writes))
                for field in past_fields([link])
                if matches(field) and query.is_in_time(field.ended)
            ]
            position = link.id
            if len(fields) >= limit:
                return DriftHistory(tuple(fields), position)
        is_over = query.since is not None and bool(links) and links[-1].timestamp < query.since
        if len(links) < _BATCH or is_over:
            return DriftHistory(tuple(fields), 0)
    return DriftHistory(tuple(fields), position)


_READ_FIELD: Final[Mapping[str, Callable[[PastField], Iterable[str]]]] = {
    "app": lambda field: (field.application, field.application.rpartition("/")[2]),
    "ns": lambda field: (field.ref.namespace,),
    "kind": lambda field: (field.ref.kind,),
    "name": lambda field: (field.ref.name, field.pod),
    "by": lambda field: (field.manager,),
}
