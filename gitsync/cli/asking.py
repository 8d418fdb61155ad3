"""The commands that ask for a change: of an Application, of Git, or of what the controller may do."""

from __future__ import annotations

from typing import Annotated

import typer

from gitsync.cli.errors import exit_on_error
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
    ServerUrl,
    TokenFile,
    resolve_target,
)
from gitsync.cli.output import Exit

app = typer.Typer(rich_markup_mode=None)

Reason = Annotated[str, typer.Option(help="Why, for the audit.")]


@app.command()
@exit_on_error
def sync(
    name: Name,
    namespace: Namespace = NAMESPACE,
    wait: Annotated[bool, typer.Option(help="Wait until it is in sync and healthy.")] = True,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait.")] = 300.0,
    kubeconfig: Kubeconfig = "",
    data: Data = DATA,
) -> Exit:
    """Ask the controller to sync now. Exit code 1: not in sync or not healthy after it."""
    from gitsync.cli.commands.sync import sync

    return sync(name, namespace, wait, timeout, resolve_target(kubeconfig, data))


@app.command()
@exit_on_error
def approve(
    name: Name,
    namespace: Namespace = NAMESPACE,
    reason: Reason = "",
    by: By = "",
    overrule: Annotated[bool, typer.Option("--overrule", help="Approve it although it was rejected.")] = False,
    server: ServerUrl = "",
    token_file: TokenFile = None,
    kubeconfig: Kubeconfig = "",
    data: Data = DATA,
    allow_file_urls: FileUrls = False,
    age_key: AgeKey = None,
) -> Exit:
    """Let the plan that waits run, once, exactly as it is."""
    from gitsync.cli.commands.approve import approve
    from gitsync.cli.dashboard_client import DashboardAddress

    where = resolve_target(kubeconfig, data, allow_file_urls, age_key=age_key)
    return approve(name, namespace, reason, by, overrule, where, DashboardAddress(server, token_file))


@app.command()
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
    age_key: AgeKey = None,
) -> Exit:
    """Turn down the plan that waits; another plan asks again."""
    from gitsync.cli.commands.approve import reject
    from gitsync.cli.dashboard_client import DashboardAddress

    where = resolve_target(kubeconfig, data, allow_file_urls, age_key=age_key)
    return reject(name, namespace, reason, by, where, DashboardAddress(server, token_file))


@app.command()
@exit_on_error
def rollback(
    name: Name,
    namespace: Namespace = NAMESPACE,
    to: Annotated[
        str, typer.Option(help="Undo every commit after this one, or after this sync's; by default only the last one.")
    ] = "",
    branch: Annotated[str, typer.Option(help="Push to this branch for review instead of the tracked one.")] = "",
    author: Annotated[str, typer.Option(help="The author of the revert: Name <mail>.")] = "",
    kubeconfig: Kubeconfig = "",
    data: Data = DATA,
    allow_file_urls: FileUrls = False,
) -> Exit:
    """Undo by a real revert commit in Git; the controller then follows it."""
    from gitsync.cli.commands.rollback import rollback

    return rollback(name, namespace, to, branch, author, resolve_target(kubeconfig, data, allow_file_urls))


@app.command()
@exit_on_error
def pin(
    name: Name,
    revision: Annotated[
        str, typer.Argument(metavar="REVISION", help="A commit, the number of a sync, a branch or a tag.")
    ],
    namespace: Namespace = NAMESPACE,
    kubeconfig: Kubeconfig = "",
    data: Data = DATA,
    allow_file_urls: FileUrls = False,
) -> Exit:
    """Follow one commit until unpinned, whatever the branch does."""
    from gitsync.cli.commands.pin import pin

    return pin(name, namespace, revision, resolve_target(kubeconfig, data, allow_file_urls))


@app.command()
@exit_on_error
def unpin(name: Name, namespace: Namespace = NAMESPACE, kubeconfig: Kubeconfig = "", data: Data = DATA) -> Exit:
    """Follow again what was followed before the pin."""
    from gitsync.cli.commands.pin import unpin

    return unpin(name, namespace, resolve_target(kubeconfig, data))


@app.command()
@exit_on_error
def suspend(name: Name, namespace: Namespace = NAMESPACE, kubeconfig: Kubeconfig = "", data: Data = DATA) -> Exit:
    """Stop syncing an Application; nothing of it is deleted."""
    from gitsync.cli.commands.suspend import suspend

    return suspend(name, namespace, True, resolve_target(kubeconfig, data))


@app.command()
@exit_on_error
def resume(name: Name, namespace: Namespace = NAMESPACE, kubeconfig: Kubeconfig = "", data: Data = DATA) -> Exit:
    """Sync a suspended Application again."""
    from gitsync.cli.commands.suspend import suspend

    return suspend(name, namespace, False, resolve_target(kubeconfig, data))
