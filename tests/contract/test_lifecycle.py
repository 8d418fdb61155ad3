"""Objects that come and go: finalizers, terminating namespaces, versions, missing rights, several Applications."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gitsync.objects.manifest import Manifest
from tests.contract.manifests import config_map, definition, deployment, job, manifest, with_wave
from tests.contract.stage import APPLICATION, Stage, eventually

RBAC = "rbac.authorization.k8s.io"
HELD = "example.com/held"


def messages(stage: Stage, name: str = "app") -> str:
    status = stage.status(name)
    return json.dumps([status.get("conditions"), status.get("problems")])


def hold(stage: Stage, name: str, *, held: bool = True) -> None:
    """Add a finalizer to a ConfigMap as a controller that never removes it, or remove it."""
    body = {"metadata": {"finalizers": [HELD] if held else None}}
    stage.patch("ConfigMap", name, body, manager="their-operator")


def group_of(stage: Stage) -> str:
    return f"c{stage.system.rpartition('-')[2]}.example.com"


def test_a_stuck_finalizer_is_named_and_holds_up_nothing_else(stage: Stage) -> None:
    both = [config_map("stuck", a="1"), config_map("free", a="1")]
    stage.sync({"keep.yaml": [config_map(f"keep{number}", a="1") for number in range(3)], "both.yaml": both})
    hold(stage, "stuck")
    stage.commit({"both.yaml": None})
    eventually(stage, lambda: stage.get("ConfigMap", "free") is None)
    eventually(stage, lambda: "waits for ConfigMap" in messages(stage) and "stuck" in messages(stage))
    stage.patch("ConfigMap", "keep0", {"data": {"a": "2"}})
    eventually(stage, lambda: stage.live("ConfigMap", "keep0")["data"]["a"] == "1")
    hold(stage, "stuck", held=False)
    stage.phase("Synced")
    assert stage.get("ConfigMap", "stuck") is None


def test_an_object_is_created_again_once_its_finalizer_is_gone(stage: Stage) -> None:
    stage.sync({"a.yaml": config_map("a", a="1")})
    before = stage.live("ConfigMap", "a")["metadata"]["uid"]
    hold(stage, "a")
    stage.delete("ConfigMap", "a")
    eventually(stage, lambda: "to be gone" in messages(stage))
    hold(stage, "a", held=False)
    eventually(stage, lambda: (stage.get("ConfigMap", "a") or {}).get("metadata", {}).get("uid") not in (None, before))
    stage.phase("Synced")


def test_a_replaced_object_waits_for_its_finalizer(stage: Stage) -> None:
    stage.sync({"job.yaml": job("j", force="true")})
    before = stage.live("Job", "j", api="batch/v1")["metadata"]["uid"]
    body = {"metadata": {"finalizers": [HELD]}}
    stage.patch("Job", "j", body, api="batch/v1", manager="their-operator")
    commit = stage.commit({"job.yaml": job("j", image="tool:2", force="true")})
    eventually(stage, lambda: "to be gone" in messages(stage))
    stage.patch("Job", "j", {"metadata": {"finalizers": None}}, api="batch/v1", manager="their-operator")
    stage.synced(commit)
    assert stage.live("Job", "j", api="batch/v1")["metadata"]["uid"] != before


def test_a_terminating_namespace_is_named_and_used_again_when_it_is_back(stage: Stage) -> None:
    space = f"{stage.namespace}-gone"
    stage.make_namespace(space)
    held = config_map("held", a="1")
    held["metadata"] |= {"namespace": space, "finalizers": [HELD]}
    stage.apply(held)
    destination = {"namespace": space, "createNamespace": True}
    stage.sync({"a.yaml": config_map("a", a="1")}, destination=destination)
    stage.delete("Namespace", space, namespace="")
    stage.commit({"a.yaml": config_map("a", a="1"), "b.yaml": config_map("b", a="1")})
    eventually(stage, lambda: space in messages(stage) and stage.status()["phase"] != "Synced")
    stage.patch("ConfigMap", "held", {"metadata": {"finalizers": None}}, namespace=space)
    eventually(stage, lambda: stage.get("ConfigMap", "b", namespace=space))
    stage.phase("Synced")


def test_versions_of_one_object_are_the_same_object(stage: Stage) -> None:
    group, made = group_of(stage), definition(group_of(stage))
    version = made["spec"]["versions"][0]
    made["spec"]["versions"] = [{**version, "name": "v1beta1", "storage": False}, version]
    stage.remember("CustomResourceDefinition", f"widgets.{group}", "apiextensions.k8s.io/v1")
    stage.sync({"crd.yaml": made, "w.yaml": manifest(f"{group}/v1beta1", "Widget", "w", spec={"size": 1})})
    before = stage.live("Widget", "w", api=f"{group}/v1")
    assert before["spec"] == {"size": 1}
    stage.synced(stage.commit({"w.yaml": manifest(f"{group}/v1", "Widget", "w", spec={"size": 2})}))
    after = stage.live("Widget", "w", api=f"{group}/v1")
    assert (after["metadata"]["uid"], after["spec"]) == (before["metadata"]["uid"], {"size": 2})
    eventually(stage, lambda: stage.plan_writes() == [])
    scale = {"spec": {"size": 5}}
    stage.patch("Widget", "w", scale, api=f"{group}/v1beta1", manager="kubectl-edit")
    eventually(stage, lambda: stage.live("Widget", "w", api=f"{group}/v1")["spec"] == {"size": 2})


def test_a_definition_and_its_objects_are_pruned_together(stage: Stage) -> None:
    group = group_of(stage)
    stage.remember("CustomResourceDefinition", f"widgets.{group}", "apiextensions.k8s.io/v1")
    kept = [config_map(f"keep{number}", a="1") for number in range(4)]
    widgets = [manifest(f"{group}/v1", "Widget", f"w{number}", spec={"size": number}) for number in range(2)]
    stage.sync({"keep.yaml": kept, "crd.yaml": definition(group), "w.yaml": widgets})
    stage.synced(stage.commit({"crd.yaml": None, "w.yaml": None}))
    crd = lambda: stage.get("CustomResourceDefinition", f"widgets.{group}", api="apiextensions.k8s.io/v1")  # noqa: E731
    eventually(stage, lambda: crd() is None)
    stage.synced(stage.commit({"keep.yaml": [config_map("keep0", a="2"), *kept[1:]]}))


def test_a_kind_that_is_defined_later_is_synced_then(stage: Stage) -> None:
    group = group_of(stage)
    stage.remember("CustomResourceDefinition", f"widgets.{group}", "apiextensions.k8s.io/v1")
    commit = stage.commit({"w.yaml": manifest(f"{group}/v1", "Widget", "w", spec={"size": 1})})
    stage.application(sync={"retry": {"limit": 50, "backoff": {"initial": "1s", "factor": 1, "max": "1s"}}})
    stage.start()
    eventually(stage, lambda: "install its CustomResourceDefinition first" in messages(stage))
    stage.apply(definition(group))
    stage.synced(commit)


def bind(stage: Stage, rules: list[dict[str, Any]]) -> None:
    """Give the ServiceAccount ``deployer`` of the Application's namespace rights in the destination."""
    role: Manifest = manifest(f"{RBAC}/v1", "Role", "deployer", rules=rules)
    binding = manifest(f"{RBAC}/v1", "RoleBinding", "deployer")
    binding["roleRef"] = {"apiGroup": RBAC, "kind": "Role", "name": "deployer"}
    binding["subjects"] = [{"kind": "ServiceAccount", "name": "deployer", "namespace": stage.system}]
    for made in (role, binding):
        made["metadata"]["namespace"] = stage.namespace
        stage.apply(made)


@pytest.mark.own_rights
def test_a_missing_right_is_named_with_its_rule(stage: Stage) -> None:
    account = manifest("v1", "ServiceAccount", "deployer")
    account["metadata"]["namespace"] = stage.system
    stage.apply(account)
    config = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "delete", "get", "patch"]}
    bind(stage, [config])
    commit = stage.commit({"a.yaml": config_map("a", a="1"), "web.yaml": deployment(replicas=1)})
    retry = {"limit": 50, "backoff": {"initial": "1s", "factor": 1, "max": "1s"}}
    stage.application(destination={"serviceAccountName": "deployer"}, sync={"retry": retry})
    stage.start()
    eventually(stage, lambda: f"is denied to ServiceAccount {stage.system}/deployer" in messages(stage))
    assert f"a Role of namespace {stage.namespace}" in messages(stage)
    assert 'apiGroups: [\\"apps\\"], resources: [\\"deployments\\"]' in messages(stage).replace("\\\\", "\\")
    assert stage.live("ConfigMap", "a")
    bind(stage, [config, {**config, "apiGroups": ["apps"], "resources": ["deployments"]}])
    stage.synced(commit)


def test_a_suspended_application_does_not_delay_the_prune_of_another(stage: Stage) -> None:
    commit = stage.commit({"keep.yaml": config_map("keep", a="1"), "a.yaml": config_map("a", a="1")})
    stage.repo.commit({"other/b.yaml": json.dumps(config_map("b", a="1"))})
    stage.application()
    stage.application("other", source={"path": "other"}, suspend=True)
    stage.start()
    stage.phase("Suspended", "other")
    stage.phase("Synced")
    assert commit
    stage.synced(stage.commit({"a.yaml": None}))
    assert stage.get("ConfigMap", "a") is None
    record = stage.status()["history"][0]
    assert record["durationMs"] < 9_000, "a prune does not wait for an Application that does not follow Git"


def test_a_deleted_application_deletes_its_objects_in_reverse(stage: Stage) -> None:
    stage.sync({"a.yaml": with_wave(1, config_map("a", a="1")), "b.yaml": config_map("b", a="1")})
    stage.delete("Application", "app", namespace=stage.system, api=APPLICATION)
    eventually(stage, lambda: stage.get("ConfigMap", "a") is None and stage.get("ConfigMap", "b") is None)


def test_a_deleted_application_without_pruning_leaves_its_objects(stage: Stage) -> None:
    stage.sync({"a.yaml": config_map("a", a="1")}, sync={"prune": False})
    stage.delete("Application", "app", namespace=stage.system, api=APPLICATION)
    eventually(stage, lambda: stage.get("Application", "app", namespace=stage.system, api=APPLICATION) is None)
    assert stage.live("ConfigMap", "a")


def test_an_object_moves_between_applications_without_a_restart(stage: Stage) -> None:
    stage.commit({"keep.yaml": config_map("keep", a="1"), "web.yaml": deployment(replicas=1)})
    stage.repo.commit({"other/b.yaml": json.dumps(config_map("b", a="1"))})
    stage.application()
    stage.application("other", source={"path": "other"})
    stage.start()
    stage.phase("Synced")
    stage.phase("Synced", "other")
    before = stage.live("Deployment", "web", api="apps/v1")
    commit = stage.repo.commit({"app/web.yaml": None, "other/web.yaml": json.dumps(deployment(replicas=1))})
    stage.synced(commit)
    stage.synced(commit, "other")
    after = stage.live("Deployment", "web", api="apps/v1")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["metadata"]["labels"]["gitsync.dev/application"] == "other"


def test_a_reverted_commit_restores_what_it_removed(stage: Stage) -> None:
    kept = [config_map(f"keep{number}", a="1") for number in range(3)]
    stage.sync({"keep.yaml": kept, "a.yaml": config_map("a", a="1")})
    stage.synced(stage.commit({"a.yaml": None}))
    assert stage.get("ConfigMap", "a") is None
    stage.synced(stage.revert())
    assert stage.live("ConfigMap", "a")["data"] == {"a": "1"}
