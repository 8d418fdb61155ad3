"""The held plan of an Application, for its approval or rejection."""

from __future__ import annotations

from typing import Any

from gitsync.cli.dashboard_client import Dashboard
from gitsync.cli.evaluation import Evaluation, Evaluator
from gitsync.cli.options import Target
from gitsync.cli.output import say
from gitsync.errors import InvalidInput, Refused
from gitsync.objects.manifest import at
from gitsync.objects.phase import Phase


def review_at_dashboard(dashboard: Dashboard, target: Target, review: dict[str, Any]) -> dict[str, Any]:
    """Print the plan that the dashboard shows, and send a review of exactly that plan."""
    plan = dashboard.plan(target.namespace, target.name)
    for step in plan["steps"]:
        rule = f", rule {step['rule']}" if step["rule"] else ""
        say(f"{step['action']} {step['object']}  [{step['risk']}{rule}] {step['reason']}")
    return dashboard.review(target.namespace, target.name, {**review, "digest": plan["digest"]})


def held_plan(evaluator: Evaluator) -> Evaluation:
    """Return the plan that waits for a review; raise Refused when a sync would now run another plan."""
    found = evaluator.evaluate()
    subject = f"Application {found.application.key}"
    if not Phase.of(found.manifest.get("status") or {}).is_held:
        raise InvalidInput("no plan waits for approval", object=subject, hint="see `gitsync status`")
    if at(found.manifest, "status", "plan", "id") != found.plan.digest[:12]:
        hint = f"review the new one: gitsync plan {found.application.name}"
        raise Refused("the plan has just changed", object=subject, hint=hint)
    return found
