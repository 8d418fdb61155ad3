"""Say how healthy a live object is."""

from __future__ import annotations

from collections.abc import Sequence

from gitsync.health import argo, batch, by_condition, flux, gateway, kstatus, operators, platform, workloads
from gitsync.health.kstatus import Status
from gitsync.health.reading import condition, conditions, status_of, text
from gitsync.health.rules import Rule, degraded, healthy, progressing, unknown
from gitsync.objects.health import HealthStatus
from gitsync.objects.manifest import Manifest, group_of, metadata_of
from gitsync.objects.ref import GroupKind

_WORKLOADS: dict[GroupKind, Rule] = {
    GroupKind("apps", "Deployment"): workloads.deployment,
    GroupKind("apps", "StatefulSet"): workloads.stateful_set,
    GroupKind("apps", "DaemonSet"): workloads.daemon_set,
    GroupKind("apps", "ReplicaSet"): workloads.replica_set,
    GroupKind("batch", "Job"): batch.job,
}
_BUILT_IN: dict[GroupKind, Rule] = {
    **_WORKLOADS,
    GroupKind("", "Pod"): workloads.pod,
    GroupKind("", "Service"): platform.service,
    GroupKind("", "PersistentVolumeClaim"): platform.claim,
    GroupKind("", "Namespace"): platform.namespace,
    GroupKind("batch", "CronJob"): batch.cron_job,
    GroupKind("networking.k8s.io", "Ingress"): platform.ingress,
    GroupKind("extensions", "Ingress"): platform.ingress,
    GroupKind("autoscaling", "HorizontalPodAutoscaler"): platform.autoscaler,
    GroupKind("apiregistration.k8s.io", "APIService"): platform.api_service,
    GroupKind("policy", "PodDisruptionBudget"): platform.disruption_budget,
    GroupKind("apiextensions.k8s.io", "CustomResourceDefinition"): platform.crd,
}
_PASSIVE = frozenset(
    # Kinds that only hold settings: nothing works on them, so they are well once they exist.
    {
        *(GroupKind("", kind) for kind in ("ConfigMap", "Secret", "ServiceAccount", "LimitRange", "ResourceQuota")),
        *(
            GroupKind("rbac.authorization.k8s.io", kind)
            for kind in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
        ),
        GroupKind("networking.k8s.io", "NetworkPolicy"),
        GroupKind("networking.k8s.io", "IngressClass"),
        GroupKind("storage.k8s.io", "StorageClass"),
        GroupKind("scheduling.k8s.io", "PriorityClass"),
        GroupKind("node.k8s.io", "RuntimeClass"),
        *(
            GroupKind("admissionregistration.k8s.io", kind)
            for kind in (
                "ValidatingWebhookConfiguration",
                "MutatingWebhookConfiguration",
                "ValidatingAdmissionPolicy",
                "ValidatingAdmissionPolicyBinding",
            )
        ),
    }
)
_RULES: dict[GroupKind, Rule] = {
    **dict.fromkeys(_PASSIVE, platform.exists),
    **_BUILT_IN,
    **by_condition.RULES,
    **argo.RULES,
    **flux.RULES,
    **gateway.RULES,
    **operators.RULES,
}


def assess(live: Manifest, *, related: Sequence[Manifest] = ()) -> HealthStatus:
    """
    Return the health of a live object and the reason in words.

    ``related`` are the objects that it owns, such as ReplicaSets and Pods: a workload that is not healthy takes its
    reason from its failing pods. Without a rule and without a sign of its own an object is Unknown, not Healthy.
    """
    if metadata_of(live).get("deletionTimestamp"):
        return pending_deletion(live)
    of = kind_of(live)
    status = rule_for(of)(live)
    return workloads.with_pods(status, live, related) if of in _WORKLOADS else status


def kind_of(live: Manifest) -> GroupKind:
    """Return the kind of a live object."""
    return GroupKind(group_of(str(live.get("apiVersion") or "")), str(live.get("kind") or ""))


def rule_for(of: GroupKind) -> Rule:
    """Return the rule that judges a kind while it is not being deleted; a rule for the kind goes before its group's."""
    rule = _RULES.get(of)
    if rule is not None:
        return rule
    for domain, group_rule in operators.GROUP_RULES.items():
        if of.group.endswith(f".{domain}"):
            return group_rule
    return by_signs


def pending_deletion(live: Manifest) -> HealthStatus:
    """Return the health of an object that is on its way out, with the finalizers that hold it."""
    finalizers = metadata_of(live).get("finalizers") or ()
    held = f"; blocked by finalizers: {', '.join(map(str, finalizers))}" if finalizers else ""
    return progressing(f"Pending deletion{held}")


_GOOD_PHASES = frozenset({"active", "available", "bound", "healthy", "ready", "running", "succeeded", "completed"})
_BAD_PHASES = frozenset({"degraded", "error", "failed", "invalid", "lost"})


def by_signs(live: Manifest) -> HealthStatus:
    """
    Judge an object of a kind that has no rule, by the signs that it gives.

    Generation, Reconciling, Stalled and Ready first, then counts of replicas, then a word in ``status.phase``.
    """
    result = kstatus.compute(live)
    if result.status is Status.FAILED:
        return degraded(result.message or result.reason)
    if result.status is not Status.CURRENT:
        return progressing(result.message or result.reason)
    found, status = conditions(live), status_of(live)
    for kind in ("Ready", "Available", "Healthy"):
        sign = condition(found, kind)
        if sign is not None:
            said = text(sign, "message") or text(sign, "reason")
            return healthy(said) if sign.get("status") == "True" else progressing(said)
    wanted, ready = status.get("replicas"), status.get("readyReplicas")
    if isinstance(wanted, int) and isinstance(ready, int):
        said = f"{ready} of {wanted} replicas are ready"
        return healthy(said) if ready >= wanted else progressing(said)
    phase = text(status, "phase").lower()
    if phase in _GOOD_PHASES:
        return healthy(text(status, "phase"))
    if phase in _BAD_PHASES:
        return degraded(text(status, "message") or text(status, "phase"))
    return progressing(text(status, "phase")) if phase else unknown("nothing in it says how it is")
