"""``gitsync demo``: everything on one machine. ``make run`` runs it."""

from __future__ import annotations

import contextlib
import importlib.resources
import importlib.util
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated

import typer

from gitsync.cli.dashboard import DashboardOptions, listen
from gitsync.cli.options import DATA, DEFAULT_PORT, Data, Host, command, load_settings
from gitsync.cli.output import Exit, say
from gitsync.errors import ClusterUnavailable, InvalidInput
from gitsync.files import PUBLIC, create_file, shipped_folder
from gitsync.objects.keys import API_VERSION
from gitsync.objects.manifest import Manifest
from gitsync.source.seed import ProposedEdit, seed

ENVIRONMENTS = ("dev", "staging", "prod")
_INTERVAL = "1s"
_PORTS = 20
"""Ports after the default one that are tried."""
_AGENTS = "agents"
"""The overlay whose agents run, see gitsync/demo_agents."""
_EVERY = 2.5
"""Seconds between two lines while the demo starts."""
_STOP_SECONDS = 120.0
"""Seconds that the sandbox and the processes of its agents may take to end: ten were too few on a loaded machine."""
_ATTEMPTS = 60
"""How often a printed step asks for what it waits for, with two seconds between."""
_SANDBOX_CONTEXT = "current-context: sandbox"
_PROPOSAL = ProposedEdit(
    branch="change/more-triage",
    file="overlays/prod/kustomization.yaml",
    old="- name: triage\n    count: 3",
    new="- name: triage\n    count: 4",
    message="Run a fourth triage agent in prod",
)
"""What waits on the page *Pull requests*."""
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


@command
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
    running = DashboardOptions(data=data).find()
    if running is not None:
        raise InvalidInput(
            f"the demo already runs at {running.url}",
            location=str(data),
            hint="open that, end it with Ctrl-C in its terminal, or name another folder with --data",
        )
    config = _checked(kubeconfig.absolute()) if kubeconfig else data / "kubeconfig"
    # before anything is written: a port that is taken ends the demo at once
    listener = listen(host, DEFAULT_PORT if port is None else port, alternatives=_PORTS if port is None else 0)
    data.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as starting, listener, _sandbox(data / "sandbox", config) as sandbox:
        report = starting.enter_context(progress())
        report("starting the sandbox cluster, and creating the demo repository")
        origin = data / "demo.git"
        clone = data / "demo"
        folders = {name: shipped_folder(name) for name in ("manifests/support-desk", "overlays")}
        seed(origin, clone, folders, _PROPOSAL)
        report("loading the controller")
        # late: this takes as long as the start of the sandbox, which runs meanwhile in its own process
        from gitsync.cli.commands.run import apply_applications
        from gitsync.cli.serve import serve

        report("waiting for the sandbox cluster")
        url, proxy = sandbox()
        report("starting the controller and the dashboard")
        settings = load_settings(
            kubeconfig=str(config),
            context="",  # GITSYNC_CONTEXT is of another cluster
            data=data,
            allow_file_urls=True,  # the repository of the demo is a folder
            policies=_policies(data),
            controller_rights=True,  # the sandbox has one user
            web_host=host,
            web_port=port or 0,
        )
        apply_applications(settings, [_application(name, f"file://{origin}") for name in (*ENVIRONMENTS, _AGENTS)])
        say(f"sandbox cluster at {url}")
        started = Demo(clone, data, config, url, proxy)

        def print_steps(address: str) -> None:
            starting.close()
            _print_steps(address, started)

        serve(settings, listener, print_steps)
    return Exit.OK


@contextlib.contextmanager
def progress(wait: Callable[[threading.Event, float], bool] = threading.Event.wait) -> Iterator[Callable[[str], None]]:
    """Yield a function that prints a step; while a step takes long, its seconds are printed every few seconds."""
    ended = threading.Event()
    current = ("", 0.0)  # replaced as a whole: the other thread reads it

    def report(step: str) -> None:
        nonlocal current
        current = (step, time.monotonic())
        print(step[0].upper() + step[1:], flush=True)

    def repeat() -> None:
        while not wait(ended, _EVERY):
            step, began = current
            print(f"  {step}: {time.monotonic() - began:.0f} s", flush=True)

    reporter = threading.Thread(target=repeat, daemon=True)
    reporter.start()
    try:
        yield report
    finally:
        ended.set()
        reporter.join()


def _checked(kubeconfig: Path) -> Path:
    """Return the file for the sandbox's kubeconfig; raise InvalidInput when it belongs to another cluster."""
    # any file may be there, in any encoding
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


_PROMOTIONS = {"staging": "support-dev", "prod": "support-staging"}
"""What each environment can take from the one before; *Promote* on the page *Updates* proposes it."""


def _application(environment: str, url: str) -> Manifest:
    namespace = f"support-{environment}"
    source = _PROMOTIONS.get(environment)
    return {
        "apiVersion": API_VERSION,
        "kind": "Application",
        "metadata": {"name": namespace, "namespace": "gitsync"},
        "spec": {
            "source": {"repoURL": url, "path": f"overlays/{environment}"},
            "destination": {"namespace": namespace, "allowClusterScoped": True},
            "sync": {"interval": _INTERVAL, "prune": True, "selfHeal": True},
            "proposals": ["change/*", "gitsync/*"],
            **({"promotion": {"from": source, "take": ["images"]}} if source else {}),
        },
    }


@contextlib.contextmanager
def _sandbox(data: Path, kubeconfig: Path) -> Iterator[Callable[[], tuple[str, str]]]:
    """
    Run the sandbox in a process of its own, as any cluster; it ends with this process, however that ends.

    Yield a function that waits until it is ready and returns its URL, and that of the proxy to its Services, empty
    where what the agents need is not installed.
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
    output = process.stdout
    assert output is not None

    def ready() -> tuple[str, str]:
        line = output.readline().decode()  # empty where the process has ended
        if "ready at" not in line:
            raise ClusterUnavailable("the sandbox did not start", hint="see its error output above")
        return line.rpartition(" ")[2].strip(), _proxy(output) if images else ""

    try:
        yield ready
    finally:
        process.terminate()
        process.communicate(timeout=_STOP_SECONDS)  # closes its pipes too


def _images() -> Path | None:
    """Return the images that run as processes, None where the extra ``agents`` is not installed."""
    # not imported: the agents run in processes of their own
    is_installed = all(importlib.util.find_spec(name) for name in ("a2a", "httpx2", "mcp"))
    return Path(str(importlib.resources.files("gitsync.demo_agents") / "images.yaml")) if is_installed else None


def _proxy(output: IO[bytes]) -> str:
    """Return the URL of the proxy from what the sandbox prints after its start."""
    words = b" ".join(output.readline() for _ in range(2)).decode().split()
    return words[words.index("--proxy") + 1] if "--proxy" in words else ""


def _print_steps(address: str, running: Demo) -> None:
    say(f"dashboard ready at {address}", "bold green")
    say(steps(running))
    sys.stdout.flush()


@dataclass(frozen=True, slots=True)
class Demo:
    """A demo that runs; ``proxy`` reaches the Services of its agents, empty where they are simulated."""

    clone: Path
    data: Path
    kubeconfig: Path
    url: str
    proxy: str = ""


def steps(demo: Demo) -> str:
    """Return the steps with their numbers; the README has the same."""
    numbered = "\n".join(f"# {number}. {step}" for number, step in enumerate(_steps(demo), 1))
    return f"""
Things to try; paste them into another terminal:

{numbered}
Ctrl-C stops everything; the next start continues from there.
"""


def _steps(demo: Demo) -> Iterator[str]:
    folder = shlex.quote(str(demo.clone))
    # -i.bak is understood by the sed of GNU and of BSD, -i alone is not
    yield f"""Commit: the cluster follows
cd {folder}
sed -i.bak s/2.2.0-rc1/2.2.0/ overlays/dev/kustomization.yaml && rm overlays/dev/*.bak
git commit -am "Release triage 2.2.0 to dev" && git push
"""
    yield f"""Change the cluster by hand: the change is reported and reverted
{_scale(demo)}
"""
    if demo.proxy:
        yield _question(demo, folder)
    yield f"""Undo the last commit
cd {folder}
git revert --no-edit HEAD && git push
"""
    yield f"""Break it: the dashboard shows why
cd {folder}
sed -i.bak "s/newTag: .*/newTag: crash/" overlays/dev/kustomization.yaml && rm overlays/dev/*.bak
git commit -am "Try a broken image" && git push
"""


def _question(demo: Demo, folder: str) -> str:
    """Return the step with an agent that runs: ask it, change its prompt, then give it a prompt that is stopped."""
    ask = f"curl -sS --proxy {demo.proxy} http://triage.support-agents:8080/ask -d 'I was charged twice for order 4711'"
    program = shlex.quote(str(Path(sys.executable).parent / "gitsync"))
    places = f"--kubeconfig {shlex.quote(str(demo.kubeconfig))} --data {shlex.quote(str(demo.data))}"
    revisions = f"{program} agent history triage -n support-agents {places}"
    return f"""Ask an agent, change its prompt, and ask again; a prompt that fails its evaluation gets no requests
{ask}
cd {folder}
echo "Always apologize first." >> overlays/agents/triage.md
git commit -am "Apologize" && git push
{_until(f"{ask} | grep apologize")}
{_until(f"{revisions} | grep 'serving.*Apologize'")}
echo "Always promise a refund." >> overlays/agents/triage.md
git commit -am "Promise a refund" && git push
{_until(f"{revisions} | grep Failed")}
{ask}
"""


def _until(command: str) -> str:
    """Return the shell loop that repeats a command until it succeeds; where it never does, it ends with a line."""
    late = f"[ $i -lt {_ATTEMPTS} ] || echo 'not yet: the dashboard shows what it waits for'"
    return f"for i in $(seq {_ATTEMPTS}); do {command} && break; sleep 2; {late}; done"


def _scale(demo: Demo) -> str:
    """Return the shell command that scales a Deployment: with kubectl, else with curl."""
    if shutil.which("kubectl"):
        config = shlex.quote(str(demo.kubeconfig))
        return f"kubectl --kubeconfig {config} -n support-dev scale deployment dev-billing --replicas=5"
    token = demo.kubeconfig.read_text(encoding="utf-8").rpartition("token: ")[2].strip()
    return (
        f"curl -fsS -o /dev/null -X PATCH -H 'Authorization: Bearer {token}' "
        "-H 'Content-Type: application/merge-patch+json' -d '{\"spec\":{\"replicas\":5}}' "
        f"{demo.url}/apis/apps/v1/namespaces/support-dev/deployments/dev-billing"
    )
