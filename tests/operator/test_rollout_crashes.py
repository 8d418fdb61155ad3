"""
End the operator before and after each write of each kind of rollout, on fakes of the ports; the next one continues.

Until the verdict nothing that serves is lost, and a rollback leaves the children byte for byte as they were.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import pytest

from gitsync.objects.change import Review
from gitsync.objects.manifest import Manifest, at, metadata_of
from gitsync.objects.ref import ObjectRef
from gitsync.objects.user import User
from tests.agents.factories import agent
from tests.fakes.ports import FakeCluster
from tests.operator.fake_operator import AGENT, Operator

IMAGE = "registry.internal/agents/helper:1.0"
MODEL = {"provider": "OpenAICompatible", "id": "local", "endpoint": "http://local-model:8000/v1"}
TOOL = {"name": "tickets", "type": "MCP", "mcp": {"serviceRef": {"name": "tickets-mcp", "port": 8080, "path": "/mcp"}}}
CHECKS = {"validate": [{"name": "check", "exec": {"command": ["true"]}}]}
UPDATES: dict[str, dict[str, Any]] = {
    "rolling": {"type": "RollingUpdate"},
    "recreate": {"type": "Recreate"},
    "canary": {"type": "Canary", "canary": {"steps": [{"weight": 50}, {"weight": 100}]}},
    "blue-green": {"type": "BlueGreen", "blueGreen": {"promotion": "Automatic", "keepOldSeconds": 60}},
}
SERVING: dict[str, Any] = {"model": MODEL, "tools": [TOOL], "runtime": {"image": IMAGE, "port": 8080}}
CHANGED: dict[str, Any] = {
    "model": {**MODEL, "endpoint": "http://model-b:9000/v1"},
    "tools": [],
    "runtime": {"image": IMAGE, "port": 9090},
    "prompt": {"text": "Be brief."},
}
ROUNDS = 10
"""Reconciles after which each of these rollouts has its verdict, also where one of them ended early."""
LATER = 4
"""Reconciles after which what Pods of the other revision may still need is gone."""
EVERY = 1 if os.environ.get("GITSYNC_FAULTS") == "all" else 11
"""The writes of which one is interrupted; all of them take some minutes."""


_Answer = TypeVar("_Answer")


class Crashed(BaseException):
    """The process is gone."""


class MortalCluster(FakeCluster):
    """A cluster whose nth write from ``arm`` on ends the process, before or after it happened."""

    def __init__(self) -> None:
        super().__init__()
        self._left = -1
        self._is_after = False

    def arm(self, at: int, *, is_after: bool) -> None:
        self._left = at
        self._is_after = is_after

    def create(self, manifest: Manifest, **options: Any) -> Manifest:
        return self._write(lambda: FakeCluster.create(self, manifest, **options))

    def apply(self, manifest: Manifest, **options: Any) -> Manifest:
        if options.get("dry_run"):
            return super().apply(manifest, **options)
        return self._write(lambda: FakeCluster.apply(self, manifest, **options))

    def replace(self, manifest: Manifest, **options: Any) -> Manifest:
        return self._write(lambda: FakeCluster.replace(self, manifest, **options))

    def delete(self, ref: ObjectRef, version: str, **options: Any) -> Manifest | None:
        return self._write(lambda: FakeCluster.delete(self, ref, version, **options))

    def _write(self, action: Callable[[], _Answer]) -> _Answer:
        is_last = self._left == 0
        self._left -= 1
        if is_last and not self._is_after:
            raise Crashed
        answer = action()
        if is_last:
            raise Crashed
        return answer


@cache
def _first(kind: str) -> Operator:
    operator = Operator(MortalCluster(), lifecycle=CHECKS, update=UPDATES[kind], replicas=2, **SERVING)
    operator.records.reviewed = Review(User("ada"), approves=True)
    settle(operator, "Complete")
    assert operator.status["phase"] == "Running", operator.status
    return operator


def serving(kind: str) -> Operator:
    """Return an Agent whose first revision has passed its checks; each call returns another one in that state."""
    first = _first(kind)
    operator = Operator(copy.copy(first.cluster))
    operator.cluster.objects = dict(first.cluster.objects)
    operator.cluster.writes = []
    operator.clock.seconds = first.clock.seconds
    operator.records.reviewed = first.records.reviewed
    return operator


@dataclass(frozen=True, slots=True)
class Rollout:
    """A change of an Agent that serves, and the verdict of its checks."""

    kind: str
    verdict: str

    def run(self, crash: int = -1, *, is_after: bool = False) -> Operator:
        """Change what serves; the process ends at the write of this number, and the next one continues."""
        operator = serving(self.kind)
        cluster = operator.cluster
        assert isinstance(cluster, MortalCluster)
        cluster.arm(crash, is_after=is_after)
        operator.put(agent(lifecycle=CHECKS, update=UPDATES[self.kind], replicas=2, **CHANGED))
        settle(operator, self.verdict)
        return operator


def settle(operator: Operator, verdict: str) -> None:
    """Reconcile until the verdict has taken effect and Pods of the other revision have ended."""
    needed = needs(operator)
    serves = operator.status.get("currentRevision")
    for _ in range(ROUNDS):
        step(operator)
        for job in operator.named("Job", "helper-validate-"):
            ended = {"conditions": [{"type": verdict, "status": "True", "message": "it ended"}]}
            operator.cluster.put({**job, "status": ended})
        if operator.status.get("currentRevision") == serves:
            assert missing(needed, needs(operator)) == []
    for _ in range(LATER):
        operator.clock.seconds += 61
        step(operator)


def step(operator: Operator) -> None:
    """Reconcile once; a process that ends is followed by another one."""
    try:
        operator.run()
    except Crashed:
        operator.start()


def needs(operator: Operator) -> dict[str, set[str]]:
    """Return what policy and Service allow, and which other children all revisions share."""
    policies = operator.named("NetworkPolicy", "helper")
    services = operator.named("Service", "helper")
    return {
        "rules": {str(rule) for live in policies for member in ("ingress", "egress") for rule in live["spec"][member]},
        "ports": {f"{port['port']} to {port['targetPort']}" for live in services for port in live["spec"]["ports"]},
        "accounts": {live["metadata"]["name"] for live in operator.named("ServiceAccount")},
    }


def missing(needed: dict[str, set[str]], now: dict[str, set[str]]) -> list[str]:
    return [f"{kind}: {item}" for kind, items in needed.items() for item in items - now[kind]]


def content(operator: Operator) -> dict[str, Any]:
    """Return the children without what the API server and other controllers write, and without the history."""
    configuration = f"helper-config-{_config_hash(operator)}"
    return {
        f"{ref.kind}/{ref.name}": {key: value for key, value in live.items() if key not in ("status", "metadata")}
        | {"labels": metadata_of(live).get("labels"), "annotations": metadata_of(live).get("annotations")}
        for ref, live in operator.cluster.objects.items()
        if ref != AGENT
        and ref.kind not in ("Event", "ControllerRevision")
        and not (ref.name.startswith("helper-config-") and ref.name != configuration)
    }


def _config_hash(operator: Operator) -> str:
    (workload,) = operator.named("Deployment")
    volumes = at(workload, "spec", "template", "spec", "volumes")
    (name,) = (volume["configMap"]["name"] for volume in volumes if volume["name"] == "agent-config")
    return str(name).rpartition("-")[2]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", UPDATES)
def test_a_rollback_after_a_crash_at_any_write_is_complete(kind: str) -> None:
    rollout, unchanged = Rollout(kind, "Failed"), serving(kind)
    writes = len(rollout.run().cluster.writes)
    assert writes > 10
    for crash in range(0, writes, EVERY):
        for is_after in (False, True):
            operator = rollout.run(crash, is_after=is_after)
            assert operator.status["currentRevision"] == unchanged.status["currentRevision"], (crash, is_after)
            assert operator.status["failedRevision"], (crash, is_after)
            assert content(operator) == content(unchanged), (crash, is_after)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", UPDATES)
def test_a_rollout_after_a_crash_at_any_write_is_complete(kind: str) -> None:
    rollout = Rollout(kind, "Complete")
    undisturbed = rollout.run()
    good = undisturbed.status["updateRevision"]
    assert undisturbed.status["phase"] == "Running"
    for crash in range(0, len(undisturbed.cluster.writes), EVERY):
        for is_after in (False, True):
            operator = rollout.run(crash, is_after=is_after)
            assert operator.status["lastGoodRevision"] == operator.status["currentRevision"] == good, (crash, is_after)
            assert content(operator) == content(undisturbed), (crash, is_after)
