"""The plan in plain words."""

from __future__ import annotations

from gitsync.objects.change import Action, Change, Difference, FieldDifference, FieldOwner
from gitsync.objects.ref import ObjectRef
from gitsync.plan.explain import explain, explain_atomic_lists
from gitsync.plan.risk.table import classify
from tests.plan.factories import config


def step(name, action, kind="ConfigMap"):
    manifest = {**config(name), "kind": kind}
    live = None if action is Action.CREATE else manifest
    desired = None if action is Action.PRUNE else manifest
    return classify(Change(ObjectRef("", kind, "shop", name), action, desired=desired, live=live))


def test_nothing_to_do_is_said_so():
    assert explain([step("a", Action.NOTHING)]) == "Nothing to do: every object is as Git declares it."


def test_safe_steps_are_counted():
    assert explain([step("a", Action.CREATE), step("b", Action.CREATE)]) == "Create 2 objects."
    assert explain([step("a", Action.CREATE)]) == "Create 1 object."


def test_what_makes_a_plan_dangerous_is_named():
    text = explain([step("data", Action.PRUNE, "PersistentVolumeClaim"), step("a", Action.CREATE)])
    assert text == (
        "Create 1 object, delete 1. Dangerous because PersistentVolumeClaim shop/data: "
        "deletes an object that holds data."
    )


def test_many_reasons_are_cut_short():
    text = explain([step(f"c{index}", Action.PRUNE) for index in range(5)])
    assert "Moderate because ConfigMap shop/c0: deletes an object;" in text
    assert text.endswith("; and 2 more.")


def test_items_that_others_added_to_an_atomic_list_are_explained():
    owner = FieldOwner("istio", "Update")
    added = FieldDifference(
        ".spec.tolerations", "", Difference.CHANGED, [{"key": "a"}], [{"key": "a"}, {"key": "b"}], (owner,)
    )
    text = explain_atomic_lists([added])
    assert ".spec.tolerations is an atomic list" in text
    assert "it loses 1 item that istio added" in text
    changed = FieldDifference(".spec.tolerations", "", Difference.CHANGED, [{"key": "a"}], [{"key": "b"}], (owner,))
    assert explain_atomic_lists([changed]) == ""
