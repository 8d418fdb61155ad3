"""The statuses of commits at a Git host: what a proposed commit would do, and what became of a deployed one. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from gitsync.objects.application import Application, NamedSource
from gitsync.objects.change import Risk
from gitsync.objects.conditions import READY, find_condition
from gitsync.objects.health import Health
from gitsync.objects.manifest import at
from gitsync.objects.phase import Phase
from gitsync.ports import ApplicationView
from gitsync.ports.hosts import CommitState, CommitStatus
from gitsync.ports.previews import ProposalView
from gitsync.preview.report import PreviewReport

PREVIEW = "gitsync/preview"
"""The name of the status of a proposed commit."""


class DeployedStatus(NamedTuple):
    """The status of a commit that an Application applies, or did not."""

    commit: str
    status: CommitStatus


def preview_status(view: ProposalView, fail_above: Risk | None, url: str = "") -> CommitStatus:
    """Return the status of the head of a proposal: a failure where it cannot be applied, or is above a class."""
    report = view.report
    if report is None:
        return CommitStatus(PREVIEW, CommitState.FAILURE, view.problem, url)
    problem = next((text for change in report.changes for text in (change.problem, *change.violations) if text), "")
    if report.rehearsal is not None and not report.rehearsal.is_valid:
        refusal = next(refusal for refusal in report.rehearsal.refusals if refusal.step != "revert")
        problem = problem or f"{refusal.object}: {refusal.problem}"
    if problem:
        return CommitStatus(PREVIEW, CommitState.FAILURE, f"cannot be applied: {problem}", url)
    if fail_above is not None and Risk(report.risk).level > fail_above.level:
        text = f"{_summary(report)}; at most {fail_above.value} passes"
        return CommitStatus(PREVIEW, CommitState.FAILURE, text, url)
    return CommitStatus(PREVIEW, CommitState.SUCCESS, _summary(report), url)


def _summary(report: PreviewReport) -> str:
    if not report.changes:
        return "nothing that is deployed changes"
    objects = sum(len(change.steps) for change in report.changes)
    folders = sum(len(change.roots) for change in report.changes)
    return f"{report.risk}: {objects} object{_s(objects)} in {folders} deployed folder{_s(folders)}"


def _s(count: int) -> str:
    return "" if count == 1 else "s"


def deployed_status(view: ApplicationView, context: str, url: str = "", note: str = "") -> DeployedStatus | None:
    """
    Return the status of the newest commit that an Application has to apply, None where it knows none.

    ``note`` is why reviews at the host do not approve the plan that waits.
    """
    status = view.status
    rolled_back = status.get("pinned") or {}
    if rolled_back.get("instead"):
        to_commit = str(rolled_back.get("commit", ""))
        done = f"Rolled back to {to_commit[:12]}" if to_commit else "Held"
        text = f"{done}: {rolled_back.get('reason', '')}"
        return DeployedStatus(str(rolled_back["instead"]), CommitStatus(context, CommitState.FAILURE, text, url))
    commit = str(at(status, "revision", "fetched", default=""))
    if not commit or view.application is None:
        return None
    state, text = _state(status, commit)
    if note and Phase.of(status) is Phase.AWAITING_APPROVAL:
        text = f"waits for an approval; {note}"
    return DeployedStatus(commit, CommitStatus(context, state, text, url))


def own_commit(app: Application, status: Mapping[str, Any], commit: str) -> str:
    """
    Return the commit of the repository that an Application is seen with, in one that joins several sources.

    It is empty where the status has none; a commit of one source is its own.
    """
    if not isinstance(app.source, NamedSource):
        return commit
    current = at(status, "revision", default={})
    entries = [{"revision": current.get("fetched"), "sources": current.get("sources")}, *(status.get("history") or ())]
    joined = next((entry.get("sources") for entry in entries if entry.get("revision") == commit), None) or ()
    return next((str(part["commit"]) for part in joined if part["name"] == app.source.name), "")


def _state(status: Mapping[str, Any], commit: str) -> tuple[CommitState, str]:
    phase = Phase.of(status)
    health = next((state for state in Health if state.value == status.get("health")), Health.UNKNOWN)
    reason = str(find_condition(status, READY).get("message", ""))
    if phase in (Phase.FAILED, Phase.REJECTED):
        return CommitState.FAILURE, f"{phase.value}: {reason}"
    if phase is Phase.AWAITING_APPROVAL:
        return CommitState.PENDING, f"waits for an approval: {reason}"
    if commit != at(status, "revision", "applied", default=""):
        return CommitState.PENDING, phase.value
    if health is Health.DEGRADED:
        return CommitState.FAILURE, f"Degraded: {reason}"
    if health is Health.HEALTHY and phase in (Phase.SYNCED, Phase.DRIFTED):
        return CommitState.SUCCESS, f"{phase.value} and Healthy"
    return CommitState.PENDING, f"{phase.value}, {health.value}"
