"""The words that people read for the states of the API; the API, its filters and URLs keep the enums."""

from __future__ import annotations

from collections.abc import Iterable

WORDS = {
    "Synced": "Synced",
    "OutOfSync": "Out of sync",
    "Missing": "Missing",
    "ToPrune": "To be deleted",
    "Unknown": "Unknown",
    "Healthy": "Healthy",
    "Progressing": "Progressing",
    "Degraded": "Degraded",
    "Suspended": "Suspended",
    "Pending": "Waiting",
    "Observing": "Checking",
    "Planning": "Planning",
    "AwaitingApproval": "Needs approval",
    "Held": "Needs approval",
    "Rejected": "Rejected",
    "Evaluating": "Being evaluated",
    "EvaluationFailed": "Evaluation failed",
    "OutsideWindow": "Waiting for a sync window",
    "Executing": "Syncing",
    "Deleting": "Deleting",
    "Drifted": "Drifted",
    "BudgetNear": "Near its budget",
    "BudgetExceeded": "Over its budget",
    "SettingsAdded": "Settings added",
    "Failed": "Failed",
    "Recovered": "Recovered",
    "Intended": "Started",
    "Succeeded": "Succeeded",
    "Partial": "Partly failed",
    "Refused": "Refused",
    "Superseded": "Superseded",
    "Safe": "Safe",
    "Moderate": "Moderate",
    "Dangerous": "Dangerous",
    "FetchFailed": "Git cannot be read",
    "RevisionRefused": "Revision refused",
    "InvalidManifests": "Render failed",
    "ApplyFailed": "Apply failed",
    "SyncFailed": "Sync failed",
    "HookFailed": "Hook failed",
    "RolledBack": "Rolled back",
    "Current": "Nothing to take",
    "Waiting": "Waiting",
    "Ready": "Can be taken",
    "Proposed": "Proposed",
}
"""Every state that pages show, by its name in the API."""

TRIGGERS = {
    "commit": "new commit",
    "drift": "drift",
    "manual": "requested",
    "retry": "retry",
    "rollback": "rollback",
    "post-sync": "limits after the sync",
    "delete": "deletion of the application",
}
"""What started a sync."""

KINDS = {
    "sync": "Sync",
    "heal": "Drift corrected",
    "drift": "Drift",
    "approve": "Approval",
    "reject": "Rejection",
    "suspend": "Suspended",
    "resume": "Resumed",
    "request": "Sync requested",
    "revert": "Revert",
    "revert-drift": "Drift reverted",
    "sync-objects": "Sync of objects requested",
    "restart": "Restarted",
    "delete-pod": "Pod deleted",
    "pin": "Pinned",
    "unpin": "Unpinned",
    "hold": "Field held",
    "unhold": "Hold ended",
    "evaluation": "Evaluation failed",
    "refused": "Refused",
    "post-sync": "Limits",
    "trim": "Audit trimmed",
    "policy": "Policies changed",
    "users": "Users changed",
    "sign-in": "Signed in",
    "sign-out": "Sessions ended",
}
"""The kinds of entries of the timeline."""


def sentence(states: Iterable[str]) -> str:
    """Return the words of several states as text, each once: ``Synced and healthy``."""
    parts = list(dict.fromkeys(map(words, states)))
    text = [*parts[:1], *(part[:1].lower() + part[1:] for part in parts[1:])]
    return " and ".join(filter(None, (", ".join(text[:-1]), *text[-1:])))


def words(state: str) -> str:
    """Return the words for a state; one without words is shown by its name."""
    return WORDS.get(state, state)
