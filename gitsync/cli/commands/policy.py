"""``gitsync policy`` and ``gitsync tenant``: who may do what."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from gitsync.cli.applications import all_applications, connect, one_application, readable
from gitsync.cli.comparison import Evaluator
from gitsync.cli.dashboard import DashboardOptions, application_path
from gitsync.cli.options import (
    ApplicationTarget,
    ClusterTarget,
    GitTarget,
    Output,
    Policies,
    command,
    command_group,
)
from gitsync.cli.output import Exit, Format, say, show
from gitsync.errors import InvalidInput
from gitsync.files import create_file
from gitsync.gate.explain import PolicySummary, summaries
from gitsync.gate.policy_files import PolicySet, parse_policy
from gitsync.objects.application import parse_application
from gitsync.objects.keys import API_VERSION
from gitsync.objects.manifest import Manifest
from gitsync.render.yaml.writer import write
from gitsync.services.policies import read_policies

policy = command_group("Explain the operator's policies, and list who may do what.")
tenant = command_group("Write the policies of teams that share the controller.")

_MODE = 0o644
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)


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


@policy.command("list")
@command
def list_policies(
    place: ClusterTarget, dashboard: DashboardOptions, output: Output = Format.TABLE, policies: Policies = None
) -> Exit:
    """Show who may do what: each tenant and policy with what it allows, its Applications, and what these lack."""
    # the dashboard has the policies of the controller; files that are named may be a draft
    running = None if policies else dashboard.find()
    if running is not None:
        listed = [_rows_of(item) for item in running.get("/api/v1/policies")]
    else:
        current = read_policies(policies) if policies else PolicySet()
        client = connect(place.cluster)
        try:
            listed = [_rows_of(_document(item)) for item in summaries(readable(all_applications(client)), current)]
        finally:
            client.close()
    rows = [row for group in listed for row in group]
    show(rows, ("policy", "name", "value"), output, key="policy")
    return Exit.DIFFERENT if any(row["name"] == _NOT_MET for row in rows) else Exit.OK


_NOT_MET = "not met"


def _document(summary: PolicySummary) -> dict[str, Any]:
    """Return a summary as the API answers it."""
    violations = [{"application": key, "reason": reason} for key, reason in summary.violations]
    return {**asdict(summary), "violations": violations}


def _rows_of(summary: dict[str, Any]) -> list[dict[str, str]]:
    policy_name = f"{summary['kind']} {summary['name']}"
    lines = [(item["name"], item["value"]) for item in summary["settings"]]
    lines.append(("applications", ", ".join(summary["applications"]) or "none"))
    lines += [(_NOT_MET, f"{item['application']}: {item['reason']}") for item in summary["violations"]]
    return [{"policy": policy_name, "name": name, "value": value} for name, value in lines]


@tenant.callback()
def _group() -> None:
    """Keep ``add`` a command of its own: a group of one command would be that command."""


@tenant.command()
@command
def add(
    name: Annotated[str, typer.Argument(help="The tenant.")],
    namespace: Annotated[
        list[str] | None, typer.Option(help="A namespace of its Applications; repeatable. By default its name.")
    ] = None,
    repository: Annotated[
        list[str] | None, typer.Option(help="A pattern of URLs of repositories; repeatable. Others are refused.")
    ] = None,
    secret: Annotated[
        list[str] | None, typer.Option(help="A Secret whose credentials may be sent to these repositories; repeatable.")
    ] = None,
    revision: Annotated[
        list[str] | None, typer.Option(help="A branch, tag or range to follow; repeatable. By default all of them.")
    ] = None,
    policies: Annotated[
        Path | None,
        typer.Option(help="The folder of the Policy files, for tenant-NAME.yaml; by default it is printed."),
    ] = None,
) -> Exit:
    """Write the Tenant of a team, which may use nothing but what it lists."""
    # it becomes the name of a file, and of its namespace
    if not _NAME.fullmatch(name):
        raise InvalidInput(f"{name!r} is not a name", location="NAME", hint="write small letters, digits and dashes")
    repositories: list[dict[str, Any]] = [{"url": url} for url in repository or ()]
    for item in repositories:
        item |= {key: list(values) for key, values in (("secrets", secret), ("revisions", revision)) if values}
    namespaces = namespace or [name]
    spec = {"namespaces": namespaces, **({"repositories": repositories} if repositories else {})}
    document: Manifest = {"apiVersion": API_VERSION, "kind": "Tenant", "metadata": {"name": name}, "spec": spec}
    parse_policy(document, "--namespace, --repository")
    text = write(document)
    if policies is None:
        print(text, end="")
        return Exit.OK
    file = policies / f"tenant-{name}.yaml"
    if file.exists():
        raise InvalidInput("the file exists already", location=str(file), hint="edit it, or remove it first")
    if not policies.is_dir():
        raise InvalidInput(f"folder {policies} does not exist", location="--policies", hint="create it")
    create_file(file, text, _MODE)
    say(f"{file} is written; then, for the rights in the cluster and the ConfigMap of the policies:")
    for shared in namespaces:
        print(f"gitsync install --tenant {shared} | kubectl apply -f -")
    made = f"kubectl -n gitsync create configmap gitsync-policies --from-file {policies} --dry-run=client -o yaml"
    print(f"{made} | kubectl apply -f -")
    print(f"gitsync policy list --policies {policies}")
    return Exit.OK
