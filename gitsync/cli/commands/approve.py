"""``gitsync approve`` and its opposite, ``gitsync reject``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated, Any

import typer

from gitsync.cli.comparison import ApplicationComparison, Evaluator
from gitsync.cli.dashboard import Dashboard, DashboardOptions
from gitsync.cli.options import (
    AgeKey,
    ApplicationTarget,
    GitTarget,
    RequestOrigin,
    command,
)
from gitsync.cli.output import Exit, say
from gitsync.cli.plan_output import print_steps
from gitsync.cli.requests import evaluated_view, review_requests, user_name
from gitsync.errors import InvalidInput
from gitsync.objects.manifest import at
from gitsync.objects.ref import ObjectRef
from gitsync.objects.user import User
from gitsync.services.reviews import Approval


@command
def approve(
    target: GitTarget,
    origin: RequestOrigin,
    dashboard: DashboardOptions,
    overrule: Annotated[bool, typer.Option("--overrule", help="Approve it although it was rejected.")] = False,
    step: Annotated[
        list[str] | None,
        typer.Option("--step", help="Approve only this step, as KIND/NAME or GROUP/KIND/NAMESPACE/NAME; repeatable."),
    ] = None,
    age_key: AgeKey = None,
) -> Exit:
    """Approve the held plan for one sync, exactly as it is, or some steps of it with all that they need."""
    approver = user_name(origin.by, "--by")
    running = dashboard.find()
    if running is not None:  # it knows who signs in; the database could not prove who approves
        review = {"verdict": "approve", "reason": origin.reason, "by": approver, "overrule": overrule}
        done = review_at_dashboard(running, target, review, step or ())
        _say_approved(done["digest"], done["application"], done["by"], datetime.fromisoformat(done["until"]))
        return Exit.OK
    evaluator = Evaluator(target, age_key)
    evaluation = evaluator.evaluate()
    plan = evaluation.plan
    steps = selected([change.ref.path for change in plan.writes], step or ())
    # not authenticated: the name of the operating system's user proves nothing to the policies
    approval = Approval(User(approver), origin.reason, overrule, tuple(steps))
    requests = review_requests(evaluator, target.data)
    until = requests.approve(evaluated_view(evaluation), shown_digest(evaluation), approval)
    print_steps(plan.writes, evaluation.traces)
    _say_approved(plan.digest, target.key, approver, until)
    return Exit.OK


def _say_approved(digest: str, application: str, by: str, until: datetime) -> None:
    say(f"plan {digest[:12]} of {application} approved by {by} until {until:%Y-%m-%d %H:%M} UTC", "green")


@command
def reject(
    target: GitTarget,
    origin: RequestOrigin,
    dashboard: DashboardOptions,
    age_key: AgeKey = None,
) -> Exit:
    """Reject the held plan; it stays held until it changes."""
    reviewer = user_name(origin.by, "--by")
    running = dashboard.find()
    if running is not None:
        done = review_at_dashboard(running, target, {"verdict": "reject", "reason": origin.reason, "by": reviewer})
        _say_rejected(done["digest"], done["application"], done["by"])
        return Exit.OK
    evaluator = Evaluator(target, age_key)
    evaluation = evaluator.evaluate()
    requests = review_requests(evaluator, target.data)
    requests.reject(evaluated_view(evaluation), shown_digest(evaluation), User(reviewer), origin.reason)
    _say_rejected(evaluation.plan.digest, target.key, reviewer)
    return Exit.OK


def _say_rejected(digest: str, application: str, by: str) -> None:
    say(f"plan {digest[:12]} of {application} rejected by {by}")


def review_at_dashboard(
    dashboard: Dashboard, target: ApplicationTarget, review: dict[str, Any], steps: Iterable[str] = ()
) -> dict[str, Any]:
    """Print the plan that the dashboard shows, and send a review of exactly that plan, or of some of its steps."""
    plan = dashboard.plan(target.namespace, target.name)
    for step in plan["steps"]:
        rule = f", rule {step['rule']}" if step["rule"] else ""
        say(f"{step['action']} {step['object']}  [{step['risk']}{rule}] {step['reason']}")
    chosen = selected([step["path"] for step in plan["steps"]], steps)
    # of the plan that was printed: the dashboard refuses it where the plan is another one by now
    return dashboard.review(target.namespace, target.name, {**review, "digest": plan["digest"], "steps": chosen})


def selected(paths: Sequence[str], names: Iterable[str]) -> list[str]:
    """Return the paths of the steps named by ``KIND/NAME`` or by path; raise InvalidInput for an unknown one."""
    chosen = []
    for name in names:
        matching = [path for path in paths if path == name or _short(path) == name]
        if not matching:
            known = ", ".join(map(_short, paths[:10]))
            raise InvalidInput(f"the plan has no step {name!r}", location="--step", hint=f"steps are {known}")
        chosen += matching
    return chosen


def _short(path: str) -> str:
    ref = ObjectRef.from_path(path)
    return f"{ref.kind}/{ref.name}"


def shown_digest(evaluation: ApplicationComparison) -> str:
    """Return the digest of the evaluated plan where the status shows that plan, else what the status shows."""
    shown = str(at(evaluation.manifest, "status", "plan", "id", default="")) or "none"
    digest = evaluation.plan.digest
    # the status has only the start of a digest
    return digest if digest.startswith(shown) else shown
