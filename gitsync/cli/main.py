"""The ``gitsync`` command: every subcommand with its options; the work is in ``commands``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gitsync import __version__
from gitsync.cli.output import Format, guarded

if TYPE_CHECKING:
    from gitsync.settings import Settings

app = typer.Typer(
    name="gitsync",
    help="Keep a cluster as Git says: render, diff, apply, prune, explain.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Output = Annotated[Format, typer.Option("--output", "-o", help="table, json or yaml.")]
Kubeconfig = Annotated[
    str, typer.Option(help="The kubeconfig file; by default KUBECONFIG, the demo's, then ~/.kube/config.")
]
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="The namespace of the Application.")]
Data = Annotated[Path, typer.Option(envvar="GITSYNC_DATA", help="The folder of mirrors, history and sandbox state.")]
FileUrls = Annotated[
    bool, typer.Option(envvar="GITSYNC_ALLOW_FILE_URLS", help="Allow file:// repositories, as the demo's is.")
]
DATA = Path(".gitsync")


def _version(wanted: bool) -> None:
    if wanted:
        print(f"gitsync {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    """Keep a cluster as Git says: render, diff, apply, prune, explain."""


@app.command()
def run(
    application: Annotated[list[Path] | None, typer.Option(help="Apply these Application files first.")] = None,
    kubeconfig: Kubeconfig = "",
    data: Data = DATA,
    host: Annotated[str, typer.Option(help="The address of the dashboard.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port of the dashboard; 0 picks one.")] = 8080,
    install_crds: Annotated[bool, typer.Option(help="Install the CustomResourceDefinitions first.")] = True,
) -> None:
    """Run the controller and the dashboard against a cluster."""
    from gitsync.cli.commands import run as command

    guarded(lambda: command.run(application or [], _settings(kubeconfig, data, host, port, install_crds)))


@app.command()
def demo(
    data: Data = DATA,
    host: Annotated[str, typer.Option(help="The address of the dashboard.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port of the dashboard; 0 picks one.")] = 8080,
) -> None:
    """Run everything on this machine: a sandbox cluster, a demo repository, the controller, the dashboard."""
    from gitsync.cli.commands import demo as command

    guarded(lambda: command.demo(data, host, port))


@app.command()
def sandbox(
    data: Annotated[Path | None, typer.Option(help="Keep the state in this folder; by default in memory.")] = None,
    port: Annotated[int, typer.Option(help="The port on 127.0.0.1; 0 picks one.")] = 0,
    kubeconfig: Annotated[Path | None, typer.Option(help="Write the kubeconfig to this file.")] = None,
    workloads: Annotated[bool, typer.Option(help="Simulate Deployments, Jobs and Pods.")] = True,
    attached: Annotated[bool, typer.Option(help="Stop when standard input ends.")] = False,
) -> None:
    """Run a Kubernetes API in this process, for demos and tests."""
    from gitsync.cli.commands import sandbox as command

    guarded(lambda: command.sandbox(data, port, kubeconfig, workloads, attached))


@app.command()
def build(
    paths: Annotated[list[str], typer.Argument(help="Folders with a kustomization file, or with plain manifests.")],
    rev: Annotated[str, typer.Option(help="Read this Git revision instead of the files on disk.")] = "",
    output: Annotated[Format, typer.Option("--output", "-o", help="yaml or json.")] = Format.YAML,
    check: Annotated[bool, typer.Option("--check", help="Only say what is wrong, all of it.")] = False,
    renderer: Annotated[str, typer.Option(help="Auto, Kustomize or Plain.")] = "Auto",
    load_restrictor: Annotated[bool, typer.Option(help="Refuse files out of the kustomization's folder.")] = True,
) -> None:
    """Print the manifests that a path renders to, as `kubectl kustomize` does."""
    from gitsync.cli.commands import build as command

    guarded(lambda: command.build(paths, rev, output, check, renderer, load_restrictor))


@app.command()
def diff(
    name: Annotated[str, typer.Argument(help="The Application.")],
    namespace: Namespace = "gitsync",
    local: Annotated[Path | None, typer.Option(help="Compare with this folder instead of the Git revision.")] = None,
    output: Output = Format.TABLE,
    kubeconfig: Kubeconfig = "",
    data: Data = DATA,
    allow_file_urls: FileUrls = False,
) -> None:
    """Show field by field where the cluster differs from Git. Exit code 1: it differs."""
    from gitsync.cli.commands import diff as command

    config = _kubeconfig(kubeconfig, data)
    allowed = allow_file_urls or _is_demo(config, data)
    guarded(lambda: command.diff(name, namespace, local, output, config, data, allowed))


@app.command()
def sync(
    name: Annotated[str, typer.Argument(help="The Application.")],
    namespace: Namespace = "gitsync",
    wait: Annotated[bool, typer.Option(help="Wait until it is in sync and healthy.")] = True,
    timeout: Annotated[float, typer.Option(help="Seconds to wait.")] = 300.0,
    kubeconfig: Kubeconfig = "",
    data: Data = DATA,
) -> None:
    """Ask the controller to sync now. Exit code 1: not in sync or not healthy after it."""
    from gitsync.cli.commands import sync as command

    guarded(lambda: command.sync(name, namespace, wait, timeout, _kubeconfig(kubeconfig, data)))


@app.command()
def status(
    name: Annotated[str, typer.Argument(help="The Application; all when left out.")] = "",
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Only this namespace.")] = "",
    output: Output = Format.TABLE,
    kubeconfig: Kubeconfig = "",
    data: Data = DATA,
) -> None:
    """Show sync, health and reasons. Exit code 1: something is not in sync or not healthy."""
    from gitsync.cli.commands import status as command

    guarded(lambda: command.status(name, namespace, output, _kubeconfig(kubeconfig, data)))


@app.command()
def history(
    name: Annotated[str, typer.Argument(help="The Application.")],
    namespace: Namespace = "gitsync",
    output: Output = Format.TABLE,
    kubeconfig: Kubeconfig = "",
    data: Data = DATA,
) -> None:
    """List what was synced: commit, author, message, outcome."""
    from gitsync.cli.commands import history as command

    guarded(lambda: command.history(name, namespace, output, _kubeconfig(kubeconfig, data)))


@app.command()
def rollback(
    name: Annotated[str, typer.Argument(help="The Application.")],
    namespace: Namespace = "gitsync",
    to: Annotated[str, typer.Option(help="Undo every commit after this one; by default only the last one.")] = "",
    branch: Annotated[str, typer.Option(help="Push to this branch for review instead of the tracked one.")] = "",
    author: Annotated[str, typer.Option(help="The author of the revert: Name <mail>.")] = "",
    kubeconfig: Kubeconfig = "",
    data: Data = DATA,
    allow_file_urls: FileUrls = False,
) -> None:
    """Undo by a real revert commit in Git; the controller then follows it."""
    from gitsync.cli.commands import rollback as command

    config = _kubeconfig(kubeconfig, data)
    allowed = allow_file_urls or _is_demo(config, data)
    guarded(lambda: command.rollback(name, namespace, to, branch, author, config, data, allowed))


def _settings(kubeconfig: str, data: Path, host: str, port: int, install_crds: bool) -> Settings:
    from gitsync.settings import Settings

    return Settings(kubeconfig=kubeconfig, data=data, web_host=host, web_port=port, install_crds=install_crds)


def _kubeconfig(given: str, data: Path) -> str:
    """Return the kubeconfig to use: the given one, else KUBECONFIG's, else the demo's where it runs."""
    if given or os.environ.get("KUBECONFIG"):
        return given
    demo = _demo_kubeconfig(data)
    return str(demo) if demo.exists() else ""


def _demo_kubeconfig(data: Path) -> Path:
    return data / "kubeconfig"


def _is_demo(kubeconfig: str, data: Path) -> bool:
    """Whether the kubeconfig is that of the demo, whose repository is a folder on this machine."""
    return bool(kubeconfig) and Path(kubeconfig).resolve() == _demo_kubeconfig(data).resolve()


def main() -> None:
    """Run the command line; usage errors leave with exit code 2."""
    app(prog_name="gitsync", args=sys.argv[1:])
