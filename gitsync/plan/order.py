"""
The order of a plan: stages by kind, waves by annotation, deletes in reverse.

Where a commit renames an object that holds something of which the cluster has one, such as a node port, the API server
refuses the new object as long as the former one exists, and a prune waits for all applies: neither would ever happen.
So this pair is ordered the other way round.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Final

from gitsync.kube.kinds import CRD, NAMESPACE, SERVICE
from gitsync.objects.change import Action, Change
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.options import HookPhase, Options
from gitsync.objects.ref import GroupKind, ObjectRef

PRIORITY_CLASS: Final = GroupKind("scheduling.k8s.io", "PriorityClass")

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


def with_room(steps: Iterable[Change], rejections: Mapping[ObjectRef, str] | None = None) -> list[Change]:
    """
    Return the steps, with each prune before the creation that needs what the pruned object holds.

    A creation names the prune that it waits for, and both say what the order costs: for a moment neither exists. What
    else is exclusive is known once a creation was rejected: ``rejections`` has the messages of the last attempt, which
    name the holder.
    """
    changes = list(steps)
    creations = [step for step in changes if step.action is Action.CREATE and step.live is None]
    holders = dict(_holders(changes)) if creations else {}
    pairs = {
        step.ref: (holders[thing], thing)
        for step in creations
        for thing in _things(step.ref, step.desired or {})
        if thing in holders
    }
    if rejections:
        pruned = [step.ref for step in changes if step.action is Action.PRUNE]
        for step in creations:
            message = rejections.get(step.ref, "")
            holder = next((ref for ref in pruned if ref.of == step.ref.of and _names(message, ref)), None)
            if holder is not None and step.ref not in pairs:
                pairs[step.ref] = (holder, "what it needs")
    if not pairs:
        return changes
    stages = {pruned: step.stage for step in changes if step.ref in pairs for pruned in (pairs[step.ref][0],)}
    names = {pruned: ref for ref, (pruned, _) in pairs.items()}
    return [
        _first(step, stages[step.ref], names[step.ref]) if step.ref in stages else _waiting(step, pairs.get(step.ref))
        for step in changes
    ]


def _names(message: str, ref: ObjectRef) -> bool:
    """
    Whether a rejection is about another object, by its namespace and name.

    Of an Ingress: ``host "a" and path "/" is already defined in ingress shop/web`` (kubernetes/ingress-nginx,
    internal/ingress/controller/controller.go: checkOverlap).
    """
    named = re.escape(f"{ref.namespace}/{ref.name}" if ref.namespace else ref.name)
    return re.search(rf"(?<![\w.-]){named}(?![\w-]|\.\w)", message) is not None


def _first(prune: Change, stage: int, successor: ObjectRef) -> Change:
    """Return a prune in the stage before that of its successor."""
    reason = f"before {successor} is created, which needs what it holds"
    return replace(prune, stage=stage - 1, wave=0, reason=_joined(reason, prune.reason))


def _joined(reason: str, risk: str) -> str:
    """Return the reason of the order before that of the class."""
    return f"{reason}; {risk}" if risk else reason


def _waiting(step: Change, pair: tuple[ObjectRef, str] | None) -> Change:
    if pair is None:
        return step
    pruned, thing = pair
    reason = f"once {pruned} is deleted, which holds {thing}: for a moment neither exists"
    return replace(step, waits_for=pruned, reason=_joined(reason, step.reason))


def _holders(steps: Iterable[Change]) -> Iterator[tuple[str, ObjectRef]]:
    for step in steps:
        if step.action is Action.PRUNE:
            for thing in _things(step.ref, step.live or {}):
                yield thing, step.ref


def _things(ref: ObjectRef, manifest: Manifest) -> Iterator[str]:
    """Yield what an object holds alone."""
    holds = _KINDS.get(ref.of)
    if holds is not None:
        yield from holds(manifest)


def _service(service: Manifest) -> Iterator[str]:
    """Yield the ports of nodes and the addresses of a Service (pkg/registry/core/service: "already allocated")."""
    spec = service.get("spec")
    ports = at(spec, "ports", default=[])
    for port in ports if isinstance(ports, list) else ():
        if at(port, "nodePort"):
            yield f"node port {port['nodePort']}/{port.get('protocol', 'TCP')}"
    if at(spec, "healthCheckNodePort"):
        yield f"node port {at(spec, 'healthCheckNodePort')}/TCP"
    for address in {at(spec, "clusterIP"), *(at(spec, "clusterIPs") or ())} - {None, "", "None"}:
        yield f"address {address}"
    if at(spec, "loadBalancerIP"):
        yield f"address {at(spec, 'loadBalancerIP')} of a load balancer"


def _priority_class(made: Manifest) -> Iterator[str]:
    """Yield the default of the cluster (plugin/pkg/admission/priority: "already marked as default")."""
    if made.get("globalDefault") is True:
        yield "the default priority"


_KINDS: Final[Mapping[GroupKind, Callable[[Manifest], Iterator[str]]]] = {
    SERVICE: _service,
    PRIORITY_CLASS: _priority_class,
}
