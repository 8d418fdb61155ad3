"""The five phases of a sync: which one an application is in, and a summary of each. Pure."""

from __future__ import annotations

from gitsync.objects.change import HoldReason
from gitsync.ports import ApplicationView
from gitsync.server.formatting import visible
from gitsync.server.rows.verdict import condition
from gitsync.server.rows.words import words

PHASES = ("Observe", "Reason", "Classify", "Execute", "Record")
_HELD = {"AwaitingApproval": "waits for approval", "Rejected": "rejected"}


def phases(view: ApplicationView) -> list[tuple[str, str, str]]:
    """Return the five phases with ``done``, ``now``, ``failed``, ``waiting`` or ``later`` each, and its summary."""
    status = view.status
    phase = status.get("phase", "Pending")
    failed = next(
        (
            item
            for item in (condition(status, "SourceReady"), condition(status, "Rendered"))
            if item.get("status") == "False"
        ),
        None,
    )
    if failed is not None:
        return _phase_row(view, 0, "failed", words(str(failed.get("reason", ""))))
    if phase in _HELD:
        return _phase_row(view, 3, "waiting", _HELD[phase])
    if condition(status, "Ready").get("reason") == HoldReason.WINDOW.value:
        return _phase_row(view, 3, "waiting", "waits for a sync window")
    if phase in ("Executing", "Deleting"):
        return _phase_row(view, 3, "now", str(condition(status, "Reconciling").get("message", "")))
    if phase == "Failed":
        return _phase_row(view, 3, "failed", words(str(condition(status, "Ready").get("reason", ""))))
    if phase == "Drifted":
        return _phase_row(view, 3, "waiting", "self-heal is off")
    if phase in ("Synced", "Suspended"):
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
    plan, total = view.plan, len(view.resources)
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
