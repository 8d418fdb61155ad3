"""Write the Applications of a set: each write has an intent and an outcome in the audit."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping

from gitsync.applicationsets.changes import Changes
from gitsync.applicationsets.model import ApplicationSet
from gitsync.apply.change import ApplyRequest, StepResult
from gitsync.apply.execute import Applier
from gitsync.apply.owner_writes import WritesByOwner
from gitsync.errors import AlreadyExists, Conflict, TransientError
from gitsync.objects.application import Application, Destination, GitSource
from gitsync.objects.change import Action, Change, Plan, Risk
from gitsync.objects.health import Health, HealthStatus
from gitsync.objects.keys import APPLICATION, SETS_MANAGER, VERSION
from gitsync.objects.manifest import Manifest
from gitsync.objects.owner_key import OwnerKey
from gitsync.objects.record import Commit, Outcome
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.plan.ownership import as_applied
from gitsync.plan.tracking import controller_of

_RETRY = 15.0
"""Seconds until writes are repeated that failed."""
_CHANGED_RETRY = 0.5
"""Seconds until a write is planned again whose object has changed since it was observed, as each status write does."""


class SetWriter:
    """Carry out the changes of sets; a key's writes are made by one worker at a time."""

    def __init__(self, applier: Applier, writes: WritesByOwner) -> None:
        self._applier = applier
        self._writes = writes

    def take_answered(self, application_set: ApplicationSet) -> list[StepResult]:
        """Return the results of writes that were answered since the last pass; their objects are in the cache."""
        return [write.result for write in self._writes.of(str(OwnerKey.of_ref(application_set.ref))).take()]

    def write(
        self, application_set: ApplicationSet, changes: Changes, live: Mapping[str, Manifest]
    ) -> tuple[StepResult, ...]:
        """Return the results of the writes that were answered; the answers of others enqueue the set."""
        plan = _plan(str(OwnerKey.of_ref(application_set.ref)), application_set, changes, live)
        if not plan.writes:
            return ()
        request = ApplyRequest(
            _as_application(application_set),
            plan,
            Commit(
                f"generation-{application_set.generation}",
                message=f"{application_set.ref} at generation {application_set.generation}",
            ),
            uuid.uuid4().hex[:16],
            {change.ref: VERSION for change in plan.changes},
            lambda entries: None,
            lambda ref, manifest: HealthStatus(Health.HEALTHY),
            approver="annotation" if application_set.approved else "",
            # A create must not take over an Application that a user made a moment ago (decision 0040).
            creates_only=True,
        )
        return self._applier.execute(request).results

    def writing(self, application_set: ApplicationSet) -> frozenset[str]:
        """Return the names of the Applications whose writes are not answered yet."""
        return frozenset(ref.name for ref in self._writes.of(str(OwnerKey.of_ref(application_set.ref))).running)

    def resolve(self, application_set: ApplicationSet, changes: Changes, live: Mapping[str, Manifest]) -> None:
        """Audit an outcome for unresolved writes."""
        key = str(OwnerKey.of_ref(application_set.ref))
        objects = {
            ref_of(application): application
            for application in live.values()
            if controller_of(application) == application_set.uid
        }
        self._writes.of(key).resolve(_plan(key, application_set, changes, live), objects)


def failures(results: Iterable[StepResult]) -> dict[str, str]:
    """Return why writes failed, by the name of the Application; the last write of each counts."""
    last = {result.change.ref.name: result for result in results}
    return {name: result.message for name, result in last.items() if result.outcome is Outcome.FAILED}


def retry_delay(results: Iterable[StepResult]) -> float | None:
    """Return the seconds until writes are repeated, None where none failed that may succeed then."""
    errors = [result.error for result in results if result.outcome is Outcome.FAILED]
    # Each write to a status changes the object, so that such a conflict is over soon.
    if any(isinstance(error, Conflict) and not isinstance(error, AlreadyExists) for error in errors):
        return _CHANGED_RETRY
    return _RETRY if any(isinstance(error, TransientError) for error in errors) else None


def _plan(key: str, application_set: ApplicationSet, changes: Changes, live: Mapping[str, Manifest]) -> Plan:
    def step(name: str, action: Action, desired: Manifest | None, reason: str) -> Change:
        ref = ObjectRef(APPLICATION.group, APPLICATION.kind, application_set.ref.namespace, name)
        present = live.get(name)
        owners = as_applied(present, SETS_MANAGER) if present and action is Action.UPDATE else None
        return Change(ref, action, reason=reason, desired=desired, live=present, managed_fields=owners)

    steps = (
        *(step(name, Action.CREATE, manifest, "a new element") for name, manifest in changes.creates.items()),
        *(
            step(name, Action.UPDATE, manifest, "differs from its element")
            for name, manifest in changes.updates.items()
        ),
        *(step(name, Action.PRUNE, None, "its element is gone") for name in changes.deletes),
    )
    return Plan(key, f"generation-{application_set.generation}", steps, "", Risk.SAFE)


def _as_application(application_set: ApplicationSet) -> Application:
    """Return the set as the applier sees it."""
    namespace, _, name = str(OwnerKey.of_ref(application_set.ref)).partition("/")
    return Application(
        name=name,
        namespace=namespace,
        uid=application_set.uid,
        generation=application_set.generation,
        source=GitSource.model_construct(repo_url=""),
        destination=Destination(namespace=namespace),
        field_manager=SETS_MANAGER,
        owns_by_reference=True,
    )
