"""
Kill the operator before and after each of its writes, and start another one: the end is the same.

An eighth of the schedules runs by default; ``GITSYNC_FAULTS=all`` runs every one.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from gitsync.cluster.cache import InformerCache
from gitsync.cluster.client import Client, Connection
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.controllers.agents import AgentController
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.record.database import Database
from gitsync.record.records import SqlRecords
from gitsync.runtime.clock import SystemClock
from gitsync.sync.state_store import StateStore
from gitsync.wiring import Adapters, build_operator
from tests.agents.factories import agent, changed
from tests.flow.environment import World
from tests.operator.agent_world import status_of

CANARY = {"type": "Canary", "canary": {"steps": [{"weight": 50}]}}
KINDS = (
    "/api/v1/namespaces/{0}/services",
    "/api/v1/namespaces/{0}/serviceaccounts",
    "/apis/apps/v1/namespaces/{0}/deployments",
    "/apis/apps/v1/namespaces/{0}/controllerrevisions",
    "/apis/networking.k8s.io/v1/namespaces/{0}/networkpolicies",
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


class Operators:
    """Processes of the operator, one after the other, on one database."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.records = SqlRecords(Database(f"sqlite:///{world.folder / 'operator.db'}"))

    @contextmanager
    def process(self, at: int | None = None, when: str = "") -> Iterator[tuple[AgentController, MortalCluster]]:
        client = Client(Connection(str(self._world.kubeconfig)))
        cluster, live = MortalCluster(client, at, when), InformerCache(client)
        try:
            with ThreadPoolExecutor(4) as pool:
                none: Any = None
                adapters = Adapters(cluster, live, self.records, none, none, SystemClock(), pool)
                controller = build_operator(adapters, StateStore(cluster, live))
                live.follow([(cluster.resource("agents.gitsync.dev", "v1alpha1", kind), "") for kind in KIND_NAMES], 10)
                yield controller, cluster
        finally:
            live.stop()
            client.close()


KIND_NAMES = ("Agent", "MultiAgentSystem")


def drive(world: World, controller: AgentController, manifest: Manifest) -> None:
    """Reconcile an Agent until it runs the revision of its spec and nothing is left to do."""
    key = ref_of(manifest)
    give_up = time.monotonic() + 20
    while time.monotonic() < give_up:
        after = controller.reconcile(key)
        status = status_of(world, key.name, namespace=key.namespace)
        is_done = status.get("lastGoodRevision") == status.get("updateRevision") != ""
        live = world.get("Agent", key.name, key.namespace, "agents.gitsync.dev/v1alpha1") or {}
        is_new = status.get("observedGeneration") == live.get("metadata", {}).get("generation")
        if after is None and is_done and is_new and status.get("phase") == "Running":
            return
        time.sleep(0.02)
    raise AssertionError(f"did not settle: {status_of(world, key.name, namespace=key.namespace)}")


def children(world: World, namespace: str) -> set[str]:
    """Return the children that live, by path and name."""
    paths = [path.format(namespace) for path in KINDS]
    return {
        f"{path.rpartition('/')[2]}/{one['metadata']['name']}"
        for path in paths
        for one in world.client.get(path)["items"]
        if one["metadata"]["name"] not in ("default", "kubernetes")
    }


def run(world: World, operators: Operators, namespace: str, at: int | None, when: str, *, update: bool) -> set[str]:
    """Create an Agent, or update one by a canary, with one crash; return its children in the end."""
    world.namespace(namespace)
    first = agent(namespace=namespace, replicas=2, update=CANARY)
    world.apply(first)
    manifest = first
    if update:
        with operators.process() as (controller, _):
            drive(world, controller, first)
        manifest = changed(first, "spec.version", "2")
        world.apply(manifest)
    try:
        with operators.process(at, when) as (controller, cluster):
            drive(world, controller, manifest)
            assert at is None or cluster.writes <= at
    except Crashed:
        with operators.process() as (controller, _):
            drive(world, controller, manifest)
    assert operators.records.unfinished(f"{namespace}/agent:helper") == ()
    return children(world, namespace)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("update", [False, True], ids=["create", "canary"])
def test_a_crash_at_any_write_leads_to_the_same_end(world: World, update: bool) -> None:
    operators = Operators(world)
    expected = run(world, operators, "reference", None, "", update=update)
    every = 1 if os.environ.get("GITSYNC_FAULTS") == "all" else 8
    for at in range(0, 32, every):
        for when in ("before", "after"):
            found = run(world, operators, f"n{at}-{when}", at, when, update=update)
            assert found == expected, (at, when)
    assert operators.records.verify() == ()
