"""``gitsync reject``."""

from __future__ import annotations

from gitsync.cli.dashboard import DashboardOptions
from gitsync.cli.evaluation import Evaluator
from gitsync.cli.held_plan import review_at_dashboard, shown_digest
from gitsync.cli.identity import user_name
from gitsync.cli.options import (
    AgeKey,
    GitTarget,
    Origin,
    command,
)
from gitsync.cli.output import Exit, say
from gitsync.cli.requests import evaluated_view, review_requests
from gitsync.objects.user import User


@command
def reject(
    target: GitTarget,
    origin: Origin,
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
