"""Refusals in the audit: why nothing of a revision, or of an Application, may be applied; once for each reason."""

from __future__ import annotations

from gitsync.errors import Refused, TerminalError
from gitsync.objects.keys import GROUP
from gitsync.objects.manifest import Manifest
from gitsync.objects.record import AuditRecord, Outcome
from gitsync.objects.ref import ObjectRef
from gitsync.sync.reconcile import Turn

ACTION = "sync"


def refusal_of(turn: Turn, status: Manifest) -> str:
    """Return why the application was refused, as its status says; empty when it was not, or may pass by itself."""
    return _said(status) if isinstance(turn.error, TerminalError) or turn.reason == "Refused" else ""


def refusal_before(turn: Turn) -> str:
    """Return what the status said before this look: what was refused with these words is in the audit."""
    return _said(turn.status_before)


def refusal_record(turn: Turn, message: str) -> AuditRecord:
    """Return the link of the audit chain that says so."""
    is_refused = isinstance(turn.error, Refused) or turn.error is None
    return AuditRecord(
        application=turn.app.key,
        action=ACTION,
        resource=ObjectRef(GROUP, "Application", turn.app.namespace, turn.app.name).path,
        outcome=Outcome.REFUSED if is_refused else Outcome.FAILED,
        timestamp=turn.now,
        sync="",
        reasoning=turn.reason,
        plan_steps=len(turn.plan.writes) if turn.plan is not None else 0,
        risk_level=turn.plan.risk.value if turn.plan is not None else "",
        commit=turn.commit.id if turn.commit is not None else "",
        author=turn.commit.author if turn.commit is not None else "",
        digest=turn.plan.digest if turn.plan is not None else "",
        message=message,
    )


def _said(status: Manifest) -> str:
    ready = [item for item in status.get("conditions") or () if item.get("type") == "Ready"]
    return str(ready[0].get("message", "")) if ready and ready[0].get("status") == "False" else ""
