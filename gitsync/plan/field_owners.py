"""
The owners of the fields of a live object, read from ``metadata.managedFields``, and what kinds of managers there are.

Managers are of users at a keyboard, of Kubernetes itself, or of injectors. A write without a field manager gets the
part of its User-Agent before the slash (https://kubernetes.io/docs/reference/using-api/server-side-apply/#managers).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from gitsync.merge.fieldset import MEMBER, Node, union
from gitsync.objects.change import FieldOwner
from gitsync.objects.keys import FIELD_MANAGER
from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.objects.patterns import matches


@dataclass(frozen=True, slots=True)
class Owners:
    """The field sets of a live object: ours, those of all others, and each by its manager."""

    ours: Node
    others: Node
    entries: tuple[tuple[FieldOwner, Node], ...]

    def of(self, path: tuple[str, ...]) -> tuple[FieldOwner, ...]:
        """Return the managers that own the field at a path, or anything below it."""
        return tuple(owner for owner, root in self.entries if node_at(root, path) is not None)


def owners_of(live: Manifest, manager: str) -> Owners:
    """Return the field owners of a live object; ``ours`` are the fields that the manager applied."""
    ours: Node = MEMBER
    others: Node = MEMBER
    entries = []
    for entry in _entries(live):
        fields = entry.get("fieldsV1") or {}
        owner = FieldOwner(
            str(entry.get("manager") or ""),
            str(entry.get("operation") or ""),
            str(entry.get("time") or ""),
            str(entry.get("subresource") or ""),
        )
        entries.append((owner, fields))
        if owner.manager == manager and owner.operation in ("Apply", "") and not owner.subresource:
            ours = union(ours, fields)
        else:
            others = union(others, fields)
    return Owners(ours, others, tuple(entries))


def applied_fields(live: Manifest, manager: str) -> Node | None:
    """Return the fields that the manager applied, as the object records them; None when it applied nothing."""
    for entry in _entries(live):
        if entry.get("manager") == manager and entry.get("operation") == "Apply" and not entry.get("subresource"):
            fields: Node = entry.get("fieldsV1") or {}
            return fields
    return None


def node_at(root: Node, path: Iterable[str]) -> Node | None:
    """Return the node at a path, None where the set has nothing there or below."""
    node: Node | None = root
    for element in path:
        # A member without members below it: nothing deeper is in the set.
        if node is None or (not node and node is not root):
            return None
        node = node.get(element)
    return node


def _entries(live: Manifest) -> list[dict[str, Any]]:
    entries = metadata_of(live).get("managedFields")
    # a list that is not valid counts as none, as at the API server
    return entries if isinstance(entries, list) else []


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
