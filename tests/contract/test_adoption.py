"""Objects that other tools applied before: after adoption they follow Git completely, and no pod restarts."""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gitsync.objects.manifest import Manifest
from tests.contract.manifests import config_map, deployment
from tests.contract.stage import Stage, eventually

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def before() -> list[Manifest]:
    """Return what the other tool applied: more labels, data, variables and containers than Git will declare later."""
    web = deployment("web", replicas=1)
    pod = web["spec"]["template"]["spec"]
    pod["containers"][0]["env"] = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    pod["containers"].append({"name": "sidecar", "image": "sidecar:1"})
    web["metadata"]["labels"]["old"] = "label"
    return [web, config_map("settings", a="1", b="2")]


def after() -> list[Manifest]:
    """Return what Git declares after a label, a variable, a container and a key were removed."""
    web, settings = copy.deepcopy(before())
    pod = web["spec"]["template"]["spec"]
    del pod["containers"][0]["env"][1]
    del pod["containers"][1]
    del web["metadata"]["labels"]["old"]
    del settings["data"]["b"]
    return [web, settings]


def in_namespace(stage: Stage, manifests: list[Manifest]) -> list[Manifest]:
    return [{**manifest, "metadata": {**manifest["metadata"], "namespace": stage.namespace}} for manifest in manifests]


def by_kubectl(stage: Stage, *arguments: str) -> None:
    file = stage.folder / "before.yaml"
    file.write_text(yaml.safe_dump_all(in_namespace(stage, before())), encoding="utf-8")
    command = ["kubectl", "--kubeconfig", str(stage.kubeconfig), "apply", *arguments, "-f", str(file)]
    subprocess.run(command, check=True, capture_output=True)


def by_apply(manager: str) -> Callable[[Stage], None]:
    """Return how a tool applies server-side under its field manager."""

    def apply(stage: Stage) -> None:
        for manifest in in_namespace(stage, before()):
            stage.apply(manifest, manager)

    return apply


def by_update(manager: str) -> Callable[[Stage], None]:
    """Return how a tool creates objects as kubectl's client-side apply does, with the last applied configuration."""

    def create(stage: Stage) -> None:
        for manifest in in_namespace(stage, before()):
            made = copy.deepcopy(manifest)
            made["metadata"]["annotations"] = {LAST_APPLIED: json.dumps(manifest)}
            stage.create(made, manager)

    return create


ORIGINS: dict[str, Callable[[Stage], None]] = {
    "kubectl apply": lambda stage: by_kubectl(stage),
    "kubectl apply --server-side": lambda stage: by_kubectl(stage, "--server-side"),
    "Argo CD client-side": by_update("argocd-controller"),
    "Argo CD server-side": by_apply("argocd-controller"),
    "Flux": by_apply("kustomize-controller"),
    "Helm 3": by_update("helm"),
    "Helm 4": by_apply("helm"),
}


@pytest.fixture(params=ORIGINS)
def origin(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if name.startswith("kubectl") and not Path("/usr/bin/kubectl").exists():
        pytest.skip("kubectl is not installed")
    return name


def shape(stage: Stage) -> dict[str, Any]:
    """Return what Git's removals concern."""
    web, settings = stage.live("Deployment", "web", api="apps/v1"), stage.live("ConfigMap", "settings")
    containers = web["spec"]["template"]["spec"]["containers"]
    return {
        "labels": web["metadata"]["labels"].get("old", ""),
        "containers": [item["name"] for item in containers],
        "env": [item["name"] for item in containers[0].get("env", ())],
        "data": sorted(settings["data"]),
    }


WHOLE = {"labels": "label", "containers": ["web", "sidecar"], "env": ["A", "B"], "data": ["a", "b"]}
LESS = {"labels": "", "containers": ["web"], "env": ["A"], "data": ["a"]}


def test_an_adopted_object_loses_what_git_removes(stage: Stage, origin: str) -> None:
    ORIGINS[origin](stage)
    eventually(stage, lambda: pods(stage))
    running = pods(stage)
    stage.sync({"objects.yaml": before()})
    assert shape(stage) == WHOLE
    assert pods(stage) == running, "adoption restarted a pod"

    stage.synced(stage.commit({"objects.yaml": after()}))
    assert shape(stage) == LESS
    assert stage.plan_writes() == []

    stage.synced(stage.revert())
    assert shape(stage) == WHOLE


def test_an_object_adopted_with_less_than_it_has_loses_the_rest(stage: Stage, origin: str) -> None:
    ORIGINS[origin](stage)
    stage.sync({"objects.yaml": after()})
    assert shape(stage) == LESS


def test_an_object_that_is_handed_back_has_no_trace_of_us(stage: Stage) -> None:
    kept = config_map("kept", a="1")
    kept["metadata"]["annotations"] = {"gitsync.dev/prune": "false"}
    stage.sync({"kept.yaml": kept, "more.yaml": config_map("more", a="1")})
    uid = stage.live("ConfigMap", "kept")["metadata"]["uid"]
    stage.synced(stage.commit({"kept.yaml": None}))
    released = stage.live("ConfigMap", "kept")
    assert (released["metadata"]["uid"], released["data"]) == (uid, {"a": "1"})
    assert released["metadata"]["labels"] == {"app": "web"}
    assert released["metadata"]["annotations"] == {"gitsync.dev/prune": "false"}
    assert "gitsync" not in stage.managers(released)
    assert [entry["id"].rpartition("/")[2] for entry in stage.status()["inventory"]] == ["more"]
    assert stage.plan_writes() == []

    theirs = config_map("kept", a="2")
    theirs["metadata"]["namespace"] = stage.namespace
    stage.apply(theirs, "kubectl")
    stage.synced(stage.commit({"more.yaml": config_map("more", a="2")}))
    assert stage.live("ConfigMap", "kept")["data"] == {"a": "2"}


def test_fields_of_other_managers_stay_theirs(stage: Stage) -> None:
    by_apply("kustomize-controller")(stage)
    stage.patch("ConfigMap", "settings", {"data": {"theirs": "x"}}, manager="somebodys-operator")
    stage.sync({"objects.yaml": before()})
    stage.synced(stage.commit({"objects.yaml": after()}))
    settings = stage.live("ConfigMap", "settings")
    assert settings["data"] == {"a": "1", "theirs": "x"}
    assert stage.managers(settings)["somebodys-operator"] == "Update"
    assert "kustomize-controller" not in stage.managers(settings)


def pods(stage: Stage) -> set[str]:
    """Return the uids of the pods of the Deployment."""
    items = stage.client.get(stage.path("Pod", ""), {"labelSelector": "app=web"})["items"]
    return {item["metadata"]["uid"] for item in items}


def test_adopting_what_kubectl_alone_manages_corrects_nothing(stage: Stage) -> None:
    """Where a transfer leaves no owner, the API server names one that the next reconcile would take for others."""
    plain = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plain", "namespace": stage.namespace}}
    stage.create(
        {**plain, "metadata": {**plain["metadata"], "annotations": {LAST_APPLIED: json.dumps(plain)}}}, "kubectl"
    )
    fields = stage.live("ConfigMap", "plain")["metadata"]["managedFields"]
    assert [item["fieldsV1"]["f:metadata"] for item in fields] == [
        {"f:annotations": {".": {}, f"f:{LAST_APPLIED}": {}}}
    ]

    stage.sync({"objects.yaml": [config_map("plain")]})
    stage.synced(stage.commit({"objects.yaml": [config_map("plain"), config_map("next", a="1")]}))
    managers = {item["manager"] for item in stage.live("ConfigMap", "plain")["metadata"]["managedFields"]}
    assert managers == {"gitsync"}
    assert not (stage.status().get("drift") or {}).get("correctedTotal")
