"""
Kill the operator before and after each write of a create, an update and a delete; the next one ends in the same state.

A sixteenth of the schedules of an Agent runs by default; ``GITSYNC_FAULTS=all`` runs every one, also of updates that
``test_rollout_crashes.py`` interrupts on fakes.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar, cast

import pytest

from gitsync.cluster.client import Client
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.objects.manifest import Manifest
from gitsync.objects.record import Outcome
from gitsync.objects.ref import ObjectRef, ref_of
from tests.agents.factories import agent, member, system
from tests.flow.environment import World
from tests.operator.agent_world import API, delete
from tests.operator.processes import Operators, Process, is_settled
from tests.waiting import PATIENCE, until

CANARY = {"type": "Canary", "canary": {"steps": [{"weight": 50}]}}
IS_COMPLETE = os.environ.get("GITSYNC_FAULTS") == "all"
EVERY = 1 if IS_COMPLETE else 16
SPEED = 40.0
"""How much faster than real the sandbox is: most of a schedule were the seconds that Pods start and end in."""
KINDS = (
    "/api/v1/namespaces/{0}/configmaps",
    "/api/v1/namespaces/{0}/services",
    "/api/v1/namespaces/{0}/serviceaccounts",
    "/apis/apps/v1/namespaces/{0}/deployments",
    "/apis/apps/v1/namespaces/{0}/controllerrevisions",
    "/apis/networking.k8s.io/v1/namespaces/{0}/networkpolicies",
    "/apis/agents.gitsync.dev/v1alpha1/namespaces/{0}/agents",
    "/apis/agents.gitsync.dev/v1alpha1/namespaces/{0}/multiagentsystems",
)


class Crashed(BaseException):
    """The process is gone."""


class MortalCluster(KubernetesCluster):
    """A cluster that ends the process before or after its nth write; every later call ends it too."""

    def __init__(self, client: Client, at: int | None = None, when: str = "") -> None:
        super().__init__(client)
        self._lock, self._at, self._when = threading.Lock(), at, when
        self._is_dead = False
        self.writes = 0

    def _write(self, action: Callable[[], Any]) -> Any:
        with self._lock:
            if self._is_dead:
                raise Crashed
            number, self.writes = self.writes, self.writes + 1
            self._is_dead = number == self._at
            if self._is_dead and self._when == "before":
                raise Crashed
            done = action()
            if self._is_dead:
                raise Crashed
            return done

    def apply(self, manifest: Manifest, **options: Any) -> Manifest:
        if manifest["kind"] == "Event":  # their names contain the time
            return manifest
        found: Manifest = self._write(lambda: KubernetesCluster.apply(self, manifest, **options))
        return found

    def delete(self, ref: ObjectRef, version: str, **options: Any) -> Manifest | None:
        found: Manifest | None = self._write(lambda: KubernetesCluster.delete(self, ref, version, **options))
        return found

    def replace(self, manifest: Manifest, **options: Any) -> Manifest:
        found: Manifest = self._write(lambda: KubernetesCluster.replace(self, manifest, **options))
        return found

    def _patch(self, *arguments: Any) -> Manifest:
        found: Manifest = self._write(lambda: KubernetesCluster._patch(self, *arguments))
        return found


def drive(process: Process, keys: list[ObjectRef], is_done: Callable[[], bool]) -> None:
    """Reconcile these objects until what they should become is true and nothing is left to do."""
    give_up = time.monotonic() + PATIENCE
    while time.monotonic() < give_up:
        after = [process.reconcile(key) for key in keys]
        if 0.0 not in after and is_done():
            return
        time.sleep(0.02)
    raise AssertionError(f"{[str(key) for key in keys]} did not settle")


def is_running(world: World, key: ObjectRef) -> bool:
    """Whether an Agent runs the revision of its newest spec, or a system its Agents."""
    live = world.get(key.kind, key.name, key.namespace, API) or {}
    status = live.get("status") or {}
    is_new = status.get("observedGeneration") == live.get("metadata", {}).get("generation")
    is_good = status.get("lastGoodRevision") == status.get("updateRevision")
    return is_new and is_good and status.get("phase") == "Running"


def children(world: World, namespace: str) -> set[str]:
    """Return the objects that live, by path and name."""
    paths = [path.format(namespace) for path in KINDS]
    return {
        f"{path.rpartition('/')[2]}/{one['metadata']['name']}"
        for path in paths
        for one in world.client.get(path)["items"]
        if one["metadata"]["name"] not in ("default", "kubernetes", "kube-root-ca.crt")
    }


class Scenario:
    """What happens to an Agent or a system in a namespace of its own; ``act`` is what the crash interrupts."""

    every = EVERY
    """The writes of which one is interrupted by default."""

    def __init__(self, world: World, operators: Operators, namespace: str) -> None:
        self.world, self.operators, self.namespace = world, operators, namespace
        world.namespace(namespace)

    def act(self) -> None:
        self.world.apply(agent(namespace=self.namespace, replicas=2, update=CANARY))

    def follow(self, process: Process) -> None:
        key = ref_of(agent(namespace=self.namespace))
        drive(process, [key], lambda: is_running(self.world, key))

    def run(self, at: int | None = None, when: str = "") -> tuple[int, set[str]]:
        """Act with one crash; return how many writes the first process tried, and what lives in the end."""
        self.act()
        with self.operators.process(lambda client: MortalCluster(client, at, when)) as process:
            writes = cast("MortalCluster", process.cluster)
            try:
                self.follow(process)
            except Crashed:
                with self.operators.process() as second:
                    self.follow(second)
        assert self.operators.records.unresolved() == ()
        return writes.writes, children(self.world, self.namespace)


class Canary(Scenario):
    """An update of an Agent by a canary; the others update it otherwise."""

    update: ClassVar[dict[str, Any]] = CANARY

    def act(self) -> None:
        self.world.apply(agent(namespace=self.namespace, replicas=2, update=self.update))
        with self.operators.process() as process:
            self.follow(process)
        self.world.apply(agent(namespace=self.namespace, replicas=2, update=self.update, version="2"))

    def follow(self, process: Process) -> None:
        key = ref_of(agent(namespace=self.namespace))
        # The old side of blue-green is kept after the new one serves.
        drive(process, [key], lambda: is_running(self.world, key) and is_settled(self.read(key)))

    def read(self, key: ObjectRef) -> Manifest:
        return self.world.get(key.kind, key.name, key.namespace, API) or {}


class Rolling(Canary):
    """An update that replaces the Pods of one Deployment."""

    update: ClassVar[dict[str, Any]] = {"type": "RollingUpdate"}


class BlueGreen(Canary):
    """An update by a second Deployment and a switch."""

    update: ClassVar[dict[str, Any]] = {
        "type": "BlueGreen",
        "blueGreen": {"promotion": "Automatic", "keepOldSeconds": 1},
    }


class Delete(Scenario):
    """The ordered deletion of a system with an Agent that depends on another one."""

    every = 1 if IS_COMPLETE else 4

    def act(self) -> None:
        self.world.apply(system(member("a", "b"), member("b"), namespace=self.namespace))
        with self.operators.process() as process:
            drive(process, self._keys(), lambda: is_running(self.world, self._keys()[0]))
        delete(self.world, "desk", "MultiAgentSystem", self.namespace)

    def follow(self, process: Process) -> None:
        drive(process, self._keys(), lambda: children(self.world, self.namespace) == set())

    def _keys(self) -> list[ObjectRef]:
        names = ("a", "b")
        agents = [ref_of(agent(f"desk-{name}", self.namespace)) for name in names]
        return [ref_of(system(namespace=self.namespace)), *agents]


SCENARIOS: dict[str, type[Scenario]] = {"create": Scenario, "canary": Canary, "delete": Delete}
if IS_COMPLETE:
    SCENARIOS |= {"rolling": Rolling, "blue-green": BlueGreen}


@pytest.mark.timeout(7200 if IS_COMPLETE else 900)
@pytest.mark.parametrize("kind", SCENARIOS.values(), ids=SCENARIOS)
def test_a_crash_at_any_write_leads_to_the_same_end(world: World, kind: type[Scenario]) -> None:
    world.sandbox.set_speed(SPEED)
    operators = Operators(world)
    writes, expected = kind(world, operators, "reference").run()
    assert writes > 2
    for at in range(0, writes, kind.every):
        for when in ("before", "after"):
            _, found = kind(world, operators, f"n{at}-{when}").run(at, when)
            assert found == expected, (at, when)
    assert operators.records.verify() == ()


@pytest.mark.parametrize(("when", "kept"), [("before", 0), ("after", 1)])
def test_interrupted_writes_of_a_deleted_owner_get_an_outcome_at_the_next_start(
    world: World, when: str, kept: int
) -> None:
    operators, key = Operators(world), ref_of(agent(namespace="shop"))
    world.apply(agent(namespace="shop"))
    # the write 0 is the finalizer of the Agent, which is not audited
    with operators.process(lambda client: MortalCluster(client, 1, when)) as process, pytest.raises(Crashed):
        drive(process, [key], lambda: False)
    interrupted = operators.records.unresolved()
    assert interrupted
    delete(world, key.name, propagationPolicy="Orphan")
    with operators.process() as process:
        process.controller.start()
        until(lambda: world.get("Agent", key.name, "shop", API) is None)
        process.controller.enqueue_all()  # as the event of its deletion does, which this process does not watch
        until(lambda: operators.records.unresolved() == ())
        process.controller.stop()
    found = operators.records.audit_records(limit=len(interrupted))
    assert {one.resource for one in found} == {one.resource for one in interrupted}
    is_done = [one.outcome is Outcome.SUCCEEDED for one in found]
    assert sum(is_done) == len(children(world, "shop")) == kept
    assert operators.records.verify() == ()
