"""Kinds that only hold settings: no controller acts on them, so they are healthy once they exist."""

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
    "argoproj.io": (
        "AnalysisTemplate",
        "AppProject",
        "ClusterAnalysisTemplate",
        "ClusterWorkflowTemplate",
        "WorkflowTemplate",
    ),
    "coordination.k8s.io": ("Lease",),
    "discovery.k8s.io": ("EndpointSlice",),
    "extensions.istio.io": ("WasmPlugin",),
    "flowcontrol.apiserver.k8s.io": ("FlowSchema", "PriorityLevelConfiguration"),
    "gateway.networking.k8s.io": ("ReferenceGrant",),
    "keda.sh": ("ClusterTriggerAuthentication", "TriggerAuthentication"),
    "monitoring.coreos.com": (
        "AlertmanagerConfig",
        "PodMonitor",
        "Probe",
        "PrometheusRule",
        "ScrapeConfig",
        "ServiceMonitor",
    ),
    "metallb.io": ("IPAddressPool", "L2Advertisement"),
    "networking.istio.io": (
        "DestinationRule",
        "EnvoyFilter",
        "Gateway",
        "ProxyConfig",
        "ServiceEntry",
        "Sidecar",
        "VirtualService",
        "WorkloadEntry",
        "WorkloadGroup",
    ),
    "networking.k8s.io": ("IngressClass", "NetworkPolicy"),
    "node.k8s.io": ("RuntimeClass",),
    "notification.toolkit.fluxcd.io": ("Alert", "Provider"),
    "rbac.authorization.k8s.io": ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    "resource.k8s.io": ("DeviceClass", "ResourceClaimTemplate"),
    "scheduling.k8s.io": ("PriorityClass",),
    "security.istio.io": ("AuthorizationPolicy", "PeerAuthentication", "RequestAuthentication"),
    "snapshot.storage.k8s.io": ("VolumeSnapshotClass",),
    "storage.k8s.io": ("CSIDriver", "StorageClass", "VolumeAttributesClass"),
    "telemetry.istio.io": ("Telemetry",),
    "traefik.io": (
        "IngressRoute",
        "IngressRouteTCP",
        "IngressRouteUDP",
        "Middleware",
        "MiddlewareTCP",
        "ServersTransport",
        "TLSOption",
        "TLSStore",
        "TraefikService",
    ),
}

ALWAYS_HEALTHY = frozenset(GroupKind(group, kind) for group, kinds in _BY_GROUP.items() for kind in kinds)
