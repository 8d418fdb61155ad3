"""``kubectl logs`` of Pods that run as processes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gitsync.sandbox.processes.environment import Image
from gitsync.sandbox.processes.runtime import has_loopback_network
from gitsync.sandbox.server import Sandbox
from tests.waiting import until

pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on PATH"),
    pytest.mark.skipif(not has_loopback_network(), reason="the system has no addresses of 127.0.0.0/8"),
]

PROGRAM = str(Path(__file__).with_name("container_program.py"))
IMAGES = {"example.com/server": Image((sys.executable, PROGRAM))}
READY = {"tcpSocket": {"port": 8080}, "periodSeconds": 1}


class Kubectl:
    """Run kubectl on a sandbox with an image that is a process."""

    def __init__(self, sandbox: Sandbox, folder: Path) -> None:
        config = str(sandbox.kubeconfig(folder / "kubeconfig"))
        self._env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "KUBECONFIG": config, "HOME": str(folder)}

    def __call__(self, *arguments: str, given: Any = None) -> subprocess.CompletedProcess[str]:
        text = json.dumps(given) if given else ""
        return subprocess.run(
            ["kubectl", *arguments], input=text, capture_output=True, text=True, timeout=120, check=False, env=self._env
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start kubectl with its output as a pipe."""
        return subprocess.Popen(["kubectl", *arguments], stdout=subprocess.PIPE, text=True, env=self._env)


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    with Sandbox(images=IMAGES) as sandbox:
        yield Kubectl(sandbox, tmp_path_factory.mktemp("kubectl"))


def logs(kubectl: Kubectl, *arguments: str) -> str:
    done = kubectl("logs", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def started(kubectl: Kubectl, name: str) -> None:
    """Wait until the process of a Pod has written something."""
    until(lambda: kubectl("logs", name).stdout, 20)


def pod(name: str, *args: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "example.com/server:1", "args": list(args)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 5, **spec},
    }


def deployment(name: str, replicas: int) -> dict[str, Any]:
    container = {"name": "main", "image": "example.com/server:1", "args": [name], "readinessProbe": READY}
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def create(kubectl: Kubectl, manifest: dict[str, Any]) -> None:
    done = kubectl("create", "-f", "-", given=manifest)
    assert done.returncode == 0, done.stderr


def test_the_log_of_a_process_has_what_it_wrote(kubectl: Kubectl) -> None:
    create(kubectl, pod("plain", "plain", "text"))
    started(kubectl, "plain")
    assert logs(kubectl, "plain") == "starts as plain text\n"
    assert logs(kubectl, "pod/plain", "-c", "main", "--tail=1") == "starts as plain text\n"
    assert logs(kubectl, "plain", "--tail=0") == ""


def test_a_followed_log_ends_with_the_pod(kubectl: Kubectl) -> None:
    create(kubectl, deployment("followed", 1))
    assert kubectl("rollout", "status", "deploy/followed", "--timeout=60s").returncode == 0
    with kubectl.start("logs", "deploy/followed", "-f") as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline() == "starts as followed\n"
        assert kubectl("delete", "deploy", "followed", "--wait=false").returncode == 0
        assert follower.stdout.read() == "drained\n"
        assert follower.wait(60) == 0


def test_the_log_of_the_run_before_is_kept(kubectl: Kubectl) -> None:
    create(kubectl, pod("failing", "exit", "3"))
    until(lambda: kubectl("logs", "failing", "--previous").returncode == 0, 20)
    assert logs(kubectl, "failing", "--previous") == "starts as exit 3\n"
    create(kubectl, pod("first", "first"))
    started(kubectl, "first")
    none = kubectl("logs", "first", "--previous")
    assert (none.returncode, "previous terminated container" in none.stderr) == (1, True)


def test_the_pods_of_a_deployment_are_found_by_name_and_by_label(kubectl: Kubectl) -> None:
    create(kubectl, deployment("web", 2))
    assert kubectl("rollout", "status", "deploy/web", "--timeout=60s").returncode == 0
    assert logs(kubectl, "deploy/web") == "starts as web\n"
    lines = logs(kubectl, "-l", "app=web", "--prefix").splitlines()
    assert len(lines) == 2
    assert all(line.startswith("[pod/web-") and line.endswith("/main] starts as web") for line in lines)


def test_an_unknown_pod_or_container_is_named(kubectl: Kubectl) -> None:
    missing = kubectl("logs", "nothing")
    assert (missing.returncode, 'pods "nothing" not found' in missing.stderr) == (1, True)
    create(kubectl, pod("named", "named"))
    wrong = kubectl("logs", "named", "-c", "other")
    assert (wrong.returncode, "other" in wrong.stderr) == (1, True)
