"""Objects that finished and were deleted by their TTL: they are not missing, and must not run a second time."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from gitsync.kube.finished import finish_of
from gitsync.kube.times import seconds_of, timestamp
from gitsync.objects.application import Application
from gitsync.objects.health import Health, HealthStatus
from gitsync.objects.inventory import Finished, InventoryEntry
from gitsync.objects.manifest import Manifest, content_hash, metadata_of, uid_of
from gitsync.objects.ref import ObjectRef
from gitsync.plan.drift import find_drift
from gitsync.plan.tracking import is_owned
from gitsync.ports import LiveCache
from gitsync.sync.observe import Observation

_EARLY = 60.0
"""Seconds before its time at which a deletion still counts as one by the TTL: clocks differ."""


def with_finished(app: Application, observation: Observation, live: LiveCache, now: datetime) -> Observation:
    """
    Return the observation with the temporary objects that finished: in the inventory, and those that are gone.

    The inventory keeps that an object finished as Git declares it, so a restart runs nothing a second time. One that
    was deleted before its time was deleted by another client, and is missing. A change in Git runs a new one.
    """
    held = dict[ObjectRef, InventoryEntry]()
    gone = dict[ObjectRef, HealthStatus]()
    for ref in observation.temporary:
        known = observation.inventory.entries.get(ref)
        desired = observation.desired[ref]
        if known is None:
            continue
        manifest = observation.live.get(ref)
        content = content_hash(desired)
        last = manifest or live.last_finished(ref)
        finished = known.finished
        # an object of the same name with another uid is another run, whose end says nothing about this one
        finish = finish_of(last) if last is not None and known.uid in ("", uid_of(last)) else None
        if last is not None and finish is not None and _is_as_declared(app, desired, last, observation):
            finished = Finished(finish.succeeded, content, timestamp(finish.expires))
        if finished != known.finished:
            held[ref] = known._replace(finished=finished)
        # one that is being deleted is gone for the plan: creating it waits until its name is free
        is_leaving = manifest is None or bool(metadata_of(manifest).get("deletionTimestamp"))
        if is_leaving and finished is not None and finished.content == content and _is_due(finished, now):
            gone[ref] = _health(finished)
    inventory = observation.inventory.with_entries(held) if held else observation.inventory
    return replace(observation, inventory=inventory, finished=gone) if held or gone else observation


def _is_as_declared(app: Application, desired: Manifest, last: Manifest, observation: Observation) -> bool:
    return is_owned(app, last) and find_drift(desired, last, observation.schema_of(desired), app.field_manager).in_sync


def _is_due(finished: Finished, now: datetime) -> bool:
    return now.timestamp() >= seconds_of(finished.expires) - _EARLY


def _health(finished: Finished) -> HealthStatus:
    if finished.succeeded:
        return HealthStatus(Health.HEALTHY, "completed, and deleted by its TTL")
    return HealthStatus(Health.DEGRADED, "failed, and deleted by its TTL; a change in Git runs it again")
