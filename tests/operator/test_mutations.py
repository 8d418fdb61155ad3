"""
Every property of an Agent unset, set, at its extremes and invalid, and each change taken back.

After the method of Acto (Gu et al., SOSP 2023): the operator never stops, the children are those of a fresh expansion,
and what the schema forbids is rejected with the path of the field. A 45th of the mutations runs by default;
``GITSYNC_FAULTS=all`` runs every one.
"""

from __future__ import annotations

import os

import pytest

from gitsync.agents.expansion.expand import Layout, expand
from gitsync.agents.expansion.revisions import described_revision, stored_revision
from gitsync.agents.expansion.sharing import Sharing
from gitsync.agents.expansion.volumes import as_created
from gitsync.agents.expansion.workloads import without_reset
from gitsync.agents.model.agent import parse_agent
from gitsync.agents.rollout.context import active_track
from gitsync.agents.rollout.state import Placement, Track
from gitsync.errors import Rejected
from gitsync.objects.keys import AGENTS_MANAGER
from gitsync.objects.manifest import Manifest, metadata_of, uid_of
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.operator.facts import FactsReader
from gitsync.plan.tracking import controller_of
from tests.agents.factories import agent, changed, example
from tests.flow.environment import World
from tests.operator.mutations import Mutation, mutations
from tests.operator.processes import HeldClock, Operators, Process, drive, is_running
from tests.operator.surroundings import surround
from tests.waiting import until

# The world has no Prometheus, and by default a step waits for data.
ANALYSIS = {"name": "errors", "prometheusQuery": "errors", "max": "0.05", "onNoData": "Ignore"}
EVERY = 1 if os.environ.get("GITSYNC_FAULTS") == "all" else 45
_LONGEST_DRAIN = 3600.0
SPEED = 40.0
"""How much faster than real the sandbox is: Pods that start one after the other are what a change waits for."""

CHECKS = {"validate": [{"name": "answers", "http": {"path": "/selftest"}}], "drain": {"exec": {"command": ["x"]}}}
CANARY = {"type": "Canary", "canary": {"steps": [{"weight": 50}], "analysis": [ANALYSIS]}}
COLOURS = {"type": "BlueGreen", "blueGreen": {"promotion": "Manual"}}


def full() -> Manifest:
    """Return the example that sets every field, in the namespace of the tests, with a quick rollout."""
    found = changed(changed(example(), "metadata.namespace", "shop"), "spec.lifecycle.validate", None)
    return changed(found, "spec.update", {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}})


BASES = {
    "small": agent(prompt={"text": "Be brief."}),
    "canary": agent(replicas=2, update=CANARY, lifecycle=CHECKS, backup={"command": ["copy"]}),
    "blue-green": agent(update=COLOURS),
    "full": full(),
}


def replace(world: World, key: ObjectRef, spec: Manifest) -> Manifest:
    """Replace the spec of the Agent, as ``kubectl replace`` does; return the object."""
    path = f"/apis/agents.gitsync.dev/v1alpha1/namespaces/{key.namespace}/agents/{key.name}"
    live = world.client.get(path)
    found: Manifest = world.client.send("PUT", path, {**live, "spec": spec}, {"fieldManager": "mutations"})
    return found


class Subject:
    """An Agent that is changed and changed back, and the operator that follows it."""

    def __init__(self, world: World, process: Process, clock: HeldClock, manifest: Manifest) -> None:
        self._world, self._process, self._clock = world, process, clock
        self.key, self.spec = ref_of(manifest), manifest["spec"]
        world.apply(manifest)
        assert self.follow(must_run=True) == ""

    def follow(self, *, must_run: bool) -> str:
        """Reconcile until the Agent settles; return what is wrong, empty where its children are a fresh expansion."""
        generation = metadata_of(self.read())["generation"]
        until(lambda: metadata_of(self._cached()).get("generation") == generation)
        manifest = drive(self._world, self._process, self.key, self._clock)
        if is_running(manifest):
            return self._difference(manifest) and self._corrected()
        return f"does not run: {manifest['status']['conditions']}" if must_run else ""

    def _corrected(self) -> str:
        """Reconcile after the event of a child, and once no Pod of another revision can still need what is shared."""
        # An autoscaler may have changed a child until it was deleted, and the clock moves only here.
        self._clock.advance(_LONGEST_DRAIN)
        return self._difference(drive(self._world, self._process, self.key, self._clock))

    def try_out(self, mutation: Mutation) -> str:
        """Change the spec, follow it, and take the change back; return what is wrong, empty where nothing is."""
        try:
            replace(self._world, self.key, mutation.of(self.spec))
        except Rejected as error:
            is_named = any(_is_about(cause.field, mutation) for cause in error.refusal.causes)
            return "" if is_named else f"rejected without the path of the field: {error}"
        if mutation.is_invalid:
            replace(self._world, self.key, self.spec)
            return "accepted"
        try:
            wrong = self.follow(must_run=False)
            replace(self._world, self.key, self.spec)
            return wrong or self.follow(must_run=True)
        except Exception as error:
            replace(self._world, self.key, self.spec)
            return f"{type(error).__name__}: {error}"

    def read(self) -> Manifest:
        """Return the Agent as it is now."""
        return self._world.get("Agent", self.key.name, self.key.namespace, "agents.gitsync.dev/v1alpha1") or {}

    def _cached(self) -> Manifest:
        resource = self._process.cluster.resource("agents.gitsync.dev", "v1alpha1", "Agent")
        assert resource is not None
        return self._process.live.get(resource, self.key.namespace, self.key.name) or {}

    def _difference(self, manifest: Manifest) -> str:
        """Return how the live children differ from those of a fresh expansion, for which nothing would change."""
        desired, live = self._fresh(manifest), self._children()
        lines = [f"{ref} is missing" for ref in desired.keys() - live.keys() if not self._read(ref)]
        lines += [f"{ref} is left" for ref in live.keys() - desired.keys() if not _is_history(ref)]
        for ref in desired.keys() & live.keys():
            wanted = as_created(without_reset(desired[ref], live[ref]), live[ref])
            applied = self._process.cluster.apply(wanted, manager=AGENTS_MANAGER, dry_run=True)
            if applied.get("spec") != live[ref].get("spec") or applied.get("data") != live[ref].get("data"):
                lines.append(f"{ref} differs")
        return "; ".join(sorted(lines))

    def _fresh(self, manifest: Manifest) -> dict[ObjectRef, Manifest]:
        found = parse_agent(manifest)
        facts = FactsReader(self._process.cluster, self._process.live).read(found).facts
        # A change that no Pod has, such as that of a description, keeps the revision and its configuration.
        kept = [one for ref in self._children() if (one := stored_revision(self._read(ref) or {})) is not None]
        revision = described_revision(found, facts, {one.name: one for one in kept}, "")
        home = Track((manifest["status"].get("rollout") or {}).get("track", "stable"))
        spec = found.spec
        wanted = 0 if spec.suspend else 1 if spec.replicas is None else spec.replicas
        placement = Placement(home, revision.name, None if spec.autoscaling and not spec.suspend else wanted)
        layout = Layout((placement,), active_track(spec, home), autoscaled=home)
        made = expand(Sharing.of(found), facts, layout, {revision.name: revision})
        served = {ref_of(one): one for one in made if self._process.cluster.resource(*_kind(one)) is not None}
        return {ref: one for ref, one in served.items() if ref.kind != "ControllerRevision"}

    def _children(self) -> dict[ObjectRef, Manifest]:
        uid = uid_of(self.read())
        found = [ref_of(one) for one in self._process.live.dependents(uid) if controller_of(one) == uid]
        return {ref: live for ref in found if (live := self._read(ref)) is not None}

    def _read(self, ref: ObjectRef) -> Manifest | None:
        return self._process.cluster.read(ref, {"autoscaling": "v2"}.get(ref.group, "v1"))


def _kind(manifest: Manifest) -> tuple[str, str, str]:
    group, _, version = str(manifest["apiVersion"]).rpartition("/")
    return group, version, str(manifest["kind"])


def _is_history(ref: ObjectRef) -> bool:
    """Whether an object of earlier specs is kept: a revision, its configuration, or a backup."""
    marks = {"ControllerRevision": "-", "ConfigMap": "-config-", "Job": "-backup-"}
    return ref.kind in marks and marks[ref.kind] in ref.name


def _is_about(field: str, mutation: Mutation) -> bool:
    """Whether a cause names the field of an invalid value; a rule between fields may name another one."""
    return field.startswith(mutation.field if mutation.is_invalid else "spec")


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("manifest", BASES.values(), ids=BASES.keys())
def test_no_change_of_a_property_stops_the_operator(world: World, manifest: Manifest) -> None:
    surround(world)
    world.sandbox.set_speed(SPEED)
    clock, wrong = HeldClock(), {}
    with Operators(world).process(clock=clock) as process:
        subject = Subject(world, process, clock, manifest)
        tried = list(mutations(manifest["spec"]))[::EVERY]
        for mutation in tried:
            if problem := subject.try_out(mutation):
                wrong[mutation.name] = problem
    assert wrong == {}, f"{len(wrong)} of {len(tried)}"
    assert len(tried) > 3
