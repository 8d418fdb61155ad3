"""
What is wrong with an application, worst first, and which of the five phases of a sync it is in. Pure.

A verdict is a state, its reason and its time; a phase has a summary.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from gitsync.objects.change import Action, HoldReason
from gitsync.objects.conditions import (
    CLUSTER_UNAVAILABLE,
    GROUP_UNAVAILABLE,
    READY,
    about,
    failed_input,
    find_condition,
    first_problem,
)
from gitsync.objects.health import Health
from gitsync.objects.manifest import at
from gitsync.objects.phase import Phase, SyncStatus
from gitsync.ports import ApplicationView, ResourceView
from gitsync.server.formatting import visible
from gitsync.server.queries.differences import changed_in_cluster
from gitsync.server.queries.objects import added_settings, by_severity
from gitsync.server.queries.words import words

_URGENT = ("Failed", "Degraded", "InvalidManifests", "FetchFailed")
_ATTENTION = (*_URGENT, "Rejected", "AwaitingApproval", "Drifted", "Missing", "Unknown", "SettingsAdded")
PHASES = ("Observe", "Reason", "Classify", "Execute", "Record")
_HELD = {Phase.AWAITING_APPROVAL: "waits for approval", Phase.REJECTED: "rejected"}


@dataclass(frozen=True, slots=True)
class AppVerdict:
    """
    A state of an application by its name in the API, its reason, and since when (RFC 3339) it holds.

    ``object`` is the path of the object that the reason is about, ``cause`` the id of the applied commit that may have
    brought it into the state; each is empty where there is none. ``also`` are the further states of the worst one: a
    plan that waits does not hide a crash, nor the other way round.
    """

    state: str
    reason: str = ""
    since: str = ""
    is_suspended: bool = False
    object: str = ""
    cause: str = ""
    also: tuple[AppVerdict, ...] = ()

    @property
    def rank(self) -> int:
        """0 for a failure, 1 for what else needs a person, 2 for work under way or at rest, 3 for all is well."""
        if self.state in _URGENT:
            return 0
        if self.state in _ATTENTION:
            return 1
        return 3 if self.state == "Synced" and not self.is_suspended else 2


def verdict_of(view: ApplicationView) -> AppVerdict:
    """Return the worst verdict of an application, with all others; a reason always belongs to the state beside it."""
    is_suspended = Phase.of(view.status) is Phase.SUSPENDED
    by_reason: dict[str, AppVerdict] = {}
    for verdict in _verdicts(view):
        by_reason.setdefault(verdict.reason or verdict.state, verdict)  # a failed sync and its object give one reason
    # a stable sort: within a rank the order of _verdicts remains
    verdicts = sorted(by_reason.values(), key=lambda verdict: verdict.rank) or [_calm_verdict(view)]
    worst, *others = (replace(verdict, is_suspended=is_suspended) for verdict in verdicts)
    return replace(worst, also=tuple(others))


def _verdicts(view: ApplicationView) -> Iterator[AppVerdict]:
    """Yield what keeps an application from being as Git says: its inputs or its sync, its plan, its objects."""
    status = view.status
    phase = Phase.of(status)
    health = status.get("health", "Unknown")
    phase_since = str(status.get("phaseSince", ""))
    message = _ready_message(status)
    unusable = _unusable_input(status)
    if unusable is not None:
        yield unusable  # the phase is Failed because of it
    elif phase is Phase.FAILED:
        yield AppVerdict("Failed", visible(first_problem(status) or message), phase_since)
    if phase.is_held:
        yield AppVerdict(phase.value, visible(message), phase_since)
    sick = _least_healthy(view)
    # an object that was never created is Missing too: then the plan is the verdict
    if health == "Degraded" or (health == "Missing" and (sick is not None or not view.resources)):
        reason = _health_reason(sick) if sick is not None else first_problem(status) or message
        path = sick.ref.path if sick is not None else ""
        since = str(status.get("healthSince", ""))
        yield AppVerdict(health, visible(reason), since, object=path, cause=_cause(view, sick, since))
    if phase is Phase.DRIFTED:
        added = _added_settings(view)
        drifted = AppVerdict(phase.value, visible(message), phase_since)
        yield drifted if added is None else replace(added, reason=f"{added.reason}; {drifted.reason}")
    ready_reason = find_condition(status, READY).get("reason")
    if ready_reason == HoldReason.WINDOW.value:
        yield AppVerdict("OutsideWindow", visible(message), phase_since)
    if ready_reason in (GROUP_UNAVAILABLE, CLUSTER_UNAVAILABLE):
        yield AppVerdict("Unknown", visible(message), phase_since)
    if phase is Phase.SUSPENDED:
        # after the first part, that it is suspended, the message has how the cluster differs from Git
        difference = message.partition("; ")[2]
        reason = "; ".join(filter(None, ("Nothing is synced until it is resumed", difference)))
        yield AppVerdict(phase.value, visible(reason), phase_since)


def _cause(view: ApplicationView, sick: ResourceView | None, since: str) -> str:
    """
    Return the applied commit where it may have made an object sick, else nothing.

    It did not where others changed the object since, or where the object was sick before the commit was applied.
    """
    applied = str(at(view.status, "revision", "applied", default=""))
    if sick is None or changed_in_cluster(view, sick) is not None:
        return ""
    # newest first: its first sync, not a later one that corrected drift; the history may no longer have it
    starts = [item.get("startedAt", "") for item in view.status.get("history") or () if item.get("revision") == applied]
    return applied if not starts or not since or starts[-1] <= since else ""


def _unusable_input(status: dict[str, Any]) -> AppVerdict | None:
    # Git before the manifests: these cannot be rendered without it
    for type, state in (("SourceReady", "FetchFailed"), ("Rendered", "InvalidManifests")):
        condition = find_condition(status, type)
        if condition.get("status") == "False":
            since = str(condition.get("lastTransitionTime", ""))
            return AppVerdict(state, visible(str(condition.get("message", ""))), since)
    return None


def _calm_verdict(view: ApplicationView) -> AppVerdict:
    """Return the verdict of an application that nothing is wrong with."""
    status = view.status
    phase = Phase.of(status)
    phase_since = str(status.get("phaseSince", ""))
    message = _ready_message(status)
    if phase.is_in_progress:
        return AppVerdict(phase.value, visible(message), phase_since)
    return _idle_verdict(view, status, message)


def _idle_verdict(view: ApplicationView, status: dict[str, Any], message: str) -> AppVerdict:
    """Return the verdict of an application that neither works, nor waits, nor failed."""
    sync = status.get("sync", "Unknown")
    health = status.get("health", "Unknown")
    phase_since = str(status.get("phaseSince", ""))
    health_since = str(status.get("healthSince", ""))
    if sync == SyncStatus.UNKNOWN:
        return AppVerdict("Unknown", visible(message), phase_since)
    if health in ("Progressing", "Unknown"):
        sick = _least_healthy(view)
        if sick is None:
            return AppVerdict(health, visible(message), health_since)
        return AppVerdict(health, visible(_health_reason(sick)), health_since, object=sick.ref.path)
    if sync != SyncStatus.SYNCED:
        return AppVerdict(sync, visible(first_problem(status) or message), phase_since)
    return _added_settings(view) or AppVerdict("Synced", visible(first_problem(status)), phase_since)


def _added_settings(view: ApplicationView) -> AppVerdict | None:
    """Return the verdict where others added Dangerous fields to an object, such as a model; else None."""
    troubled = [(item, added) for item in view.resources if (added := added_settings(item)) is not None]
    if not troubled:
        return None
    item, first = troubled[0]
    more = f"; and {len(troubled) - 1} more" if len(troubled) > 1 else ""
    return AppVerdict(
        "SettingsAdded", visible(f"{item.ref}: {first.reason}{more}"), max(added.since for _, added in troubled)
    )


def _ready_message(status: dict[str, Any]) -> str:
    return str(find_condition(status, READY).get("message", ""))


def _least_healthy(view: ApplicationView) -> ResourceView | None:
    """Return the object that is least healthy; one that was never created is not sick."""
    sick = [
        item
        for item in view.resources
        if item.health.health not in (Health.HEALTHY, Health.SUSPENDED, Health.UNKNOWN)
        and item.change.action is not Action.CREATE
    ]
    return min(sick, key=lambda item: (-item.health.health.badness, *by_severity(item)), default=None)


def _health_reason(item: ResourceView) -> str:
    text = item.problem or item.health.message
    return about(str(item.ref), text) if text else str(item.ref)


def phases(view: ApplicationView) -> list[tuple[str, str, str]]:
    """Return the five phases with ``done``, ``now``, ``failed``, ``waiting`` or ``later`` each, and its summary."""
    status = view.status
    phase = Phase.of(status)
    # first: an input that cannot be used makes the phase Failed as well
    if failed := failed_input(status):
        return _phase_row(view, 0, "failed", words(str(failed.get("reason", ""))))
    if phase in _HELD:
        return _phase_row(view, 3, "waiting", _HELD[phase])
    if find_condition(status, READY).get("reason") == HoldReason.WINDOW.value:
        return _phase_row(view, 3, "waiting", "waits for a sync window")
    if phase in (Phase.EXECUTING, Phase.DELETING):
        return _phase_row(view, 3, "now", str(find_condition(status, "Reconciling").get("message", "")))
    if phase is Phase.FAILED:
        return _phase_row(view, 3, "failed", words(str(find_condition(status, READY).get("reason", ""))))
    if phase is Phase.DRIFTED:
        return _phase_row(view, 3, "waiting", "self-heal is off")
    if phase in (Phase.SYNCED, Phase.SUSPENDED):
        # also where it is Degraded now: the sync itself succeeded, and was recorded
        return _phase_row(view, len(PHASES), "done", "")
    return _phase_row(view, 1, "now", "")


def _phase_row(view: ApplicationView, position: int, state: str, word: str) -> list[tuple[str, str, str]]:
    summaries = _phase_summaries(view)
    strip = []
    for index, name in enumerate(PHASES):
        mark = "done" if index < position else state if index == position else "later"
        text = word if index == position else summaries[index] if index < position else ""
        strip.append((name, mark, visible(text)))
    return strip


def _phase_summaries(view: ApplicationView) -> tuple[str, ...]:
    """Return the summary of each completed phase."""
    plan = view.plan
    total = len(view.resources)
    writes = plan.writes if plan is not None else ()
    differing = sum(item.sync is not SyncStatus.SYNCED for item in view.resources)
    calm = f"{differing} not as in Git" if differing else "nothing to do"
    is_suspended = Phase.of(view.status) is Phase.SUSPENDED
    idle = "suspended" if is_suspended else "applied" if differing else "up to date"
    history = view.status.get("history") or [{}]
    outcome = str(history[0].get("outcome", ""))
    return (
        f"{total} {'object' if total == 1 else 'objects'}",
        f"{len(writes)} {'step' if len(writes) == 1 else 'steps'}" if writes else calm,
        words(plan.risk.value) if plan is not None and writes else "Safe",
        f"{len(writes)} to do" if writes else idle,
        f"last: {words(outcome)}" if outcome else "no sync yet",
    )
