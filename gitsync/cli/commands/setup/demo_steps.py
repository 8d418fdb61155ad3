"""What ``gitsync demo`` prints to try: shell commands that work in any folder, one after the other in one terminal."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


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
    ask = f"curl --proxy {demo.proxy} http://triage.support-agents:8080/ask -d 'I was charged twice for order 4711'"
    program = shlex.quote(str(Path(sys.executable).parent / "gitsync"))
    places = f"--kubeconfig {shlex.quote(str(demo.kubeconfig))} --data {shlex.quote(str(demo.data))}"
    revisions = f"{program} agent history triage -n support-agents {places}"
    return f"""Ask an agent, change its prompt, and ask again; a prompt that fails its evaluation gets no requests
{ask}
cd {folder}
echo "Always apologize first." >> overlays/agents/triage.md
git commit -am "Apologize" && git push
until {ask} | grep apologize; do sleep 3; done
until {revisions} | grep 'serving.*Apologize'; do sleep 3; done
echo "Always promise a refund." >> overlays/agents/triage.md
git commit -am "Promise a refund" && git push
until {revisions} | grep Failed; do sleep 3; done
{ask}
"""


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
