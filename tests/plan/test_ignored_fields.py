"""Ignored differences: shown, not fought, and taken over into what is applied."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gitsync.errors import InvalidInput
from gitsync.merge.field_manager import Write, update_object
from gitsync.objects.application import IgnoreRule
from gitsync.objects.change import DRIFT, Action, Difference
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ObjectRef
from gitsync.plan.drift import find_drift
from gitsync.plan.ignored_fields import IgnoredFields, _less, without_ignored, without_ignored_fields
from tests.plan.factories import (
    CONTAINER,
    SERVICE,
    application,
    applied,
    config,
    deployment,
    edited,
    live_of,
    plan_of,
    ref,
    schema_of,
)

REPLICAS = ("spec", "replicas")


def ignore(rule, desired, live, pointers=()):
    schema = schema_of(desired)
    rules = [rule] if rule else []
    return without_ignored(IgnoredFields(rules, pointers), desired, live, schema, find_drift(desired, live, schema))


@pytest.mark.parametrize(
    "rule",
    [
        IgnoreRule(kind="Deployment", group="apps", json_pointers=("/spec/replicas",)),
        IgnoreRule(kind="*", json_pointers=("/not/there", "/spec/replicas")),
        IgnoreRule(kind="*", group="*", jq_paths=(".spec.replicas",)),
        IgnoreRule(kind="Deployment", name="web", namespace="*", json_pointers=("/spec",)),
        IgnoreRule(kind="Deployment", managers=("scaler",)),
    ],
)
def test_a_matching_rule_takes_the_live_value_over(rule):
    scaled = edited(deployment(), REPLICAS, 5)
    live = applied(scaled, applied(deployment()), manager="scaler")
    result = ignore(rule, deployment(), live)
    assert result.drift.in_sync
    assert [each.kind for each in result.drift.differences] == [Difference.IGNORED]
    assert result.desired["spec"]["replicas"] == 5


@pytest.mark.parametrize(
    "rule",
    [
        IgnoreRule(kind="Service", json_pointers=("/spec",)),
        IgnoreRule(kind="Deployment", group="extensions", json_pointers=("/spec",)),
        IgnoreRule(kind="Deployment", name="other", json_pointers=("/spec",)),
        IgnoreRule(kind="Deployment", json_pointers=("/spec/replica",)),
        IgnoreRule(kind="Deployment", managers=("another",)),
        IgnoreRule(kind="Deployment"),
        None,
    ],
)
def test_other_rules_change_nothing(rule):
    live = edited(applied(deployment()), REPLICAS, 5)
    result = ignore(rule, deployment(), live)
    assert not result.drift.in_sync
    assert result.desired == deployment()


def test_the_objects_own_annotation_ignores_too():
    live = edited(applied(deployment()), REPLICAS, 5)
    assert ignore(None, deployment(), live, pointers=("/spec/replicas",)).drift.in_sync


def test_an_ignored_field_that_lives_no_more_is_not_applied():
    result = ignore(IgnoreRule(kind="*", json_pointers=("/data/b",)), config(a="1", b="2"), applied(config(a="1")))
    assert result.drift.in_sync
    assert result.desired["data"] == {"a": "1"}


def test_an_ignored_field_that_git_gave_up_is_kept():
    result = ignore(IgnoreRule(kind="*", json_pointers=("/data/b",)), config(a="1"), applied(config(a="1", b="2")))
    assert result.drift.in_sync
    assert result.desired["data"] == {"a": "1", "b": "2"}


def test_an_item_is_chosen_by_its_name_wherever_it_stands():
    rule = IgnoreRule(kind="*", jq_paths=('.spec.template.spec.containers[] | select(.name == "web") | .image',))
    side = {"name": "side", "image": "side"}
    want = edited(deployment(), CONTAINER[:-1], [side, *deployment()["spec"]["template"]["spec"]["containers"]])
    live = edited(applied(want), (*CONTAINER[:-1], 1, "image"), "patched")
    result = ignore(rule, want, live)
    assert result.drift.in_sync
    containers = result.desired["spec"]["template"]["spec"]["containers"]
    assert [each["image"] for each in containers] == ["side", "patched"]


def test_an_ignored_item_is_added_or_removed_whole():
    rule = IgnoreRule(kind="*", jq_paths=('.spec.template.spec.containers[] | select(.name == "side")',))
    side = {"name": "side", "image": "side"}
    with_side = edited(
        deployment(), (*CONTAINER[:-1],), [*deployment()["spec"]["template"]["spec"]["containers"], side]
    )
    gone = ignore(rule, with_side, applied(deployment()))
    assert gone.drift.in_sync
    assert [each["name"] for each in gone.desired["spec"]["template"]["spec"]["containers"]] == ["web"]
    extra = ignore(rule, deployment(), applied(with_side))
    assert extra.drift.in_sync
    assert [each["name"] for each in extra.desired["spec"]["template"]["spec"]["containers"]] == ["web", "side"]


def test_a_path_inside_a_whole_list_ignores_it_when_nothing_else_in_it_differs():
    rule = IgnoreRule(kind="*", json_pointers=("/rules/0/verbs",))
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "r"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    }
    live = edited(applied(role), ("rules", 0, "verbs"), ["get", "list"])
    assert ignore(rule, role, live).drift.in_sync
    assert not ignore(rule, role, edited(live, ("rules", 0, "resources"), ["secrets"])).drift.in_sync


def test_a_dry_run_does_not_hide_what_is_ignored_inside_a_whole_list():
    """Its answer has the live value, and the apply must not send the declared one beside another change."""
    rule = {"kind": "Role", "group": "rbac.authorization.k8s.io", "jsonPointers": ["/rules/0/verbs"]}
    app = application(sync={"ignoreDifferences": [rule]})
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "r"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    }
    live = live_of(app, role)
    wanted = edited(edited(role, ("rules", 0, "verbs"), ["*"]), ("metadata", "annotations"), {"note": "x"})
    (asked,) = plan_of(app, [wanted], live).writes
    answer = applied(asked.desired, live[asked.ref])
    (confirmed,) = plan_of(app, [wanted], live, dry_runs={asked.ref: answer}).writes
    assert confirmed.desired["rules"] == role["rules"]
    kinds = {item.path: item.kind for item in confirmed.differences}
    assert kinds == {".metadata.annotations.note": Difference.GONE, ".rules": Difference.IGNORED}


def test_a_whole_item_of_a_whole_list_can_be_ignored():
    rule = IgnoreRule(kind="*", json_pointers=("/rules/1", "/rules/0/absent/deeper", "/rules/7"))
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "r"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    }
    live = edited(applied(role), ("rules",), [*role["rules"], {"apiGroups": ["x"], "resources": ["y"], "verbs": ["z"]}])
    assert ignore(rule, role, live).drift.in_sync


def test_a_path_that_is_not_understood_is_refused():
    live = edited(applied(deployment()), REPLICAS, 5)
    with pytest.raises(InvalidInput, match=r"spec\.sync\.ignoreDifferences"):
        ignore(IgnoreRule(kind="*", jq_paths=("keys",)), deployment(), live)


def test_several_items_are_dropped_by_their_number_not_their_text() -> None:
    items = [f"item-{number}" for number in range(13)]
    kept = _less({"items": items}, [("items", "2"), ("items", "10")])

    assert kept == {"items": [item for item in items if item not in ("item-2", "item-10")]}


@pytest.mark.parametrize("rest", ["", " | .image"])
def test_a_rule_for_an_injected_item_keeps_the_declared_one_at_its_index(rest):
    proxied = copy.deepcopy(applied(deployment()))
    proxied["spec"]["template"]["spec"]["containers"].insert(0, {"name": "proxy", "image": "proxy:1"})
    rule = IgnoreRule(
        kind="Deployment", jq_paths=(f'.spec.template.spec.containers[] | select(.name == "proxy"){rest}',)
    )
    schema = schema_of(deployment())
    assert without_ignored_fields(IgnoredFields([rule]), deployment(), proxied, schema) == (deployment(), ())
    proxied["spec"]["template"]["spec"]["containers"][1]["image"] = "evil:1"
    drift = find_drift(deployment(), proxied, schema)
    left = without_ignored(IgnoredFields([rule]), deployment(), proxied, schema, drift).drift
    assert [item.path for item in left.differences if item.kind in DRIFT] == [
        '.spec.template.spec.containers[name="web"].image'
    ]


HASHED = {"app": "web", "rollouts-pod-template-hash": "6f7d9c"}


def narrowed(selector: dict[str, str], manager: str) -> dict[ObjectRef, Manifest]:
    """Return the cluster after another manager patched the selector of the declared Service."""
    live = live_of(application(), SERVICE)[ref(SERVICE)]
    schema = schema_of(SERVICE)
    assert schema is not None
    patched = edited(live, ("spec", "selector"), selector)
    service = update_object(live, patched, schema, Write(manager, "2026-01-02T00:00:00Z"))
    return {ref(SERVICE): service}


@pytest.mark.parametrize(
    ("selector", "manager", "is_kept"),
    [
        pytest.param(HASHED, "rollouts-controller", True, id="Argo Rollouts chooses a revision"),
        pytest.param(HASHED, "kubectl-patch", False, id="a user chooses one"),
        pytest.param({**HASHED, "app": "evil"}, "rollouts-controller", False, id="other Pods"),
        pytest.param({**HASHED, "more": "x"}, "rollouts-controller", False, id="a member that is not its own"),
        pytest.param({"app": "web", "version": "2"}, "rollouts-controller", False, id="another member"),
    ],
)
def test_the_revision_that_argo_rollouts_selects_stays(selector, manager, is_kept):
    (step,) = plan_of(application(), [SERVICE], narrowed(selector, manager)).changes
    assert (step.action is Action.NOTHING) is is_kept


def test_a_commit_keeps_the_revision_that_argo_rollouts_selects():
    changed = edited(SERVICE, ("spec", "ports", 0, "port"), 8080)
    (step,) = plan_of(application(), [changed], narrowed(HASHED, "rollouts-controller")).changes
    assert step.action is Action.UPDATE
    assert step.desired["spec"]["selector"] == HASHED


def test_a_rule_leaves_a_part_of_an_atomic_value_to_its_owner():
    rule = {"kind": "Service", "jsonPointers": ["/spec/selector/version"]}
    app = application(sync={"ignoreDifferences": [rule]})
    (step,) = plan_of(app, [SERVICE], narrowed({"app": "web", "version": "2"}, "flagger")).changes
    assert step.action is Action.NOTHING


SUBSETS = [{"name": "stable", "labels": {"app": "web"}}, {"name": "canary", "labels": {"app": "web"}}]


def subset(name: str, **labels: str) -> dict[str, Any]:
    return {"name": name, "labels": {"app": "web", **{key.replace("_", "-"): value for key, value in labels.items()}}}


@pytest.mark.parametrize(
    ("subsets", "manager", "is_kept"),
    [
        pytest.param(
            [subset("stable", rollouts_pod_template_hash="a"), subset("canary", rollouts_pod_template_hash="b")],
            "rollouts-controller",
            True,
            id="Argo Rollouts chooses the revision of each subset",
        ),
        pytest.param(
            [SUBSETS[0], subset("canary", rollouts_pod_template_hash="b")],
            "rollouts-controller",
            True,
            id="of one subset",
        ),
        pytest.param(
            [SUBSETS[0], subset("canary", rollouts_pod_template_hash="b")], "kubectl-edit", False, id="a user does"
        ),
        pytest.param(
            [SUBSETS[0], subset("canary", app="evil", rollouts_pod_template_hash="b")],
            "rollouts-controller",
            False,
            id="other Pods",
        ),
        pytest.param(
            [subset("canary", rollouts_pod_template_hash="b")], "rollouts-controller", False, id="without a subset"
        ),
        pytest.param("none", "rollouts-controller", False, id="a value of another type"),
    ],
)
def test_the_revisions_that_argo_rollouts_sets_in_subsets_stay(subsets, manager, is_kept):
    rule = {
        "apiVersion": "networking.istio.io/v1",
        "kind": "DestinationRule",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"host": "web", "subsets": SUBSETS},
    }
    fields = {"f:spec": {"f:subsets": {}}}
    live = edited(rule, ("spec", "subsets"), subsets)
    live["metadata"]["managedFields"] = [{"manager": manager, "operation": "Update", "fieldsV1": fields}]
    drift = find_drift(rule, live, None)
    left = without_ignored(IgnoredFields(()), rule, live, None, drift)
    assert not drift.in_sync
    assert left.drift.in_sync is is_kept
    assert (left.desired["spec"]["subsets"] == subsets) is is_kept
