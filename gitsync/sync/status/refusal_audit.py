"""Audit why an Application, or a revision of it, was refused; once for each message."""

from __future__ import annotations

from dataclasses import replace

from gitsync.errors import Refused, TerminalError
from gitsync.objects.conditions import not_ready_message
from gitsync.objects.record import AuditRecord, Outcome
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
    outcome = Outcome.REFUSED if is_refused else Outcome.FAILED
    record = AuditRecord.of_application(report.app, ACTION, outcome, report.now, report.outcome.reason)
    if report.plan is not None:
        record = record.of_plan(report.plan)
    if report.commit is not None:
        record = record.of_commit(report.commit)
    return replace(record, message=message)
