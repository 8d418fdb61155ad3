"""``gitsync demo``: everything on one machine. ``make run`` runs it."""

from __future__ import annotations

import contextlib
import importlib.resources
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Annotated

import typer

from gitsync.cli.commands.run import apply_applications
from gitsync.cli.commands.setup.demo_steps import Demo, steps
from gitsync.cli.commands.setup.package_files import shipped_folder
from gitsync.cli.errors import exit_on_error
from gitsync.cli.options import DATA, DEFAULT_PORT, Data, Host, load_settings
from gitsync.cli.output import Exit, say
from gitsync.cli.serve import listen, serve
from gitsync.errors import ClusterUnavailable, InvalidInput
from gitsync.files import PUBLIC, create_file
from gitsync.objects.keys import API_VERSION
from gitsync.objects.manifest import Manifest
from gitsync.source.seed import seed

ENVIRONMENTS = ("dev", "staging", "prod")
_INTERVAL = "1s"
_PORTS = 20
"""Ports after the default one that are tried."""
_AGENTS = "agents"
"""The overlay whose agents run, see gitsync/demo_agents."""
_SANDBOX_CONTEXT = "current-context: sandbox"
_POLICY = """\
# Without a policy, each cluster-scoped object waits for an approval; this lists those of the demo.
# A change of this file takes effect within seconds: gitsync policy explain support-dev
apiVersion: gitsync.dev/v1alpha1
kind: Policy
metadata: {name: demo}
spec:
  applications: ["*"]
  allow: {clusterKinds: [Namespace]}
"""


@exit_on_error
def demo(
    data: Data = DATA,
    host: Host = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            envvar="GITSYNC_WEB_PORT",
            help="The port of the dashboard; 0 picks a free one; by default 8080 or the next free one.",
        ),
    ] = None,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            envvar="GITSYNC_KUBECONFIG",
            help="Write the sandbox's kubeconfig to this file; by default in the data folder.",
        ),
    ] = None,
) -> Exit:
    """Run everything on this machine: sandbox cluster, demo repository, controller and dashboard."""
    data = data.absolute()
    config = _checked(kubeconfig.absolute()) if kubeconfig else data / "kubeconfig"
    listener = listen(host, DEFAULT_PORT if port is None else port, alternatives=_PORTS if port is None else 0)
    data.mkdir(parents=True, exist_ok=True)
    origin, clone = data / "demo.git", data / "demo"
    seed(origin, clone, {name: shipped_folder(name) for name in ("manifests/support-desk", "overlays")})
    with listener, _sandbox(data / "sandbox", config) as (url, proxy):
        settings = load_settings(
            kubeconfig=str(config),
            context="",
            data=data,
            allow_file_urls=True,
            policies=_policies(data),
            web_host=host,
            web_port=port or 0,
        )
        apply_applications(settings, [_application(name, f"file://{origin}") for name in (*ENVIRONMENTS, _AGENTS)])
        say(f"sandbox cluster at {url}")
        found = Demo(clone, data, config, url, proxy)
        serve(settings, listener, lambda address: _print_steps(address, found))
    return Exit.OK


def _checked(kubeconfig: Path) -> Path:
    """Return the file for the sandbox's kubeconfig; raise InvalidInput when it belongs to another cluster."""
    if kubeconfig.exists() and _SANDBOX_CONTEXT not in kubeconfig.read_text(encoding="utf-8", errors="replace"):
        raise InvalidInput(
            f"{kubeconfig} is the kubeconfig of another cluster, and the demo would overwrite it",
            location="GITSYNC_KUBECONFIG",
            hint="unset it for the demo, or sync that cluster: gitsync run",
        )
    return kubeconfig


def _policies(data: Path) -> Path:
    """Return the folder of the demo's policies; its file stays as the user changed it."""
    folder = data / "policies"
    folder.mkdir(exist_ok=True)
    file = folder / "demo.yaml"
    create_file(file, _POLICY, PUBLIC)
    return folder


def _application(environment: str, url: str) -> Manifest:
    namespace = f"support-{environment}"
    return {
        "apiVersion": API_VERSION,
        "kind": "Application",
        "metadata": {"name": namespace, "namespace": "gitsync"},
        "spec": {
            "source": {"repoURL": url, "path": f"overlays/{environment}"},
            "destination": {"namespace": namespace, "allowClusterScoped": True},
            "sync": {"interval": _INTERVAL, "prune": True, "selfHeal": True},
        },
    }


@contextlib.contextmanager
def _sandbox(data: Path, kubeconfig: Path) -> Iterator[tuple[str, str]]:
    """
    Run the sandbox in a process of its own, as any cluster; it ends with this process, however that ends.

    Yield its URL, and that of the proxy to its Services, empty where what the agents need is not installed.
    """
    images = _images()
    command = [sys.executable, "-m", "gitsync", "sandbox", "--attached"]
    command += ["--data", str(data), "--kubeconfig", str(kubeconfig)]
    command += ["--images", str(images)] if images else []
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C reaches the controller first, which then ends the sandbox
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline().decode()
        if "ready at" not in line:
            raise ClusterUnavailable("the sandbox did not start", hint="see its error output above")
        proxy = _proxy(process.stdout) if images else ""
        yield line.rpartition(" ")[2].strip(), proxy
    finally:
        process.terminate()
        process.communicate(timeout=10)


def _images() -> Path | None:
    """Return the images that run as processes, None where the extra ``agents`` is not installed."""
    is_installed = all(importlib.util.find_spec(name) for name in ("a2a", "httpx2", "mcp"))
    return Path(str(importlib.resources.files("gitsync.demo_agents") / "images.yaml")) if is_installed else None


def _proxy(output: IO[bytes]) -> str:
    """Return the URL of the proxy from what the sandbox prints after its start."""
    words = b" ".join(output.readline() for _ in range(2)).decode().split()
    return words[words.index("--proxy") + 1] if "--proxy" in words else ""


def _print_steps(address: str, found: Demo) -> None:
    say(f"dashboard ready at {address}", "bold green")
    say(steps(found))
    sys.stdout.flush()
