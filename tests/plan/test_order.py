"""Stages, waves, deletes in reverse; a renamed object that holds something exclusive goes before its successor."""

from __future__ import annotations

from typing import Any

import pytest

from gitsync.objects.change import Action, Change
from gitsync.objects.manifest import Manifest
from gitsync.objects.options import HookPhase, Options
from gitsync.objects.ref import GroupKind, ObjectRef, ref_of
from gitsync.plan.order import (
    CLASSES,
    FOUNDATION,
    OBJECTS,
    POST_DELETE,
    POST_SYNC,
    PRE_DELETE,
    PRE_SYNC,
    PRUNE_LAST,
    SYNC_FAIL,
    WEBHOOKS,
    batches,
    hook_stage,
    in_order,
    prune_stage,
    stage_of,
    with_room,
)


@pytest.mark.parametrize(
    ("group", "kind", "stage"),
    [
        ("", "Namespace", FOUNDATION),
        ("apiextensions.k8s.io", "CustomResourceDefinition", FOUNDATION),
        ("rbac.authorization.k8s.io", "ClusterRole", FOUNDATION),
        ("storage.k8s.io", "StorageClass", CLASSES),
        ("gateway.networking.k8s.io", "GatewayClass", CLASSES),
        ("", "ConfigMap", OBJECTS),
        ("apps", "Deployment", OBJECTS),
        ("example.com", "Widget", OBJECTS),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", WEBHOOKS),
        ("apiregistration.k8s.io", "APIService", WEBHOOKS),
    ],
)
def test_kinds_have_their_stage(group, kind, stage):
    assert stage_of(GroupKind(group, kind)) == stage


def change(kind, name="x", *, wave=0, action=Action.CREATE, group=""):
    of = GroupKind(group, kind)
    stage = prune_stage(of, Options()) if action is Action.PRUNE else stage_of(of)
    return Change(ObjectRef(group, kind, "shop", name), action, stage=stage, wave=wave)


def names(changes):
    return [each.ref.kind for each in changes]


def test_what_others_refer_to_goes_first():
    steps = [
        change("Deployment", group="apps"),
        change("ValidatingWebhookConfiguration", group="admissionregistration.k8s.io"),
        change("ConfigMap"),
        change("Namespace"),
        change("PriorityClass", group="scheduling.k8s.io"),
        change("ServiceAccount"),
    ]
    assert names(in_order(steps)) == [
        "Namespace",
        "PriorityClass",
        "ServiceAccount",
        "ConfigMap",
        "Deployment",
        "ValidatingWebhookConfiguration",
    ]


def test_waves_divide_a_stage_and_not_the_stages():
    steps = [change("ConfigMap", wave=5), change("Secret", wave=-1), change("Namespace", wave=9)]
    assert names(in_order(steps)) == ["Namespace", "Secret", "ConfigMap"]


def test_deletes_follow_in_reverse():
    steps = [
        change("Namespace", action=Action.PRUNE),
        change("ConfigMap", action=Action.PRUNE),
        change("Deployment", action=Action.PRUNE, group="apps"),
        change("ConfigMap", "new"),
    ]
    assert [(each.action, each.ref.kind) for each in in_order(steps)] == [
        (Action.CREATE, "ConfigMap"),
        (Action.PRUNE, "Deployment"),
        (Action.PRUNE, "ConfigMap"),
        (Action.PRUNE, "Namespace"),
    ]


def test_pruning_last_is_after_all_other_deletes():
    assert prune_stage(GroupKind("", "ConfigMap"), Options(prune_last=True)) == PRUNE_LAST
    assert prune_stage(GroupKind("", "Namespace"), Options()) < PRUNE_LAST


def test_hooks_stand_around_the_sync():
    assert [hook_stage(phase) for phase in HookPhase] == [
        PRE_SYNC,
        OBJECTS,
        POST_SYNC,
        SYNC_FAIL,
        PRE_DELETE,
        POST_DELETE,
    ]


def test_a_batch_is_what_may_run_at_once():
    steps = [
        change("ConfigMap", "a"),
        change("ConfigMap", "b", wave=1),
        change("Secret"),
        change("ConfigMap", "unchanged", action=Action.NOTHING),
    ]
    assert [[each.ref.name for each in batch] for batch in batches(steps)] == [["x", "a"], ["b"]]


def service(name: str, **spec: Any) -> Manifest:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "shop"}, "spec": spec}


def priority(name: str) -> Manifest:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "globalDefault": True,
    }


def renamed(old: Manifest, new: Manifest) -> list[Change]:
    """Return the steps of a rename, in the stages that they have otherwise."""
    created = Change(ref_of(new), Action.CREATE, stage=3, desired=new)
    return with_room([created, Change(ref_of(old), Action.PRUNE, stage=11, live=old)])


def node_port(number: int, **members: Any) -> dict[str, Any]:
    return {"ports": [{"port": 80, "nodePort": number, **members}]}


@pytest.mark.parametrize(
    ("old", "new", "thing"),
    [
        pytest.param(
            service("old", **node_port(30080)),
            service("new", **node_port(30080)),
            "node port 30080/TCP",
            id="node port",
        ),
        pytest.param(
            service("old", clusterIP="10.0.0.9", clusterIPs=["10.0.0.9"]),
            service("new", clusterIP="10.0.0.9"),
            "address 10.0.0.9",
            id="address",
        ),
        pytest.param(
            service("old", loadBalancerIP="192.0.2.9"),
            service("new", loadBalancerIP="192.0.2.9"),
            "address 192.0.2.9 of a load balancer",
            id="address of a load balancer",
        ),
        pytest.param(priority("old"), priority("new"), "the default priority", id="default priority"),
    ],
)
def test_the_old_holder_is_pruned_first(old: Manifest, new: Manifest, thing: str) -> None:
    steps = renamed(old, new)
    assert [[step.action for step in batch] for batch in batches(steps)] == [[Action.PRUNE], [Action.CREATE]]
    created = next(step for step in steps if step.action is Action.CREATE)
    assert created.waits_for == ref_of(old)
    assert created.reason == f"once {ref_of(old)} is deleted, which holds {thing}: for a moment neither exists"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(service("old", **node_port(30080)), service("new", **node_port(30081)), id="another port"),
        pytest.param(
            service("old", **node_port(30080)),
            service("new", **node_port(30080, protocol="UDP")),
            id="another protocol",
        ),
        pytest.param(service("old", clusterIP="None"), service("new", clusterIP="None"), id="no address"),
        pytest.param(service("old", ports="x"), service("new", ports="x"), id="not valid"),
    ],
)
def test_other_objects_are_pruned_last(old: Manifest, new: Manifest) -> None:
    steps = renamed(old, new)
    assert [[step.action for step in batch] for batch in batches(steps)] == [[Action.CREATE], [Action.PRUNE]]


def ingress(name: str) -> Manifest:
    return {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": name, "namespace": "shop"}}


@pytest.mark.parametrize(
    ("message", "is_first"),
    [
        pytest.param("is already defined in ingress shop/old", True, id="the holder"),
        pytest.param("is already defined in ingress shop/old.", True, id="the holder at the end of a sentence"),
        pytest.param("is already defined in ingress shop/older", False, id="a longer name"),
        pytest.param("is already defined in ingress workshop/old", False, id="another namespace"),
        pytest.param("is already defined in ingress shop/old.example", False, id="a name with a dot"),
        pytest.param("the webhook is away", False, id="another reason"),
        pytest.param("", False, id="not tried yet"),
    ],
)
def test_a_rejection_that_names_the_holder_has_it_pruned_first(message: str, is_first: bool) -> None:
    old, new = ingress("old"), ingress("new")
    created = Change(ref_of(new), Action.CREATE, stage=3, desired=new)
    steps = with_room([created, Change(ref_of(old), Action.PRUNE, stage=11, live=old)], {ref_of(new): message})
    order = [step.action for batch in batches(steps) for step in batch]
    assert order == ([Action.PRUNE, Action.CREATE] if is_first else [Action.CREATE, Action.PRUNE])


def test_a_rejection_that_names_another_kind_prunes_nothing_first() -> None:
    old, new = service("old"), ingress("new")
    created = Change(ref_of(new), Action.CREATE, stage=3, desired=new)
    pruned = Change(ref_of(old), Action.PRUNE, stage=11, live=old)
    steps = with_room([created, pruned], {ref_of(new): "conflicts with shop/old"})
    assert [step.waits_for for step in steps] == [None, None]
