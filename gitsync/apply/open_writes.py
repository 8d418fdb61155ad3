"""Writes whose outcome is not known: after a crash, or when the response was lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from gitsync.objects.change import Action, Plan
from gitsync.objects.keys import HOOK_RUN
from gitsync.objects.manifest import Manifest, annotations_of, metadata_of
from gitsync.objects.record import AuditRecord, Outcome
from gitsync.objects.ref import ObjectRef
from gitsync.ports import Records


def resolve_open_writes(
    records: Records,
    plan: Plan,
    live: Mapping[ObjectRef, Manifest],
    now: datetime,
    unknown: frozenset[ObjectRef] = frozenset(),
) -> None:
    """
    Audit an outcome for the writes of an Application that have none, except those of ``unknown`` objects.

    An apply succeeded when the object exists and the plan would not repeat it. A delete succeeded when the object is
    absent or terminating, a hook when it has the mark of its sync.
    """
    intents = (
        intent for intent in records.unfinished(plan.application) if ObjectRef.from_path(intent.resource) not in unknown
    )
    records.audit(_resolved(intent, _has_taken_effect(intent, plan, live), now) for intent in intents)


def _has_taken_effect(intent: AuditRecord, plan: Plan, observed: Mapping[ObjectRef, Manifest]) -> bool:
    ref = ObjectRef.from_path(intent.resource)
    live = observed.get(ref)
    if intent.action == Action.PRUNE.value:
        return live is None or bool(metadata_of(live).get("deletionTimestamp"))
    if intent.action == Action.HOOK.value:
        return live is not None and annotations_of(live).get(HOOK_RUN, "").startswith(intent.sync)
    return live is not None and all(change.ref != ref for change in plan.writes)


def _resolved(intent: AuditRecord, is_done: bool, now: datetime) -> AuditRecord:
    return replace(
        intent,
        outcome=Outcome.SUCCEEDED if is_done else Outcome.FAILED,
        timestamp=now,
        message=f"its outcome was not known at first; found {'done' if is_done else 'not done'} afterwards",
        details={},
    )
