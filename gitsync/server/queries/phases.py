"""The five phases of a sync: which one an application is in, and a summary of each. Pure."""

from __future__ import annotations

from gitsync.objects.change import HoldReason
from gitsync.objects.conditions import READY, failed_input, find_condition
from gitsync.objects.phase import Phase
from gitsync.ports import ApplicationView
from gitsync.server.formatting import visible
from gitsync.server.queries.words import words

PHASES = ("Observe", "Reason", "Classify", "Execute", "Record")
_HELD = {Phase.AWAITING_APPROVAL: "waits for approval", Phase.REJECTED: "rejected"}


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
    history = view.status.get("history") or [{}]
    outcome = str(history[0].get("outcome", ""))
    return (
        f"{total} {'object' if total == 1 else 'objects'}",
        f"{len(writes)} {'step' if len(writes) == 1 else 'steps'}" if writes else "nothing to do",
        words(plan.risk.value) if plan is not None and writes else "Safe",
        f"{len(writes)} to do" if writes else "up to date",
        f"last: {words(outcome)}" if outcome else "no sync yet",
    )
