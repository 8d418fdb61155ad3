"""StatefulSets: order, identity, claims, updates from the end, partitions."""

from __future__ import annotations

from gitsync.objects.manifest import Manifest, labels_of
from tests.sandbox.controllers.cluster import World, claim_template, state_of, stateful_set

IMAGE_2 = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "db:2"}]}}}}


def names(world: World) -> list[str]:
    return [pod["metadata"]["name"] for pod in world.pods()]


def images(world: World) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["spec"]["containers"][0]["image"] for pod in world.pods()}


def status(world: World) -> Manifest:
    return dict(world.get("apps", "StatefulSet", "db")["status"])


def test_pods_start_one_after_the_other(world: World) -> None:
    world.create(stateful_set(3))
    world.advance(0.2)
    assert names(world) == ["db-0"]
    world.advance(0.3)
    assert names(world) == ["db-0", "db-1"]
    world.advance(2)
    assert names(world) == ["db-0", "db-1", "db-2"]


def test_parallel_pods_start_together(world: World) -> None:
    world.create(stateful_set(3, podManagementPolicy="Parallel"))
    world.advance(0.1)
    assert names(world) == ["db-0", "db-1", "db-2"]


def test_status_goes_from_zero_to_all(world: World) -> None:
    seen = world.statuses("StatefulSet", lambda: world.create(stateful_set(2)))
    revision = seen[-1]["currentRevision"]
    common = {"currentRevision": revision, "updateRevision": revision, "collisionCount": 0}
    assert seen[1] == {"observedGeneration": 1, "replicas": 0, "availableReplicas": 0, **common}
    assert seen[2]["replicas"] == 1
    assert "readyReplicas" not in seen[2]
    assert seen[-1] == {
        "observedGeneration": 1,
        "replicas": 2,
        "readyReplicas": 2,
        "currentReplicas": 2,
        "updatedReplicas": 2,
        "availableReplicas": 2,
        **common,
    }


def test_pods_carry_their_identity(world: World) -> None:
    world.create(stateful_set(1))
    world.advance(2)
    (pod,) = world.pods()
    assert labels_of(pod) == {
        "app": "web",
        "apps.kubernetes.io/pod-index": "0",
        "controller-revision-hash": status(world)["currentRevision"],
        "statefulset.kubernetes.io/pod-name": "db-0",
    }
    assert pod["spec"]["hostname"] == "db-0"
    assert pod["spec"]["subdomain"] == "db"
    assert pod["metadata"]["generateName"] == "db-"


def test_update_goes_from_the_last_pod_to_the_first(world: World) -> None:
    world.create(stateful_set(2))
    world.advance(3)
    seen = world.statuses("StatefulSet", lambda: world.patch("apps", "StatefulSet", "db", IMAGE_2))
    first, second = seen[0]["currentRevision"], seen[-1]["currentRevision"]
    assert first != second
    rolling = [each for each in seen if each["observedGeneration"] == 2]
    assert rolling[0]["currentReplicas"] == 1
    assert rolling[0]["replicas"] == 2
    assert "updatedReplicas" not in rolling[0]
    assert rolling[0]["updateRevision"] == second
    assert all(each["currentRevision"] == first for each in rolling[:-1])
    assert rolling[-1]["currentReplicas"] == rolling[-1]["updatedReplicas"] == 2
    deleted = [text for reason, text in world.events("StatefulSet") if reason == "SuccessfulDelete"]
    assert sorted(deleted) == [f"delete Pod db-{n} in StatefulSet db successful" for n in (0, 1)]


def test_partition_keeps_the_lower_pods(world: World) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    world.create(stateful_set(3, updateStrategy=strategy))
    world.advance(3)
    world.patch("apps", "StatefulSet", "db", IMAGE_2)
    world.advance(5)
    assert images(world) == {"db-0": "db:1", "db-1": "db:1", "db-2": "db:2"}
    assert status(world)["currentRevision"] != status(world)["updateRevision"]
    assert status(world)["updatedReplicas"] == 1
    world.delete("", "Pod", "db-0")
    world.advance(2)
    assert images(world)["db-0"] == "db:1"


def test_on_delete_updates_what_is_deleted(world: World) -> None:
    world.create(stateful_set(2, updateStrategy={"type": "OnDelete"}))
    world.advance(3)
    world.patch("apps", "StatefulSet", "db", IMAGE_2)
    world.advance(3)
    assert set(images(world).values()) == {"db:1"}
    world.delete("", "Pod", "db-1")
    world.advance(3)
    assert images(world) == {"db-0": "db:1", "db-1": "db:2"}


def test_scaling_down_removes_the_last_first(world: World) -> None:
    world.create(stateful_set(3))
    world.advance(3)
    world.patch("apps", "StatefulSet", "db", {"spec": {"replicas": 1}})
    world.advance(0.1)
    deleting = [pod["metadata"]["name"] for pod in world.pods() if "deletionTimestamp" in pod["metadata"]]
    assert deleting == ["db-2"]
    world.advance(2)
    assert names(world) == ["db-0"]


def test_a_pod_that_does_not_get_ready_holds_up_the_next(world: World) -> None:
    world.create(stateful_set(2, image="db:crash"))
    world.advance(5)
    assert names(world) == ["db-0"]
    assert state_of(world.pods()[0]) == "CrashLoopBackOff"


def test_each_pod_has_its_claim_and_keeps_it(world: World) -> None:
    world.create(stateful_set(2, volumeClaimTemplates=[claim_template()]))
    world.advance(5)
    claims = {each["metadata"]["name"]: each for each in world.list("", "PersistentVolumeClaim")}
    assert sorted(claims) == ["data-db-0", "data-db-1"]
    assert all(each["status"]["phase"] == "Bound" for each in claims.values())
    assert claims["data-db-0"]["metadata"]["labels"] == {"app": "web"}
    (volume,) = [each for each in world.pods()[1]["spec"]["volumes"] if each["name"] == "data"]
    assert volume["persistentVolumeClaim"] == {"claimName": "data-db-1"}
    world.delete("apps", "StatefulSet", "db")
    world.advance(3)
    assert world.pods() == []
    assert len(world.list("", "PersistentVolumeClaim")) == 2


def test_claims_go_with_their_pods_or_their_set_where_the_policy_says_so(world: World) -> None:
    policy = {"whenScaled": "Delete", "whenDeleted": "Delete"}
    world.create(stateful_set(2, volumeClaimTemplates=[claim_template()], persistentVolumeClaimRetentionPolicy=policy))
    world.advance(5)
    world.patch("apps", "StatefulSet", "db", {"spec": {"replicas": 1}})
    world.advance(3)
    assert [each["metadata"]["name"] for each in world.list("", "PersistentVolumeClaim")] == ["data-db-0"]
    world.delete("apps", "StatefulSet", "db")
    world.advance(3)
    assert world.list("", "PersistentVolumeClaim") == []


def test_history_is_a_controller_revision_per_template(world: World) -> None:
    world.create(stateful_set(1, revisionHistoryLimit=1))
    world.advance(3)
    for number in (2, 3, 4):
        world.patch("apps", "StatefulSet", "db", {"spec": {"template": {"metadata": {"labels": {"n": str(number)}}}}})
        world.advance(3)
    assert sorted(each["revision"] for each in world.list("apps", "ControllerRevision")) == [3, 4]


def test_nothing_is_written_while_nothing_changes(world: World) -> None:
    world.create(stateful_set(2, volumeClaimTemplates=[claim_template()]))
    world.advance(5)
    before = world.writes
    world.advance(600)
    assert world.writes == before


def test_a_set_of_the_same_name_adopts_orphaned_pods_and_history(world: World) -> None:
    world.create(stateful_set(2))
    world.advance(3)
    before = {pod["metadata"]["uid"] for pod in world.pods()}
    world.delete("apps", "StatefulSet", "db", propagation="Orphan")
    world.advance(1)
    world.create(stateful_set(3))
    world.advance(3)
    assert status(world)["readyReplicas"] == 3
    assert before < {pod["metadata"]["uid"] for pod in world.pods()}
    assert len(world.list("apps", "ControllerRevision")) == 1
