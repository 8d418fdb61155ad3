"""Claims and volumes: classes, waiting for the first consumer, binding, growth, release, protection."""

from __future__ import annotations

from typing import Any

import pytest

from gitsync.objects.manifest import Manifest, annotations_of
from gitsync.sandbox.errors import ApiError
from tests.sandbox.controllers.cluster import World, claim, pod


def volume(name: str = "pv", size: str = "10Gi", **spec: Any) -> Manifest:
    given = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/data"},
        "storageClassName": "manual",
        **spec,
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": given}


def storage_class(name: str, **members: Any) -> Manifest:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "example.com/disk",
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
        **members,
    }


def mounting(name: str = "data") -> list[dict[str, Any]]:
    return [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]


def phase(world: World, name: str = "data") -> str:
    return str(world.get("", "PersistentVolumeClaim", name)["status"]["phase"])


def pv_phase(world: World, name: str = "pv") -> str:
    return str(world.get("", "PersistentVolume", name, namespace="")["status"]["phase"])


def test_a_claim_without_class_gets_the_default_and_waits_for_a_pod(world: World) -> None:
    world.create(claim())
    world.advance(5)
    assert phase(world) == "Pending"
    assert world.get("", "PersistentVolumeClaim", "data")["spec"]["storageClassName"] == "standard"
    assert ("WaitForFirstConsumer", "waiting for first consumer to be created before binding") in world.events(
        "PersistentVolumeClaim"
    )
    world.create(pod(volumes=mounting()))
    world.advance(2)
    assert phase(world) == "Bound"
    assert world.get("", "Pod", "p")["status"]["phase"] == "Running"


def test_an_immediate_class_binds_at_once(world: World) -> None:
    world.create(storage_class("fast"))
    world.create(claim(storageClassName="fast"))
    world.advance(1)
    live = world.get("", "PersistentVolumeClaim", "data")
    assert live["status"] == {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
    made = world.get("", "PersistentVolume", live["spec"]["volumeName"], namespace="")
    assert made["spec"]["claimRef"]["uid"] == live["metadata"]["uid"]
    assert made["status"]["phase"] == "Bound"


def test_an_unknown_class_is_told(world: World) -> None:
    world.create(claim(storageClassName="nowhere"))
    world.advance(1)
    assert phase(world) == "Pending"
    assert ("ProvisioningFailed", 'storageclass.storage.k8s.io "nowhere" not found') in world.events(
        "PersistentVolumeClaim"
    )


def test_a_claim_takes_the_smallest_volume_that_fits(world: World) -> None:
    for name, size in (("small", "500Mi"), ("right", "2Gi"), ("large", "20Gi")):
        world.create(volume(name, size))
    world.create(claim(storageClassName="manual"))
    world.advance(1)
    live = world.get("", "PersistentVolumeClaim", "data")
    assert live["spec"]["volumeName"] == "right"
    assert annotations_of(live) == {
        "pv.kubernetes.io/bind-completed": "yes",
        "pv.kubernetes.io/bound-by-controller": "yes",
    }
    assert (pv_phase(world, "right"), pv_phase(world, "small")) == ("Bound", "Available")


def test_a_volume_that_comes_later_is_taken(world: World) -> None:
    world.create(claim(storageClassName="manual"))
    world.advance(1)
    assert phase(world) == "Pending"
    world.create(volume())
    world.advance(1)
    assert phase(world) == "Bound"


def test_deleting_the_claim_releases_a_retained_volume(world: World) -> None:
    world.create(volume())
    world.create(claim(storageClassName="manual"))
    world.advance(1)
    world.delete("", "PersistentVolumeClaim", "data")
    world.advance(1)
    assert world.absent("", "PersistentVolumeClaim", "data")
    assert pv_phase(world) == "Released"
    world.create(claim(storageClassName="manual"))
    world.advance(1)
    assert phase(world) == "Pending"  # a released volume is not given again


def test_deleting_the_claim_deletes_a_volume_that_was_made_for_it(world: World) -> None:
    world.create(storage_class("fast"))
    world.create(claim(storageClassName="fast"))
    world.advance(1)
    world.delete("", "PersistentVolumeClaim", "data")
    world.advance(1)
    assert list(world.api.list("", "PersistentVolume")) == []


def test_a_claim_in_use_stays_until_its_pod_is_gone(world: World) -> None:
    world.create(claim())
    world.create(pod(volumes=mounting()))
    world.advance(2)
    world.delete("", "PersistentVolumeClaim", "data")
    world.advance(5)
    assert "deletionTimestamp" in world.get("", "PersistentVolumeClaim", "data")["metadata"]
    world.delete("", "Pod", "p")
    world.advance(2)
    assert world.absent("", "PersistentVolumeClaim", "data")


def test_a_bound_volume_is_protected(world: World) -> None:
    world.create(volume())
    world.create(claim(storageClassName="manual"))
    world.advance(1)
    world.delete("", "PersistentVolume", "pv", namespace="")
    world.advance(1)
    assert not world.absent("", "PersistentVolume", "pv", namespace="")
    world.delete("", "PersistentVolumeClaim", "data")
    world.advance(1)
    assert world.absent("", "PersistentVolume", "pv", namespace="")


@pytest.mark.parametrize("bound", [True, False])
def test_a_claim_that_may_not_grow_is_refused(world: World, bound: bool) -> None:
    world.create(claim(storageClassName="manual"))
    if bound:
        world.create(volume())
    world.advance(1)
    with pytest.raises(ApiError) as refusal:
        world.patch("", "PersistentVolumeClaim", "data", {"spec": {"resources": {"requests": {"storage": "3Gi"}}}})
    assert refusal.value.code == (403 if bound else 422)
    expected = "only dynamically provisioned pvc can be resized" if bound else "spec is immutable after creation"
    assert expected in refusal.value.message


def test_a_claim_grows_where_its_class_allows_it(world: World) -> None:
    world.create(storage_class("fast", allowVolumeExpansion=True))
    world.create(claim(storageClassName="fast"))
    world.advance(1)
    world.patch("", "PersistentVolumeClaim", "data", {"spec": {"resources": {"requests": {"storage": "3Gi"}}}})
    world.advance(1)
    live = world.get("", "PersistentVolumeClaim", "data")
    assert live["status"]["capacity"] == {"storage": "3Gi"}
    made = world.get("", "PersistentVolume", live["spec"]["volumeName"], namespace="")
    assert made["spec"]["capacity"] == {"storage": "3Gi"}
