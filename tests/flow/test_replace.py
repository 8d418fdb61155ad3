"""Objects with immutable fields: replaced where Git asks for it, also when the replacement is interrupted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gitsync.objects.manifest import uid_of
from tests.flow.environment import NAMESPACE, World, is_synced
from tests.review_factories import approval, keep
from tests.waiting import until

KEY = f"{NAMESPACE}/shop"
TEMPLATE = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {"restartPolicy": "Always", "containers": [{"name": "a", "image": "a:1"}]},
}
STATEFUL_SET = {"serviceName": "one", "selector": {"matchLabels": {"app": "a"}}, "template": TEMPLATE}
JOB = {"template": {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}}
ROLE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole"}
OBJECTS = [
    ("apps/v1", "StatefulSet", {"spec": STATEFUL_SET}, {"spec": {**STATEFUL_SET, "serviceName": "two"}}),
    ("batch/v1", "Job", {"spec": JOB}, {"spec": {**JOB, "completions": 2}}),
    ("v1", "Service", {"spec": {"ports": [{"port": 80}]}}, {"spec": {"clusterIP": "None", "ports": [{"port": 80}]}}),
    (
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        {"roleRef": {**ROLE, "name": "view"}},
        {"roleRef": {**ROLE, "name": "edit"}},
    ),
    ("v1", "ConfigMap", {"immutable": True, "data": {"key": "one"}}, {"immutable": True, "data": {"key": "two"}}),
]


def manifest(api: str, kind: str, body: dict[str, Any]) -> str:
    metadata = {"name": "a", "annotations": {"gitsync.dev/force": "true"}}
    return json.dumps({"apiVersion": api, "kind": kind, "metadata": metadata, **body})


def settled(world: World, commit: str) -> None:
    """Wait until a commit is synced, and approve it where its kinds always need that."""
    until(
        lambda: is_synced(world.status(), commit) or world.status().get("phase") == "AwaitingApproval", 10, world.status
    )
    plan = world.view().plan
    if world.status().get("phase") == "AwaitingApproval" and plan is not None:
        keep(world.controller.records, KEY, plan.digest, approval("ada"))
        world.controller.requests.poll_now([KEY])
    world.synced(commit)


@pytest.mark.parametrize(("api", "kind", "before", "after"), OBJECTS, ids=[kind for _, kind, _, _ in OBJECTS])
def test_an_immutable_field_is_changed_by_replacing_the_object(
    world: World, api: str, kind: str, before: dict[str, Any], after: dict[str, Any]
) -> None:
    first = world.repo.commit("first", {"shop/a.yaml": manifest(api, kind, before)})
    world.application(risk={"approval": "Never"})
    world.start()
    settled(world, first)
    replaced = uid_of(world.get(kind, "a", api=api) or {})
    second = world.repo.commit("second", {"shop/a.yaml": manifest(api, kind, after)})
    settled(world, second)
    assert uid_of(world.get(kind, "a", api=api) or {}) != replaced
    (step,) = world.controller.records.history(KEY)[0].steps
    assert (step.action, step.risk) == ("replace", "Dangerous")


def hold_replacement(world: World) -> str:
    """Approve the replacement of an object that has a finalizer, and return the new commit once it is deleted."""
    api, kind, before, after = OBJECTS[-1]
    world.repo.commit("first", {"shop/a.yaml": manifest(api, kind, before)})
    world.application(sync={"selfHeal": False})
    world.start()
    until(lambda: world.get("ConfigMap", "a"), 10, world.status)
    finalizer(world, ["example.com/hold"])
    second = world.repo.commit("second", {"shop/a.yaml": manifest(api, kind, after)})
    until(lambda: world.status().get("phase") == "AwaitingApproval", 10, world.status)
    plan = world.view().plan
    assert plan is not None
    keep(world.controller.records, KEY, plan.digest, approval())
    world.controller.requests.poll_now([KEY])
    until(lambda: (world.get("ConfigMap", "a") or {})["metadata"].get("deletionTimestamp"), 10, world.status)
    return second


def finalizer(world: World, names: list[str]) -> None:
    found = world.get("ConfigMap", "a")
    assert found is not None
    path = "/api/v1/namespaces/shop/configmaps/a"
    world.client.patch(path, [{"op": "add", "path": "/metadata/finalizers", "value": names}], {})


@pytest.mark.parametrize("restarts", [False, True])
def test_a_replacement_waits_until_the_object_is_gone(world: World, restarts: bool) -> None:
    second = hold_replacement(world)
    if restarts:
        world.stop()
        world.start()
    until(lambda: "ConfigMap shop/a to be gone" in world.condition("Ready").get("message", ""), 10, world.status)
    until(lambda: world.status()["sync"] == "OutOfSync", describe=world.status)
    finalizer(world, [])
    world.synced(second)
    assert (world.get("ConfigMap", "a") or {})["data"] == {"key": "two"}
