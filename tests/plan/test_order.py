"""Stages, waves, and deletes in reverse."""

from __future__ import annotations

import pytest

from gitsync.objects.change import Action, Change
from gitsync.objects.options import HookPhase, Options
from gitsync.objects.ref import GroupKind, ObjectRef
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
