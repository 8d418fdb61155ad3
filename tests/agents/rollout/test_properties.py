"""
Rollouts of random changes, verdicts and crashes: what serves never loses anything that it needs.

The cluster is a model: it keeps children and revisions, and its Pods start, fail and end at random.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gitsync.agents.expansion.expand import Layout, expand, sharing_of
from gitsync.agents.expansion.facts import Facts
from gitsync.agents.expansion.revisions import Revision, described_revision, stored_revision
from gitsync.agents.expansion.sharing import Sharing
from gitsync.agents.model.agent import Agent, parse_agent
from gitsync.agents.rollout.advance import advance
from gitsync.agents.rollout.observed import CheckResult, Observed, Workload, workload_of
from gitsync.agents.rollout.state import RolloutState, Track
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ObjectRef, ref_of
from tests.agents.factories import agent

SEEDS = int(os.environ.get("GITSYNC_ROLLOUT_SEEDS", "8"))
"""Sequences of changes; 150 of them take some minutes."""
STEPS = 40
_TOOL = {"type": "MCP", "mcp": {"serviceRef": {"name": "tickets-mcp", "port": 8080, "path": "/mcp"}}}
_VOLUME = {"name": "tmp", "mountPath": "/tmpd", "size": "1Gi", "accessModes": ["ReadWriteMany"]}
_SPECS: dict[str, tuple[Any, ...]] = {
    "tools": ([], [{"name": "tickets", **_TOOL}], [{"name": "other", "type": "HTTP", "http": {"url": "http://b:81"}}]),
    "model": tuple(
        {"provider": "OpenAICompatible", "id": "m", "endpoint": endpoint}
        for endpoint in ("http://a:1/v1", "http://b:2")
    ),
    "runtime": tuple(
        {"image": "registry.internal/a:1.0", "port": port, "serviceAccount": account}
        for port in (8080, 9090)
        for account in ({"create": True}, {"create": False, "name": "other"})
    ),
    "expose": ({"protocol": "A2A"}, {"protocol": "HTTP"}),
    "network": ({}, {"egressTo": [{"cidr": "10.0.0.0/8"}]}, {"policy": "Unmanaged"}),
    "state": (
        {},
        {"volumes": [{"name": "tmp", "mountPath": "/tmpd", "size": "1Gi", "accessModes": ["ReadWriteMany"]}]},
    ),
    "version": ("1.0.0", "1.1.0"),
    "leaderElection": (None, {"leaseDurationSeconds": 15}),
}
_UPDATES = (
    {"type": "RollingUpdate"},
    {"type": "Recreate"},
    {"type": "Canary", "canary": {"steps": [{"weight": 50, "pauseSeconds": 60}, {"weight": 100}]}},
    {"type": "BlueGreen", "blueGreen": {"promotion": "Automatic", "keepOldSeconds": 120}},
)
_CHECKS = {"validate": [{"name": "answers", "http": {"path": "/selftest"}}]}


@dataclass
class Model:
    """A cluster with one Agent: its status, its children, and the progress of their Pods."""

    chance: random.Random
    update: dict[str, Any]
    spec: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)
    children: dict[ObjectRef, Manifest] = field(default_factory=dict)
    specs: dict[str, Agent] = field(default_factory=dict)
    """The Agent as it was for each revision."""
    verdicts: dict[str, CheckResult] = field(default_factory=dict)
    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)

    def agent(self) -> Agent:
        manifest = agent(**{**self.spec, "update": self.update, "lifecycle": _CHECKS, "replicas": 2})
        return parse_agent({**manifest, "metadata": {**manifest["metadata"], "uid": "0001"}})

    def change(self) -> None:
        for name in self.chance.sample(sorted(_SPECS), self.chance.randint(1, 3)):
            self.spec[name] = self.chance.choice(_SPECS[name])
        # Pods that wait for their promotion would take part in the election, so that the schema forbids it.
        if self.update["type"] == "BlueGreen":
            self.spec["leaderElection"] = None
        # A change of the network alone is not a new revision, and takes effect at once: each has a prompt of its own.
        self.spec["prompt"] = {"text": f"{self.chance.randrange(3)}, {self.spec.get('network')}"}

    def workloads(self) -> dict[Track, Workload]:
        tracks = {track.workload("helper"): track for track in Track}
        return {tracks[ref.name]: workload_of(one, "helper") for ref, one in self.children.items() if ref.kind in KINDS}

    def progress(self) -> None:
        """Let Pods start, or not, and time pass."""
        self.now += timedelta(seconds=self.chance.choice((1, 20, 61, 130)))
        for ref, one in list(self.children.items()):
            if ref.kind in KINDS and self.chance.random() < 0.7:
                wanted = one["spec"].get("replicas", 1)
                counts = dict.fromkeys(("replicas", "readyReplicas", "updatedReplicas", "availableReplicas"), wanted)
                self.children[ref] = {**one, "status": {"observedGeneration": 0, **counts}}

    def reconcile(self) -> None:
        """Do what the operator does in one pass; a crash leaves writes without the status, or some of the writes."""
        spec_agent = self.agent()
        kept = [one for child in self.children.values() if (one := stored_revision(child)) is not None]
        stored = {one.name: one for one in kept}
        target = described_revision(spec_agent, Facts(), stored, "")
        self.specs.setdefault(target.name, spec_agent)
        state = RolloutState.from_status(self.status)
        rollout = advance(spec_agent.spec, state, self.observe(target))
        known = {**stored, target.name: target}
        in_use = rollout.state.in_use | {one.revision for one in rollout.layout.placements}
        sharing, unknown = sharing_of(spec_agent, target, rollout.state.current, known, in_use)
        assert not unknown
        used = {name: one for name, one in known.items() if name in in_use | {target.name, rollout.layout.checked}}
        desired = {ref_of(one): one for one in expand(sharing, Facts(), rollout.layout, used)}
        if not self.apply(desired):
            return
        self.assert_serving_has_its_needs(state.current)
        if self.chance.random() < 0.9:
            self.status = rollout.state.to_status(2, rollout.weight)

    def apply(self, desired: dict[ObjectRef, Manifest]) -> bool:
        """Write the children; return False for a crash on the way. Deletions come last, as in a plan."""
        changes = [ref for ref in desired if _content(self.children.get(ref)) != _content(desired[ref])]
        changes += [ref for ref in self.children if ref not in desired]
        crash = self.chance.randrange(len(changes)) if changes and self.chance.random() < 0.1 else len(changes)
        for ref in changes[:crash]:
            if ref in desired:
                status = self.children.get(ref, {}).get("status")
                self.children[ref] = {**desired[ref], "status": self.after_write(ref, desired[ref], status)}
            else:
                del self.children[ref]
            self.assert_serving_has_its_needs(RolloutState.from_status(self.status).current)
        return crash == len(changes)

    def after_write(self, ref: ObjectRef, desired: Manifest, status: Any) -> Any:
        """A changed template has no ready Pods of its own yet; old ones still run."""
        if ref.kind not in KINDS:
            return status
        return {"observedGeneration": 0, "replicas": (status or {}).get("replicas", 0)}

    def observe(self, target: Revision) -> Observed:
        job = any(ref.kind == "Job" for ref in self.children)
        if job and self.chance.random() < 0.6:
            self.verdicts.setdefault(target.name, self.chance.choice((CheckResult.PASSED, CheckResult.FAILED)))
        running = CheckResult.RUNNING if job else CheckResult.NONE
        checks = self.verdicts.get(target.name, running)
        return Observed(target=target.name, wanted=2, now=self.now, workloads=self.workloads(), checks=checks)

    def assert_serving_has_its_needs(self, current: str) -> None:
        """What the revision that serves had alone, it still has."""
        if current not in self.specs or not self.children:
            return
        needs = self.alone(current)
        for ref, needed in needs.items():
            live = self.children.get(ref)
            assert live is not None, f"{ref} of {current} is gone"
            if ref.kind == "NetworkPolicy":
                for member in ("ingress", "egress"):
                    rules = live["spec"][member]
                    assert {} in rules or all(rule in rules for rule in needed["spec"][member]), (ref, member)
            if ref.kind == "RoleBinding":
                assert all(subject in live["subjects"] for subject in needed["subjects"]), ref
            if ref.kind == "Service":
                ports = {(port["port"], port["targetPort"]) for port in live["spec"]["ports"]}
                assert ports >= {(port["port"], port["targetPort"]) for port in needed["spec"]["ports"]}, ref

    def alone(self, name: str) -> dict[ObjectRef, Manifest]:
        """Return the children that one revision needs besides its Pods."""
        made = expand(Sharing.of(self.specs[name]), Facts(), Layout(()), {})
        return {ref_of(one): one for one in made if one["kind"] in NEEDED}


KINDS = ("Deployment", "StatefulSet")
NEEDED = (
    *("NetworkPolicy", "Service", "PersistentVolumeClaim", "ServiceAccount", "ConfigMap"),
    *("Lease", "Role", "RoleBinding"),
)


def _content(manifest: Manifest | None) -> Any:
    return {key: value for key, value in (manifest or {}).items() if key != "status"}


@pytest.mark.parametrize("update", _UPDATES, ids=[str(one["type"]) for one in _UPDATES])
def test_the_serving_revision_keeps_what_it_needs(update: dict[str, Any]) -> None:
    for seed in range(SEEDS):
        model = Model(random.Random(seed), update)
        model.change()
        for _ in range(STEPS):
            if model.chance.random() < 0.08:
                model.change()
            model.reconcile()
            model.progress()


@pytest.mark.parametrize("update", _UPDATES, ids=[str(one["type"]) for one in _UPDATES])
def test_a_rollback_leaves_the_children_as_they_were(update: dict[str, Any]) -> None:
    returned = 0
    for seed in range(SEEDS):
        model = Model(random.Random(seed), update)
        model.change()
        converge(model, CheckResult.PASSED)
        good = RolloutState.from_status(model.status).current
        before = without_history(model)
        model.change()
        name = described_revision(model.agent(), Facts(), {}, "").name
        converge(model, CheckResult.FAILED)
        if name == good:
            continue
        returned += 1
        assert without_history(model) == before, seed
    assert returned > SEEDS / 4


def converge(model: Model, verdict: CheckResult) -> None:
    """Reconcile until nothing changes, while each new revision gets this verdict."""
    model.chance = random.Random(1)
    for _ in range(40):
        stored = {one.name: one for child in model.children.values() if (one := stored_revision(child)) is not None}
        target = described_revision(model.agent(), Facts(), stored, "").name
        if target != RolloutState.from_status(model.status).current:
            model.verdicts[target] = verdict
        with_certainty(model)


def with_certainty(model: Model) -> None:
    chance = model.chance
    model.chance = Certain()
    model.reconcile()
    model.progress()
    model.chance = chance


class Certain(random.Random):
    """Chance without crashes: everything starts, and time passes quickly."""

    def random(self) -> float:
        return 0.5

    def choice(self, items: Any) -> Any:
        return items[-1]


def without_history(model: Model) -> dict[ObjectRef, Any]:
    """Return the children besides kept revisions and the configuration of those that do not serve."""
    current = RolloutState.from_status(model.status).current
    config = next(
        volume["configMap"]["name"]
        for child in model.children.values()
        if (one := stored_revision(child)) is not None and one.name == current
        for volume in one.template["spec"]["volumes"]
        if volume["name"] == "agent-config"
    )
    return {
        ref: _content(one)
        for ref, one in model.children.items()
        if ref.kind != "ControllerRevision"
        and not (ref.kind == "ConfigMap" and "-config-" in ref.name and ref.name != config)
    }
