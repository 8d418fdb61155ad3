"""Deployments: rollouts, their statuses, scaling, pause, rollback, failure, clean-up."""

from __future__ import annotations

from gitsync.objects.manifest import Manifest, annotations_of
from tests.sandbox.controllers.cluster import World, conditions, deployment, owned_by, state_of

REVISION = "deployment.kubernetes.io/revision"
AVAILABLE = ("Available", "True", "MinimumReplicasAvailable")
UNAVAILABLE = ("Available", "False", "MinimumReplicasUnavailable")


def image(name: str) -> Manifest:
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": name}]}}}}


def counts(status: Manifest) -> Manifest:
    return {key: value for key, value in status.items() if key != "conditions"}


def replica_sets(world: World) -> dict[str, Manifest]:
    return {annotations_of(each)[REVISION]: each for each in world.list("apps", "ReplicaSet")}


def test_first_rollout_reports_created_then_progressing_then_available(world: World) -> None:
    statuses = world.statuses("Deployment", lambda: world.create(deployment()))

    created = ("Progressing", "True", "NewReplicaSetCreated")
    updated = ("Progressing", "True", "ReplicaSetUpdated")
    assert conditions(statuses[1]) == [created]
    assert "observedGeneration" not in statuses[1]
    assert conditions(statuses[2]) == [created, UNAVAILABLE]
    assert counts(statuses[2]) == {"observedGeneration": 1, "unavailableReplicas": 2, "terminatingReplicas": 0}
    assert conditions(statuses[3]) == [UNAVAILABLE, updated]
    assert counts(statuses[-1]) == {
        "observedGeneration": 1,
        "replicas": 2,
        "updatedReplicas": 2,
        "readyReplicas": 2,
        "availableReplicas": 2,
        "terminatingReplicas": 0,
    }
    assert conditions(statuses[-1]) == [AVAILABLE, ("Progressing", "True", "NewReplicaSetAvailable")]


def test_replica_set_carries_hash_revision_and_measures(world: World) -> None:
    world.create(deployment())
    world.advance(3)
    (replica_set,) = world.list("apps", "ReplicaSet")
    pod_hash = replica_set["metadata"]["labels"]["pod-template-hash"]
    assert replica_set["metadata"]["name"] == f"web-{pod_hash}"
    assert replica_set["spec"]["selector"] == {"matchLabels": {"app": "web", "pod-template-hash": pod_hash}}
    assert annotations_of(replica_set) == {
        REVISION: "1",
        "deployment.kubernetes.io/desired-replicas": "2",
        "deployment.kubernetes.io/max-replicas": "3",
    }
    assert all(pod["metadata"]["generateName"] == f"web-{pod_hash}-" for pod in world.pods())
    assert annotations_of(world.get("apps", "Deployment", "web"))[REVISION] == "1"


def test_rolling_update_never_leaves_the_fences(world: World) -> None:
    world.create(
        deployment(
            replicas=4, strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
        )
    )
    world.advance(3)
    statuses = world.statuses("Deployment", lambda: world.patch("apps", "Deployment", "web", image("web:2")), 10)
    rolling = [status for status in statuses if status.get("observedGeneration") == 2]
    assert all(status["replicas"] <= 5 for status in rolling)
    assert all(status["availableReplicas"] >= 3 for status in rolling)
    assert rolling[-1]["updatedReplicas"] == 4
    assert {pod["spec"]["containers"][0]["image"] for pod in world.pods()} == {"web:2"}


def test_old_numbers_stand_until_the_new_generation_is_observed(world: World) -> None:
    world.create(deployment())
    world.advance(3)
    statuses = world.statuses("Deployment", lambda: world.patch("apps", "Deployment", "web", image("web:2")))
    assert statuses[0]["observedGeneration"] == 1
    assert conditions(statuses[0])[1] == ("Progressing", "True", "NewReplicaSetAvailable")
    assert statuses[1]["observedGeneration"] == 1
    assert conditions(statuses[1])[1] == ("Progressing", "True", "NewReplicaSetCreated")


def test_recreate_stops_all_old_pods_first(world: World) -> None:
    world.create(deployment(strategy={"type": "Recreate"}))
    world.advance(3)
    world.patch("apps", "Deployment", "web", image("web:2"))
    world.advance(0.1)
    assert {pod["spec"]["containers"][0]["image"] for pod in world.pods()} == {"web:1"}
    world.advance(3)
    assert {pod["spec"]["containers"][0]["image"] for pod in world.pods()} == {"web:2"}


def test_failing_rollout_keeps_old_pods_and_passes_its_deadline(world: World) -> None:
    world.create(deployment(progressDeadlineSeconds=3))
    world.advance(2)
    world.patch("apps", "Deployment", "web", image("web:crash"))
    world.advance(5)
    live = world.get("apps", "Deployment", "web")
    assert conditions(live) == [AVAILABLE, ("Progressing", "False", "ProgressDeadlineExceeded")]
    assert live["status"]["availableReplicas"] == 2
    assert live["status"]["updatedReplicas"] == 1
    assert sorted(state_of(pod) for pod in world.pods()) == ["CrashLoopBackOff", "running", "running"]


def test_going_back_reuses_the_replica_set_under_a_new_revision(world: World) -> None:
    world.create(deployment())
    world.advance(3)
    first = world.list("apps", "ReplicaSet")[0]["metadata"]["name"]
    world.patch("apps", "Deployment", "web", image("web:2"))
    world.advance(5)
    world.patch("apps", "Deployment", "web", image("web:1"))
    world.advance(5)
    revisions = replica_sets(world)
    assert sorted(revisions) == ["2", "3"]
    assert revisions["3"]["metadata"]["name"] == first
    assert annotations_of(revisions["3"])["deployment.kubernetes.io/revision-history"] == "1"
    assert revisions["3"]["spec"]["replicas"] == 2
    assert annotations_of(world.get("apps", "Deployment", "web"))[REVISION] == "3"


def test_scaling_down_shows_full_numbers_at_the_new_generation_first(world: World) -> None:
    world.create(deployment(replicas=1))
    world.advance(3)
    statuses = world.statuses("Deployment", lambda: world.patch("apps", "Deployment", "web", {"spec": {"replicas": 0}}))
    seen = [counts(status) for status in statuses if status["observedGeneration"] == 2]
    assert seen[0]["replicas"] == 1
    assert seen[-1] == {"observedGeneration": 2, "terminatingReplicas": 0}


def test_scaling_in_the_middle_of_a_rollout_is_shared(world: World) -> None:
    world.create(
        deployment(
            replicas=10, strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}
        )
    )
    world.advance(3)
    world.patch("apps", "Deployment", "web", image("web:missing"))
    world.advance(3)
    sizes = {revision: each["spec"]["replicas"] for revision, each in replica_sets(world).items()}
    assert sizes == {"1": 8, "2": 5}
    world.patch("apps", "Deployment", "web", {"spec": {"replicas": 15}})
    world.advance(3)
    sizes = {revision: each["spec"]["replicas"] for revision, each in replica_sets(world).items()}
    assert sizes == {"1": 11, "2": 7}


def test_pause_stops_the_rollout_but_not_scaling(world: World) -> None:
    world.create(deployment())
    world.advance(3)
    world.patch("apps", "Deployment", "web", {"spec": {"paused": True, "replicas": 3}})
    world.patch("apps", "Deployment", "web", image("web:2"))
    world.advance(3)
    live = world.get("apps", "Deployment", "web")
    assert conditions(live)[0] == ("Progressing", "Unknown", "DeploymentPaused")
    assert [pod["spec"]["containers"][0]["image"] for pod in world.pods()] == ["web:1"] * 3
    world.patch("apps", "Deployment", "web", {"spec": {"paused": None}})
    world.advance(5)
    assert {pod["spec"]["containers"][0]["image"] for pod in world.pods()} == {"web:2"}
    assert ("Progressing", "True", "NewReplicaSetAvailable") in conditions(world.get("apps", "Deployment", "web"))


def test_history_beyond_the_limit_is_deleted(world: World) -> None:
    world.create(deployment(revisionHistoryLimit=1))
    world.advance(3)
    for number in (2, 3, 4):
        world.patch("apps", "Deployment", "web", image(f"web:{number}"))
        world.advance(5)
    assert sorted(replica_sets(world)) == ["3", "4"]


def test_orphaned_replica_sets_are_adopted_by_a_deployment_of_the_same_name(world: World) -> None:
    world.create(deployment())
    world.advance(3)
    before = {pod["metadata"]["uid"] for pod in world.pods()}
    world.delete("apps", "Deployment", "web", propagation="Orphan")
    world.advance(1)
    assert world.absent("apps", "Deployment", "web")
    assert "ownerReferences" not in world.list("apps", "ReplicaSet")[0]["metadata"]
    new = world.create(deployment())
    world.advance(3)
    (replica_set,) = world.list("apps", "ReplicaSet")
    assert replica_set["metadata"]["ownerReferences"] == owned_by(new, controller=True, blockOwnerDeletion=True)
    assert {pod["metadata"]["uid"] for pod in world.pods()} == before
    assert ("Progressing", "True", "NewReplicaSetAvailable") in conditions(world.get("apps", "Deployment", "web"))


def test_scaling_is_told_as_events(world: World) -> None:
    world.create(deployment())
    world.advance(3)
    name = world.list("apps", "ReplicaSet")[0]["metadata"]["name"]
    assert ("ScalingReplicaSet", f"Scaled up replica set {name} from 0 to 2") in world.events("Deployment")


def test_nothing_is_written_while_nothing_changes(world: World) -> None:
    world.create(deployment())
    world.advance(5)
    before = world.writes
    world.advance(600)
    assert world.writes == before
