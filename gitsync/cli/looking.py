"""The commands that look at Applications and change nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gitsync.cli.errors import exit_on_error
from gitsync.cli.options import (
    DATA,
    NAMESPACE,
    AgeKey,
    AuditFormat,
    Data,
    FileUrls,
    Kubeconfig,
    Name,
    Namespace,
    Output,
    Policies,
    resolve_target,
)
from gitsync.cli.output import Exit, Format

app = typer.Typer(rich_markup_mode=None)

AnyName = Annotated[str, typer.Argument(metavar="NAME", help="The Application; all when left out.")]
AnyNamespace = Annotated[str, typer.Option("--namespace", "-n", help="Only this namespace.")]


@app.command()
@exit_on_error
def status(
    name: AnyName = "",
    namespace: AnyNamespace = "",
    output: Output = Format.TABLE,
    kubeconfig: Kubeconfig = "",
    data: Data = DATA,
) -> Exit:
    """Show sync, health and reasons. Exit code 1: something is not in sync or not healthy."""
    from gitsync.cli.commands.status import status

    return status(name, namespace, output, resolve_target(kubeconfig, data))


@app.command()
@exit_on_error
def diff(
    name: Name,
    namespace: Namespace = NAMESPACE,
    local: Annotated[Path | None, typer.Option(help="Compare with this folder instead of the Git revision.")] = None,
    output: Output = Format.TABLE,
    kubeconfig: Kubeconfig = "",
    data: Data = DATA,
    allow_file_urls: FileUrls = False,
    age_key: AgeKey = None,
) -> Exit:
    """Show field by field where the cluster differs from Git. Exit code 1: it differs."""
    from gitsync.cli.commands.diff import diff

    return diff(name, namespace, local, output, resolve_target(kubeconfig, data, allow_file_urls, age_key=age_key))


@app.command()
@exit_on_error
def plan(
    name: Name,
    namespace: Namespace = NAMESPACE,
    output: Output = Format.TABLE,
    kubeconfig: Kubeconfig = "",
    data: Data = DATA,
    allow_file_urls: FileUrls = False,
    policies: Policies = None,
    age_key: AgeKey = None,
) -> Exit:
    """Show what a sync would do, each step with its class, rule and reason. Exit code 1: it would do something."""
    from gitsync.cli.commands.plan import plan

    return plan(name, namespace, output, resolve_target(kubeconfig, data, allow_file_urls, policies, age_key))


@app.command()
@exit_on_error
def drift(
    name: AnyName = "",
    namespace: AnyNamespace = "",
    output: Output = Format.TABLE,
    kubeconfig: Kubeconfig = "",
    data: Data = DATA,
    allow_file_urls: FileUrls = False,
    age_key: AgeKey = None,
) -> Exit:
    """Show what was changed in the cluster since it was applied, by whom and when. Exit code 1: something was."""
    from gitsync.cli.commands.drift import drift

    return drift(name, namespace, output, resolve_target(kubeconfig, data, allow_file_urls, age_key=age_key))


@app.command()
@exit_on_error
def orphans(
    namespace: AnyNamespace = "",
    output: Output = Format.TABLE,
    kubeconfig: Kubeconfig = "",
    data: Data = DATA,
) -> Exit:
    """List objects that an Application applied and that none holds any more. Exit code 1: there are some."""
    from gitsync.cli.commands.orphans import orphans

    return orphans(namespace, output, resolve_target(kubeconfig, data))


@app.command()
@exit_on_error
def history(
    name: Name,
    namespace: Namespace = NAMESPACE,
    output: Output = Format.TABLE,
    kubeconfig: Kubeconfig = "",
    data: Data = DATA,
) -> Exit:
    """List what was synced: commit, author, message, outcome."""
    from gitsync.cli.commands.history import history

    return history(name, namespace, output, resolve_target(kubeconfig, data))


@app.command()
@exit_on_error
def audit(
    name: Annotated[
        str, typer.Argument(metavar="APPLICATION|verify", help="Only this Application; verify: check the chain.")
    ] = "",
    namespace: Namespace = NAMESPACE,
    limit: Annotated[int, typer.Option(min=1, help="So many records, the newest; jsonl is always all.")] = 100,
    output: Annotated[AuditFormat, typer.Option("--output", "-o", help="table, json, yaml or jsonl.")] = (
        AuditFormat.TABLE
    ),
    data: Data = DATA,
) -> Exit:
    """List every write and decision, or check the chain that they form. Exit code 1: the chain is broken."""
    from gitsync.cli.commands.audit import audit, verify

    if name == "verify":
        return verify(data)
    return audit(f"{namespace}/{name}" if name else "", limit, output, data)
