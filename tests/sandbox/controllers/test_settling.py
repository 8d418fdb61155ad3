"""Whatever is done to a cluster, it settles: counts agree, nothing is left over, and then nothing is written."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitsync.objects.manifest import Manifest, at
from gitsync.sandbox.controllers.object_meta import controller_ref
from tests.sandbox.controllers.cluster import (
    NAMESPACE,
    World,
    claim_template,
    config_map,
    deployment,
    job,
    stateful_set,
)

IMAGES = st.sampled_from(["web:1", "web:2", "web:crash", "web:missing", "web:slow"])
STRATEGIES = st.sampled_from(
    [
        {"type": "Recreate", "rollingUpdate": None},
        {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "50%", "maxUnavailable": "50%"}},
    ]
)
POLICIES = st.sampled_from(["Background", "Foreground", "Orphan"])


def image(name: str) -> Manifest:
    return {"template": {"spec": {"containers": [{"name": "main", "image": name}]}}}


ACTIONS = st.one_of(
    st.tuples(st.just("deploy"), IMAGES, st.integers(0, 4)),
    st.tuples(st.just("image"), IMAGES),
    st.tuples(st.just("scale"), st.integers(0, 5)),
    st.tuples(st.just("strategy"), STRATEGIES),
    st.tuples(st.just("pause"), st.booleans()),
    st.tuples(st.just("kill"), st.integers(0, 3)),
    st.tuples(st.just("delete"), st.just("Deployment"), POLICIES),
    st.tuples(st.just("set"), st.integers(0, 3)),
    st.tuples(st.just("resize"), st.integers(0, 3)),
    st.tuples(st.just("delete"), st.just("StatefulSet"), POLICIES),
    st.tuples(st.just("job"), st.sampled_from(["task:1", "task:fail", "task:forever"]), st.integers(1, 3)),
    st.tuples(st.just("delete"), st.just("Job"), POLICIES),
)
STEPS = st.lists(st.tuples(ACTIONS, st.sampled_from([0.0, 0.05, 0.3, 1.0])), min_size=1, max_size=12)
NAMES = {"Deployment": ("apps", "web"), "StatefulSet": ("apps", "db"), "Job": ("batch", "task")}


def act(world: World, action: tuple[Any, ...]) -> None:
    """Perform an action; one whose object is absent does nothing."""
    name, *arguments = action
    absent = {kind: world.absent(group, kind, called) for kind, (group, called) in NAMES.items()}
    if name == "deploy" and absent["Deployment"]:
        world.create(deployment(*arguments))
    elif name == "set" and absent["StatefulSet"]:
        claims = [claim_template()]
        made = stateful_set(arguments[0], volumeClaimTemplates=claims, selector={"matchLabels": {"app": "db"}})
        made["spec"]["template"]["metadata"]["labels"] = {"app": "db"}
        world.create(made)
    elif name == "job" and absent["Job"]:
        world.create(job(arguments[0], completions=arguments[1], parallelism=2, backoffLimit=1))
    elif name == "resize" and not absent["StatefulSet"]:
        world.patch("apps", "StatefulSet", "db", {"spec": {"replicas": arguments[0]}})
    elif name == "delete" and not absent[arguments[0]]:
        group, called = NAMES[arguments[0]]
        world.delete(group, arguments[0], called, propagation=arguments[1])
    elif name == "kill":
        for victim in world.pods()[: arguments[0]]:
            world.delete("", "Pod", victim["metadata"]["name"])
    elif not absent["Deployment"]:
        changes: dict[str, Any] = {
            "image": lambda: image(arguments[0]),
            "scale": lambda: {"replicas": arguments[0]},
            "strategy": lambda: {"strategy": arguments[0]},
            "pause": lambda: {"paused": arguments[0]},
        }
        if name in changes:
            world.patch("apps", "Deployment", "web", {"spec": changes[name]()})


def check(world: World) -> None:
    objects = list(world.api.everything(NAMESPACE))
    uids = {each["metadata"]["uid"] for each in objects}
    for each in objects:
        for reference in each["metadata"].get("ownerReferences") or ():
            assert reference["uid"] in uids, f"{each['kind']} {each['metadata']['name']} outlived its owner"
        assert "deletionTimestamp" not in each["metadata"], f"{each['kind']} {each['metadata']['name']} is stuck"
    for kind in ("ReplicaSet", "StatefulSet"):
        for owner in world.list("apps", kind):
            own = [pod for pod in world.pods() if (controller_ref(pod) or {}).get("uid") == owner["metadata"]["uid"]]
            ready = sum(bool(at(pod, "status", "containerStatuses", 0, "ready")) for pod in own)
            assert owner["status"]["replicas"] == len(own)
            assert owner["status"].get("readyReplicas", 0) == ready
            if kind == "ReplicaSet":
                assert len(own) == owner["spec"]["replicas"]
    for each in world.list("apps", "Deployment"):
        status, wanted = each["status"], each["spec"]["replicas"]
        assert status["observedGeneration"] == each["metadata"]["generation"]
        healthy = at(each, "spec", "template", "spec", "containers", 0, "image") in ("web:1", "web:2", "web:slow")
        if healthy and not each["spec"].get("paused"):
            assert status.get("updatedReplicas", 0) == status.get("availableReplicas", 0) == wanted
            assert status.get("replicas", 0) == wanted


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_it_settles(steps: list[tuple[tuple[Any, ...], float]]) -> None:
    world = World()
    world.create(config_map("bystander"))
    for action, pause in steps:
        act(world, action)
        world.advance(pause)
    world.advance(2000)  # past every back-off
    check(world)
    crashing = any(state.get("restartCount") for pod in world.pods() for state in pod["status"]["containerStatuses"])
    before = world.writes
    world.advance(200)
    assert crashing or world.writes == before
    assert not world.absent("", "ConfigMap", "bystander")
