"""``gitsync policy``."""

from __future__ import annotations

from dataclasses import asdict

from gitsync.cli.applications import one_application
from gitsync.cli.comparison import Evaluator
from gitsync.cli.dashboard import DashboardOptions, application_path
from gitsync.cli.options import (
    ApplicationTarget,
    GitTarget,
    Output,
    Policies,
    command,
    command_group,
)
from gitsync.cli.output import Exit, Format, say, show
from gitsync.objects.application import parse_application

policy = command_group("Explain the operator's policies.")


@policy.callback()
def _group() -> None:
    """Keep ``explain`` a command of its own: a group of one command would be that command."""


@policy.command()
@command
def explain(
    target: ApplicationTarget,
    dashboard: DashboardOptions,
    output: Output = Format.TABLE,
    policies: Policies = None,
) -> Exit:
    """Show what the policies allow and require of an Application, and what decided each setting."""
    # the dashboard has the policies of the controller; files that are named may be a draft
    running = None if policies else dashboard.find()
    if running is not None:
        answer = running.get(f"{application_path(target.key)}/policy")
        settings = answer["settings"]
        problem = answer["problem"]
    else:
        evaluator = Evaluator(GitTarget(**asdict(target), policies=policies))
        app = parse_application(one_application(evaluator.client, target.namespace, target.name))
        settings = [asdict(setting) for setting in evaluator.policies.explain(app)]
        problem = ""
    show(settings, ("name", "value", "source"), output, key="name")
    if problem:
        text = f"the newest policy files are not used, the earlier ones stay in use: {problem}"
        say(text, "red", is_warning=True)
    return Exit.OK
