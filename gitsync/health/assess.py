"""Assess the health of live objects."""

from __future__ import annotations

from collections.abc import Sequence

from gitsync.errors import InvalidInput
from gitsync.health import builtin, tables, vendors, workloads
from gitsync.health.kstatus import assess_generic
from gitsync.health.rules import Rule, degraded, healthy, progressing
from gitsync.kube import cel
from gitsync.kube.kinds import CRD, NAMESPACE, PERSISTENT_VOLUME_CLAIM, POD, SERVICE
from gitsync.objects.application import HealthCheck
from gitsync.objects.health import HealthStatus
from gitsync.objects.manifest import Manifest, group_of, metadata_of
from gitsync.objects.ref import GroupKind

_WORKLOADS: dict[GroupKind, Rule] = {
    GroupKind("apps", "Deployment"): workloads.deployment,
    GroupKind("apps", "StatefulSet"): workloads.stateful_set,
    GroupKind("apps", "DaemonSet"): workloads.daemon_set,
    GroupKind("apps", "ReplicaSet"): workloads.replica_set,
    GroupKind("batch", "Job"): workloads.job,
}
_BUILT_IN: dict[GroupKind, Rule] = {
    **_WORKLOADS,
    POD: workloads.pod,
    SERVICE: builtin.service,
    PERSISTENT_VOLUME_CLAIM: builtin.claim,
    NAMESPACE: builtin.namespace,
    GroupKind("batch", "CronJob"): workloads.cron_job,
    GroupKind("networking.k8s.io", "Ingress"): builtin.ingress,
    GroupKind("extensions", "Ingress"): builtin.ingress,
    GroupKind("autoscaling", "HorizontalPodAutoscaler"): builtin.autoscaler,
    GroupKind("apiregistration.k8s.io", "APIService"): builtin.api_service,
    GroupKind("policy", "PodDisruptionBudget"): builtin.disruption_budget,
    CRD: builtin.crd,
}
_RULES: dict[GroupKind, Rule] = {
    # Later rows win: a kind that has a rule of its own may be in the list as well.
    **dict.fromkeys(tables.ALWAYS_HEALTHY, builtin.exists),
    **_BUILT_IN,
    **tables.RULES,
    **vendors.RULES,
}


def assess(live: Manifest, *, related: Sequence[Manifest] = ()) -> HealthStatus:
    """
    Return the health of a live object and its reason.

    ``related`` are the objects that it owns, such as ReplicaSets and Pods: a workload that is not healthy takes its
    reason from its failing pods. Without a rule and without a known condition an object is Unknown, not Healthy.
    """
    if metadata_of(live).get("deletionTimestamp"):
        return pending_deletion(live)
    of = kind_of(live)
    status = rule_for(of)(live)
    # Only workloads: a Service or claim shares Pods with others, and their trouble is not its own.
    return workloads.with_pods(status, live, related) if of in _WORKLOADS else status


def kind_of(live: Manifest) -> GroupKind:
    """Return the kind of a live object."""
    return GroupKind(group_of(str(live.get("apiVersion") or "")), str(live.get("kind") or ""))


def rule_for(of: GroupKind) -> Rule:
    """Return the rule for a kind, else that of its group; neither applies to objects that are being deleted."""
    rule = _RULES.get(of)
    if rule is not None:
        return rule
    # Providers define kinds without end, in groups such as s3.aws.upbound.io, all with the same conditions.
    for domain, group_rule in vendors.GROUP_RULES.items():
        if of.group.endswith(f".{domain}"):
            return group_rule
    return assess_generic


def pending_deletion(live: Manifest) -> HealthStatus:
    """Return the health of an object that is being deleted, with the finalizers that block it."""
    finalizers = metadata_of(live).get("finalizers") or ()
    held = f"; blocked by finalizers: {', '.join(map(str, finalizers))}" if finalizers else ""
    return progressing(f"Pending deletion{held}")


def assess_by(check: HealthCheck, live: Manifest) -> HealthStatus:
    """
    Return the health of a live object by an Application's check.

    An expression that cannot be evaluated, such as one on a status that is still absent, is not true. Raise
    InvalidInput for one that is not valid CEL.
    """
    if metadata_of(live).get("deletionTimestamp"):
        return pending_deletion(live)
    # A failure wins: an object may be ready and failing at once while it restarts.
    if check.degraded and _holds(check.degraded, live):
        return degraded(f"failed: {check.degraded}")
    if _holds(check.healthy, live):
        return healthy()
    return progressing(f"not yet: {check.healthy}")


def _holds(expression: str, live: Manifest) -> bool:
    try:
        return cel.holds(expression, live)
    except ValueError as error:
        raise InvalidInput(f"{expression!r} is not valid CEL: {error}", location="spec.healthChecks") from error
