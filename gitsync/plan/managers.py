"""
Field managers by kind: those of users at a keyboard, of Kubernetes itself, and of injectors.

A write without a field manager gets the part of its User-Agent before the slash
(https://kubernetes.io/docs/reference/using-api/server-side-apply/#managers).
"""

from __future__ import annotations

import functools
from typing import Final

from gitsync.objects.keys import FIELD_MANAGER
from gitsync.objects.patterns import matches

INTERACTIVE: Final = (
    # kubectl names the command (k8s.io/kubectl/pkg/cmd, each in its flags): edit, patch, set, scale, label, annotate,
    # replace, create, expose, autoscale, rollout, taint, run
    "kubectl",
    "kubectl-*",
    # oc embeds the commands of kubectl, and adds its own
    "oc",
    "oc-*",
    # k9s writes by client-go under its own name, and by kubectl edit
    "k9s",
    # browsers: Kubernetes Dashboard, Rancher, Headlamp and the OpenShift console pass the User-Agent of the user on
    "Mozilla",
    "dashboard",
    "rancher",
    "headlamp",
    # Lens and OpenLens are Electron applications that write by node-fetch
    "node-fetch",
    "Lens",
    "OpenLens",
    # requests by hand
    "curl",
    "Wget",
    "HTTPie",
)
"""Patterns of the managers of users: nothing writes the field again that such a write set."""

CONTROL_PLANE: Final = frozenset(
    {
        "cloud-controller-manager",
        "k0s",
        "k3s",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kubelet",
        "kubelite",
        "rke2",
        FIELD_MANAGER,  # under this name the API server records what an admission webhook adds to our writes
    }
)
"""Field managers of Kubernetes itself; k3s, k0s, rke2 and MicroK8s (kubelite) run all of it in one process."""

RESTARTER: Final = "gitsync-restart"
"""Our manager of the annotation that restarts a workload: what our other one applies, Git declares."""

INJECTORS: Final = (
    RESTARTER,
    # what a mutating webhook adds to our own write has our manager; these write what they add by themselves
    "cainjector",  # cert-manager: the CA bundles of webhooks and APIServices
    "cert-manager-cainjector",
    "pilot-discovery",  # Istio, pilot/pkg/controllers/webhooks: the CA bundles of its webhooks
    "istiod",
    "linkerd-*",  # Linkerd: the CA bundles and policies that its own controllers keep
    "vault-k8s",  # Vault agent injector: the CA bundle of its webhook
    "vault-agent-injector",
    "kueue",  # Kueue suspends and admits Jobs: spec.suspend, node selectors, tolerations
    "kueue-*",
    "keda",  # KEDA scales by the HorizontalPodAutoscalers that it creates
    "keda-operator",
    "vpa-*",  # the Vertical Pod Autoscaler
    "Reloader",  # Stakater Reloader: an environment variable or annotation that restarts a workload
)
"""
Patterns of managers that add what others rely on; what they add is neither reported nor removed.

A container is never recognised by its name: a user who may edit an object may choose that too.
"""


@functools.lru_cache(maxsize=4096)  # every object of every plan asks for its managers, and a cluster has few
def is_interactive(manager: str, more: tuple[str, ...] = ()) -> bool:
    """Whether a manager is one of users, by the table or by further patterns of the operator."""
    return any(matches(manager, pattern) for pattern in (*INTERACTIVE, *more))


def is_injector(manager: str) -> bool:
    """Whether a manager is known to add fields that Git does not declare."""
    return any(matches(manager, pattern) for pattern in INJECTORS)
