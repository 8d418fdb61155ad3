"""Repair and change: what others changed is restored, and never judged as part of a commit."""

from __future__ import annotations

import pytest

from gitsync.merge.field_manager import Write, update_object
from gitsync.objects.change import Action, Risk
from gitsync.objects.inventory import Inventory, InventoryEntry
from gitsync.plan.applied import AppliedStates, Declared, applied_digest
from tests.plan.factories import (
    CONTAINER,
    application,
    applied,
    config,
    deployment,
    desired_of,
    edited,
    inventory_of,
    live_of,
    plan_of,
    ref,
    schema_of,
)

APP = application()
WEB = deployment()
ENDPOINT = {"name": "MODEL_ENDPOINT", "value": "http://model/v1"}
AGENT = edited(WEB, (*CONTAINER, "env"), [ENDPOINT])


def agent(endpoint, **spec):
    return edited({**AGENT, "spec": {**AGENT["spec"], **spec}}, (*CONTAINER, "env", 0, "value"), endpoint)


def edit(live, manifest, path, value):
    """Return the cluster after a user edited a field of an object."""
    return {**live, ref(manifest): edited(live[ref(manifest)], path, value)}


def hijacked():
    return edit(live_of(APP, AGENT), AGENT, (*CONTAINER, "env", 0, "value"), "http://evil/v1")


def test_an_edit_is_repaired_and_is_no_part_of_the_plan():
    plan = plan_of(APP, [AGENT], hijacked(), before=[AGENT])
    assert [(step.ref, step.action) for step in plan.repairs] == [(ref(AGENT), Action.UPDATE)]
    assert plan.writes == ()
    assert plan.risk is Risk.SAFE


def test_the_reason_of_a_repair_does_not_accuse_git():
    (repair,) = plan_of(APP, [AGENT], hijacked(), before=[AGENT]).repairs
    assert repair.reason.startswith("restores what was applied: .spec.template")
    assert "another service" not in repair.reason


def test_without_a_known_state_an_edit_is_classified_as_a_change():
    plan = plan_of(APP, [AGENT], hijacked())
    assert plan.repairs == ()
    assert plan.risk is Risk.DANGEROUS


def test_a_commit_is_classified_from_the_applied_state():
    plan = plan_of(APP, [agent("http://model/v1", replicas=3)], hijacked(), before=[AGENT])
    (change,) = plan.writes
    assert change.risk is Risk.MODERATE
    assert [item.path for item in change.differences] == [".spec.replicas"]
    assert [step.desired for step in plan.repairs] == [desired_of(APP, AGENT)[ref(AGENT)]]


def test_an_edit_does_not_change_the_digest_of_a_commit():
    manifests = [agent("http://new/v1")]
    calm = plan_of(APP, manifests, live_of(APP, AGENT), before=[AGENT])
    edited_too = plan_of(APP, manifests, edit(live_of(APP, AGENT), AGENT, ("spec", "replicas"), 7), before=[AGENT])
    assert calm.digest == edited_too.digest
    assert calm.risk is Risk.DANGEROUS


def test_an_edit_to_the_value_of_a_commit_does_not_permit_it():
    """A user who may edit a Deployment must not be able to have a held commit pass."""
    plan = plan_of(APP, [agent("http://evil/v1")], hijacked(), before=[AGENT])
    (change,) = plan.writes
    assert change.risk is Risk.DANGEROUS
    assert [step.ref for step in plan.repairs] == [ref(AGENT)]


def test_an_edited_setting_does_not_make_an_endpoint_known():
    """What a commit introduces is compared with the settings that were applied."""
    settings = config("settings", MODEL_ENDPOINT="http://model/v1")
    live = edit(live_of(APP, settings), settings, ("data", "MODEL_ENDPOINT"), "http://evil/v1")
    introduced = config("other", MODEL_ENDPOINT="http://evil/v1")
    plan = plan_of(APP, [settings, introduced], live, before=[settings])
    assert plan.risk is Risk.DANGEROUS


def test_a_deleted_object_is_created_as_it_was_applied():
    plan = plan_of(APP, [agent("http://new/v1")], {}, inventory=inventory_of(live_of(APP, AGENT)), before=[AGENT])
    (repair,) = plan.repairs
    (change,) = plan.writes
    assert (repair.action, change.action) == (Action.CREATE, Action.CREATE)
    assert repair.desired == desired_of(APP, AGENT)[ref(AGENT)]
    assert change.risk is Risk.DANGEROUS


def test_an_object_at_rest_is_planned_again_while_it_has_a_repair():
    first = plan_of(APP, [AGENT], hijacked(), before=[AGENT])
    again = plan_of(APP, [AGENT], hijacked(), before=[AGENT], previous=first)
    assert len(again.repairs) == 1


def test_a_policy_that_names_the_class_holds_a_repair():
    plan = plan_of(APP, [AGENT], hijacked(), before=[AGENT], repairs_below=Risk.DANGEROUS)
    assert plan.repairs == ()
    assert plan.risk is Risk.DANGEROUS


def test_the_change_that_follows_a_repair_is_planned_from_the_repaired_object():
    manifests = [agent("http://model/v1", replicas=3)]
    repaired = plan_of(APP, manifests, live_of(APP, AGENT), before=[AGENT])
    drifted = plan_of(APP, manifests, hijacked(), before=[AGENT])
    assert [step.reason for step in drifted.writes] == [step.reason for step in repaired.writes]


@pytest.fixture
def declared():
    return Declared(desired_of(APP, AGENT), "a1")


def held(declared, origin):
    digests = {name: applied_digest(manifest, origin) for name, manifest in declared.objects.items()}
    return Inventory({name: InventoryEntry("v1", "uid", applied=digest) for name, digest in digests.items()})


def nothing():
    raise AssertionError("the applied commit is not needed")


def test_a_state_that_git_still_declares_needs_no_render(declared):
    states = AppliedStates().find(APP, declared, held(declared, "a1"), nothing)
    assert states == declared.objects


def test_another_state_comes_from_the_applied_commit(declared):
    new = Declared(desired_of(APP, agent("http://new/v1")), "b2")
    states = AppliedStates().find(APP, new, held(declared, "a1"), lambda: declared)
    assert states == declared.objects


def test_a_commit_that_renders_to_something_else_is_not_believed(declared):
    new = Declared(desired_of(APP, agent("http://new/v1")), "b2")
    other = Declared(desired_of(APP, agent("http://evil/v1")), "a1")
    assert AppliedStates().find(APP, new, held(declared, "a1"), lambda: other) == {}


def test_a_state_is_unknown_until_the_write_of_a_sync_is_answered(declared):
    new = Declared(desired_of(APP, agent("http://new/v1")), "b2")
    inventory = held(declared, "a1")
    states = AppliedStates()
    states.begin([ref(AGENT)])
    assert states.find(APP, new, inventory, lambda: declared) == {}
    assert states.stamped(inventory).entries[ref(AGENT)].applied == "", "nor is it after a restart"
    states.record(APP, ref(AGENT), new.objects[ref(AGENT)], "b2")
    assert states.find(APP, new, states.stamped(inventory), nothing) == new.objects


def test_a_write_that_was_refused_leaves_the_state_before_it(declared):
    new = Declared(desired_of(APP, agent("http://new/v1")), "b2")
    inventory = held(declared, "a1")
    states = AppliedStates()
    states.begin([ref(AGENT)])
    states.abandon(ref(AGENT))
    assert states.find(APP, new, inventory, lambda: declared) == declared.objects
    assert states.stamped(inventory) is inventory


def test_objects_that_left_the_inventory_are_forgotten(declared):
    """A name with a hash of its content is new with every commit."""
    states = AppliedStates()
    inventory = held(declared, "a1")
    states.record(APP, ref(AGENT), declared.objects[ref(AGENT)], "a1")
    states.stamped(inventory)
    assert states._digests.keys() == states._permitted.keys() == declared.objects.keys()
    states.stamped(Inventory())
    assert not states._digests
    assert not states._permitted


def test_a_removed_ignore_rule_makes_the_state_unknown():
    """A field that a rule left to others was never applied, so no repair may apply it."""
    rule = {"kind": "Deployment", "jsonPointers": ["/spec/template/spec/containers/0/env"]}
    ignoring = application(sync={"ignoreDifferences": [rule]})
    declared = Declared(desired_of(ignoring, AGENT), "a1")
    digest = applied_digest(declared.objects[ref(AGENT)], "a1", ignoring.sync.ignore)
    inventory = Inventory({ref(AGENT): InventoryEntry("v1", "uid", applied=digest)})
    assert AppliedStates().find(ignoring, declared, inventory, nothing) == declared.objects
    assert AppliedStates().find(APP, declared, inventory, lambda: declared) == {}


def test_the_controller_itself_forgets_what_was_applied_beside_a_rule():
    rule = {"kind": "Deployment", "jsonPointers": ["/spec/template/spec/containers/0/env"]}
    ignoring = application(sync={"ignoreDifferences": [rule]})
    declared = Declared(desired_of(ignoring, AGENT), "a1")
    states = AppliedStates()
    states.record(ignoring, ref(AGENT), declared.objects[ref(AGENT)], "a1")
    inventory = states.stamped(Inventory({ref(AGENT): InventoryEntry("v1", "uid")}))
    assert states.find(ignoring, declared, inventory, nothing) == declared.objects
    assert states.find(APP, declared, inventory, lambda: declared) == {}


def test_the_digest_of_a_secret_does_not_tell_its_values():
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"key": "YQ=="}}
    other = {**secret, "data": {"key": "Yg=="}}
    assert applied_digest(secret, "a1") == applied_digest(other, "a1")
    assert applied_digest(secret, "a1") != applied_digest(secret, "b2")


def test_applying_again_what_was_applied_is_in_sync():
    live = {ref(AGENT): applied(desired_of(APP, AGENT)[ref(AGENT)])}
    plan = plan_of(APP, [AGENT], live, before=[AGENT])
    assert plan.outstanding == ()


@pytest.mark.parametrize("manager", ["kubectl-edit", "an-unknown-tool"])
def test_an_added_field_that_git_declares_later_permits_nothing(manager):
    hijack = [{"name": "OPENAI_BASE_URL", "value": "http://evil.example/v1"}]
    committed = edited(WEB, (*CONTAINER, "env"), hijack)
    live = live_of(APP, WEB)
    target = live[ref(WEB)]
    write = Write(manager, "2026-01-02T00:00:00Z")
    live[ref(WEB)] = update_object(target, edited(target, (*CONTAINER, "env"), hijack), schema_of(WEB), write)
    (change,) = plan_of(APP, [committed], live, before=[WEB]).writes
    assert (change.risk, change.rule) == (Risk.DANGEROUS, "endpoint-set")
