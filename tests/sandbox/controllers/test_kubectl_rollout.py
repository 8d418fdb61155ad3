"""The real kubectl against simulated workloads: rollouts, waiting, logs, events, the ways to delete."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.server import Sandbox
from tests.sandbox.controllers.cluster import NAMESPACE, deployment, job, stateful_set

pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed"),
]


class Kubectl:
    """Run kubectl in the namespace of the tests; fail with what it says when it fails."""

    def __init__(self, config: Path) -> None:
        self._config = config

    def __call__(self, *arguments: str, given: Manifest | None = None) -> str:
        done = self.run(*arguments, given=given)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout.strip()

    def run(self, *arguments: str, given: Manifest | None = None) -> subprocess.CompletedProcess[str]:
        command = ["kubectl", f"--kubeconfig={self._config}", f"--namespace={NAMESPACE}", *arguments]
        text = None if given is None else json.dumps(given)
        return subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, check=False)

    def image(self) -> str:
        return self("get", "deployment/web", "-o", "jsonpath={.spec.template.spec.containers[0].image}")

    def names(self, kinds: str) -> list[str]:
        return self("get", kinds, "-o", "name").split()


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    with Sandbox() as running:
        yield Kubectl(running.kubeconfig(tmp_path_factory.mktemp("kube") / "config"))


@pytest.fixture
def kubectl(sandbox: Kubectl) -> Iterator[Kubectl]:
    """Return kubectl on an empty namespace, which is deleted afterwards."""
    sandbox("create", "-f", "-", given={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    yield sandbox
    sandbox("delete", "namespace", NAMESPACE, "--timeout=60s")


@pytest.fixture
def web(kubectl: Kubectl) -> Kubectl:
    """Return kubectl beside a Deployment that is rolled out."""
    kubectl("apply", "-f", "-", given=deployment())
    kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    return kubectl


def test_rollout_status_waits_until_the_new_pods_are_there(web: Kubectl) -> None:
    web("set", "image", "deployment/web", "main=web:2")
    assert "successfully rolled out" in web("rollout", "status", "deployment/web", "--timeout=60s")
    images = web("get", "pods", "-o", "jsonpath={.items[*].spec.containers[0].image}")
    assert "web:2" in images


def test_rollout_undo_brings_the_template_before_back(web: Kubectl) -> None:
    web("set", "image", "deployment/web", "main=web:2")
    web("rollout", "status", "deployment/web", "--timeout=60s")
    web("rollout", "undo", "deployment/web")
    web("rollout", "status", "deployment/web", "--timeout=60s")
    assert web.image() == "web:1"
    revisions = web("rollout", "history", "deployment/web").splitlines()
    assert [line.split()[0] for line in revisions[2:]] == ["2", "3"]
    web("rollout", "undo", "deployment/web", "--to-revision=2")
    assert web.image() == "web:2"


def test_rollout_restart_replaces_the_pods(web: Kubectl) -> None:
    before = set(web.names("pods"))
    web("rollout", "restart", "deployment/web")
    web("rollout", "status", "deployment/web", "--timeout=60s")
    web("wait", "--for=jsonpath={.status.terminatingReplicas}=0", "deployment/web", "--timeout=60s")
    assert not before & set(web.names("pods"))


def test_rollout_status_fails_after_the_deadline(web: Kubectl) -> None:
    web("patch", "deployment/web", "--type=merge", "-p", '{"spec": {"progressDeadlineSeconds": 1}}')
    web("set", "image", "deployment/web", "main=web:missing")
    done = web.run("rollout", "status", "deployment/web", "--timeout=60s")
    assert done.returncode == 1
    assert "exceeded its progress deadline" in done.stderr


def test_rollout_of_a_stateful_set_with_history_and_undo(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", given=stateful_set(2))
    kubectl("rollout", "status", "statefulset/db", "--timeout=60s")
    kubectl("set", "image", "statefulset/db", "main=db:2")
    kubectl("rollout", "status", "statefulset/db", "--timeout=60s")
    assert len(kubectl("rollout", "history", "statefulset/db").splitlines()) == 4
    kubectl("rollout", "undo", "statefulset/db")
    kubectl("rollout", "status", "statefulset/db", "--timeout=60s")
    image = kubectl("get", "pod/db-1", "-o", "jsonpath={.spec.containers[0].image}")
    assert image == "db:1"


def test_wait_for_conditions_and_deletion(web: Kubectl) -> None:
    web("wait", "--for=condition=Available", "deployment/web", "--timeout=60s")
    web("wait", "--for=condition=Ready", "pods", "--all", "--timeout=60s")
    name = web.names("pods")[0]
    web("delete", name, "--wait=false")
    web("wait", "--for=delete", name, "--timeout=60s")


def test_logs_of_pods_jobs_and_the_run_before(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", given=job())
    kubectl("wait", "--for=condition=Complete", "job/task", "--timeout=60s")
    assert "done" in kubectl("logs", "job/task")
    kubectl("apply", "-f", "-", given=deployment("web:crash", replicas=1))
    kubectl("wait", "--for=jsonpath={.status.replicas}=1", "deployment/web", "--timeout=60s")
    waiting = "jsonpath={.status.containerStatuses[0].state.waiting.reason}=CrashLoopBackOff"
    name = next(each for each in kubectl.names("pods") if "web" in each)
    kubectl("wait", f"--for={waiting}", name, "--timeout=60s")
    assert "exit code 1" in kubectl("logs", name, "--previous")


def test_get_events_tells_the_story(web: Kubectl) -> None:
    story = web("get", "events", "-o", "jsonpath={range .items[*]}{.reason} {end}").split()
    assert {"ScalingReplicaSet", "SuccessfulCreate", "Scheduled", "Pulled", "Created", "Started"} <= set(story)
    described = web("describe", "deployment/web")
    assert "Scaled up replica set" in described
    assert "2 available" in described


def test_deletion_takes_dependents_or_leaves_them(web: Kubectl) -> None:
    web("delete", "deployment/web", "--cascade=orphan", "--timeout=60s")
    assert len(web.names("replicasets")) == 1
    assert len(web.names("pods")) == 2
    web("delete", "replicasets", "--all", "--cascade=foreground", "--timeout=60s")
    assert web.names("pods") == []


def test_background_deletion_ends_with_nothing_left(web: Kubectl) -> None:
    web("delete", "deployment/web", "--timeout=60s")
    web("wait", "--for=delete", "pods", "--all", "--timeout=60s")
    assert web.names("replicasets,pods") == []


def test_scale_and_pause(web: Kubectl) -> None:
    web("rollout", "pause", "deployment/web")
    web("set", "image", "deployment/web", "main=web:2")
    web("scale", "deployment/web", "--replicas=3")
    web("wait", "--for=jsonpath={.status.availableReplicas}=3", "deployment/web", "--timeout=60s")
    assert web("get", "pods", "-o", "jsonpath={.items[*].spec.containers[0].image}") == "web:1 web:1 web:1"
    web("rollout", "resume", "deployment/web")
    web("rollout", "status", "deployment/web", "--timeout=60s")
    assert "web:2" in web("get", "pods", "-o", "jsonpath={.items[*].spec.containers[0].image}")


def test_drain_moves_the_pods(web: Kubectl) -> None:
    try:
        web("drain", "node-a", "--ignore-daemonsets", "--timeout=60s")
        web("rollout", "status", "deployment/web", "--timeout=60s")
        nodes = set(web("get", "pods", "-o", "jsonpath={.items[*].spec.nodeName}").split())
        assert nodes == {"node-b"}
    finally:
        web("uncordon", "node-a")
