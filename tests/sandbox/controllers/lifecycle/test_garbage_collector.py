"""Garbage collection: owners by uid, the three ways to delete, dangling and unusual owners."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import ObjectRef
from gitsync.sandbox.cluster import SandboxCluster
from gitsync.sandbox.errors import ApiError
from gitsync.sandbox.server import Sandbox
from tests.sandbox.controllers.cluster import World, config_map, deployment, owned_by


def test_a_dependent_goes_with_its_owner(world: World) -> None:
    owner = world.create(config_map("owner"))
    world.create(config_map("child", ownerReferences=owned_by(owner)))
    world.delete("", "ConfigMap", "owner")
    world.advance(0.1)
    assert world.absent("", "ConfigMap", "child")


def test_a_chain_of_dependents_goes_with_the_first_owner(world: World) -> None:
    owner = world.create(config_map("a"))
    for name in ("b", "c", "d"):
        owner = world.create(config_map(name, ownerReferences=owned_by(owner)))
    world.delete("", "ConfigMap", "a")
    world.advance(0.1)
    assert all(world.absent("", "ConfigMap", name) for name in "bcd")


def test_an_owner_that_never_was_keeps_nothing(world: World) -> None:
    ghost = {"apiVersion": "v1", "kind": "ConfigMap", "name": "ghost", "uid": "no-such-uid"}
    world.create(config_map("child", ownerReferences=[ghost]))
    world.advance(0.1)
    assert world.absent("", "ConfigMap", "child")


def test_an_owner_created_again_under_the_same_name_keeps_nothing(world: World) -> None:
    world.controllers.pause("garbage")
    owner = world.create(config_map("owner"))
    world.create(config_map("child", ownerReferences=owned_by(owner)))
    world.delete("", "ConfigMap", "owner")
    world.create(config_map("owner"))
    world.controllers.resume("garbage")
    world.advance(0.1)
    assert world.absent("", "ConfigMap", "child")
    assert not world.absent("", "ConfigMap", "owner")


def test_a_dangling_reference_is_removed_while_another_owner_lives(world: World) -> None:
    first, second = world.create(config_map("o1")), world.create(config_map("o2"))
    world.create(config_map("child", ownerReferences=owned_by(first) + owned_by(second)))
    world.delete("", "ConfigMap", "o1")
    world.advance(0.1)
    assert world.get("", "ConfigMap", "child")["metadata"]["ownerReferences"] == owned_by(second)
    world.delete("", "ConfigMap", "o2")
    world.advance(0.1)
    assert world.absent("", "ConfigMap", "child")


def test_foreground_waits_for_a_blocking_dependent(world: World) -> None:
    owner = world.create(config_map("owner"))
    references = owned_by(owner, blockOwnerDeletion=True)
    world.create(config_map("child", ownerReferences=references, finalizers=["x.example.com/hold"]))
    world.delete("", "ConfigMap", "owner", propagation="Foreground")
    world.advance(1)
    assert "deletionTimestamp" in world.get("", "ConfigMap", "child")["metadata"]
    assert world.get("", "ConfigMap", "owner")["metadata"]["finalizers"] == ["foregroundDeletion"]
    world.patch("", "ConfigMap", "child", {"metadata": {"finalizers": None}})
    world.advance(0.1)
    assert world.absent("", "ConfigMap", "owner")


def test_foreground_does_not_wait_for_one_that_does_not_block(world: World) -> None:
    owner = world.create(config_map("owner"))
    world.create(config_map("child", ownerReferences=owned_by(owner), finalizers=["x.example.com/hold"]))
    world.delete("", "ConfigMap", "owner", propagation="Foreground")
    world.advance(0.1)
    assert world.absent("", "ConfigMap", "owner")
    assert "deletionTimestamp" in world.get("", "ConfigMap", "child")["metadata"]


@pytest.mark.parametrize("unblocked", [True, False])
def test_foreground_ends_when_the_dependent_that_blocks_lets_go(world: World, unblocked: bool) -> None:
    owner = world.create(config_map("owner"))
    references = owned_by(owner, blockOwnerDeletion=True)
    world.create(config_map("child", ownerReferences=references, finalizers=["x.example.com/hold"]))
    world.delete("", "ConfigMap", "owner", propagation="Foreground")
    world.advance(0.1)
    assert not world.absent("", "ConfigMap", "owner")
    kept = owned_by(owner, blockOwnerDeletion=False) if unblocked else None
    world.patch("", "ConfigMap", "child", {"metadata": {"ownerReferences": kept}})
    world.advance(0.1)
    assert world.absent("", "ConfigMap", "owner")
    assert not world.absent("", "ConfigMap", "child")


def test_foreground_keeps_a_dependent_with_another_owner(world: World) -> None:
    going = world.create(config_map("going"))
    staying = world.create(config_map("staying"))
    references = [*owned_by(going, blockOwnerDeletion=True), *owned_by(staying, blockOwnerDeletion=True)]
    world.create(config_map("child", ownerReferences=references))
    world.delete("", "ConfigMap", "going", propagation="Foreground")
    world.advance(0.1)
    assert world.absent("", "ConfigMap", "going")
    assert world.get("", "ConfigMap", "child")["metadata"]["ownerReferences"] == references[1:]


def test_foreground_of_objects_that_own_each_other_ends(world: World) -> None:
    first = world.create(config_map("first"))
    second = world.create(config_map("second", ownerReferences=owned_by(first, blockOwnerDeletion=True)))
    references = owned_by(second, blockOwnerDeletion=True)
    world.patch("", "ConfigMap", "first", {"metadata": {"ownerReferences": references}})
    world.delete("", "ConfigMap", "first", propagation="Foreground")
    world.advance(0.1)
    assert world.absent("", "ConfigMap", "first")
    assert world.absent("", "ConfigMap", "second")


def test_foreground_of_a_deployment_leaves_nothing_when_it_is_gone(world: World) -> None:
    world.create(deployment())
    world.advance(3)
    world.delete("apps", "Deployment", "web", propagation="Foreground")
    world.advance(0.1)
    assert at(world.get("apps", "Deployment", "web"), "metadata", "deletionTimestamp")
    assert len(world.pods()) == 2
    world.advance(1)
    assert world.absent("apps", "Deployment", "web")
    assert world.list("apps", "ReplicaSet") == []
    assert world.pods() == []


def test_orphans_stay_and_lose_the_reference(world: World) -> None:
    owner = world.create(config_map("owner"))
    world.create(config_map("child", ownerReferences=owned_by(owner)))
    world.delete("", "ConfigMap", "owner", propagation="Orphan")
    world.advance(0.1)
    assert world.absent("", "ConfigMap", "owner")
    assert "ownerReferences" not in world.get("", "ConfigMap", "child")["metadata"]


def test_an_owner_in_another_namespace_counts_as_absent(world: World) -> None:
    world.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    owner = world.create(config_map("owner", namespace="other"))
    world.create(config_map("child", ownerReferences=owned_by(owner)))
    world.advance(0.1)
    assert world.absent("", "ConfigMap", "child")


def test_a_cluster_scoped_owner_keeps_a_namespaced_dependent(world: World) -> None:
    node = world.get("", "Node", "node-a", namespace="")
    world.create(config_map("child", ownerReferences=owned_by(node)))
    world.advance(0.1)
    assert not world.absent("", "ConfigMap", "child")


def test_a_cluster_scoped_object_with_a_namespaced_owner_is_left_alone(world: World) -> None:
    owner = world.create(config_map("owner"))
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": None}
    world.create({**role, "metadata": {"name": "child", "ownerReferences": owned_by(owner)}})
    world.delete("", "ConfigMap", "owner")
    world.advance(1)
    assert not world.absent("rbac.authorization.k8s.io", "ClusterRole", "child", namespace="")
    events = list(world.api.list("", "Event", "default"))
    assert [each["reason"] for each in events] == ["OwnerRefInvalidNamespace"]


def test_a_paused_collector_catches_up_when_it_goes_on(world: World) -> None:
    world.controllers.pause("garbage")
    owner = world.create(config_map("owner"))
    world.create(config_map("child", ownerReferences=owned_by(owner)))
    world.delete("", "ConfigMap", "owner")
    world.advance(60)
    assert not world.absent("", "ConfigMap", "child")
    world.controllers.resume("garbage")
    world.advance(0.1)
    assert world.absent("", "ConfigMap", "child")


def test_dependents_go_with_an_owner_whose_kind_goes_too() -> None:
    with Sandbox() as sandbox:

        def call(action: Callable[[SandboxCluster], Manifest | None]) -> Manifest | None:
            return sandbox.call(action)

        call(lambda cluster: cluster.create(definition(), manager="test"))
        owner = eventually(lambda: call(lambda cluster: cluster.create(custom(), manager="test")))
        child = config_map("child", namespace="default", ownerReferences=owned_by(owner))
        call(lambda cluster: cluster.create(child, manager="test"))
        sandbox.call(lambda cluster: cluster.delete(ObjectRef("apiextensions.k8s.io", CRD, "", "things.example.com")))
        eventually(lambda: call(lambda cluster: cluster.get("", "ConfigMap", "default", "child")) is None or None)


CRD = "CustomResourceDefinition"


def definition() -> Manifest:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": CRD,
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


def custom() -> Manifest:
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t", "namespace": "default"}}


def eventually(action: Callable[[], Any]) -> Any:
    """Return the first result of an action that is neither None nor a refusal."""
    for _ in range(500):
        try:
            found = action()
        except (ApiError, KeyError):
            found = None
        if found is not None:
            return found
        time.sleep(0.01)
    raise AssertionError("it did not happen in time")
