"""Pods: phases, conditions, failing images, init containers, missing references, graceful deletion, events."""

from __future__ import annotations

from typing import Any

import pytest

from gitsync.objects.manifest import Manifest, at
from gitsync.sandbox.http.subresources import log_of
from tests.sandbox.controllers.cluster import NAMESPACE, World, conditions, config_map, job, pod, state_of


def ready_conditions(manifest: Manifest) -> dict[str, str]:
    return {kind: status for kind, status, _ in conditions(manifest)}


def container(name: str = "main", image: str = "web:1", **members: Any) -> dict[str, Any]:
    return {"name": name, "image": image, **members}


def test_a_pod_is_created_scheduled_started_and_ready(world: World) -> None:
    seen = world.statuses("Pod", lambda: world.create(pod()))
    phases = [each["phase"] for each in seen]
    assert phases[0] == "Pending"
    assert phases[-1] == "Running"
    creating = next(each for each in seen if "containerStatuses" in each)
    assert creating["containerStatuses"][0]["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert [kind for kind, _, _ in conditions(seen[-1])] == [
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
    ]
    assert {status for _, status, _ in conditions(seen[-1])} == {"True"}
    running = world.get("", "Pod", "p")
    assert running["spec"]["nodeName"] == "node-a"
    assert running["status"]["podIP"].startswith("10.244.")
    assert running["status"]["hostIP"] == "192.168.0.10"


def test_its_story_is_told_as_events(world: World) -> None:
    world.create(pod())
    world.advance(1)
    assert dict(world.events("Pod")) == {
        "Scheduled": f"Successfully assigned {NAMESPACE}/p to node-a",
        "Pulled": 'Container image "web:1" already present on machine',
        "Created": "Created container: main",
        "Started": "Started container main",
    }


def test_a_crashing_container_backs_off_longer_each_time(world: World) -> None:
    world.create(pod("web:crash"))
    world.advance(2)
    live = world.get("", "Pod", "p")
    status = live["status"]["containerStatuses"][0]
    assert status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert status["state"]["waiting"]["message"].startswith("back-off 40s restarting failed container=main pod=p_shop(")
    assert status["lastState"]["terminated"]["exitCode"] == 1
    assert status["restartCount"] == 3
    assert live["status"]["phase"] == "Running"
    assert ready_conditions(live)["Ready"] == "False"
    world.advance(45)
    status = world.get("", "Pod", "p")["status"]["containerStatuses"][0]
    assert status["restartCount"] == 4
    assert status["state"]["waiting"]["message"].startswith("back-off 1m20s ")


def test_a_missing_image_is_tried_then_waited_for(world: World) -> None:
    seen = world.statuses("Pod", lambda: world.create(pod("web:missing")))
    reasons = [at(each, "containerStatuses", 0, "state", "waiting", "reason") for each in seen]
    assert [each for each in reasons if each] == ["ContainerCreating", "ErrImagePull", "ImagePullBackOff"]
    assert seen[-1]["phase"] == "Pending"
    assert ("BackOff", 'Back-off pulling image "web:missing"') in world.events("Pod")


def test_a_changed_image_restarts_the_container(world: World) -> None:
    def change(image: str) -> None:
        spec = world.get("", "Pod", "p")["spec"]
        world.patch("", "Pod", "p", {"spec": {"containers": [{**spec["containers"][0], "image": image}]}})
        world.advance(2)

    world.create(pod("web:missing"))
    world.advance(2)
    change("web:1")
    assert state_of(world.get("", "Pod", "p")) == "running"
    change("web:2")
    status = world.get("", "Pod", "p")["status"]["containerStatuses"][0]
    assert (status["image"], status["restartCount"]) == ("web:2", 1)
    assert status["lastState"]["terminated"]["exitCode"] == 0


def test_memory_shortage_ends_with_137(world: World) -> None:
    world.create(pod("web:oom"))
    world.advance(2)
    ended = world.get("", "Pod", "p")["status"]["containerStatuses"][0]["lastState"]["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)


def test_a_slow_one_runs_before_it_is_ready(world: World) -> None:
    world.create(pod("web:slow"))
    world.advance(2)
    live = world.get("", "Pod", "p")
    assert state_of(live) == "running"
    assert ready_conditions(live)["Ready"] == "False"
    world.advance(5)
    assert ready_conditions(world.get("", "Pod", "p"))["Ready"] == "True"


@pytest.mark.parametrize(
    ("image", "restart", "phase"),
    [("task:1", "Never", "Succeeded"), ("task:fail", "Never", "Failed"), ("task:1", "OnFailure", "Succeeded")],
)
def test_a_pod_that_may_end_ends(world: World, image: str, restart: str, phase: str) -> None:
    world.create(pod(image, restartPolicy=restart))
    world.advance(3)
    live = world.get("", "Pod", "p")
    assert live["status"]["phase"] == phase
    assert ready_conditions(live)["Ready"] == "False"
    before = world.writes
    world.advance(100)
    assert world.writes == before


def test_init_containers_run_one_after_the_other_before_the_rest(world: World) -> None:
    init = [container("first", "setup:1"), container("second", "setup:1")]
    seen = world.statuses("Pod", lambda: world.create(pod(initContainers=init)))
    initialized = next(each for each in seen if ready_conditions(each).get("Initialized") == "True")
    codes = [at(each, "state", "terminated", "exitCode") for each in initialized["initContainerStatuses"]]
    assert codes == [0, 0]
    pending = next(each for each in seen if "initContainerStatuses" in each)
    assert pending["containerStatuses"][0]["state"]["waiting"]["reason"] == "PodInitializing"
    assert ("Initialized", "False", "ContainersNotInitialized") in conditions(pending)
    assert seen[-1]["phase"] == "Running"


def test_a_failing_init_container_holds_up_the_pod(world: World) -> None:
    world.create(pod(initContainers=[container("setup", "setup:crash")]))
    world.advance(3)
    live = world.get("", "Pod", "p")
    assert live["status"]["phase"] == "Pending"
    assert live["status"]["initContainerStatuses"][0]["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert state_of(live) == "PodInitializing"


def test_a_sidecar_goes_on_beside_the_containers(world: World) -> None:
    sidecar = container("proxy", "proxy:1", restartPolicy="Always")
    world.create(pod("task:1", restartPolicy="Never", initContainers=[sidecar]))
    world.advance(0.5)
    live = world.get("", "Pod", "p")
    assert "running" in live["status"]["initContainerStatuses"][0]["state"]
    world.advance(3)
    assert world.get("", "Pod", "p")["status"]["phase"] == "Succeeded"


ENV_KEY = {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a"}}}
ENV_SECRET = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "settings", "key": "a"}}}


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"env": [ENV_KEY]}, 'configmap "settings" not found'),
        ({"env": [ENV_SECRET]}, 'secret "settings" not found'),
        ({"envFrom": [{"configMapRef": {"name": "settings"}}]}, 'configmap "settings" not found'),
        ({"envFrom": [{"secretRef": {"name": "settings"}}]}, 'secret "settings" not found'),
    ],
)
def test_a_missing_reference_keeps_the_container_from_being_made(
    world: World, members: dict[str, Any], message: str
) -> None:
    world.create(pod(containers=[container(**members)]))
    world.advance(2)
    waiting = at(world.get("", "Pod", "p"), "status", "containerStatuses", 0, "state", "waiting")
    assert waiting == {"reason": "CreateContainerConfigError", "message": message}
    kind = "ConfigMap" if message.startswith("configmap") else "Secret"
    world.create({**config_map("settings"), "kind": kind, "data": {"a": "YQ=="}})
    world.advance(1)
    assert state_of(world.get("", "Pod", "p")) == "running"


def test_a_missing_key_is_named(world: World) -> None:
    world.create({**config_map("settings"), "data": {"b": "1"}})
    world.create(pod(containers=[container(env=[ENV_KEY])]))
    world.advance(2)
    waiting = at(world.get("", "Pod", "p"), "status", "containerStatuses", 0, "state", "waiting")
    assert waiting["message"] == "couldn't find key a in ConfigMap shop/settings"


def test_an_optional_reference_may_be_missing(world: World) -> None:
    world.create(pod(containers=[container(envFrom=[{"configMapRef": {"name": "settings", "optional": True}}])]))
    world.advance(1)
    assert state_of(world.get("", "Pod", "p")) == "running"


def test_a_volume_that_cannot_be_mounted_is_waited_for(world: World) -> None:
    world.create(pod(volumes=[{"name": "v", "configMap": {"name": "settings"}}]))
    world.advance(2)
    assert state_of(world.get("", "Pod", "p")) == "ContainerCreating"
    text = 'MountVolume.SetUp failed for volume "v" : configmap "settings" not found'
    assert ("FailedMount", text) in world.events("Pod")
    world.create(config_map("settings"))
    world.advance(1)
    assert state_of(world.get("", "Pod", "p")) == "running"


def test_deletion_is_graceful_and_then_final(world: World) -> None:
    world.create(pod())
    world.advance(1)
    world.delete("", "Pod", "p")
    world.advance(0.1)
    assert world.get("", "Pod", "p")["metadata"]["deletionGracePeriodSeconds"] == 30
    world.advance(0.5)
    assert world.absent("", "Pod", "p")
    assert ("Killing", "Stopping container main") in world.events("Pod")


def test_a_pod_of_the_same_name_begins_anew(world: World) -> None:
    world.create(pod("web:crash"))
    world.advance(3)
    world.delete("", "Pod", "p", grace_seconds=0)
    world.create(pod())
    world.advance(1)
    live = world.get("", "Pod", "p")
    assert state_of(live) == "running"
    assert live["status"]["containerStatuses"][0]["restartCount"] == 0


def test_addresses_are_not_shared(world: World) -> None:
    for number in range(5):
        world.create(pod(name=f"p{number}"))
    world.advance(1)
    addresses = [each["status"]["podIP"] for each in world.pods()]
    assert len(set(addresses)) == 5


def test_repeated_events_are_counted_not_repeated(world: World) -> None:
    world.create(pod("web:crash"))
    world.advance(3)
    started = [each for each in world.list("", "Event") if each["reason"] == "Started"]
    assert [each["count"] for each in started] == [4]


def test_events_expire(world: World) -> None:
    world.create(pod())
    world.advance(10)
    assert world.list("", "Event")
    world.advance(3700)
    assert world.list("", "Event") == []


def test_logs_tell_what_happened(world: World) -> None:
    world.create(pod("web:crash", containers=[container(image="web:crash")]))
    world.create(pod(name="ok", containers=[container(ports=[{"containerPort": 8080}])]))
    world.create(job())
    world.advance(5)
    crashed = world.get("", "Pod", "p")
    assert "exit code 1" in str(log_of(crashed, "main"))
    assert "exit code 1" in str(log_of(crashed, "main", previous=True))
    healthy = world.get("", "Pod", "ok")
    assert "listening on port 8080" in str(log_of(healthy, "main"))
    assert log_of(healthy, "main", previous=True) is None
    assert log_of(healthy, "other") is None


def test_the_kubelet_can_be_paused(world: World) -> None:
    world.controllers.pause("kubelet")
    world.create(pod())
    world.advance(5)
    assert "containerStatuses" not in world.get("", "Pod", "p")["status"]
    world.controllers.resume("kubelet")
    world.advance(1)
    assert state_of(world.get("", "Pod", "p")) == "running"
