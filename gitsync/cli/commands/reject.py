"""``gitsync reject``."""

from __future__ import annotations

from gitsync.cli.dashboard import DashboardAddress
from gitsync.cli.errors import exit_on_error
from gitsync.cli.evaluation import Evaluator
from gitsync.cli.held_plan import review_at_dashboard, shown_digest
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
from gitsync.cli.requests import evaluated_view, review_requests
from gitsync.objects.user import User


@exit_on_error
def reject(
    name: Name,
    namespace: Namespace = NAMESPACE,
    reason: Reason = "",
    by: By = "",
    server: ServerUrl = "",
    token_file: TokenFile = None,
    kubeconfig: Kubeconfig = "",
    data: Data = DATA,
    allow_file_urls: FileUrls = False,
    policies: Policies = None,
    age_key: AgeKey = None,
) -> Exit:
    """Reject the held plan; it stays held until it changes."""
    target = Target(
        name=name,
        namespace=namespace,
        kubeconfig=kubeconfig,
        data=data,
        file_urls=allow_file_urls,
        policies=policies,
        age_key=age_key,
    )
    reviewer, dashboard = user_name(by, "--by"), DashboardAddress(server, token_file).find(data)
    if dashboard is not None:
        done = review_at_dashboard(dashboard, target, {"verdict": "reject", "reason": reason, "by": reviewer})
        _say_rejected(done["digest"], done["application"], done["by"])
        return Exit.OK
    evaluator = Evaluator(target)
    evaluation = evaluator.evaluate()
    requests = review_requests(evaluator, data)
    requests.reject(evaluated_view(evaluation), shown_digest(evaluation), User(reviewer), reason)
    _say_rejected(evaluation.plan.digest, target.key, reviewer)
    return Exit.OK


def _say_rejected(digest: str, application: str, by: str) -> None:
    say(f"plan {digest[:12]} of {application} rejected by {by}")
