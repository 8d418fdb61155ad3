"""Agents on the sandbox and on a real control plane: their children, what is written again, admission, and deletion."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gitsync.agents.systems.members import check_object
from gitsync.errors import InvalidInput, Rejected
from gitsync.objects.manifest import Manifest
from gitsync.render.yaml.reader import read_all
from tests.agents.factories import agent, changed, doubled, example, member, system
from tests.child_process import child_process
from tests.contract.manifests import config_map
from tests.contract.stage import Stage, eventually, is_refused

API = "agents.gitsync.dev/v1alpha1"
ROOT = Path(__file__).resolve().parents[2]
CONFIGURATION = ROOT / "manifests/gitsync/components/webhook/configuration.yaml"


def full(stage: Stage) -> Manifest:
    """Return the example that sets every field, without checks: a control plane alone runs no Pods."""
    found = changed(example(), "metadata.namespace", stage.namespace)
    return changed(changed(found, "spec.lifecycle.validate", None), "spec.update", {"type": "RollingUpdate"})


def status(stage: Stage, name: str) -> dict[str, Any]:
    return (stage.get("Agent", name, api=API) or {}).get("status") or {}


def children(stage: Stage, name: str) -> dict[str, Manifest]:
    """Return the live children that the status lists, by kind and name."""
    listed = status(stage, name).get("children", [])
    found = {
        f"{one['kind']}/{one['name']}": stage.get(one["kind"], one["name"], api=one["apiVersion"]) for one in listed
    }
    return {key: one for key, one in found.items() if one is not None}


def applied(stage: Stage, name: str) -> dict[str, str]:
    """Return when the operator last changed each child."""
    return {
        key: next(entry["time"] for entry in one["metadata"]["managedFields"] if entry["manager"] == "gitsync-agents")
        for key, one in children(stage, name).items()
    }


def observed(stage: Stage, name: str, generation: int) -> None:
    eventually(stage, lambda: status(stage, name).get("observedGeneration") == generation)


def test_every_child_of_the_example_is_accepted_and_written_once(stage: Stage) -> None:
    stage.apply(config_map("triage-prompt", **{"system.md": "Sort tickets.\n"}) | _in(stage, "triage-prompt"))
    stage.start()
    stage.apply(full(stage))
    observed(stage, "triage", 1)
    eventually(stage, lambda: "StatefulSet/triage" in children(stage, "triage"))
    kinds = {key.partition("/")[0] for key in children(stage, "triage")}
    assert kinds == {
        "ConfigMap",
        "HorizontalPodAutoscaler",
        "NetworkPolicy",
        "PersistentVolumeClaim",
        "PodDisruptionBudget",
        "Service",
        "ServiceAccount",
        "StatefulSet",
    }
    before = applied(stage, "triage")
    stage.stop()
    stage.start()
    stage.apply(changed(full(stage), "spec.owner", "another team"))
    observed(stage, "triage", 2)
    assert applied(stage, "triage") == before


def _in(stage: Stage, name: str) -> Manifest:
    return {"metadata": {"name": name, "namespace": stage.namespace}}


def test_an_agent_is_updated_and_deleted_with_its_children(stage: Stage) -> None:
    stage.start()
    stage.apply(agent(namespace=stage.namespace))
    observed(stage, "helper", 1)
    eventually(stage, lambda: stage.get("Deployment", "helper", api="apps/v1"))
    stage.apply(agent(namespace=stage.namespace, replicas=3))
    eventually(stage, lambda: stage.live("Deployment", "helper", api="apps/v1")["spec"]["replicas"] == 3)
    names = [key.split("/") for key in children(stage, "helper")]
    apis = {one["kind"]: one["apiVersion"] for one in status(stage, "helper")["children"]}
    stage.delete("Agent", "helper", api=API)
    eventually(stage, lambda: all(stage.get(kind, name, api=apis[kind]) is None for kind, name in names))


def test_a_foreground_deletion_of_a_system_keeps_its_order(stage: Stage) -> None:
    stage.start()
    # at once: without Pods that start, a wave would never be ready
    at_once = {"order": "Parallel"}
    stage.apply(system(member("a", "b"), member("b"), namespace=stage.namespace, rollout=at_once))
    deployments = {name: partial(stage.get, "Deployment", f"desk-{name}", api="apps/v1") for name in "ab"}
    eventually(stage, lambda: all(read() is not None for read in deployments.values()))
    drains = {"apiVersion": "apps/v1", "kind": "Deployment", **_in(stage, "desk-a")}
    stage.apply(changed(drains, "metadata.finalizers", ["example.com/drains"]), manager="drain")
    path = stage.path("MultiAgentSystem", "desk", api=API)
    stage.client.send("DELETE", path, {"propagationPolicy": "Foreground"})
    eventually(stage, lambda: "deletionTimestamp" in (deployments["a"]() or {})["metadata"])
    assert "deletionTimestamp" in stage.live("Agent", "desk-a", api=API)["metadata"]
    assert "deletionTimestamp" not in stage.live("Agent", "desk-b", api=API)["metadata"]
    assert "deletionTimestamp" not in stage.live("Deployment", "desk-b", api="apps/v1")["metadata"]
    stage.apply(drains, manager="drain")
    eventually(stage, lambda: stage.get("MultiAgentSystem", "desk", api=API) is None)
    eventually(stage, lambda: all(read() is None for read in deployments.values()))


def test_a_replica_may_hold_its_lease_and_nothing_else(stage: Stage) -> None:
    stage.start()
    stage.apply(agent(namespace=stage.namespace, leaderElection={}))
    observed(stage, "helper", 1)
    lease = partial(stage.live, "Lease", "helper-leader", api="coordination.k8s.io/v1")
    eventually(stage, lambda: {"Lease", "Role", "RoleBinding"} <= _kinds(stage, "helper"))
    replica = f"system:serviceaccount:{stage.namespace}:helper"
    client = stage.client

    def hold(holder: str) -> None:
        times = {"acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": "2026-01-01T00:00:00.000000Z"}
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, **times}
        path = stage.path("Lease", "helper-leader", api="coordination.k8s.io/v1")
        client.send("PUT", path, {**lease(), "spec": spec}, user=replica)

    eventually(stage, lambda: not is_refused(partial(hold, "helper-1")))  # an authorizer sees a new Role a moment later
    eventually(stage, lambda: status(stage, "helper").get("leader") == "helper-1")
    hold("helper-2")
    eventually(stage, lambda: status(stage, "helper").get("leader") == "helper-2")
    with pytest.raises(Rejected):
        client.send("DELETE", stage.path("Lease", "helper-leader", api="coordination.k8s.io/v1"), {}, user=replica)
    stage.apply(changed(agent(namespace=stage.namespace), "spec.owner", "another team"))
    eventually(stage, lambda: stage.get("Lease", "helper-leader", api="coordination.k8s.io/v1") is None)
    eventually(stage, lambda: not {"Lease", "Role", "RoleBinding"} & _kinds(stage, "helper"))


def _kinds(stage: Stage, name: str) -> set[str]:
    return {key.partition("/")[0] for key in children(stage, name)}


def test_an_invalid_agent_is_refused_with_its_field(stage: Stage) -> None:
    with pytest.raises(Rejected) as refused:
        stage.apply(changed(full(stage), "spec.replicas", 3))
    assert any(cause.field.startswith("spec") for cause in refused.value.refusal.causes)
    with pytest.raises(Rejected) as refused:
        stage.apply(changed(full(stage), "spec.runtime.port", 70000))
    assert "spec.runtime.port" in [cause.field for cause in refused.value.refusal.causes]


@pytest.mark.parametrize("name", ["agent", "multiagentsystem"])
def test_an_item_that_is_there_twice_is_refused_with_its_place(stage: Stage, name: str) -> None:
    for place, manifest in doubled(name):
        twice = changed(manifest, "metadata.namespace", stage.namespace)
        path = stage.path(twice["kind"], "", api=API).rstrip("/")
        with pytest.raises(Rejected) as refused:
            stage.client.send("POST", f"{path}?dryRun=All", twice)
        assert place in [cause.field for cause in refused.value.refusal.causes]
        with pytest.raises(InvalidInput) as reported:
            check_object(twice)
        assert reported.value.location == place


@contextmanager
def webhook(stage: Stage, configuration: str) -> Iterator[str]:
    """Run ``gitsync webhook`` and yield its URL."""
    given = ["--host", "127.0.0.1", "--port", "0", "--name", "127.0.0.1", "--namespace", stage.system]
    command = [sys.executable, "-m", "gitsync", "webhook", *given, "--kubeconfig", str(stage.kubeconfig)]
    command += ["--configuration", configuration]
    with child_process(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[-1]
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def test_the_webhook_refuses_what_a_schema_cannot_express(stage: Stage) -> None:
    name = f"{stage.system}-webhook"
    manifest: Manifest = read_all(CONFIGURATION.read_text(encoding="utf-8"), CONFIGURATION.name)[0]
    manifest["metadata"]["name"] = name

    def configure(url: str) -> None:
        for hook in manifest["webhooks"]:
            hook["clientConfig"] = {"url": url}
            hook["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": stage.namespace}}
        stage.apply(manifest)

    stage.remember("ValidatingWebhookConfiguration", name, "admissionregistration.k8s.io/v1")
    configure("https://127.0.0.1:1/validate")
    with webhook(stage, name) as url:
        configure(url)
        cycle = system(member("a", "b"), member("b", "a"), namespace=stage.namespace)
        eventually(stage, lambda: "members depend on each other" in _refusal(stage, cycle))
        stage.apply(system(member("a", "b"), member("b"), namespace=stage.namespace))
    eventually(stage, lambda: "failed calling webhook" in _refusal(stage, agent(namespace=stage.namespace)))
    stage.apply(config_map("free", a="b") | _in(stage, "free"))


def _refusal(stage: Stage, manifest: Manifest) -> str:
    """Return why the API server refuses an object, empty where it does not."""
    try:
        stage.cluster.apply(manifest, manager="setup", dry_run=True)
    except Exception as error:
        return str(error)
    return ""
