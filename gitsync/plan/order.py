"""The order of a plan: stages by kind, waves by annotation, deletes in reverse."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from gitsync.kube.kinds import CRD, NAMESPACE
from gitsync.objects.change import Action, Change
from gitsync.objects.options import HookPhase, Options
from gitsync.objects.ref import GroupKind, ObjectRef

PRE_SYNC = 0
"""Hooks that run before anything is applied."""
FOUNDATION = 1
"""What other objects need in order to exist: wait until it is established."""
CLASSES = 2
OBJECTS = 3
WEBHOOKS = 4
"""Last, so that a webhook never judges the objects that make it work."""
PRE_DELETE = 9
"""Hooks that run before everything is deleted, because the Application is."""
PRUNE_LAST = 20
"""Deletes run in stages 10 to 14, the reverse of the stages above; this one follows them."""
POST_SYNC = 30
"""Hooks that run once everything is applied and healthy."""
SYNC_FAIL = 31
"""Hooks that run only when the sync failed."""
POST_DELETE = 32
"""Hooks that run once everything is deleted."""

_HOOK_NEEDS_BASE = -5
"""What PreSync hooks need is created in stages -4 to -1, in the order of stages 1 to 4."""

_PRUNE_BASE = 14

_FOUNDATION_KINDS = frozenset(
    {
        NAMESPACE,
        CRD,
        GroupKind("rbac.authorization.k8s.io", "ClusterRole"),
        GroupKind("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    }
)
_WEBHOOK_KINDS = frozenset(
    {
        "ValidatingWebhookConfiguration",
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        # unavailable until its Service answers, which breaks discovery of its group
        "APIService",
    }
)
_KIND_ORDER = (
    # What a workload refers to comes before it; this only orders the start of writes inside a wave, without waiting.
    "Namespace",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleBinding",
    "ResourceQuota",
    "LimitRange",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "Secret",
    "ConfigMap",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicaSet",
    "Deployment",
    "StatefulSet",
    "HorizontalPodAutoscaler",
    "Job",
    "CronJob",
    "Ingress",
)
_RANK = {kind: rank for rank, kind in enumerate(_KIND_ORDER)}
_HOOK_STAGES = {
    HookPhase.PRE_SYNC: PRE_SYNC,
    HookPhase.SYNC: OBJECTS,
    HookPhase.POST_SYNC: POST_SYNC,
    HookPhase.SYNC_FAIL: SYNC_FAIL,
    HookPhase.PRE_DELETE: PRE_DELETE,
    HookPhase.POST_DELETE: POST_DELETE,
}


def stage_of(of: GroupKind) -> int:
    """Return the stage in which objects of a kind are applied."""
    if of in _FOUNDATION_KINDS:
        return FOUNDATION
    if of.kind in _WEBHOOK_KINDS:
        return WEBHOOKS
    # StorageClass, IngressClass, PriorityClass, GatewayClass …: cluster-wide choices that objects name
    if of.kind.endswith("Class"):
        return CLASSES
    return OBJECTS


def hook_stage(phase: HookPhase) -> int:
    """Return the stage in which hooks of a phase run."""
    return _HOOK_STAGES[phase]


def hook_needs_stage(of: GroupKind) -> int:
    """Return the stage in which an object is created that a PreSync hook needs."""
    return _HOOK_NEEDS_BASE + stage_of(of)


def prune_stage(of: GroupKind, options: Options) -> int:
    """Return the stage in which objects of a kind are deleted: the reverse of the apply order."""
    return PRUNE_LAST if options.prune_last else _PRUNE_BASE - stage_of(of)


def sort_key(change: Change) -> tuple[int, int, int, ObjectRef]:
    """Return the place of a step: stage, wave, then kind; deletes have the reverse kind order."""
    rank = _RANK.get(change.ref.kind, len(_KIND_ORDER))
    return change.stage, change.wave, -rank if change.action is Action.PRUNE else rank, change.ref


def in_order(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Return the steps in execution order."""
    return tuple(sorted(changes, key=sort_key))


def batches(changes: Iterable[Change]) -> tuple[tuple[Change, ...], ...]:
    """Return the steps that write, in groups of one stage and wave: a group may run in parallel, groups may not."""
    writes = in_order(change for change in changes if change.is_write)
    return tuple(tuple(group) for _, group in groupby(writes, key=lambda change: (change.stage, change.wave)))
