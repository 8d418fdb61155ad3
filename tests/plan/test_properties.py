"""What holds for any desired and live state: one round reaches Git, and a second plan is empty."""

from __future__ import annotations

import copy

from hypothesis import given, settings
from hypothesis import strategies as st

from gitsync.objects.change import Action
from gitsync.objects.inventory import Inventory
from gitsync.plan.build import uncertain
from gitsync.plan.drift import find_drift
from tests.plan.factories import application, applied, config, desired_of, inventory_of, plan_of, schema_of

APP = application()
NAMES = st.sampled_from(["A", "B", "C"])
TEXTS = st.sampled_from(["", "x", "y", "100m", "0.1"])
LABELS = st.dictionaries(st.sampled_from(["tier", "zone"]), TEXTS, max_size=2)


def distinct(items, key, **size):
    return st.lists(items, max_size=3, unique_by=lambda item: item[key], **size)


LIMITS = st.fixed_dictionaries({"cpu": st.sampled_from(["1", "1000m", "100m"])})


CONTAINERS = st.fixed_dictionaries(
    {"name": NAMES, "image": TEXTS},
    optional={
        "args": st.lists(TEXTS, max_size=2),
        "env": distinct(st.fixed_dictionaries({"name": NAMES, "value": TEXTS}), "name"),
        "ports": distinct(st.fixed_dictionaries({"containerPort": st.integers(1, 3)}), "containerPort"),
        "resources": st.fixed_dictionaries({"limits": LIMITS}),
    },
)


@st.composite
def deployments(draw):
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": draw(st.sampled_from(["one", "two"])), "labels": draw(LABELS)},
        "spec": {
            **draw(st.fixed_dictionaries({}, optional={"replicas": st.integers(0, 3)})),
            "selector": {"matchLabels": {"app": "x"}},
            "template": {
                "metadata": {"labels": draw(LABELS)},
                "spec": {"containers": draw(distinct(CONTAINERS, "name", min_size=1))},
            },
        },
    }


CONFIGS = st.builds(
    lambda name, data: {**config(name), "data": data}, NAMES.map(str.lower), st.dictionaries(NAMES, TEXTS, max_size=3)
)
OBJECTS = st.lists(
    st.one_of(deployments(), CONFIGS), max_size=4, unique_by=lambda each: (each["kind"], each["metadata"]["name"])
)


def carry_out(plan, live):
    """Return the cluster after a plan was carried out."""
    after = dict(live)
    for change in plan.writes:
        if change.action is Action.PRUNE:
            del after[change.ref]
        else:
            target = live.get(change.ref)
            if change.managed_fields is not None:
                target = {**target, "metadata": {**target["metadata"], "managedFields": list(change.managed_fields)}}
            after[change.ref] = applied(change.desired, target)
    return after


def confirmed_plan(manifests, live, inventory):
    """Return the plan after dry runs resolved what was uncertain in the first one."""
    plan = plan_of(APP, manifests, live, inventory=inventory)
    desired = desired_of(APP, *manifests)
    answers = {ref: applied(desired[ref], live[ref]) for ref in uncertain(plan)}
    return plan_of(APP, manifests, live, inventory=inventory, dry_runs=answers)


@settings(max_examples=100, deadline=None)
@given(before=OBJECTS, now=OBJECTS, edits=OBJECTS)
def test_one_round_reaches_what_git_says(before, now, edits):
    live = carry_out(plan_of(APP, before, {}), {})
    for ref, edit in desired_of(APP, *edits).items():
        foreign = copy.deepcopy(edit)
        del foreign["metadata"]["annotations"]
        foreign["metadata"].pop("labels", None)
        live[ref] = applied(foreign, live.get(ref), manager="kubectl-edit")
    held = inventory_of({ref: live[ref] for ref in desired_of(APP, *before)})

    plan = confirmed_plan(now, live, held)
    after = carry_out(plan, live)

    assert {change.ref for change in plan.writes if change.action is Action.PRUNE} <= set(held.entries)
    again = confirmed_plan(now, after, Inventory({**held.entries, **inventory_of(after).entries}))
    wanted = desired_of(APP, *now)
    assert [(str(change.ref), change.differences) for change in again.writes if change.ref in wanted] == []


def filled(value):
    """Return a value without what means nothing: null, empty lists, empty maps."""
    if isinstance(value, dict):
        return {key: below for key, member in value.items() if (below := filled(member)) not in (None, {}, [])}
    return [filled(item) for item in value] if isinstance(value, list) else value


def content(manifest):
    return filled({**manifest, "metadata": {**manifest["metadata"], "managedFields": None}})


@settings(max_examples=120, deadline=None)
@given(before=st.one_of(deployments(), CONFIGS), now=OBJECTS, edit=OBJECTS)
def test_what_is_certain_is_what_an_apply_would_do(before, now, edit):
    live = applied(before)
    for manifest in (each for each in edit if each["kind"] == before["kind"]):
        renamed = {**manifest, "metadata": {**manifest["metadata"], "name": before["metadata"]["name"]}}
        live = applied(renamed, live, manager="kubectl-edit")
    for manifest in (each for each in now if each["kind"] == before["kind"]):
        desired = {**manifest, "metadata": {**manifest["metadata"], "name": before["metadata"]["name"]}}
        drift = find_drift(desired, live, schema_of(desired))
        after = applied(desired, live)
        if drift.certain:
            assert drift.in_sync is (content(after) == content(live))
        if drift.in_sync and drift.owned:
            assert content(after) == content(live)


@settings(max_examples=60, deadline=None)
@given(objects=OBJECTS)
def test_what_was_applied_is_settled_without_asking(objects):
    live = carry_out(plan_of(APP, objects, {}), {})
    plan = plan_of(APP, objects, live)
    assert not plan.writes
    assert uncertain(plan) == ()


@settings(max_examples=60, deadline=None)
@given(objects=OBJECTS, data=st.data())
def test_the_order_of_the_objects_in_git_does_not_matter(objects, data):
    shuffled = data.draw(st.permutations(objects))
    assert plan_of(APP, objects, {}).digest == plan_of(APP, list(shuffled), {}).digest
