"""Processes of the operator that a test drives itself, one reconcile at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from gitsync.cluster.cache import InformerCache
from gitsync.cluster.client import Client, Connection
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.controllers.agents import AgentController
from gitsync.errors import TransientError, UnexpectedError
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ObjectRef
from gitsync.record.database import RecordDatabase
from gitsync.record.records import SqlRecords
from gitsync.runtime.clock import SystemClock
from gitsync.state.declarations import Declarations
from gitsync.wiring import Adapters, build_operator
from tests.flow.environment import World
from tests.operator.agent_world import annotate, review

KINDS = ("Agent", "MultiAgentSystem")
_STILL = 16
"""Reconciles in a row without a change of the status, 3 seconds at rest, after which a deadline passes."""

_RECONCILES = 1000
"""Reconciles after which an Agent counts as stuck: at rest five minutes, while a rollout takes some fifty of them."""
_SHORTEST, _LONGEST = 0.02, 0.3
"""Seconds between two reconciles: more while nothing changes."""


_LONGEST_DEADLINE = 86401.0


class HeldClock(SystemClock):
    """A clock that only a test advances, so that no deadline passes while the machine is busy."""

    def __init__(self) -> None:
        self._now = SystemClock.now(self).replace(microsecond=0)

    def now(self) -> datetime:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)


@dataclass(frozen=True, slots=True)
class Process:
    """One process of the operator."""

    controller: AgentController
    cluster: KubernetesCluster
    live: InformerCache
    records: SqlRecords

    def reconcile(self, key: ObjectRef) -> float | None:
        """Reconcile an object as the queue does: again after an error that a retry may solve."""
        try:
            return self.controller.reconcile(key)
        except UnexpectedError:  # a defect must not pass as a state of the Agent
            raise
        except TransientError:
            return 0.0


class Operators:
    """Processes of the operator, one after the other, on one database."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.records = SqlRecords(RecordDatabase(f"sqlite:///{world.folder / 'operator.db'}"))

    @contextmanager
    def process(
        self, cluster_of: Callable[[Client], KubernetesCluster] = KubernetesCluster, clock: SystemClock | None = None
    ) -> Iterator[Process]:
        client = Client(Connection(str(self._world.kubeconfig)))
        cluster, live = cluster_of(client), InformerCache(client)
        try:
            with ThreadPoolExecutor(4) as pool:
                none: Any = None
                adapters = Adapters(cluster, live, self.records, none, none, clock or SystemClock(), pool)
                controller = build_operator(adapters, Declarations())
                live.follow([(cluster.resource("agents.gitsync.dev", "v1alpha1", kind), "") for kind in KINDS], 60)
                yield Process(controller, cluster, live, self.records)
        finally:
            live.stop()
            client.close()


def act_as_user(world: World, process: Process, agent: Manifest, clock: HeldClock) -> None:
    """Do what a rollout or a plan waits for: approve it, promote it, or let the time of an old revision pass."""
    metadata, status = agent["metadata"], agent.get("status") or {}
    marks: dict[str, str] = {}
    if "plan" in status:
        marks["approve"] = status["plan"]["digest"]
    elif (status.get("rollout") or {}).get("stage") == "Update":
        marks["promote"] = status["updateRevision"]
    elif (status.get("rollout") or {}).get("stage") == "KeepOld":
        clock.advance(604800)
    known = metadata.get("annotations") or {}
    if "approve" in marks and known.get("agents.gitsync.dev/approve") != marks["approve"]:
        review(process.records, clock, agent)
    if any(known.get(f"agents.gitsync.dev/{key}") != value for key, value in marks.items()):
        annotate(world, metadata["name"], namespace=metadata["namespace"], **marks)


def is_settled(agent: Manifest) -> bool:
    """Whether nothing of the newest spec is left to do, or the status says why it cannot be done."""
    status = agent.get("status") or {}
    conditions = {one["type"]: one for one in status.get("conditions", [])}
    reconciling = conditions.get("Reconciling", {})
    if reconciling.get("reason") == "WaitingForReferences":
        return bool(reconciling["observedGeneration"] == agent["metadata"]["generation"])
    is_observed = status.get("observedGeneration") == agent["metadata"]["generation"]
    is_kept = (status.get("rollout") or {}).get("stage") == "KeepOld"
    return is_observed and not is_kept and reconciling.get("status") == "False"


def is_running(agent: Manifest) -> bool:
    """Whether a settled Agent runs what its spec describes."""
    conditions = {one["type"]: one for one in agent["status"]["conditions"]}
    is_waiting = conditions["Reconciling"]["reason"] == "WaitingForReferences"
    return not is_waiting and conditions["Stalled"]["status"] == "False"


class Stillness:
    """How often a status has not changed, and the pause until it is read again."""

    def __init__(self) -> None:
        self._status: Any = None
        self._unchanged = 0
        self.pause = _SHORTEST

    def is_long(self, status: Any) -> bool:
        """
        Whether this status was the same for some reconciles, which then count from now on.

        Not for some seconds: in those, the Pods of a loaded machine make no progress either.
        """
        if status != self._status:
            self._status = status
            self._unchanged = 0
            self.pause = _SHORTEST
            return False
        self._unchanged += 1
        self.pause = min(self.pause * 1.5, _LONGEST)
        if self._unchanged < _STILL:
            return False
        self._unchanged = 0
        return True


def drive(world: World, process: Process, key: ObjectRef, clock: HeldClock) -> Manifest:
    """
    Reconcile an Agent, as a user who agrees to everything, until it settles; return it.

    The deadlines of an Agent whose Pods cannot start pass once its status has not changed for some reconciles.
    """
    stillness = Stillness()
    live: Manifest = {}
    # Not for some seconds: in those, a loaded machine makes no progress.
    for _ in range(_RECONCILES):
        process.reconcile(key)
        live = world.get(key.kind, key.name, key.namespace, "agents.gitsync.dev/v1alpha1") or {}
        if is_settled(live):
            return live
        if stillness.is_long(live.get("status")):
            clock.advance(_LONGEST_DEADLINE)
        act_as_user(world, process, live, clock)
        time.sleep(stillness.pause)
    raise AssertionError(f"did not settle: {live.get('status')}")
