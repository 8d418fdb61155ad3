"""``gitsync approve``."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from gitsync.cli.dashboard import DashboardAddress
from gitsync.cli.errors import exit_on_error
from gitsync.cli.evaluation import Evaluator
from gitsync.cli.held_plan import review_at_dashboard, selected, shown_digest
from gitsync.cli.identity import user_name
from gitsync.cli.options import (
    DATA,
    NAMESPACE,
    AgeKey,
    By,
    Data,
    FileUrls,
    Kubeconfig,
    Name,
    Namespace,
    Policies,
    Reason,
    ServerUrl,
    Target,
    TokenFile,
)
from gitsync.cli.output import Exit, say
from gitsync.cli.plan_output import print_steps
from gitsync.cli.requests import evaluated_view, review_requests
from gitsync.objects.user import User
from gitsync.services.reviews import Approval


@exit_on_error
def approve(
    name: Name,
    namespace: Namespace = NAMESPACE,
    reason: Reason = "",
    by: By = "",
    overrule: Annotated[bool, typer.Option("--overrule", help="Approve it although it was rejected.")] = False,
    step: Annotated[
        list[str] | None,
        typer.Option("--step", help="Approve only this step, as KIND/NAME or GROUP/KIND/NAMESPACE/NAME; repeatable."),
    ] = None,
    server: ServerUrl = "",
    token_file: TokenFile = None,
    kubeconfig: Kubeconfig = "",
    data: Data = DATA,
    allow_file_urls: FileUrls = False,
    policies: Policies = None,
    age_key: AgeKey = None,
) -> Exit:
    """Approve the held plan for one sync, exactly as it is, or some steps of it with all that they need."""
    target = Target(
        name=name,
        namespace=namespace,
        kubeconfig=kubeconfig,
        data=data,
        file_urls=allow_file_urls,
        policies=policies,
        age_key=age_key,
    )
    approver, dashboard = user_name(by, "--by"), DashboardAddress(server, token_file).find(data)
    if dashboard is not None:
        review = {"verdict": "approve", "reason": reason, "by": approver, "overrule": overrule}
        done = review_at_dashboard(dashboard, target, review, step or ())
        _say_approved(done["digest"], done["application"], done["by"], datetime.fromisoformat(done["until"]))
        return Exit.OK
    evaluator = Evaluator(target)
    evaluation = evaluator.evaluate()
    plan = evaluation.plan
    steps = selected([change.ref.path for change in plan.writes], step or ())
    approval = Approval(User(approver), reason, overrule, tuple(steps))
    requests = review_requests(evaluator, data)
    until = requests.approve(evaluated_view(evaluation), shown_digest(evaluation), approval)
    print_steps(plan.writes, evaluation.traces)
    _say_approved(plan.digest, target.key, approver, until)
    return Exit.OK


def _say_approved(digest: str, application: str, by: str, until: datetime) -> None:
    say(f"plan {digest[:12]} of {application} approved by {by} until {until:%Y-%m-%d %H:%M} UTC", "green")
