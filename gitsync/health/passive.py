"""Kinds that only hold settings: nothing works on them, so they are well once they exist."""

from __future__ import annotations

from gitsync.objects.ref import GroupKind

_BY_GROUP = {
    "": ("ConfigMap", "Endpoints", "LimitRange", "PodTemplate", "ResourceQuota", "Secret", "ServiceAccount"),
    "admissionregistration.k8s.io": (
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
    ),
    "apps": ("ControllerRevision",),
    "coordination.k8s.io": ("Lease",),
    "discovery.k8s.io": ("EndpointSlice",),
    "gateway.networking.k8s.io": ("ReferenceGrant",),
    "keda.sh": ("ClusterTriggerAuthentication", "TriggerAuthentication"),
    "monitoring.coreos.com": ("AlertmanagerConfig", "PodMonitor", "Probe", "PrometheusRule", "ServiceMonitor"),
    "networking.k8s.io": ("IngressClass", "NetworkPolicy"),
    "node.k8s.io": ("RuntimeClass",),
    "rbac.authorization.k8s.io": ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    "resource.k8s.io": ("DeviceClass", "ResourceClaimTemplate"),
    "scheduling.k8s.io": ("PriorityClass",),
    "snapshot.storage.k8s.io": ("VolumeSnapshotClass",),
    "storage.k8s.io": ("CSIDriver", "StorageClass", "VolumeAttributesClass"),
}

PASSIVE = frozenset(GroupKind(group, kind) for group, kinds in _BY_GROUP.items() for kind in kinds)
