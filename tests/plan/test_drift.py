"""Drift: what differs in meaning, who did it, and when only the API server can tell."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitsync.merge.schema import DEDUCED
from gitsync.objects.change import ABSENT, Difference, FieldDifference
from gitsync.plan.drift import compare_objects, find_drift
from gitsync.plan.equality import matches_exactly
from gitsync.plan.field_owners import applied_fields
from gitsync.plan.undeclared import undeclared
from tests.plan.factories import CONTAINER, SERVICE, applied, config, deployment, edited, schema_of, three_way_drift


def found(desired, live, **options):
    drift = find_drift(desired, live, schema_of(desired), **options)
    return [(each.kind, each.path) for each in drift.differences]


def found_three_way(live):
    drift = three_way_drift(config(), live, schema_of(config()))
    return [(each.kind, each.path) for each in drift.differences]


def test_what_was_just_applied_is_in_sync():
    for manifest in (config(), deployment(), SERVICE):
        drift = find_drift(manifest, applied(manifest), schema_of(manifest))
        assert drift.in_sync
        assert drift.owned


def test_what_the_server_and_others_add_is_no_drift():
    live = applied(deployment())
    live["spec"]["revisionHistoryLimit"] = 10
    live["metadata"]["labels"] = {"added": "by-another"}
    live["metadata"]["annotations"] = {"deployment.kubernetes.io/revision": "1"}
    live["spec"]["template"]["spec"]["containers"].append({"name": "injected", "image": "proxy"})
    live["status"] = {"replicas": 2}
    assert found(deployment(), live) == []


WEB = '.spec.template.spec.containers[name="web"]'


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (("spec", "replicas"), 5, [(Difference.CHANGED, ".spec.replicas")]),
        (("spec", "replicas"), ABSENT, [(Difference.GONE, ".spec.replicas")]),
        ((*CONTAINER, "image"), "other", [(Difference.CHANGED, f"{WEB}.image")]),
        ((*CONTAINER, "ports"), [], [(Difference.GONE, f'{WEB}.ports[containerPort=80,protocol="TCP"]')]),
        ((*CONTAINER, "name"), "renamed", [(Difference.GONE, WEB)]),
        (("spec", "selector", "matchLabels"), {"app": "x"}, [(Difference.CHANGED, ".spec.selector")]),
    ],
)
def test_a_live_edit_is_found_where_it_is(path, value, expected):
    assert found(deployment(), edited(applied(deployment()), path, value)) == expected


def test_quantities_compare_by_amount():
    want = edited(deployment(), (*CONTAINER, "resources"), {"limits": {"cpu": "1000m", "memory": "1024Mi"}})
    live = edited(applied(want), (*CONTAINER, "resources"), {"limits": {"cpu": "1", "memory": "1Gi"}})
    assert found(want, live) == []
    assert found(want, edited(live, (*CONTAINER, "resources", "limits", "cpu"), "1001m")) == [
        (Difference.CHANGED, f"{WEB}.resources.limits.cpu")
    ]


def test_a_number_and_its_text_differ_where_both_may_stand():
    want = edited(SERVICE, ("spec", "ports", 0, "targetPort"), 8080)
    live = edited(applied(want), ("spec", "ports", 0, "targetPort"), "8080")
    assert found(want, live) == [(Difference.CHANGED, '.spec.ports[port=80,protocol="TCP"].targetPort')]


def test_true_is_not_one():
    want = edited(deployment(), ("spec", "paused"), True)
    assert found(want, edited(applied(want), ("spec", "paused"), 1)) == [(Difference.CHANGED, ".spec.paused")]


def test_a_defaulted_key_keeps_two_items_apart():
    """Port 80 under another protocol is another item, though the declared one names no protocol."""
    live = edited(applied(SERVICE), ("spec", "ports", 0, "protocol"), "UDP")
    assert (Difference.GONE, '.spec.ports[port=80,protocol="TCP"]') in found(SERVICE, live)


def test_the_order_of_items_counts_and_items_of_others_between_them_do_not():
    live = applied(SERVICE)
    live["spec"]["ports"].insert(1, {"port": 9, "protocol": "TCP", "name": "discard"})
    assert found(SERVICE, live) == []
    live["spec"]["ports"].reverse()
    assert found(SERVICE, live) == [(Difference.ORDER, ".spec.ports")]


def test_an_item_that_somebody_adds_to_a_whole_list_is_drift():
    want = edited(deployment(), (*CONTAINER, "args"), ["serve"])
    assert found(want, edited(applied(want), (*CONTAINER, "args"), ["serve", "--debug"])) == [
        (Difference.CHANGED, f"{WEB}.args")
    ]


def test_what_we_applied_and_git_gave_up_is_drift_unless_somebody_else_owns_it_too():
    live = applied(config(a="1", b="2"))
    assert found(config(a="1"), live) == [(Difference.EXTRA, ".data.b")]
    shared = applied(config(b="2"), live, manager="other")
    assert found(config(a="1"), shared) == []


def test_a_given_up_list_item_is_found():
    want = edited(SERVICE, ("spec", "ports"), SERVICE["spec"]["ports"][:1])
    assert found(want, applied(SERVICE)) == [(Difference.EXTRA, '.spec.ports[port=443,protocol="TCP"]')]


def test_a_given_up_item_goes_whole_with_what_the_server_put_into_it():
    live = edited(applied(deployment()), (*CONTAINER, "terminationMessagePath"), "/dev/termination-log")
    want = edited(deployment(), ("spec", "template", "spec", "containers"), [{"name": "new", "image": "x"}])
    assert found(want, live) == [
        (Difference.GONE, '.spec.template.spec.containers[name="new"]'),
        (Difference.EXTRA, WEB),
    ]


def test_a_given_up_map_that_others_share_loses_only_our_part():
    ours = edited(config(), ("metadata", "labels"), {"ours": "1", "both": "2"})
    live = applied(edited(config(), ("metadata", "labels"), {"both": "2", "theirs": "3"}), applied(ours), "other")
    assert found(config(), live) == [(Difference.EXTRA, ".metadata.labels.ours")]


@pytest.mark.parametrize("empty", [None, {}, []])
def test_empty_and_absent_are_alike(empty):
    want = edited(config(), ("metadata", "annotations"), empty)
    assert find_drift(want, applied(config()), schema_of(want)).in_sync


def test_the_values_of_a_secret_that_is_null_are_empty():
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": ""}}
    assert find_drift(secret, {**secret, "data": {"a": None}}, schema_of(secret)).in_sync


def test_without_a_schema_nothing_is_certain():
    widget = {"apiVersion": "x.dev/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1}}
    live = edited(widget, ("spec", "size"), 2)
    drift = find_drift(widget, live, None)
    assert [each.path for each in drift.differences] == [".spec.size"]
    assert not drift.certain


def test_an_edit_by_another_manager_is_certain_and_one_of_git_is_not():
    live = applied(config(key="old"))
    assert not find_drift(config(key="new"), live, schema_of(live)).certain
    theirs = applied(config(key="theirs"), live, manager="kubectl-edit")
    assert find_drift(config(key="old"), theirs, schema_of(live)).certain


def test_the_type_of_a_service_brings_other_fields_with_it():
    live = applied(SERVICE | {"spec": {**SERVICE["spec"], "type": "ClusterIP"}}, applied(SERVICE), manager="kubectl")
    want = SERVICE | {"spec": {**SERVICE["spec"], "type": "NodePort"}}
    assert found(want, live) == [(Difference.CHANGED, ".spec.type")]
    assert not find_drift(want, live, schema_of(want)).certain


def test_a_zero_that_is_ours_but_not_stored_is_in_sync():
    want = deployment(paused=False)
    live = edited(applied(want), ("spec", "paused"), ABSENT)
    assert find_drift(want, live, schema_of(want)).in_sync
    theirs = edited(applied(deployment()), ("spec", "replicas"), 2)
    assert found(want, theirs) == [(Difference.GONE, ".spec.paused")]


def test_a_list_that_is_replaced_as_a_whole_may_hold_defaults_unknown_here():
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"}}
    mine = {**role, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}
    theirs = edited(mine, ("rules", 0, "verbs"), ["get", "list"])
    drift = find_drift(mine, applied(theirs, applied(mine), manager="kubectl"), schema_of(mine))
    assert not drift.in_sync
    assert not drift.certain


def test_the_owner_is_named_with_operation_and_time():
    theirs = applied(config(key="theirs"), applied(config(key="ours")), manager="kubectl-edit")
    (difference,) = find_drift(config(key="ours"), theirs, schema_of(theirs)).differences
    assert isinstance(difference, FieldDifference)
    ((manager, operation, time),) = [(each.manager, each.operation, each.time) for each in difference.owners]
    assert (manager, operation, time) == ("kubectl-edit", "Apply", "2026-01-01T00:00:00Z")


def test_keys_are_escaped_in_pointers():
    want = edited(config(), ("metadata", "annotations"), {"a.b/c~d": "new"})
    live = edited(applied(want), ("metadata", "annotations"), {"a.b/c~d": "old"})
    (difference,) = find_drift(want, live, schema_of(want)).differences
    assert difference.pointer == "/metadata/annotations/a.b~1c~0d"


def test_what_kubectl_applied_before_is_drift_when_git_no_longer_has_it():
    note = '{"metadata":{"labels":{"old":"1"}},"data":{"key":"value"}}'
    live = edited(config(), ("metadata", "annotations"), {"kubectl.kubernetes.io/last-applied-configuration": note})
    live["metadata"]["labels"] = {"old": "1", "other": "2"}
    assert found_three_way(live) == [(Difference.EXTRA, ".metadata.labels.old")]
    broken = edited(live, ("metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"), "{")
    assert found_three_way(broken) == []


def test_a_dry_run_shows_every_effect_and_can_leave_out_those_of_webhooks():
    live = applied(config(key="old"))
    answer = applied(config(key="new"), live)
    answer["metadata"]["labels"] = {"injected": "by-webhook"}
    both = compare_objects(answer, live, schema_of(live))
    assert {each.path for each in both.differences} == {".data.key", ".metadata.labels"}
    ours = compare_objects(answer, live, schema_of(live), owned_only=True)
    assert {each.path for each in ours.differences} == {".data.key"}


def test_what_stands_beside_what_git_declares_can_be_shown():
    live = edited(applied(deployment()), ("spec", "revisionHistoryLimit"), 10)
    noted = edited(config(), ("metadata", "annotations"), {"note": "theirs"})
    assert [(each.kind, each.path) for each in undeclared(deployment(), live, schema_of(live))] == [
        (Difference.DEFAULTED, ".spec.revisionHistoryLimit")
    ]
    live = applied(noted, applied(config(a="1", b="2")), manager="other")
    shown = undeclared(config(a="1"), live, schema_of(live))
    assert [(each.kind, each.path) for each in shown] == [
        (Difference.FOREIGN, ".metadata.annotations"),
        (Difference.FOREIGN, ".data.key"),
    ]


def test_a_dry_run_that_only_records_an_owner_is_in_sync_and_not_owned():
    live = config(key="same")
    drift = compare_objects(applied(config(key="same"), live), live, schema_of(live))
    assert drift.in_sync
    assert not drift.owned


def test_duplicate_items_compare_as_a_whole():
    twice = edited(deployment(), (*CONTAINER, "ports"), [{"containerPort": 1}, {"containerPort": 1}])
    assert found(twice, applied(deployment())) == [
        (Difference.CHANGED, f"{WEB}.ports"),
    ]


def test_sets_compare_by_member():
    want = edited(config(), ("metadata", "finalizers"), ["a.dev/x", "b.dev/y"])
    live = applied(want)
    assert find_drift(want, live, schema_of(want)).in_sync
    assert found(want, edited(live, ("metadata", "finalizers"), ["c.dev/z", "a.dev/x"])) == [
        (Difference.GONE, '.metadata.finalizers[="b.dev/y"]')
    ]
    fewer = edited(config(), ("metadata", "finalizers"), ["a.dev/x"])
    assert found(fewer, live) == [(Difference.EXTRA, '.metadata.finalizers[="b.dev/y"]')]


def test_a_given_up_list_goes_whole():
    want = edited(config(), ("metadata", "finalizers"), ["a.dev/x"])
    assert found(config(), applied(want)) == [(Difference.EXTRA, ".metadata.finalizers")]
    shared = applied(edited(config(), ("metadata", "finalizers"), ["b.dev/y"]), applied(want), "other")
    assert found(config(), shared) == [(Difference.EXTRA, '.metadata.finalizers[="a.dev/x"]')]


def test_items_that_are_no_maps_do_not_break_the_comparison():
    odd = edited(deployment(), (*CONTAINER, "env"), ["A=1"])
    assert found(odd, applied(deployment())) == [(Difference.GONE, f"{WEB}.env")]
    assert found(odd, edited(applied(deployment()), (*CONTAINER, "env"), [{"name": "A"}])) == [
        (Difference.CHANGED, f"{WEB}.env")
    ]
    assert found(odd, edited(applied(deployment()), (*CONTAINER, "env"), ["A=1"])) == []


@pytest.mark.parametrize("metadata", [None, "text"])
def test_metadata_of_the_wrong_form_does_not_break_the_comparison(metadata):
    want = config(annotations={"a": "b"})
    assert not find_drift(want, {**want, "metadata": metadata}, schema_of(want)).in_sync


@pytest.mark.parametrize(
    ("path", "stored"),
    [
        ((*CONTAINER, "resources"), {"limits": {"cpu": "1", "memory": "1Gi"}}),
        ((*CONTAINER, "volumeMounts"), [{"name": "v", "mountPath": "/v"}]),
        (("spec", "template", "spec", "volumes"), [{"name": "v", "emptyDir": {}}]),
        (("spec", "paused"), False),
    ],
)
def test_the_quick_look_knows_what_the_server_stores(path, stored):
    want = edited(deployment(), (*CONTAINER, "resources"), {"limits": {"cpu": "1000m", "memory": "1024Mi"}})
    want = edited(want, (*CONTAINER, "volumeMounts"), [{"name": "v", "mountPath": "/v"}])
    want = edited(want, ("spec", "template", "spec", "volumes"), [{"name": "v", "emptyDir": {}}])
    want = edited(want, ("spec", "paused"), False)
    live = edited(applied(want), path, stored)
    schema = schema_of(want)
    assert matches_exactly(schema, want, live, applied_fields(live, "gitsync"))
    assert not matches_exactly(schema, edited(want, ("spec", "paused"), True), live, applied_fields(live, "gitsync"))


VALUES = st.recursive(
    st.one_of(st.integers(0, 2), st.booleans(), st.sampled_from(["", "a", "b"])),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("xyz"), inner, max_size=3)),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(want=st.dictionaries(st.sampled_from("abc"), VALUES), have=st.dictionaries(st.sampled_from("abc"), VALUES))
def test_the_quick_look_never_misses_a_difference(want, have):
    desired = {"apiVersion": "x.dev/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": want}
    live = {**desired, "spec": have}
    fields = [{"manager": "gitsync", "operation": "Apply", "fieldsV1": _fields(desired)}]
    live["metadata"] = {"name": "w", "managedFields": fields}
    owned = applied_fields(live, "gitsync") or {}
    if matches_exactly(DEDUCED, desired, live, owned):
        assert find_drift(desired, live, None, "another").in_sync


def _fields(manifest):
    from gitsync.plan.drift import declared_fields

    return declared_fields(manifest, DEDUCED)
