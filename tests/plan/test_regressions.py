"""Accidents that people had with other tools, and that must not happen here."""

from __future__ import annotations

import copy

from gitsync.errors import Rejected
from gitsync.merge.field_manager import Write, update_object
from gitsync.objects.change import Action, Difference
from gitsync.objects.inventory import Inventory
from tests.plan.factories import (
    CONTAINER,
    SERVICE,
    application,
    applied,
    config,
    deployment,
    edited,
    inventory_of,
    live_of,
    plan_of,
    ref,
    schema_of,
)

APP = application()


def scaled(live, replicas):
    """Return a live Deployment after an autoscaler wrote its replicas."""
    write = Write("kube-controller-manager", "2026-01-01T00:00:01Z", "scale")
    return update_object(live, edited(live, ("spec", "replicas"), replicas), schema_of(live), write)


def test_renaming_an_application_deletes_nothing():
    manifests = [config(), deployment()]
    live = live_of(APP, *manifests)
    renamed = application("desk-renamed")
    claims = dict.fromkeys(live, renamed.key)
    old = plan_of(APP, [], live, claims=claims)
    assert not old.writes
    new = plan_of(renamed, manifests, live, inventory=Inventory())
    assert {change.action for change in new.writes} == {Action.ADOPT}
    assert new.refusals == ()


def test_replicas_that_an_autoscaler_manages_are_not_reset():
    live = live_of(APP, deployment())
    key = ref(deployment())
    live[key] = scaled(live[key], 5)
    without = deployment()
    del without["spec"]["replicas"]
    plan = plan_of(APP, [without], live)
    assert all(difference.path != ".spec.replicas" for change in plan.changes for difference in change.differences)
    after = applied(plan.changes[0].desired, live[key])
    assert after["spec"]["replicas"] == 5


def test_the_forms_of_a_quantity_are_no_drift():
    want = edited(deployment(), (*CONTAINER, "resources"), {"requests": {"cpu": "0.5", "memory": "1024Mi"}})
    live = live_of(APP, want)
    stored = {"requests": {"cpu": "500m", "memory": "1Gi"}}
    live[ref(want)] = edited(live[ref(want)], (*CONTAINER, "resources"), stored)
    assert not plan_of(APP, [want], live).writes


def test_a_changed_port_is_one_port_more_and_one_less():
    live = live_of(APP, SERVICE)
    want = edited(SERVICE, ("spec", "ports", 1, "port"), 8443)
    (change,) = plan_of(APP, [want], live).writes
    assert {(each.kind, each.path) for each in change.differences} == {
        (Difference.GONE, '.spec.ports[port=8443,protocol="TCP"]'),
        (Difference.EXTRA, '.spec.ports[port=443,protocol="TCP"]'),
    }


def test_drift_inside_a_list_is_not_missed():
    live = live_of(APP, deployment())
    key = ref(deployment())
    live[key] = edited(live[key], (*CONTAINER, "image"), "patched-by-hand")
    (change,) = plan_of(APP, [deployment()], live).writes
    assert change.differences[0].path == '.spec.template.spec.containers[name="web"].image'


def test_one_object_that_the_server_refuses_stops_no_other():
    live = live_of(APP, config("bad", key="old"), config("good", key="old"))
    refused = {ref(config("bad")): Rejected("spec is wrong", code=422)}
    good = copy.deepcopy(live[ref(config("good"))])
    good["data"] = {"key": "new"}
    refused[ref(config("good"))] = good
    plan = plan_of(APP, [config("bad", key="new"), config("good", key="new")], live, dry_runs=refused)
    assert {change.ref.name: change.problem for change in plan.writes} == {"bad": "spec is wrong", "good": ""}


def test_an_object_deleted_by_hand_is_made_again():
    live = live_of(APP, config(), deployment())
    held = inventory_of(live)
    del live[ref(config())]
    (change,) = plan_of(APP, [config(), deployment()], live, inventory=held).writes
    assert (change.ref.name, change.action) == ("settings", Action.CREATE)
