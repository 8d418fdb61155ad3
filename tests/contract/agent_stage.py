"""
What contract tests ask of Agents on a stage.

A control plane alone has no kubelet: there ``start_pods`` reports Pods as ready, and a new revision never is.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from gitsync.agents.keys import APPROVE
from gitsync.cli.data_folder import open_records
from gitsync.objects.manifest import Manifest, at
from gitsync.runtime.clock import SystemClock
from tests.agents.factories import agent
from tests.contract.stage import TIMEOUT, Stage
from tests.operator.agent_world import review
from tests.waiting import until

API = "agents.gitsync.dev/v1alpha1"
GOOD = "registry.example.com/agents/server:1.0.0"
BRIEF = {"drain": {"exec": {"command": ["true"]}, "timeoutSeconds": 1}}
"""What an old Pod may still need stays for its drain and 10 seconds, instead of 30."""
NEVER_READY = "registry.example.com/agents/server:missing"


def status(stage: Stage, name: str = "helper", kind: str = "Agent") -> dict[str, Any]:
    return (stage.get(kind, name, api=API) or {}).get("status") or {}


def eventually(stage: Stage, is_true: Callable[[], Any]) -> None:
    """Wait until a condition holds; fail with the status of the Agent."""
    until(is_true, TIMEOUT, lambda: json.dumps(status(stage), indent=1))


def condition(stage: Stage, type: str, name: str = "helper", kind: str = "Agent") -> dict[str, Any]:
    return next((one for one in status(stage, name, kind).get("conditions", []) if one["type"] == type), {})


def model(stage: Stage, port: int, **more: Any) -> dict[str, Any]:
    endpoint = f"http://local-model.{stage.namespace}.svc.cluster.local:{port}/v1"
    return {"provider": "OpenAICompatible", "id": "local", "endpoint": endpoint, **more}


def service(stage: Stage, name: str, *ports: int) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": stage.namespace},
        "spec": {"selector": {"app": name}, "ports": [{"name": f"p{port}", "port": port} for port in ports]},
    }


def pods(stage: Stage) -> list[Manifest]:
    return list(stage.client.get(stage.path("Pod", ""))["items"])


def start_pods(stage: Stage) -> None:
    """Report the Pods with a good image as running and ready, as a kubelet does; the sandbox has its own."""
    if not stage.is_real:
        return
    for pod in pods(stage):
        containers = pod["spec"]["containers"]
        is_good = all(container["image"] == GOOD for container in containers)
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": pod["metadata"]["creationTimestamp"]}
        if is_good and not any(one["type"] == "Ready" for one in at(pod, "status", "conditions", default=[])):
            name = pod["metadata"]["name"]
            body = {"status": {"phase": "Running", "conditions": [ready]}}
            stage.patch("Pod", name, body, "strategic", manager="kubelet", subresource="status")


def end_pods(stage: Stage, name: str, phase: str, **terminated: Any) -> None:
    """Report the Pods of Jobs whose names begin so as ended, as a kubelet does; the sandbox ends them itself."""
    if not stage.is_real:
        return
    for pod in pods(stage):
        job = str(at(pod, "metadata", "labels", "batch.kubernetes.io/job-name", default=""))
        if not job.startswith(name) or at(pod, "status", "phase") == phase:
            continue
        states = [{"name": one["name"], "state": {"terminated": terminated}} for one in pod["spec"]["containers"]]
        body = {"status": {"phase": phase, "containerStatuses": states if terminated else []}}
        stage.patch("Pod", pod["metadata"]["name"], body, "strategic", manager="kubelet", subresource="status")


def jobs(stage: Stage) -> dict[str, str]:
    """Return names and uids of the Jobs."""
    items = stage.client.get(stage.path("Job", "", api="batch/v1"))["items"]
    return {job["metadata"]["name"]: job["metadata"]["uid"] for job in items}


def runs(stage: Stage, name: str = "helper") -> str:
    """Wait until the Agent serves the revision of its spec, and return that."""

    def is_running() -> bool:
        start_pods(stage)
        live = stage.get("Agent", name, api=API) or {}
        known = status(stage, name)
        return (
            known.get("observedGeneration") == at(live, "metadata", "generation")
            and known.get("phase") == "Running"
            and known.get("lastGoodRevision") == known.get("updateRevision")
        )

    eventually(stage, is_running)
    return str(status(stage, name)["currentRevision"])


def declared(stage: Stage, name: str = "helper", **spec: Any) -> Manifest:
    return agent(name, namespace=stage.namespace, **{"runtime": {"image": GOOD}, **spec})


def serves(stage: Stage, **spec: Any) -> str:
    """Run a first revision without checks, and return it."""
    stage.start()
    stage.apply(declared(stage, **spec))
    return runs(stage)


def approve(stage: Stage) -> None:
    """Approve the plan that waits, if one does."""
    live = stage.get("Agent", "helper", api=API) or {}
    if not at(live, "status", "plan"):
        return
    with open_records(stage.folder / "data") as records:
        review(records, SystemClock(), live)
    mark = {"metadata": {"annotations": {APPROVE: live["status"]["plan"]["digest"]}}}
    stage.patch("Agent", "helper", mark, api=API)
