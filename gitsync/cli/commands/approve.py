"""``gitsync approve``."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from gitsync.cli.dashboard import DashboardOptions
from gitsync.cli.evaluation import Evaluator
from gitsync.cli.held_plan import review_at_dashboard, selected, shown_digest
from gitsync.cli.identity import user_name
from gitsync.cli.options import (
    AgeKey,
    GitTarget,
    Origin,
    command,
)
from gitsync.cli.output import Exit, say
from gitsync.cli.plan_output import print_steps
from gitsync.cli.requests import evaluated_view, review_requests
from gitsync.objects.user import User
from gitsync.services.reviews import Approval


@command
def approve(
    target: GitTarget,
    origin: Origin,
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
    if running is not None:
        review = {"verdict": "approve", "reason": origin.reason, "by": approver, "overrule": overrule}
        done = review_at_dashboard(running, target, review, step or ())
        _say_approved(done["digest"], done["application"], done["by"], datetime.fromisoformat(done["until"]))
        return Exit.OK
    evaluator = Evaluator(target, age_key)
    evaluation = evaluator.evaluate()
    plan = evaluation.plan
    steps = selected([change.ref.path for change in plan.writes], step or ())
    approval = Approval(User(approver), origin.reason, overrule, tuple(steps))
    requests = review_requests(evaluator, target.data)
    until = requests.approve(evaluated_view(evaluation), shown_digest(evaluation), approval)
    print_steps(plan.writes, evaluation.traces)
    _say_approved(plan.digest, target.key, approver, until)
    return Exit.OK


def _say_approved(digest: str, application: str, by: str, until: datetime) -> None:
    say(f"plan {digest[:12]} of {application} approved by {by} until {until:%Y-%m-%d %H:%M} UTC", "green")
