"""The commands that run something until they are interrupted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gitsync.cli.errors import exit_on_error
from gitsync.cli.options import DATA, Data, Host, Kubeconfig, Policies, Port, UsersFile, load_settings
from gitsync.cli.output import Exit

app = typer.Typer(rich_markup_mode=None)


@app.command()
@exit_on_error
def run(
    application: Annotated[list[Path] | None, typer.Option(help="Apply these Application files first.")] = None,
    kubeconfig: Kubeconfig = "",
    data: Data = DATA,
    host: Host = "127.0.0.1",
    port: Port = 8080,
    install_crds: Annotated[
        bool, typer.Option(envvar="GITSYNC_INSTALL_CRDS", help="Install the CustomResourceDefinitions first.")
    ] = True,
    namespaces: Annotated[
        str,
        typer.Option(envvar="GITSYNC_NAMESPACES", help="Watch these namespaces, divided by commas; by default all."),
    ] = "",
    prometheus: Annotated[
        str, typer.Option(envvar="GITSYNC_PROMETHEUS", help="The Prometheus server that is asked after a sync.")
    ] = "",
    policies: Policies = None,
    users: UsersFile = None,
) -> Exit:
    """Run the controller and the dashboard against a cluster."""
    from gitsync.cli.commands.run import run

    settings = load_settings(
        kubeconfig=kubeconfig,
        data=data,
        web_host=host,
        web_port=port,
        install_crds=install_crds,
        namespaces=namespaces,
        prometheus=prometheus,
        policies=policies,
        users=users,
    )
    return run(application or [], settings)


@app.command()
@exit_on_error
def demo(data: Data = DATA, host: Host = "127.0.0.1", port: Port = 8080) -> Exit:
    """Run everything on this machine: a sandbox cluster, a demo repository, the controller, the dashboard."""
    from gitsync.cli.commands.demo import demo

    return demo(data, host, port)


@app.command()
@exit_on_error
def sandbox(
    data: Annotated[Path | None, typer.Option(help="Keep the state in this folder; by default in memory.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port on 127.0.0.1; 0 picks one.")] = 0,
    kubeconfig: Annotated[Path | None, typer.Option(help="Write the kubeconfig to this file.")] = None,
    workloads: Annotated[bool, typer.Option(help="Simulate Deployments, Jobs and Pods.")] = True,
    attached: Annotated[bool, typer.Option(help="Stop when standard input ends.")] = False,
) -> Exit:
    """Run a Kubernetes API in this process, for demos and tests."""
    from gitsync.cli.commands.sandbox import sandbox

    return sandbox(data, port, kubeconfig, workloads, attached)
