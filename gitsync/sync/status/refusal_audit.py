"""Audit why an Application, or a revision of it, was refused; once for each message."""

from __future__ import annotations

from gitsync.errors import Refused, TerminalError
from gitsync.objects.conditions import not_ready_message
from gitsync.objects.keys import GROUP
from gitsync.objects.record import AuditRecord, Outcome
from gitsync.objects.ref import ObjectRef
from gitsync.sync.status.build import ready_condition
from gitsync.sync.status.report import Report

ACTION = "sync"


def refusal_record(report: Report) -> AuditRecord | None:
    """Return the audit record of a refusal; None where nothing was refused, or where the audit has its message."""
    if not isinstance(report.error, TerminalError) and report.outcome.reason != "Refused":
        return None
    ready = ready_condition(report)
    message = ready.message if ready.status == "False" else ""
    if not message or message == not_ready_message(report.previous_status):
        return None
    is_refused = isinstance(report.error, Refused) or report.error is None
    return AuditRecord(
        application=report.app.key,
        action=ACTION,
        resource=ObjectRef(GROUP, "Application", report.app.namespace, report.app.name).path,
        outcome=Outcome.REFUSED if is_refused else Outcome.FAILED,
        timestamp=report.now,
        sync="",
        reasoning=report.outcome.reason,
        plan_steps=len(report.plan.writes) if report.plan is not None else 0,
        risk_level=report.plan.risk.value if report.plan is not None else "",
        commit=report.commit.id if report.commit is not None else "",
        author=report.commit.author if report.commit is not None else "",
        digest=report.plan.digest if report.plan is not None else "",
        message=message,
    )
