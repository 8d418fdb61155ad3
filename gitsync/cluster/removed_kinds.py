"""
Built-in kinds that moved to another API group or were removed.

Source: the deprecated API migration guide of Kubernetes. Versions inside one group are found by discovery.
"""

from __future__ import annotations

from typing import Final

_NETWORKING: Final = "networking.k8s.io"

MOVED_KINDS: Final = {
    ("extensions", "Ingress"): _NETWORKING,
    ("extensions", "NetworkPolicy"): _NETWORKING,
    ("extensions", "Deployment"): "apps",
    ("extensions", "DaemonSet"): "apps",
    ("extensions", "ReplicaSet"): "apps",
    ("", "Event"): "events.k8s.io",
}
"""The group in which a kind is served now."""

REMOVED_KINDS: Final = {
    (
        "policy",
        "PodSecurityPolicy",
    ): "1.25 removed it; label namespaces with pod-security.kubernetes.io/enforce instead",
    ("extensions", "PodSecurityPolicy"): "1.25 removed it; label namespaces with pod-security.kubernetes.io/enforce "
    "instead",
    ("settings.k8s.io", "PodPreset"): "1.20 removed it; set the fields in the pod template instead",
}
"""What replaced a kind that no version serves any more."""
