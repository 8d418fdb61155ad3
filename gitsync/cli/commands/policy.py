"""``gitsync policy``."""

from __future__ import annotations

from dataclasses import asdict
from urllib.parse import quote

import typer

from gitsync.cli.applications import one_application
from gitsync.cli.dashboard import DashboardAddress
from gitsync.cli.errors import exit_on_error
from gitsync.cli.evaluation import Evaluator
from gitsync.cli.options import (
    DATA,
    NAMESPACE,
    Data,
    Kubeconfig,
    Name,
    Namespace,
    Output,
    Policies,
    ServerUrl,
    Target,
    TokenFile,
)
from gitsync.cli.output import Exit, Format, say, show
from gitsync.objects.application import parse_application

policy = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help="Explain the operator's policies.")


@policy.callback()
def _group() -> None:
    """Keep ``explain`` a command of its own: a group of one command would be that command."""


@policy.command()
@exit_on_error
def explain(
    name: Name,
    namespace: Namespace = NAMESPACE,
    output: Output = Format.TABLE,
    server: ServerUrl = "",
    token_file: TokenFile = None,
    kubeconfig: Kubeconfig = "",
    data: Data = DATA,
    policies: Policies = None,
) -> Exit:
    """Show what the policies allow and require of an Application, and what decided each setting."""
    dashboard = None if policies else DashboardAddress(server, token_file).find(data)
    if dashboard is not None:
        path = f"/api/v1/applications/{quote(namespace, safe='')}/{quote(name, safe='')}/policy"
        answer = dashboard.get(path)
        settings, problem = answer["settings"], answer["problem"]
    else:
        target = Target(name=name, namespace=namespace, kubeconfig=kubeconfig, data=data, policies=policies)
        evaluator = Evaluator(target)
        app = parse_application(one_application(evaluator.client, namespace, name))
        settings, problem = [asdict(setting) for setting in evaluator.policies.explain(app)], ""
    show(settings, ("name", "value", "source"), output, key="name")
    if problem:
        text = f"the newest policy files are not used, the earlier ones stay in use: {problem}"
        say(text, "red", is_warning=True)
    return Exit.OK
