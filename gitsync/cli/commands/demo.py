"""``gitsync demo``: everything on one machine. ``make run`` runs it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from gitsync.cli.commands.run import apply_applications
from gitsync.cli.output import Exit, say
from gitsync.cli.serve import serve
from gitsync.errors import ClusterUnavailable
from gitsync.objects.keys import API_VERSION
from gitsync.objects.manifest import Manifest
from gitsync.settings import Settings
from gitsync.source.seed import seed

ENVIRONMENTS = ("dev", "staging", "prod")
_INTERVAL = "1s"


def demo(data: Path, host: str, port: int) -> Exit:
    """Start the sandbox, seed the repository, apply three Applications, run the controller and the dashboard."""
    data = data.resolve()
    origin, clone, kubeconfig = data / "demo.git", data / "demo", data / "kubeconfig"
    data.mkdir(parents=True, exist_ok=True)
    seed(origin, clone, {name: _sample(name) for name in ("manifests", "overlays")})
    with _sandbox(data / "sandbox", kubeconfig) as url:
        settings = Settings(
            kubeconfig=str(kubeconfig), context="", data=data, allow_file_urls=True, web_host=host, web_port=port
        )
        apply_applications(settings, [_application(name, f"file://{origin}") for name in ENVIRONMENTS])
        say(f"sandbox cluster at {url}")
        serve(settings, lambda address: _explain(address, clone, kubeconfig))
    return Exit.OK


def _sample(name: str) -> Path:
    """Return a folder of the sample: of the checkout, or as package data in an installed wheel."""
    package = Path(__file__).resolve().parents[2]
    packed = package / "_sample" / name
    return packed if packed.is_dir() else package.parent / name


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
def _sandbox(data: Path, kubeconfig: Path) -> Iterator[str]:
    """Run the sandbox in a process of its own, as any cluster would be; it ends with this one, however that ends."""
    command = [sys.executable, "-m", "gitsync", "sandbox", "--attached"]
    command += ["--data", str(data), "--kubeconfig", str(kubeconfig)]
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
            raise ClusterUnavailable("the sandbox did not start", hint="its own message stands above")
        yield line.rpartition(" ")[2].strip()
    finally:
        process.terminate()
        process.communicate(timeout=10)


def _explain(address: str, clone: Path, kubeconfig: Path) -> None:
    clone, kubeconfig = _short(clone), _short(kubeconfig)
    say(f"dashboard ready at {address}", "bold green")
    say(
        f"""
Four things to try, in another terminal:

1. Commit, and the cluster follows:
     cd {clone}
     sed -i 's/2.2.0-rc1/2.2.0/' overlays/dev/kustomization.yaml
     git commit -am "Release triage 2.2.0 to dev" && git push

2. Change the cluster by hand, and see it named and healed:
     kubectl --kubeconfig {kubeconfig} -n support-dev edit deployment dev-billing

3. Undo:
     cd {clone}
     git revert --no-edit HEAD && git push

4. Break it, and see why:
     cd {clone}
     sed -i 's/newTag: .*/newTag: crash/' overlays/dev/kustomization.yaml
     git commit -am "Try a broken image" && git push

Ctrl-C stops everything; the next start goes on from here.
"""
    )
    sys.stdout.flush()


def _short(path: Path) -> Path:
    with contextlib.suppress(ValueError):
        return path.relative_to(Path.cwd())
    return path
