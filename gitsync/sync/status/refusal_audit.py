"""Refusals in the audit: why nothing of a revision, or of an Application, may be applied; once for each reason."""

from __future__ import annotations

from gitsync.errors import Refused, TerminalError
from gitsync.objects.keys import GROUP
from gitsync.objects.manifest import Manifest
from gitsync.objects.record import AuditRecord, Outcome
from gitsync.objects.ref import ObjectRef
from gitsync.sync.reconcile import Reconcile

ACTION = "sync"


def refusal_message(run: Reconcile, status: Manifest) -> str:
    """Return why the application was refused, as its status says; empty when it was not, or may pass by itself."""
    return _said(status) if isinstance(run.error, TerminalError) or run.reason == "Refused" else ""


def previous_refusal(run: Reconcile) -> str:
    """Return what the status said before this look: what was refused with these words is in the audit."""
    return _said(run.status_before)


def audit_record(run: Reconcile, message: str) -> AuditRecord:
    """Return the link of the audit chain that says so."""
    is_refused = isinstance(run.error, Refused) or run.error is None
    return AuditRecord(
        application=run.app.key,
        action=ACTION,
        resource=ObjectRef(GROUP, "Application", run.app.namespace, run.app.name).path,
        outcome=Outcome.REFUSED if is_refused else Outcome.FAILED,
        timestamp=run.now,
        sync="",
        reasoning=run.reason,
        plan_steps=len(run.plan.writes) if run.plan is not None else 0,
        risk_level=run.plan.risk.value if run.plan is not None else "",
        commit=run.commit.id if run.commit is not None else "",
        author=run.commit.author if run.commit is not None else "",
        digest=run.plan.digest if run.plan is not None else "",
        message=message,
    )


def _said(status: Manifest) -> str:
    ready = [item for item in status.get("conditions") or () if item.get("type") == "Ready"]
    return str(ready[0].get("message", "")) if ready and ready[0].get("status") == "False" else ""
