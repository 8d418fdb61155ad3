"""``gitsync approve`` and ``gitsync reject``: at the dashboard, else straight into the database while none runs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from gitsync.cli.applications import request_sync
from gitsync.cli.dashboard_client import Dashboard, DashboardAddress
from gitsync.cli.evaluation import Evaluation, Evaluator
from gitsync.cli.identity import person
from gitsync.cli.options import Target
from gitsync.cli.output import Exit, say
from gitsync.cli.plan_output import print_steps
from gitsync.cli.records import open_records
from gitsync.errors import InvalidInput, Refused
from gitsync.objects.manifest import at
from gitsync.objects.phase import Phase
from gitsync.objects.user import User
from gitsync.services.reviews import ReviewService
from gitsync.wiring import SystemClock


def approve(
    name: str, namespace: str, reason: str, by: str, overrule: bool, site: Target, server: DashboardAddress
) -> Exit:
    """Approve exactly the plan that is held, and ask for a sync."""
    approver, dashboard = person(by, "--by"), server.find(site.data)
    if dashboard is not None:
        word = {"verdict": "approve", "reason": reason, "by": approver, "overrule": overrule}
        done = _at(dashboard, namespace, name, word)
        _say_approved(done["digest"], done["application"], done["by"], datetime.fromisoformat(done["until"]))
        return Exit.OK
    with open_records(site.data) as records:
        desk = Evaluator(site)
        found = _held(desk, namespace, name)
        app, plan = found.application, found.plan
        until = ReviewService(records, SystemClock()).approve(app, plan, User(approver), reason, overrule=overrule)
        request_sync(desk.client, namespace, name)
    print_steps(plan.writes, found.traces)
    _say_approved(plan.digest, app.key, approver, until)
    return Exit.OK


def reject(name: str, namespace: str, reason: str, by: str, site: Target, server: DashboardAddress) -> Exit:
    """Say that exactly the plan that is held is not wanted; another plan asks again."""
    rejecter, dashboard = person(by, "--by"), server.find(site.data)
    if dashboard is not None:
        done = _at(dashboard, namespace, name, {"verdict": "reject", "reason": reason, "by": rejecter})
        say(f"plan {done['digest'][:12]} of {done['application']} rejected by {done['by']}")
        return Exit.OK
    with open_records(site.data) as records:
        found = _held(Evaluator(site), namespace, name)
        ReviewService(records, SystemClock()).reject(found.application, found.plan, User(rejecter), reason)
    say(f"plan {found.plan.digest[:12]} of {found.application.key} rejected by {rejecter}")
    return Exit.OK


def _at(dashboard: Dashboard, namespace: str, name: str, word: dict[str, Any]) -> dict[str, Any]:
    """Say a word on the plan that the dashboard shows now, after printing it."""
    plan = dashboard.plan(namespace, name)
    for step in plan["steps"]:
        rule = f", rule {step['rule']}" if step["rule"] else ""
        say(f"{step['action']} {step['object']}  [{step['class']}{rule}] {step['reason']}")
    return dashboard.review(namespace, name, {**word, "digest": plan["digest"]})


def _say_approved(digest: str, application: str, by: str, until: datetime) -> None:
    say(f"plan {digest[:12]} of {application} approved by {by} until {until:%Y-%m-%d %H:%M} UTC", "green")


def _held(desk: Evaluator, namespace: str, name: str) -> Evaluation:
    """Return the plan that waits for a person; raise Refused when it is not the one that would run now."""
    found = desk.evaluate(namespace, name)
    subject = f"Application {found.application.key}"
    if not Phase.of(found.manifest.get("status") or {}).is_held:
        raise InvalidInput("nothing waits for approval", object=subject, hint="see `gitsync status`")
    if at(found.manifest, "status", "plan", "id") != found.plan.digest[:12]:
        raise Refused("the plan has just changed", object=subject, hint=f"look at the new one: gitsync plan {name}")
    return found
