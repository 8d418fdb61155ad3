"""What may be deleted, and what is kept."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitsync.objects.change import Action
from gitsync.objects.inventory import Inventory, InventoryEntry
from gitsync.objects.ref import ObjectRef
from gitsync.plan.prune import prune_changes
from gitsync.plan.tracking import marked
from tests.plan.factories import application, applied, config, desired_of, inventory_of, live_of, ref

APP = application()
KEPT = {"gitsync.dev/prune": "false"}


@pytest.mark.parametrize(
    ("live", "held", "action"),
    [
        pytest.param(live_of(APP, config()), None, Action.PRUNE, id="owned and no longer declared"),
        pytest.param(live_of(APP, config(annotations=KEPT)), None, Action.RELEASE, id="annotated to stay"),
        pytest.param(
            live_of(APP, config(annotations={"kustomize.toolkit.fluxcd.io/prune": "disabled"})), None, Action.RELEASE,
            id="annotated to stay, as Flux has it",
        ),
        pytest.param(
            live_of(APP, config(annotations={"argocd.argoproj.io/sync-options": "Prune=false"})), None, Action.RELEASE,
            id="annotated to stay, as Argo CD has it",
        ),
        pytest.param(
            live_of(APP, config(annotations={"gitsync.dev/prune": "confirm"})), None, Action.PRUNE, id="to be confirmed"
        ),
        pytest.param(live_of(application("other"), config()), None, Action.NOTHING, id="now another application's"),
        pytest.param(live_of(APP, config()), "other-uid", Action.NOTHING, id="recreated by another client"),
        pytest.param(live_of(APP, config()), "", Action.PRUNE, id="its uid was never learnt"),
    ],
)  # fmt: skip
def test_prunes_only_what_is_owned_and_not_kept(live, held, action):
    inventory = inventory_of(live) if held is None else Inventory({ref(config()): InventoryEntry("v1", held)})
    (change,) = prune_changes(APP, {}, live, inventory, {})
    assert change.action is action


def test_releases_what_outlives_a_deleted_application():
    app = replace(APP, is_deleted=True)
    outliving = config(annotations={"argocd.argoproj.io/sync-options": "Delete=false"})
    live = live_of(app, outliving)
    (change,) = prune_changes(app, {}, live, inventory_of(live), {})
    assert change.action is Action.RELEASE


def test_keeps_the_marks_of_an_application_that_limit_it():
    of = ObjectRef("gitsync.dev", "Application", "shop", "child")
    metadata = {"name": of.name, "namespace": of.namespace, "annotations": KEPT}
    child = marked(APP, of, {"apiVersion": "gitsync.dev/v1alpha1", "kind": "Application", "metadata": metadata})
    live = {of: child}
    (change,) = prune_changes(APP, {}, live, inventory_of(live), {})
    assert change.action is Action.NOTHING


def test_never_prunes_outside_the_inventory():
    assert prune_changes(APP, {}, live_of(APP, config()), Inventory(), {}) == ()


def test_never_prunes_what_is_declared():
    live = live_of(APP, config())
    assert prune_changes(APP, desired_of(APP, config()), live, inventory_of(live), {}) == ()


def test_never_prunes_a_copy_that_carries_the_marks_of_another_object():
    live = live_of(APP, config("original"))[ref(config("original"))]
    copied = {**live, "metadata": {**live["metadata"], "name": "copy", "uid": "uid-copy"}}
    seen = {ref(config("copy")): copied}
    (change,) = prune_changes(APP, {}, seen, inventory_of(seen), {})
    assert change.action is Action.NOTHING


def test_leaves_an_object_to_the_application_that_declares_it_now():
    live = live_of(APP, config())
    (change,) = prune_changes(APP, {}, live, inventory_of(live), {ref(config()): "gitsync/new"})
    assert change.action is Action.NOTHING
    assert "gitsync/new declares it now" in change.reason


def test_keeps_everything_when_pruning_is_off():
    app = application(sync={"prune": False})
    live = live_of(app, config())
    (change,) = prune_changes(app, {}, live, inventory_of(live), {})
    assert change.action is Action.NOTHING


def test_an_object_can_outlive_its_application_and_still_be_pruned():
    outliving = config(annotations={"argocd.argoproj.io/sync-options": "Delete=false"})
    live = live_of(APP, outliving)
    held = inventory_of(live)
    (kept,) = prune_changes(APP, {}, live, held, {})
    assert kept.action is Action.NOTHING
    (pruned,) = prune_changes(APP, {ref(config("other"))}, live, held, {})
    assert pruned.action is Action.PRUNE


def test_deletes_in_the_reverse_order_of_waves_and_last_when_asked():
    late = config("late", annotations={"gitsync.dev/sync-wave": "3"})
    last = config("last", annotations={"argocd.argoproj.io/sync-options": "PruneLast=true"})
    live = live_of(APP, late, config("plain"), last)
    changes = {change.ref.name: change for change in prune_changes(APP, {}, live, inventory_of(live), {})}
    assert (changes["late"].stage, changes["late"].wave) < (changes["plain"].stage, changes["plain"].wave)
    assert changes["last"].stage > changes["plain"].stage


NAMES = st.sets(st.sampled_from(["a", "b", "c", "d", "e"]))


@given(declared=NAMES, lives=NAMES, held=NAMES)
def test_prunes_exactly_what_is_held_and_lives_and_is_not_declared(declared, lives, held):
    live = {ref(config(name)): applied(next(iter(desired_of(APP, config(name)).values()))) for name in lives}
    desired = {ref(config(name)) for name in declared}
    inventory = Inventory({ref(config(name)): InventoryEntry("v1") for name in held})
    pruned = {change.ref.name for change in prune_changes(APP, desired, live, inventory, {}) if change.is_write}
    assert pruned == (held & lives) - declared


def pruned(api, kind, name, **metadata):
    of = ObjectRef(api.rpartition("/")[0], kind, "shop", name)
    made = {"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": "shop", **metadata}}
    return {of: marked(APP, of, made)}


@pytest.mark.parametrize(
    ("workload", "finalizers", "first"),
    [
        pytest.param("Deployment", ["example.com/clean-up"], ["w"], id="of an operator"),
        pytest.param("Deployment", [], [], id="without finalizers"),
        pytest.param("", ["example.com/clean-up"], [], id="without a workload"),
    ],
)
def test_resources_with_finalizers_precede_their_operator(workload, finalizers, first):
    live = pruned("example.com/v1", "Widget", "w", finalizers=finalizers)
    live |= pruned("apps/v1", workload, "operator") if workload else {}
    steps = prune_changes(APP, {}, live, Inventory({of: InventoryEntry("v1") for of in live}), {})
    lowest = max(step.wave for step in steps)
    assert [step.ref.name for step in steps if step.wave < lowest] == first
