"""Decide whether repairs may run now: they restore what was permitted before, so that no approval is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from gitsync.errors import InvalidInput
from gitsync.gate import windows
from gitsync.gate.policy import Policy
from gitsync.objects.application import Application, Window


def repair_hold(app: Application, policy: Policy, now: datetime, *, is_sync: bool = False) -> str:
    """
    Return why nothing is repaired now, empty where it may be.

    ``is_sync``: a sync runs anyway, or a user requested one. An Application that is suspended is only observed.
    """
    if app.is_deleted:
        return "the Application is being deleted"
    if app.suspend:
        return "spec.suspend is true"
    # Before ``is_sync``: also a sync that a user requests writes nothing then.
    if policy.read_only:
        return f"policy {policy.name} is read-only (require.readOnly), so nothing is written"
    # Self-heal and windows are about repairs that no one requested.
    if is_sync:
        return ""
    if not app.sync.self_heal.enabled:
        return "self-heal is off (spec.sync.selfHeal)"
    try:
        return _closed_window(app, policy, now)
    except InvalidInput:
        return ""  # a window that is not valid stops commits, and the gate reports it


def _closed_window(app: Application, policy: Policy, now: datetime) -> str:
    """Return the window that stops repairs too, empty where none does."""
    own = app.sync.windows if app.sync.self_heal.during_windows else _all_stopping(app.sync.windows)
    states = (windows.state(_stopping(required), now) for required in (own, *policy.windows))
    return next((f"{state.reason}, which stops self-heal too" for state in states if not state.allowed), "")


def _all_stopping(required: Iterable[Window]) -> tuple[Window, ...]:
    return tuple(window.model_copy(update={"self_heal": False}) for window in required)


def _stopping(required: Sequence[Window]) -> list[Window]:
    """Return the windows that repairs obey: an Allow window counts where one of them stops self-heal outside."""
    has_allow = any(window.kind == "Allow" and not window.self_heal for window in required)
    return [window for window in required if (has_allow if window.kind == "Allow" else not window.self_heal)]
