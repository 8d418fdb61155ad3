"""``gitsync approve`` and ``gitsync reject``."""

from __future__ import annotations

from datetime import UTC, datetime

from gitsync.cli.applications import request_sync
from gitsync.cli.history_database import open_records
from gitsync.cli.oneshot import Desk, Look
from gitsync.cli.options import Site
from gitsync.cli.output import Exit, say
from gitsync.cli.person import person
from gitsync.cli.steps import print_steps
from gitsync.errors import InvalidInput, Refused
from gitsync.gate.approvals import expires
from gitsync.objects.manifest import at
from gitsync.objects.record import AuditRecord, Outcome


def approve(name: str, namespace: str, reason: str, by: str, site: Site) -> Exit:
    """Store an approval of exactly the plan that is held, and ask for a sync."""
    now, approver = datetime.now(UTC), person(by, "--by")
    with open_records(site.data) as records:
        desk = Desk(site)
        found = _held(desk, namespace, name)
        app, plan = found.application, found.plan
        until = expires(app, now)
        records.approve(app.key, plan.digest, approver=approver, reason=reason, until=until)
        records.audit([_decision(found, "approve", approver, reason, now)])
        request_sync(desk.client, namespace, name)
    print_steps(plan.writes, found.traces)
    say(f"plan {plan.digest[:12]} of {app.key} approved by {approver} until {until:%Y-%m-%d %H:%M} UTC", "green")
    return Exit.DONE


def reject(name: str, namespace: str, reason: str, by: str, site: Site) -> Exit:
    """Store that exactly the plan that is held is not wanted; another plan asks again."""
    rejecter = person(by, "--by")
    with open_records(site.data) as records:
        found = _held(Desk(site), namespace, name)
        key, digest = found.application.key, found.plan.digest
        records.reject(key, digest, by=rejecter, reason=reason)
        records.audit([_decision(found, "reject", rejecter, reason, datetime.now(UTC))])
    say(f"plan {digest[:12]} of {key} rejected by {rejecter}")
    return Exit.DONE


def _held(desk: Desk, namespace: str, name: str) -> Look:
    """Return the plan that waits for a person; raise Refused when it is not the one that would run now."""
    found = desk.look(namespace, name)
    subject = f"Application {found.application.key}"
    if at(found.manifest, "status", "phase") != "AwaitingApproval":
        raise InvalidInput("nothing waits for approval", subject=subject, cure="see `gitsync status`")
    if at(found.manifest, "status", "plan", "id") != found.plan.digest[:12]:
        raise Refused("the plan has just changed", subject=subject, cure=f"look at the new one: gitsync plan {name}")
    return found


def _decision(found: Look, action: str, by: str, reason: str, now: datetime) -> AuditRecord:
    plan = found.plan
    return AuditRecord(
        application=found.application.key,
        action=action,
        resource="",
        outcome=Outcome.SUCCEEDED,
        timestamp=now,
        sync="",
        reasoning=reason,
        plan_steps=len(plan.writes),
        risk_level=plan.risk.value,
        commit=plan.revision,
        approver=by,
        digest=plan.digest,
    )
