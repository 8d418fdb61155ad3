"""Passes over the children of one owner on fakes of the ports: what is written, held, kept and recorded."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from gitsync.apply.execute import Applier
from gitsync.apply.owner_writes import WritePool, WritesByOwner
from gitsync.errors import ClusterUnavailable, Rejected
from gitsync.gate.policy import Policy
from gitsync.objects.change import Action, Change, Decision, Review, Risk
from gitsync.objects.health import Health
from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.objects.record import Commit, Outcome, SyncRecord
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.objects.user import User
from gitsync.operator.child_reconciler import (
    ChildrenCache,
    ChildrenReconciler,
    Desired,
    GateInput,
    Owner,
    ReconciledChildren,
    WriteRights,
)
from gitsync.ports import Ports
from gitsync.state.declarations import Declarations
from gitsync.sync.planner import Planner
from tests.fakes.ports import START, FakeClock, FakeCluster, FakeLive, FakePool, FakeRecords

OWNER = Owner(ObjectRef("agents.gitsync.dev", "Agent", "shop", "helper"), "uid-9", 1, "team/shop")
BY_HAND = replace(OWNER, manager="")
KEY = "shop/agent:helper"
NEW = GateInput(is_new=True)
OWNED = [{"apiVersion": "agents.gitsync.dev/v1alpha1", "kind": "Agent", "name": "helper", "uid": "uid-9"}]


def child(name: str, kind: str = "ConfigMap", api: str = "v1", **content: Any) -> Manifest:
    owners = [{**OWNED[0], "controller": True}]
    metadata = {"name": name, "namespace": "shop", "ownerReferences": owners}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **content}


class Children:
    """The children of one owner, and all that reconciles them."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.cluster = FakeCluster()
        self.live = FakeLive(self.cluster)
        self.records = FakeRecords()
        self.pool = FakePool()
        self.cache = ChildrenCache()
        parts: Any = (self.cluster, self.live, self.records, FakeClock())
        ports = Ports(*parts)
        self.writes = WritesByOwner(ports, WritePool(self.pool, lambda key: None, patience=0.0))
        self.applier = Applier(ports, self.writes)
        planner = Planner(ports.cluster, Declarations(), FakePool())
        rights = WriteRights(lambda app: policy or Policy())
        self.reconciler = ChildrenReconciler(ports, planner, self.applier, self.writes, rights)

    def reconcile(
        self, *manifests: Manifest, owner: Owner = OWNER, gate: GateInput | None = None, **desired: Any
    ) -> ReconciledChildren:
        """Reconcile to exactly these children."""
        objects = {ref_of(manifest): manifest for manifest in manifests}
        made = Desired(objects, **desired)
        return self.reconciler.reconcile(owner, made, self.cache, *([gate] if gate is not None else []))

    def names(self) -> list[str]:
        return sorted(ref.name for ref in self.cluster.objects)


def ref(manifest: Manifest) -> ObjectRef:
    return ref_of(manifest)


def synced_by(author: str) -> SyncRecord:
    """Return a sync of the Application that applied the owner, of a commit by an author."""
    return SyncRecord(
        application="team/shop",
        commit=Commit("c1", author, f"{author.lower()}@example.com"),
        trigger="commit",
        started=START,
        duration_ms=1,
        outcome=Outcome.SUCCEEDED,
        risk="Safe",
        digest="d",
    )


def test_children_are_created_recorded_and_observed() -> None:
    children = Children()
    reconciled = children.reconcile(child("a", data={"x": "1"}))
    assert reconciled.failure == ""
    assert children.names() == ["a"]
    assert reconciled.live.keys() == {ref(child("a"))}
    assert reconciled.health[ref(child("a"))].health is Health.HEALTHY
    assert [*children.records.outcomes()] == [("Intended", "a"), ("Succeeded", "a")]
    (record,) = children.records.syncs
    assert (record.application, record.trigger, record.commit.id) == (KEY, "agent", "generation-1")
    assert record.outcome is Outcome.SUCCEEDED


def test_a_pass_without_a_change_writes_and_records_nothing() -> None:
    children = Children()
    children.reconcile(child("a", data={"x": "1"}))
    children.cluster.writes.clear()
    children.reconcile(child("a", data={"x": "1"}))
    assert children.cluster.writes == []
    assert len(children.records.syncs) == 1


def test_a_child_that_is_not_desired_any_more_is_deleted() -> None:
    children = Children()
    children.reconcile(child("a"), child("b"))
    reconciled = children.reconcile(child("a"))
    assert children.names() == ["a"]
    assert reconciled.live.keys() == {ref(child("a"))}


def test_a_child_gets_what_the_live_object_of_its_plan_decides() -> None:
    def as_live(ref: ObjectRef, desired: Manifest, live: Manifest | None) -> Manifest:
        return {**desired, "data": live["data"] if live else {"x": "restored"}}

    children = Children()
    children.reconcile(child("a", data={"x": "1"}))
    children.cluster.writes.clear()
    children.reconcile(child("a"), as_live=as_live)
    assert children.cluster.writes == []
    del children.cluster.objects[ref(child("a"))]  # after the children were expanded, before they were observed
    children.reconcile(child("a"), as_live=as_live)
    assert children.cluster.objects[ref(child("a"))]["data"] == {"x": "restored"}


def test_a_deletion_of_data_waits_though_the_spec_is_permitted() -> None:
    children = Children()
    claim = child("data", "PersistentVolumeClaim")
    children.cluster.put(claim)
    children.records.syncs.append(synced_by("Ada"))
    deletion = partial(children.reconcile, is_partial=True, expired={ref(claim): claim}, gate=NEW)
    held = deletion(owner=replace(OWNER, is_permitted=False))
    assert held.verdict.decision is Decision.HELD
    assert held.verdict.reasons == ("1 dangerous step waits for an approval",)
    # a policy that rejects authors knows them
    assert held.plan.authors == {"Ada", "ada@example.com"}
    assert children.names() == ["data"]
    assert deletion(owner=OWNER).verdict.decision is Decision.ALLOWED
    assert children.names() == []


def test_kept_and_foreign_objects_are_left_as_they_are() -> None:
    children = Children()
    children.reconcile(child("a"), child("kept"))
    other = child("of-another")
    metadata = {**metadata_of(other), "ownerReferences": [{**OWNED[0], "uid": "uid-10", "controller": True}]}
    children.cluster.put({**other, "metadata": metadata})
    # it names the owner, but another object controls it
    shared = [{**OWNED[0], "uid": "uid-10", "controller": True}, {**OWNED[0], "controller": False}]
    children.cluster.put({**child("shared"), "metadata": {**metadata_of(child("shared")), "ownerReferences": shared}})
    children.reconcile(child("a"), kept=frozenset({ref(child("kept"))}))
    assert children.names() == ["a", "kept", "of-another", "shared"]


def test_a_partial_plan_deletes_only_what_has_expired() -> None:
    children = Children()
    children.reconcile(child("a"), child("old"))
    old = children.cluster.objects[ref(child("old"))]
    children.reconcile(child("new"), is_partial=True, expired={ref(old): old})
    assert children.names() == ["a", "new"]


def test_a_frozen_child_is_not_changed() -> None:
    children = Children()
    children.reconcile(child("a", data={"x": "1"}))
    children.reconcile(child("a", data={"x": "2"}), frozen=frozenset({ref(child("a"))}))
    assert children.cluster.objects[ref(child("a"))]["data"] == {"x": "1"}


def test_an_object_of_another_is_a_conflict_and_nothing_is_written() -> None:
    children = Children()
    stranger = child("a")
    children.cluster.put({**stranger, "metadata": {"name": "a", "namespace": "shop"}})
    reconciled = children.reconcile(child("a", data={"x": "1"}), child("b"))
    assert reconciled.conflicts == (
        "ConfigMap shop/a exists and does not belong to Agent shop/helper; rename one of them, or delete it",
    )
    assert children.names() == ["a"]


def test_a_failed_write_is_reported_and_recorded() -> None:
    children = Children()
    children.cluster.failures["a"].append(Rejected("not today", code=403))
    reconciled = children.reconcile(child("a"))
    assert "ConfigMap shop/a: not today" in reconciled.failure
    (record,) = children.records.syncs
    assert (record.outcome, "not today" in record.message) == (Outcome.FAILED, True)
    assert children.reconcile(child("a")).failure == ""


def test_a_late_answer_is_taken_by_the_next_pass() -> None:
    children = Children()
    children.pool.slow.add("a")
    assert children.reconcile(child("a")).results == ()
    children.pool.answer()
    (result,) = children.reconcile(child("a")).results
    assert result.outcome is Outcome.SUCCEEDED
    assert children.writes.of(KEY).are_resolved


def test_children_that_cannot_be_listed_end_the_pass() -> None:
    children = Children()
    children.live.error = ClusterUnavailable("not listed")
    with pytest.raises(ClusterUnavailable):
        children.reconcile(child("a"))
    assert children.cluster.writes == []


def web(*, is_privileged: bool) -> Manifest:
    containers = [{"name": "c", "image": "web:1", "securityContext": {"privileged": is_privileged}}]
    return child("web", "Deployment", "apps/v1", spec={"template": {"spec": {"containers": containers}}})


PRIVILEGED = web(is_privileged=True)


def running() -> Children:
    """Return the children of a generation that runs without privileges."""
    children = Children()
    children.reconcile(web(is_privileged=False))
    return children


def is_privileged(children: Children) -> bool:
    (container,) = children.cluster.objects[ref(PRIVILEGED)]["spec"]["template"]["spec"]["containers"]
    return bool(container["securityContext"]["privileged"])


def test_a_dangerous_plan_of_a_user_waits_for_approval() -> None:
    children = running()
    held = children.reconcile(PRIVILEGED, owner=BY_HAND, gate=NEW)
    assert held.verdict.decision is Decision.HELD
    assert held.held_plan["class"] == "Dangerous"
    assert held.held_plan["steps"] == 1
    assert not is_privileged(children)
    children.records.reviewed = Review(User("ada"), approves=True)
    allowed = children.reconcile(PRIVILEGED, owner=BY_HAND, gate=NEW)
    assert allowed.held_plan == {}
    assert is_privileged(children)
    assert children.records.ended == [held.plan.digest], "an approval is for one plan"


def test_an_approval_of_a_part_is_none() -> None:
    children = running()
    children.records.reviewed = Review(User("ada"), approves=True, steps=(ref(PRIVILEGED).path,))
    assert children.reconcile(PRIVILEGED, owner=BY_HAND, gate=NEW).verdict.decision is Decision.HELD


def test_a_rejected_plan_does_not_run() -> None:
    children = running()
    children.records.reviewed = Review(User("ada"), approves=False, reason="no")
    reconciled = children.reconcile(PRIVILEGED, owner=BY_HAND, gate=NEW)
    assert reconciled.verdict.decision is not Decision.ALLOWED
    assert not is_privileged(children)


def test_a_generation_that_was_permitted_continues_without_approval() -> None:
    children = running()
    assert children.reconcile(PRIVILEGED, owner=BY_HAND).verdict.decision is Decision.ALLOWED
    assert is_privileged(children)


def test_what_an_application_applied_has_passed_its_gate() -> None:
    children = running()
    assert children.reconcile(PRIVILEGED, gate=NEW).verdict.decision is Decision.ALLOWED
    assert is_privileged(children)


def test_a_dangerous_plan_waits_for_its_backup() -> None:
    children = running()
    gate = GateInput(is_new=True, is_safe=False)
    assert children.reconcile(PRIVILEGED, gate=gate).is_guarded
    assert not is_privileged(children)
    harmless = children.reconcile(web(is_privileged=False), child("a"), gate=gate)
    assert not harmless.is_guarded
    assert children.names() == ["a", "web"]


def test_the_change_of_the_spec_is_judged_with_the_children() -> None:
    children = Children()
    agent: Manifest = {"apiVersion": "agents.gitsync.dev/v1alpha1", "kind": "Agent", "metadata": {"name": "helper"}}
    old = {**agent, "spec": {"model": {"endpoint": "https://models.example"}}}
    new = {**agent, "spec": {"model": {"endpoint": "https://elsewhere.example"}}}
    change = Change(OWNER.ref, Action.UPDATE, desired=new, live=old)
    held = children.reconcile(child("a"), owner=BY_HAND, gate=GateInput(is_new=True, spec_change=change))
    assert held.verdict.decision is Decision.HELD
    assert held.plan.risk is Risk.DANGEROUS, "the class that the gate judged"
    assert any("Agent shop/helper" in reason for reason in held.verdict.reasons)
    assert children.reconcile(owner=BY_HAND, gate=GateInput(is_new=True, spec_change=change)).held_plan == {}


def test_the_authors_of_the_commit_are_those_of_the_plan() -> None:
    children = Children()
    children.records.syncs.append(synced_by("Ada"))
    assert children.reconcile(child("a")).plan.authors == {"Ada", "ada@example.com"}
    assert children.reconcile(child("a"), owner=BY_HAND).plan.authors == frozenset()


def test_without_rights_nothing_is_written() -> None:
    children = Children(Policy(controller_rights=False))
    refused = children.reconcile(child("a"))
    assert "no ServiceAccount writes for shop/agent:helper" in refused.failure
    assert children.names() == []
