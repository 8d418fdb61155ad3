"""What a plan does beside held fields, and what becomes of them when the hold ends."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from gitsync.merge.field_manager import Write, update_object
from gitsync.objects.change import Action, Difference
from gitsync.objects.holds import FieldHold
from gitsync.objects.inventory import Inventory, InventoryEntry
from gitsync.objects.ref import ref_of
from gitsync.plan.applied import AppliedStates, Declared, applied_digest
from tests.plan.factories import CONTAINER, application, applied, deployment, desired_of, edited, plan_of, schema_of

REPLICAS = ("spec", "replicas")
PLAIN = application()
WEB = desired_of(PLAIN, deployment())
REF = ref_of(next(iter(WEB.values())))
DECLARED = WEB[REF]


def holding(*fields: str):
    until = datetime(2026, 3, 1, tzinfo=UTC)
    return replace(PLAIN, holds=tuple(FieldHold(REF, field, until, "ada", "incident") for field in fields))


def by_hand(path, value, live=None):
    """Return the live object once kubectl has set a field of it."""
    target = live or applied(DECLARED)
    return update_object(target, edited(target, path, value), schema_of(DECLARED), Write("kubectl-edit"))


def steps(app, live, desired=DECLARED):
    plan = plan_of(app, [desired], {REF: live}, before=[DECLARED])
    return [*plan.repairs, *plan.writes]


def test_a_held_field_keeps_the_value_that_a_user_set():
    live = by_hand(REPLICAS, 5)
    assert [step.differences[0].path for step in steps(PLAIN, live)] == [".spec.replicas"]
    assert steps(holding(".spec.replicas"), live) == []


def test_all_else_of_the_object_is_still_repaired():
    live = by_hand((*CONTAINER, "image"), "evil:1", by_hand(REPLICAS, 5))
    (step,) = steps(holding("spec.replicas"), live)
    drift = [item.path for item in step.differences if item.kind is not Difference.IGNORED]
    assert drift == ['.spec.template.spec.containers[name="web"].image']
    assert "replicas" not in step.desired["spec"]


def test_an_item_of_a_list_is_held_by_its_name():
    live = by_hand((*CONTAINER, "image"), "fix:2")
    assert steps(holding('spec.template.spec.containers[name="web"].image'), live) == []
    assert steps(holding('spec.template.spec.containers[name="api"].image'), live) != []


def test_a_field_that_a_user_adds_stays_while_it_is_held():
    live = by_hand((*CONTAINER, "env"), [{"name": "DEBUG", "value": "1"}])
    assert steps(PLAIN, live) != []
    assert steps(holding('.spec.template.spec.containers[name="web"].env'), live) == []


def test_a_hold_of_another_object_holds_nothing():
    other = replace(holding(".spec.replicas").holds[0], ref=REF._replace(name="api"))
    assert steps(replace(PLAIN, holds=(other,)), by_hand(REPLICAS, 5)) != []


def test_a_commit_changes_all_but_the_held_field():
    newer = edited(edited(DECLARED, REPLICAS, 9), (*CONTAINER, "image"), "app:2")
    (step,) = steps(holding(".spec.replicas"), by_hand(REPLICAS, 5), newer)
    assert step.action is Action.UPDATE
    assert "replicas" not in step.desired["spec"]


def test_a_deleted_object_is_created_as_git_declares_it():
    plan = plan_of(holding(".spec.replicas"), [DECLARED], {}, before=[DECLARED])
    (step,) = [*plan.repairs, *plan.writes]
    assert (step.action, step.desired["spec"]["replicas"]) == (Action.CREATE, DECLARED["spec"]["replicas"])


def inventory_of(digest: str) -> Inventory:
    return Inventory({REF: InventoryEntry("v1", "uid", applied=digest)})


def recorded(app, states: AppliedStates, manifest, inventory: Inventory) -> Inventory:
    """Return the inventory once an object is as a commit declares it."""
    declared = Declared({REF: manifest}, "b2")
    states.find(app, declared, inventory, lambda: declared)
    states.record_all(app, declared, [REF], inventory)
    return states.stamped(inventory)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_the_field_is_repaired_when_the_hold_ends(is_restarted):
    app = holding(".spec.replicas")
    states = AppliedStates()
    inventory = recorded(PLAIN, states, DECLARED, inventory_of(applied_digest(DECLARED, "b2")))
    inventory = recorded(app, AppliedStates() if is_restarted else states, DECLARED, inventory)
    declared = Declared({REF: DECLARED}, "b2")
    assert AppliedStates().find(PLAIN, declared, inventory, lambda: declared) == {REF: DECLARED}


@pytest.mark.parametrize("is_restarted", [False, True])
def test_what_a_commit_declared_meanwhile_is_no_repair(is_restarted):
    """Its held field was not applied, and what was not applied may need an approval."""
    app = holding(".spec.replicas")
    newer = edited(DECLARED, REPLICAS, 9)
    states = AppliedStates()
    inventory = recorded(PLAIN, states, DECLARED, inventory_of(applied_digest(DECLARED, "b2")))
    inventory = recorded(app, AppliedStates() if is_restarted else states, newer, inventory)
    declared = Declared({REF: newer}, "b2")
    assert AppliedStates().find(app, declared, inventory, lambda: declared) == {REF: newer}, "while it is held"
    assert AppliedStates().find(PLAIN, declared, inventory, lambda: declared) == {}
    assert states.find(PLAIN, declared, inventory, lambda: declared) == {} or is_restarted
