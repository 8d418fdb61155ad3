"""The kinds that the operator reads and writes."""

from __future__ import annotations

from typing import Final

from gitsync.objects.keys import AGENTS_GROUP, VERSION
from gitsync.objects.ref import GroupKind
from gitsync.ports import ApiResource, Cluster

AGENT: Final = GroupKind(AGENTS_GROUP, "Agent")
SYSTEM: Final = GroupKind(AGENTS_GROUP, "MultiAgentSystem")

_CHILDREN: Final = (
    ("", "v1", "ConfigMap"),
    ("", "v1", "PersistentVolumeClaim"),
    ("", "v1", "Service"),
    ("", "v1", "ServiceAccount"),
    ("apps", "v1", "ControllerRevision"),
    ("apps", "v1", "Deployment"),
    ("apps", "v1", "StatefulSet"),
    ("autoscaling", "v2", "HorizontalPodAutoscaler"),
    ("batch", "v1", "Job"),
    ("coordination.k8s.io", "v1", "Lease"),
    ("networking.k8s.io", "v1", "NetworkPolicy"),
    ("policy", "v1", "PodDisruptionBudget"),
    ("rbac.authorization.k8s.io", "v1", "Role"),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding"),
)
_OPTIONAL: Final = (
    ("gateway.networking.k8s.io", "v1", "HTTPRoute"),
    ("keda.sh", "v1alpha1", "ScaledObject"),
    ("monitoring.coreos.com", "v1", "ServiceMonitor"),
    ("snapshot.storage.k8s.io", "v1", "VolumeSnapshot"),
)
"""Kinds of other projects, which a cluster may not serve."""


CHILD_KINDS: Final = (*_CHILDREN, *_OPTIONAL)
"""Group, version and kind of all children."""


def own_resource(cluster: Cluster, of: GroupKind) -> ApiResource | None:
    """Return the resource of one of our kinds."""
    return cluster.resource(of.group, VERSION, of.kind)


def child_resources(cluster: Cluster) -> dict[GroupKind, ApiResource]:
    """Return the resources of all kinds of children that the cluster serves."""
    resources = {GroupKind(kind[0], kind[2]): cluster.resource(*kind) for kind in CHILD_KINDS}
    return {of: resource for of, resource in resources.items() if resource is not None}


def served_options(cluster: Cluster) -> frozenset[str]:
    """Return which optional kinds the cluster serves."""
    return frozenset(kind for group, version, kind in _OPTIONAL if cluster.resource(group, version, kind) is not None)
