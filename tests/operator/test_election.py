"""Leader election: a Lease that the replicas of an Agent hold in turn, and no other right."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gitsync.errors import GitsyncError, InvalidInput, Rejected
from gitsync.objects.manifest import Manifest
from gitsync.operator.agents import AgentReconciler
from gitsync.operator.child_reconciler import ChildrenCache
from gitsync.sandbox.processes.environment import Image
from gitsync.sandbox.processes.runtime import has_loopback_network
from gitsync.sandbox.server import Sandbox
from tests.agents.factories import agent
from tests.flow.environment import World
from tests.operator.agent_world import approve, condition, running, status_of
from tests.waiting import despite_conflicts, until

LEASES = "/apis/coordination.k8s.io/v1/namespaces/shop/leases"
RBAC = "rbac.authorization.k8s.io/v1"
QUICK = {"leaseDurationSeconds": 4, "renewDeadlineSeconds": 3, "retryPeriodSeconds": 1}


def lease(world: World, name: str = "helper-leader") -> Manifest | None:
    return world.get("Lease", name, api="coordination.k8s.io/v1")


def hold(world: World, holder: str, at: str = "2026-01-01T00:00:00.000000Z") -> None:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": at}
    path = f"{LEASES}/helper-leader"
    despite_conflicts(lambda: world.client.send("PUT", path, {**(lease(world) or {}), "spec": spec}))


def test_the_replicas_get_a_lease_and_the_right_to_it_alone(world: World) -> None:
    world.start()
    world.apply(agent(leaderElection={}, replicas=2))
    status = running(world)
    assert {child["kind"] for child in status["children"]} >= {"Lease", "Role", "RoleBinding"}
    assert "leader" not in status

    pods = "system:serviceaccount:shop:helper"
    ask = world.client.send
    found = lease(world) or {}
    held = {"spec": {"holderIdentity": "helper-1"}}
    despite_conflicts(lambda: ask("PUT", f"{LEASES}/helper-leader", {**(lease(world) or {}), **held}, user=pods))
    until(lambda: status_of(world).get("leader") == "helper-1", 10, lambda: status_of(world))
    for method, path, body in (
        ("GET", LEASES, None),
        ("POST", LEASES, {**found, "metadata": {"name": "mine"}}),
        ("DELETE", f"{LEASES}/helper-leader", None),
        ("GET", f"{LEASES}/other-leader", None),
        ("GET", "/api/v1/namespaces/shop/configmaps", None),
    ):
        with pytest.raises(GitsyncError, match=r"is forbidden|cannot"):
            ask(method, path, body or {}, user=pods)


def test_pods_that_get_a_token_wait_for_approval_and_rights_that_no_spec_widens_do_not(world: World) -> None:
    world.start()
    world.apply(agent())
    running(world)
    world.apply(agent(leaderElection={}))
    plan = until(lambda: status_of(world).get("plan"), 10, lambda: status_of(world))
    assert plan["reasons"] == [
        "3 dangerous steps wait for an approval",  # the spec, the token, and the way to the API server
        "Agent shop/helper: the security profile is loosened: service account token",
    ]
    approve(world)
    running(world, generation=2)
    assert lease(world) is not None
    world.apply(agent())
    running(world, generation=3)
    # Pods of the revision before may lead until their grace period of 30 seconds has passed.
    until(lambda: lease(world) is None, 60)
    until(lambda: world.get("Role", "helper-leader", api=RBAC) is None)
    until(lambda: world.get("RoleBinding", "helper-leader", api=RBAC) is None)


def test_renewals_reconcile_nothing_and_another_holder_is_shown(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    reconciled: list[str] = []
    original = AgentReconciler.reconcile

    def counted(self: AgentReconciler, manifest: Manifest, cache: ChildrenCache) -> float | None:
        reconciled.append(manifest["metadata"]["name"])
        return original(self, manifest, cache)

    monkeypatch.setattr(AgentReconciler, "reconcile", counted)
    world.start()
    world.apply(agent(leaderElection={}, replicas=2))
    running(world)
    hold(world, "helper-1")
    until(lambda: status_of(world).get("leader") == "helper-1", 10, lambda: status_of(world))
    world.quiet()
    before = len(reconciled)
    for second in range(20):
        hold(world, "helper-1", f"2026-01-01T00:00:{second:02}.000000Z")
    world.quiet()
    assert len(reconciled) == before
    hold(world, "helper-2")
    until(lambda: status_of(world).get("leader") == "helper-2", 10, lambda: status_of(world))


def test_the_policy_opens_the_way_to_the_api_server(world: World) -> None:
    world.start()
    world.apply(
        agent(leaderElection={}, model={"provider": "OpenAI", "id": "small", "endpoint": "http://llm.shop.svc"})
    )
    running(world)
    slices = world.client.get("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices")["items"]
    (server,) = (one for one in slices if one["metadata"]["labels"]["kubernetes.io/service-name"] == "kubernetes")
    policy = world.get("NetworkPolicy", "helper", api="networking.k8s.io/v1") or {}
    address, port = server["endpoints"][0]["addresses"][0], server["ports"][0]["port"]
    rule = {"to": [{"ipBlock": {"cidr": f"{address}/32"}}], "ports": [{"protocol": "TCP", "port": port}]}
    assert rule in policy["spec"]["egress"]
    assert condition(world, "NetworkRestricted")["status"] == "True"


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"leaderElection": {"leaseDurationSeconds": 10}}, "spec.leaderElection.leaseDurationSeconds"),
        ({"leaderElection": {"retryPeriodSeconds": 9}}, "spec.leaderElection.renewDeadlineSeconds"),
        ({"leaderElection": {}, "update": {"type": "BlueGreen"}}, "spec.update"),
        (
            {"leaderElection": {}, "runtime": {"image": "a:1", "serviceAccount": {"create": False}}},
            "spec.runtime.serviceAccount",
        ),
    ],
)
def test_what_two_leaders_could_come_of_is_refused(world: World, spec: dict[str, Any], path: str) -> None:
    world.start()
    with pytest.raises((Rejected, InvalidInput), match=path):
        world.apply(agent(**spec))


@pytest.fixture
def running_world(tmp_path: Path) -> Iterator[World]:
    """A world whose sandbox runs agents that elect a leader by the Kubernetes client."""
    program = str(Path(__file__).with_name("leader_program.py"))
    images = {"registry.internal/agents/helper": Image((sys.executable, program))}
    with Sandbox(images=images) as sandbox:
        made = World(tmp_path, sandbox)
        made.namespace("shop")
        yield made
        made.close()


@pytest.mark.skipif(
    not has_loopback_network(), reason="processes of Pods need addresses of 127.0.0.0/8, which macOS lacks"
)
def test_another_replica_leads_after_the_leader_is_gone(running_world: World) -> None:
    world = running_world
    world.start()
    world.apply(agent(leaderElection=QUICK, replicas=2))
    leader = until(lambda: status_of(world).get("leader"), 30, lambda: (status_of(world), lease(world)))
    assert leader in _pods(world)

    world.client.send("DELETE", f"/api/v1/namespaces/shop/pods/{leader}", {})
    until(lambda: status_of(world).get("leader") not in ("", None, leader), 30, lambda: lease(world))
    assert status_of(world)["leader"] in _pods(world)


def _pods(world: World) -> set[str]:
    return {pod["metadata"]["name"] for pod in world.client.get("/api/v1/namespaces/shop/pods")["items"]}
