"""ResourceQuotas: the status says what is allowed and used, and follows what goes."""

from __future__ import annotations

from gitsync.objects.manifest import Manifest
from tests.sandbox.controllers.cluster import NAMESPACE, World, conditions, deployment, job


def quota(**hard: str) -> Manifest:
    metadata = {"name": "q", "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}}


def status(world: World) -> Manifest:
    return dict(world.get("", "ResourceQuota", "q")["status"])


def test_a_new_quota_counts_what_is_there(world: World) -> None:
    world.create(deployment())
    world.advance(2)
    world.create(quota(pods="3", services="2"))
    world.advance(0.1)
    assert status(world) == {"hard": {"pods": "3", "services": "2"}, "used": {"pods": "2", "services": "0"}}


def test_what_goes_is_given_back(world: World) -> None:
    world.create(quota(pods="3"))
    world.advance(0.1)
    world.create(deployment())
    world.advance(2)
    assert status(world)["used"] == {"pods": "2"}
    world.patch("apps", "Deployment", "web", {"spec": {"replicas": 1}})
    world.advance(2)
    assert status(world)["used"] == {"pods": "1"}


def test_a_finished_pod_is_not_counted(world: World) -> None:
    world.create(quota(pods="3"))
    world.create(job())
    world.advance(5)
    assert status(world)["used"] == {"pods": "0"}


def test_a_deployment_beyond_the_quota_says_so_until_there_is_room(world: World) -> None:
    world.create(quota(pods="0"))
    world.advance(0.1)
    world.create(deployment(replicas=1))
    world.advance(1)
    live = world.get("apps", "Deployment", "web")
    assert conditions(live)[-1] == ("ReplicaFailure", "True", "FailedCreate")
    message = live["status"]["conditions"][-1]["message"]
    assert message.endswith("is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0")
    world.patch("", "ResourceQuota", "q", {"spec": {"hard": {"pods": "1"}}})
    world.advance(60)
    assert [kind for kind, _, _ in conditions(world.get("apps", "Deployment", "web"))] == ["Available", "Progressing"]
