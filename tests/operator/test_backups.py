"""Backups of volumes: by request, before a dangerous change, kept and deleted, and a volume restored from one."""

from __future__ import annotations

from typing import Any

from gitsync.objects.manifest import Manifest
from tests.agents.factories import agent, changed
from tests.flow.environment import World
from tests.operator.agent_world import annotate, approve, condition, delete, running, status_of
from tests.operator.surroundings import define
from tests.waiting import despite_conflicts, until

SNAPSHOTS = "snapshot.storage.k8s.io/v1"
VOLUME = {"name": "data", "mountPath": "/data", "size": "1Gi", "accessModes": ["ReadWriteMany"]}
ID = "agents.gitsync.dev/backup"


def saved(**backup: Any) -> Manifest:
    return agent(state={"volumes": [VOLUME]}, backup=backup)


def snapshots(world: World) -> list[Manifest]:
    found: list[Manifest] = world.client.get(f"/apis/{SNAPSHOTS}/namespaces/shop/volumesnapshots")["items"]
    return found


def jobs(world: World) -> list[Manifest]:
    found: list[Manifest] = world.client.get("/apis/batch/v1/namespaces/shop/jobs")["items"]
    return found


def finish(world: World, snapshot: Manifest, **status: Any) -> None:
    """Report the end of a snapshot, as its driver does."""
    path = f"/apis/{SNAPSHOTS}/namespaces/shop/volumesnapshots/{snapshot['metadata']['name']}"
    despite_conflicts(lambda: world.client.send("PUT", f"{path}/status", {**world.client.get(path), "status": status}))


def last(world: World) -> dict[str, Any]:
    found: dict[str, Any] = status_of(world).get("backup") or {}
    return found


def test_a_command_copies_the_volumes_where_snapshots_are_not_served(world: World) -> None:
    world.start()
    world.apply(saved(command=["copy", "/backup"], image="registry.internal/tools/copy:1"))
    running(world)
    annotate(world, "helper", backup_request="one")
    until(lambda: last(world).get("result") == "Succeeded", 20, lambda: status_of(world))
    assert (last(world)["last"], last(world)["lastGood"]) == ("one", "one")
    (job,) = jobs(world)
    pod = job["spec"]["template"]["spec"]
    assert job["metadata"]["labels"][ID] == "one"
    assert pod["volumes"] == [
        {"name": "helper-data", "persistentVolumeClaim": {"claimName": "helper-data", "readOnly": True}}
    ]
    (container,) = pod["containers"]
    assert (container["image"], container["command"]) == ("registry.internal/tools/copy:1", ["copy", "/backup"])
    assert container["volumeMounts"] == [{"name": "helper-data", "mountPath": "/backup/helper-data", "readOnly": True}]
    assert {"name": "BACKUP_ID", "value": "one"} in container["env"]


def test_a_dangerous_change_waits_for_its_backup(world: World) -> None:
    define(world, "snapshot.storage.k8s.io", "VolumeSnapshot")
    world.start()
    world.apply(saved())
    running(world)
    assert snapshots(world) == []
    world.apply(changed(saved(), "spec.model.endpoint", "http://elsewhere.example.com/v1"))
    until(lambda: condition(world, "Reconciling").get("reason") == "AwaitingApproval")
    assert snapshots(world) == []
    approve(world)
    until(lambda: snapshots(world))
    (snapshot,) = snapshots(world)
    assert snapshot["metadata"]["name"] == "helper-data-generation-2"
    assert snapshot["spec"] == {"source": {"persistentVolumeClaimName": "helper-data"}}
    assert "ownerReferences" not in snapshot["metadata"]
    until(lambda: condition(world, "Reconciling").get("reason") == "BackingUp")
    assert "elsewhere" not in str(world.get("Deployment", "helper", api="apps/v1"))

    finish(world, snapshot, error={"message": "no space"})
    until(lambda: condition(world, "Stalled").get("reason") == "BackupFailed")
    assert "no space" in condition(world, "Stalled")["message"]
    assert "elsewhere" not in str(world.get("Deployment", "helper", api="apps/v1"))

    finish(world, snapshots(world)[0], readyToUse=True)
    running(world, generation=2)
    assert "elsewhere" in str(world.get("Deployment", "helper", api="apps/v1"))
    delete(world, "helper")
    until(lambda: world.get("Deployment", "helper", api="apps/v1") is None)
    assert len(snapshots(world)) == 1


def test_the_backup_before_a_change_runs_with_the_settings_that_still_serve(world: World) -> None:
    world.start()
    world.apply(saved(command=["copy"]))
    running(world)
    credentials = {"secretKeyRef": {"name": "not-there", "key": "key"}}
    changed_model = {"endpoint": "http://elsewhere.example.com/v1", "credentials": credentials}
    before = saved(command=["copy"])
    world.apply(changed(before, "spec.model", {**before["spec"]["model"], **changed_model}))
    until(lambda: condition(world, "Reconciling").get("reason") == "AwaitingApproval")
    world.sandbox.pause("job")  # the backup takes a while
    approve(world)
    until(lambda: condition(world, "Reconciling").get("reason") == "BackingUp")
    job = world.get("Job", "helper-backup-generation-2", api="batch/v1") or {}
    variables = job["spec"]["template"]["spec"]["containers"][0]["env"]
    assert "not-there" not in str(variables)
    assert "elsewhere" not in str(variables)
    world.sandbox.resume("job")
    until(lambda: condition(world, "Reconciling").get("reason") != "BackingUp", 30)


def test_only_the_newest_backups_are_kept(world: World) -> None:
    define(world, "snapshot.storage.k8s.io", "VolumeSnapshot")
    world.start()
    world.apply(saved(keep=1))
    running(world)
    for id in ("one", "two"):
        annotate(world, "helper", backup_request=id)
        until(lambda id=id: any(one["metadata"]["labels"][ID] == id for one in snapshots(world)))
        made = next(one for one in snapshots(world) if one["metadata"]["labels"][ID] == id)
        finish(world, made, readyToUse=True)
        until(lambda id=id: last(world).get("lastGood") == id)
    until(lambda: [one["metadata"]["labels"][ID] for one in snapshots(world)] == ["two"])


def test_a_lost_volume_starts_from_a_snapshot(world: World) -> None:
    define(world, "snapshot.storage.k8s.io", "VolumeSnapshot")
    world.start()
    world.apply(saved())
    running(world)
    annotate(world, "helper", backup_request="one")
    until(lambda: snapshots(world))
    suspended = changed(saved(), "spec.suspend", True)
    world.apply(suspended)
    finish(world, snapshots(world)[0], readyToUse=True)
    until(lambda: status_of(world).get("phase") == "Suspended", 20)
    restored = changed(suspended, "spec.state.volumes.0.restoreFrom", snapshots(world)[0]["metadata"]["name"])
    world.apply(restored)
    until(lambda: status_of(world)["observedGeneration"] == 3)
    world.quiet()  # so that nothing but the deletion reconciles the Agent
    world.client.send("DELETE", "/api/v1/namespaces/shop/persistentvolumeclaims/helper-data", {})

    def source() -> Any:
        return (world.get("PersistentVolumeClaim", "helper-data") or {}).get("spec", {}).get("dataSource")

    until(source, describe=lambda: (status_of(world), world.get("PersistentVolumeClaim", "helper-data")))
    assert source()["name"] == snapshots(world)[0]["metadata"]["name"]
    world.apply(saved())
    running(world, generation=4)
    assert source() is not None
