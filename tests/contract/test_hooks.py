"""Hooks and waves: what runs first, what it needs, and what happens when it fails."""

from __future__ import annotations

from typing import Any

import pytest

from gitsync.objects.manifest import Manifest
from tests.contract.manifests import config_map, definition, deployment, job, manifest, with_wave
from tests.contract.stage import Stage, eventually

JOB = "batch/v1"


def names(stage: Stage, number: int = 0) -> list[str]:
    """Return the objects that a sync wrote, in order."""
    assert stage.engine is not None
    record = stage.engine.records.history(f"{stage.system}/app")[number]
    return [step.ref.rpartition("/")[2] for step in record.steps]


def uid(live: Manifest) -> str:
    return str(live["metadata"]["uid"])


def pod_of(made: Manifest) -> dict[str, Any]:
    spec: dict[str, Any] = made["spec"]["template"]["spec"]
    return spec


def test_hooks_run_in_their_phases_and_again_with_each_sync(stage: Stage) -> None:
    hooks = [job(phase.lower(), phase) for phase in ("PreSync", "Sync", "PostSync", "SyncFail")]
    stage.sync({"hooks.yaml": hooks, "web.yaml": config_map("web", a="1")})
    assert names(stage) == ["presync", "web", "sync", "postsync"]
    first = uid(stage.live("Job", "presync", api=JOB))
    stage.synced(stage.commit({"web.yaml": config_map("web", a="2")}))
    assert uid(stage.live("Job", "presync", api=JOB)) != first
    assert stage.get("Job", "syncfail", api=JOB) is None


def test_a_failed_hook_stops_the_sync(stage: Stage) -> None:
    stage.commit({"hooks.yaml": [job("before", "PreSync", "tool:fail"), job("failed", "SyncFail")]})
    stage.commit({"web.yaml": config_map("web", a="1")})
    stage.application()
    stage.start()
    status = stage.phase("Failed")
    assert stage.get("ConfigMap", "web") is None
    eventually(stage, lambda: stage.get("Job", "failed", api=JOB))
    assert any("before" in problem["object"] for problem in status["problems"])


@pytest.mark.parametrize("is_declared", [True, False], ids=["declared", "created by the destination"])
def test_the_namespace_of_a_hook_exists_first(stage: Stage, is_declared: bool) -> None:
    space = f"{stage.namespace}-new"
    stage.remember("Namespace", space)
    space_manifest = manifest("v1", "Namespace", space)
    files = {"hook.yaml": job("before", "PreSync"), "web.yaml": config_map("web", a="1")}
    destination = {"namespace": space, "createNamespace": not is_declared}
    stage.sync({**files, **({"space.yaml": space_manifest} if is_declared else {})}, destination=destination)
    assert stage.live("Job", "before", api=JOB, namespace=space)["status"]["succeeded"] == 1
    assert stage.live("ConfigMap", "web", namespace=space)
    assert stage.plan_writes() == []


def test_what_the_pods_of_a_hook_refer_to_exists_first(stage: Stage) -> None:
    hook = job("before", "PreSync")
    pod_of(hook).update(
        serviceAccountName="migrator",
        volumes=[{"name": "v", "configMap": {"name": "settings"}}],
    )
    pod_of(hook)["containers"][0]["envFrom"] = [{"secretRef": {"name": "password"}}]
    rbac = "rbac.authorization.k8s.io"
    role = manifest(f"{rbac}/v1", "Role", "migrator", rules=[])
    binding = manifest(f"{rbac}/v1", "RoleBinding", "migrator")
    binding["roleRef"] = {"apiGroup": rbac, "kind": "Role", "name": "migrator"}
    binding["subjects"] = [{"kind": "ServiceAccount", "name": "migrator"}]
    needs = [
        manifest("v1", "ServiceAccount", "migrator"),
        config_map("settings", a="1"),
        manifest("v1", "Secret", "password", stringData={"p": "x"}),
        role,
        binding,
    ]
    stage.sync({"hook.yaml": hook, "needs.yaml": needs, "web.yaml": config_map("web", a="1")})
    *first, hook_name, last = names(stage)
    assert sorted(first) == ["migrator", "migrator", "migrator", "password", "settings"]
    assert (hook_name, last) == ("before", "web")

    changed = stage.commit({"needs.yaml": [*needs[:1], config_map("settings", a="2"), *needs[2:]]})
    stage.synced(changed)
    assert names(stage)[-2:] == ["before", "settings"], "what exists is updated after the hook"


def test_a_hook_of_a_kind_that_the_commit_defines(stage: Stage) -> None:
    group = f"c{stage.system.rpartition('-')[2]}.example.com"
    stage.remember("CustomResourceDefinition", f"widgets.{group}", "apiextensions.k8s.io/v1")
    hook = manifest(f"{group}/v1", "Widget", "before", spec={"size": 1})
    hook["metadata"]["annotations"] = {"gitsync.dev/hook": "PreSync"}
    stage.sync({"hook.yaml": [hook, config_map("web", a="1")], "crd.yaml": definition(group)})
    assert stage.live("Widget", "before", api=f"{group}/v1")["spec"] == {"size": 1}


def test_a_hook_with_a_generated_name_runs_in_each_sync(stage: Stage) -> None:
    hook = job("", "PreSync", hook_delete_policy="HookFailed")
    hook["metadata"] = {**hook["metadata"], "generateName": "migrate-"}
    del hook["metadata"]["name"]
    stage.sync({"hook.yaml": hook, "web.yaml": config_map("web", a="1")})

    def jobs() -> list[Manifest]:
        return list(stage.client.get(stage.path("Job", "", api=JOB))["items"])

    (first,) = jobs()
    assert first["metadata"]["name"].startswith("migrate-")
    assert first["status"]["succeeded"] == 1
    assert stage.plan_writes() == []
    stage.synced(stage.commit({"web.yaml": config_map("web", a="2")}))
    (second,) = jobs()
    assert uid(second) != uid(first)


@pytest.mark.parametrize(
    ("policy", "image", "is_left"),
    [
        ("HookSucceeded", "tool:1", False),
        ("HookFailed", "tool:1", True),
        ("HookSucceeded", "tool:fail", True),
        ("HookFailed", "tool:fail", False),
    ],
)
def test_a_hook_is_deleted_by_its_policy(stage: Stage, policy: str, image: str, is_left: bool) -> None:
    failed = image.endswith("fail")
    hook = job("before", "PreSync", image, hook_delete_policy=policy)
    stage.commit({"hook.yaml": hook, "web.yaml": config_map("web", a="1")})
    stage.application(sync={"retry": {"limit": 0, "backoff": {"initial": "1h", "max": "1h"}}})
    stage.start()
    stage.phase("Failed" if failed else "Synced")
    if is_left:
        assert stage.live("Job", "before", api=JOB)
    else:
        eventually(stage, lambda: stage.get("Job", "before", api=JOB) is None)


def test_a_wave_waits_until_the_one_before_is_healthy(stage: Stage) -> None:
    stage.sync(
        {
            "a.yaml": with_wave(0, config_map("late", a="1")),
            "b.yaml": with_wave(-1, deployment("first", replicas=1)),
            "c.yaml": with_wave(-2, config_map("early", a="1")),
        }
    )
    assert names(stage) == ["early", "first", "late"]
    created = stage.live("ConfigMap", "late")["metadata"]["creationTimestamp"]
    conditions = stage.live("Deployment", "first", api="apps/v1")["status"]["conditions"]
    ready = next(each for each in conditions if each["type"] == "Available")
    assert ready["status"] == "True"
    assert ready["lastTransitionTime"] <= created


def test_a_wave_that_cannot_become_healthy_is_named(stage: Stage) -> None:
    stage.commit({"a.yaml": config_map("late", a="1")})
    stage.commit({"b.yaml": with_wave(-1, deployment("first", replicas=1, image="web:missing"))})
    stage.application()
    stage.start()
    eventually(stage, lambda: "Deployment" in str(stage.status().get("conditions")) and "first" in str(stage.status()))
    eventually(stage, lambda: "ImagePullBackOff" in str(stage.status()["conditions"]))
    assert stage.get("ConfigMap", "late") is None
    stage.synced(stage.commit({"b.yaml": with_wave(-1, deployment("first", replicas=1, image="web:2"))}))
    assert stage.live("ConfigMap", "late")


def test_deletes_run_in_reverse_waves(stage: Stage) -> None:
    objects = [with_wave(wave, config_map(f"w{wave}", a="1")) for wave in (1, 2, 3)]
    kept = [config_map(f"keep{number}", a="1") for number in range(4)]
    stage.sync({"keep.yaml": kept, "objects.yaml": objects})
    stage.synced(stage.commit({"objects.yaml": None}))
    assert names(stage) == ["w3", "w2", "w1"]


def test_hooks_of_the_deletion_run_around_it(stage: Stage) -> None:
    hooks = [job("first", "PreDelete"), job("last", "PostDelete")]
    stage.sync({"hooks.yaml": hooks, "web.yaml": config_map("web", a="1")})
    assert stage.get("Job", "first", api=JOB) is None
    stage.delete("Application", "app", namespace=stage.system, api="gitsync.dev/v1alpha1")
    eventually(stage, lambda: not stage.status())
    assert stage.get("ConfigMap", "web") is None
    assert stage.live("Job", "last", api=JOB)["status"]["succeeded"] == 1
