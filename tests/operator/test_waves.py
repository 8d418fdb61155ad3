"""Changes that many Agents get at once reach a few of them at a time, and stop at the first that fails."""

from __future__ import annotations

import base64
import os
import random
from collections.abc import Callable
from typing import Any

import pytest

from gitsync.agents.expansion import revisions
from gitsync.agents.keys import REVISION_LABEL, UPGRADE
from gitsync.crds import definitions
from gitsync.objects.conditions import find_condition
from gitsync.objects.manifest import Manifest, at, metadata_of
from gitsync.objects.ref import GroupKind, ObjectRef, ref_of
from gitsync.operator import facts, waves
from gitsync.operator.child_reconciler import ChildrenCache
from gitsync.sandbox.crd.structural import compile_schema, unknown_fields
from tests.agents.factories import agent
from tests.operator.fake_operator import Operator

KEY = {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "model", "key": "key"}}}
DEPLOYMENT = GroupKind("apps", "Deployment")
AGENTS = int(os.environ.get("GITSYNC_FLEET_AGENTS", "12"))
"""Agents of an upgrade; 200 take a minute."""
SEEDS = int(os.environ.get("GITSYNC_FLEET_SEEDS", "2"))
NEWER = revisions.EXPANSION_VERSION + 1


class Fleet(Operator):
    """Many Agents; the Pods of a changed Deployment are ready only once a test calls ``finish``."""

    def __init__(self, count: int, **spec: Any) -> None:
        super().__init__(**spec)
        self.cluster.objects.clear()
        self.names = [f"a{index:03}" for index in range(count)]
        self.caches = {name: ChildrenCache() for name in self.names}
        self.templates: dict[str, Manifest] = {}
        self.rolling: set[str] = set()
        for name in self.names:
            self.declare(name, **spec)

    def declare(self, name: str, **spec: Any) -> None:
        """Write an Agent as a user does."""
        live = self.cluster.objects.get(_ref(name), {})
        manifest = agent(name, **spec)
        generation = metadata_of(live).get("generation", 0) + (live.get("spec") != manifest["spec"])
        annotations = metadata_of(live).get("annotations", {})
        about = {**metadata_of(manifest), "generation": generation, "annotations": annotations}
        self.cluster.put({**manifest, "metadata": about, "status": live.get("status") or {}})

    def annotate(self, name: str, **annotations: str) -> None:
        live = self.cluster.objects[_ref(name)]
        kept = {key: value for key, value in {**annotations}.items() if value}
        self.cluster.put({**live, "metadata": {**metadata_of(live), "annotations": kept}})

    def step(self, name: str) -> None:
        """Reconcile one Agent; the Pods of a template that it changed are not ready."""
        self.reconciler.reconcile(self.cluster.objects[_ref(name)], self.caches[name])
        live = self.cluster.objects.get(_ref(name, DEPLOYMENT))
        if live is None or self.templates.get(name) == live["spec"]["template"]:
            return
        self.templates[name] = live["spec"]["template"]
        self.rolling.add(name)
        self.report(name, updatedReplicas=0, readyReplicas=1)

    def finish(self, name: str) -> None:
        """Let all Pods of an Agent be ready."""
        self.rolling.discard(name)
        self.report(name, updatedReplicas=1, readyReplicas=1)

    def fail(self, name: str) -> None:
        """Let the Deployment of an Agent exceed its deadline."""
        self.rolling.discard(name)
        late = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "no key"}
        self.report(name, updatedReplicas=0, readyReplicas=1, conditions=[late])

    def report(self, name: str, **counts: Any) -> None:
        live = self.cluster.objects[_ref(name, DEPLOYMENT)]
        status = {"observedGeneration": 1, "replicas": 1, "availableReplicas": 1, **counts}
        self.cluster.put({**live, "metadata": {**live["metadata"], "generation": 1}, "status": status})

    def settle_all(self) -> None:
        """Reconcile all until each serves; what rolls is finished after each round."""
        for _ in range(3 * len(self.names) + 6):
            for name in self.names:
                self.step(name)
            if not self.rolling and all(self.phase(name) == "Running" for name in self.names):
                return
            for name in sorted(self.rolling):
                self.finish(name)

    def phase(self, name: str) -> str:
        return str(at(self.cluster.objects[_ref(name)], "status", "phase", default=""))

    def outdated(self, name: str) -> dict[str, Any]:
        return dict(find_condition(self.cluster.objects[_ref(name)].get("status") or {}, "Outdated"))

    def revisions(self) -> dict[str, str]:
        """Return the hash of the revision that each Deployment has."""
        return {
            name: at(
                self.cluster.objects[_ref(name, DEPLOYMENT)], "spec", "template", "metadata", "labels", REVISION_LABEL
            )
            for name in self.names
        }


def _ref(name: str, of: GroupKind | None = None) -> ObjectRef:
    return ref_of(agent(name)) if of is None else ObjectRef(of.group, of.kind, "shop", name)


def secret(key: str, **labels: str) -> Manifest:
    metadata = {"name": "model", "namespace": "shop", "labels": labels}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "data": {"key": base64.b64encode(key.encode()).decode()},
    }


def sharing(count: int) -> Fleet:
    """Return settled Agents that read one Secret."""
    fleet = Fleet(count, runtime={"image": "helper:1", "env": [KEY]})
    fleet.cluster.put(secret("first"))
    fleet.settle_all()
    return fleet


@pytest.fixture
def upgraded(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return what replaces gitsync by a version that expands each spec to other Pods."""
    template = revisions.pod_template

    def changed(*arguments: Any) -> Manifest:
        made = template(*arguments)
        return {**made, "spec": {**made["spec"], "terminationGracePeriodSeconds": 77}}

    def upgrade() -> None:
        monkeypatch.setattr(revisions, "pod_template", changed)
        for module in (revisions, waves):
            monkeypatch.setattr(module, "EXPANSION_VERSION", NEWER)

    return upgrade


def test_an_upgrade_of_gitsync_restarts_no_agent(upgraded: Callable[[], None]) -> None:
    fleet = Fleet(AGENTS)
    fleet.settle_all()
    serving = fleet.revisions()
    upgraded()
    fleet.cluster.writes.clear()
    for _ in range(2):
        for name in fleet.names:
            fleet.step(name)
    assert fleet.revisions() == serving
    assert not fleet.rolling
    assert {verb for verb, _ in fleet.cluster.writes} <= {"replace status"}
    expansion = at(fleet.cluster.objects[_ref("a000")], "status", "expansion")
    assert (expansion["revision"], expansion["available"]) == (NEWER - 1, NEWER)
    assert expansion["changes"] == ["spec.terminationGracePeriodSeconds: nothing -> 77"]


def test_a_requested_upgrade_goes_in_waves(upgraded: Callable[[], None]) -> None:
    fleet = Fleet(7)
    fleet.settle_all()
    serving = fleet.revisions()
    upgraded()
    for name in fleet.names:
        fleet.annotate(name, **{UPGRADE: f"{NEWER}/3"})
    updated = []
    for _ in range(9):
        for name in reversed(fleet.names):
            fleet.step(name)
            assert len(fleet.rolling) <= 3
        updated += sorted(fleet.rolling)
        for name in sorted(fleet.rolling):
            fleet.finish(name)
    assert updated == fleet.names
    assert all(fleet.revisions()[name] != serving[name] for name in fleet.names)
    assert not any(fleet.outdated(name) for name in fleet.names)


def test_an_upgrade_stops_at_the_first_that_fails(upgraded: Callable[[], None]) -> None:
    fleet = Fleet(4)
    fleet.settle_all()
    serving = fleet.revisions()
    upgraded()
    for name in fleet.names:
        fleet.annotate(name, **{UPGRADE: f"{NEWER}/1"})
    for _ in range(8):
        for name in fleet.names:
            fleet.step(name)
        for name in sorted(fleet.rolling):
            # Its return to the old Pods succeeds.
            fleet.fail(name) if name == "a001" and fleet.revisions()[name] != serving[name] else fleet.finish(name)
    changed = {name for name in fleet.names if fleet.revisions()[name] != serving[name]}
    assert changed == {"a000"}
    assert fleet.outdated("a003")["reason"] == "WaveStopped"
    assert "Agent shop/a001" in fleet.outdated("a003")["message"]
    # Without its request it takes no part, and the others continue.
    fleet.annotate("a001")
    fleet.settle_all()
    assert not any(fleet.outdated(name) for name in fleet.names)
    assert {name for name in fleet.names if fleet.revisions()[name] == serving[name]} == {"a001"}


def test_a_shared_secret_is_rotated_in_waves() -> None:
    fleet = sharing(5)
    serving = fleet.revisions()
    fleet.cluster.put(secret("second"))
    updated = []
    for _ in range(12):
        for name in fleet.names:
            fleet.step(name)
        assert len(fleet.rolling) <= 1, "10% of 5 is less than one Agent"
        updated += sorted(fleet.rolling)
        for name in sorted(fleet.rolling):
            fleet.finish(name)
    assert updated == fleet.names
    assert all(fleet.revisions()[name] != serving[name] for name in fleet.names)


def test_the_status_of_a_wave_has_only_defined_fields(upgraded: Callable[[], None]) -> None:
    fleet = sharing(2)
    upgraded()
    fleet.cluster.put(secret("second"))
    for name in fleet.names:
        fleet.step(name)
    (definition,) = (one for one in definitions() if one["spec"]["names"]["kind"] == "Agent")
    node = compile_schema(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    for name in fleet.names:
        # The API server drops others without an error, and the wave would have no memory.
        assert unknown_fields(node, fleet.cluster.objects[_ref(name)]) == []


def test_a_relabelled_secret_replaces_no_pod() -> None:
    fleet = sharing(4)
    fleet.cluster.put(secret("first", team="other"))
    fleet.cluster.writes.clear()
    for name in fleet.names:
        fleet.step(name)
    assert fleet.cluster.writes == []


def of_an_older_version(count: int, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """Return settled Agents as gitsync 0.1 left them: Pods with its hash of Secrets, and statuses without versions."""
    with monkeypatch.context() as older:
        older.setattr(facts, "_references_hash", facts._versions_hash)
        fleet = sharing(count)
    for ref, live in list(fleet.cluster.objects.items()):
        if ref.kind == "ControllerRevision":
            fleet.cluster.put({**live, "metadata": {**metadata_of(live), "annotations": {}}})
        if ref.kind == "Agent":
            fleet.cluster.put({**live, "status": {**live["status"], "expansion": {}}})
    return fleet


def test_an_upgrade_keeps_pods_with_an_older_hash_of_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = of_an_older_version(5, monkeypatch)
    serving = fleet.revisions()
    last = at(fleet.cluster.objects[_ref("a000")], "status", "referencesHash")
    fleet.settle_all()
    assert fleet.revisions() == serving
    status = at(fleet.cluster.objects[_ref("a000")], "status")
    assert (status["referencesHash"], status["referencesData"] != last) == (last, True)
    # From now on only the data counts, and a change of it still does.
    fleet.cluster.put(secret("first", team="other"))
    fleet.settle_all()
    assert fleet.revisions() == serving
    fleet.cluster.put(secret("second"))
    for _ in range(3):
        fleet.settle_all()
    assert all(fleet.revisions()[name] != serving[name] for name in fleet.names)
    assert "referencesData" not in at(fleet.cluster.objects[_ref("a000")], "status")


def test_a_secret_that_changed_during_an_upgrade_is_rotated(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = of_an_older_version(3, monkeypatch)
    serving = fleet.revisions()
    fleet.cluster.put(secret("second"))
    for name in fleet.names:
        fleet.step(name)
    # In a wave as otherwise: the others wait, and keep what they have until it is their turn.
    assert [name for name in fleet.names if fleet.revisions()[name] != serving[name]] == ["a000"]
    for _ in range(3):
        fleet.settle_all()
    assert all(fleet.revisions()[name] != serving[name] for name in fleet.names)


def test_a_bad_secret_reaches_one_agent_and_the_next_repairs_it() -> None:
    fleet = sharing(5)
    serving = fleet.revisions()
    fleet.cluster.put(secret("bad"))
    for _ in range(6):
        for name in fleet.names:
            fleet.step(name)
        for name in sorted(fleet.rolling):
            fleet.fail(name) if fleet.revisions()[name] != serving[name] else fleet.finish(name)
    assert fleet.revisions() == serving
    assert fleet.outdated("a004")["reason"] == "WaveStopped"
    fleet.cluster.put(secret("good"))
    fleet.settle_all()
    assert all(fleet.revisions()[name] != serving[name] for name in fleet.names)


def test_an_agent_that_does_not_serve_waits_for_no_wave() -> None:
    fleet = sharing(3)
    serving = fleet.revisions()
    fleet.report("a002", updatedReplicas=1, readyReplicas=0, availableReplicas=0)
    fleet.step("a002")
    fleet.cluster.put(secret("second"))
    fleet.step("a002")
    assert fleet.revisions()["a002"] != serving["a002"]


def test_a_changed_spec_takes_a_rotated_secret_with_it() -> None:
    fleet = sharing(3)
    serving = fleet.revisions()
    fleet.cluster.put(secret("second"))
    fleet.step("a002")
    assert fleet.revisions()["a002"] == serving["a002"]
    fleet.declare("a002", runtime={"image": "helper:2", "env": [KEY]})
    fleet.step("a002")
    fleet.finish("a002")
    fleet.step("a002")
    changed = fleet.revisions()["a002"]
    assert changed != serving["a002"]
    fleet.settle_all()
    assert fleet.revisions()["a002"] == changed, "one rollout for both"


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_order_of_reconciles_exceeds_the_limit(seed: int) -> None:
    fleet = sharing(5)
    serving = fleet.revisions()
    chance = random.Random(seed)
    fleet.cluster.put(secret("second"))
    for _ in range(80):
        fleet.step(chance.choice(fleet.names))
        assert len(fleet.rolling) <= 1
        if fleet.rolling and chance.random() < 0.5:
            fleet.finish(chance.choice(sorted(fleet.rolling)))
    for _ in fleet.names:
        fleet.settle_all()
    assert all(fleet.revisions()[name] != serving[name] for name in fleet.names)
