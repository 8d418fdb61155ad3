"""The objects of a new cluster: namespaces, the default RBAC policy, the Service of the API server."""

from __future__ import annotations

from typing import Any

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.cluster import SandboxCluster
from gitsync.sandbox.rbac import GROUP

MANAGER = "kube-apiserver"
NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")

_RBAC = f"{GROUP}/v1"
# Marked as by the real server, which restores these objects at its start.
_BOOTSTRAP = {"labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}}
_READ = ["get", "list", "watch"]
_WRITE = ["create", "delete", "deletecollection", "patch", "update"]
_WORKLOADS: list[tuple[str, list[str]]] = [
    (
        "",
        [
            "configmaps",
            "endpoints",
            "events",
            "persistentvolumeclaims",
            "pods",
            "replicationcontrollers",
            "serviceaccounts",
            "services",
        ],
    ),
    ("apps", ["controllerrevisions", "daemonsets", "deployments", "deployments/scale", "replicasets", "statefulsets"]),
    ("autoscaling", ["horizontalpodautoscalers"]),
    ("batch", ["cronjobs", "jobs"]),
    ("networking.k8s.io", ["ingresses", "networkpolicies"]),
    ("policy", ["poddisruptionbudgets"]),
    ("coordination.k8s.io", ["leases"]),
]
_ADDRESS = "10.0.0.1"
"""What the API server advertises as its own: Endpoints may not be loopback addresses."""
_PORT = {"name": "https", "port": 6443, "protocol": "TCP"}


def fill(cluster: SandboxCluster) -> None:
    """Create what is not there yet; a second run does nothing."""
    for manifest in _manifests():
        meta = manifest["metadata"]
        group = manifest["apiVersion"].rpartition("/")[0]
        # A user's changes of these objects survive a restart of the sandbox.
        if cluster.get(group, manifest["kind"], meta.get("namespace", ""), meta["name"]) is None:
            cluster.create(manifest, manager=MANAGER)


def _manifests() -> list[Manifest]:
    return [
        *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in NAMESPACES),
        *_roles(),
        *_bindings(),
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": "kubernetes",
                "namespace": "default",
                "labels": {"component": "apiserver", "provider": "kubernetes"},
            },
            "spec": {
                "clusterIP": "10.96.0.1",
                "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {
                "name": "kubernetes",
                "namespace": "default",
                # The slice below is written beside it, not mirrored from it.
                "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
            },
            "subsets": [{"addresses": [{"ip": _ADDRESS}], "ports": [_PORT]}],
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": "kubernetes",
                "namespace": "default",
                "labels": {"kubernetes.io/service-name": "kubernetes"},
            },
            "addressType": "IPv4",
            "endpoints": [{"addresses": [_ADDRESS], "conditions": {"ready": True}}],
            "ports": [_PORT],
        },
    ]


def _roles() -> list[Manifest]:
    view = [_rule(group, resources, _READ) for group, resources in _WORKLOADS]
    edit = [_rule(group, resources, [*_READ, *_WRITE]) for group, resources in _WORKLOADS]
    # Secrets are left out of view: a Secret may hold the token of another account.
    edit.append(_rule("", ["secrets"], [*_READ, *_WRITE]))
    admin = [*edit, _rule(GROUP, ["rolebindings", "roles"], [*_READ, *_WRITE])]
    metrics = [_rule("metrics.k8s.io", ["nodes", "pods"], _READ)]  # metrics-server brings this role
    discovery = ["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz"]
    return [
        _role(
            "cluster-admin",
            [_rule("*", ["*"], ["*"]), {"verbs": ["*"], "nonResourceURLs": ["*"]}],
        ),
        _role("system:discovery", [{"verbs": ["get"], "nonResourceURLs": [*discovery, "/version", "/version/"]}]),
        _role(
            "system:public-info-viewer",
            [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"]}],
        ),
        _role(
            "system:basic-user",
            [
                _rule("authorization.k8s.io", ["selfsubjectaccessreviews", "selfsubjectrulesreviews"], ["create"]),
                _rule("authentication.k8s.io", ["selfsubjectreviews"], ["create"]),
            ],
        ),
        _aggregate("admin", "admin"),
        _aggregate("edit", "edit"),
        _aggregate("view", "view"),
        _role("system:aggregate-to-admin", admin, "admin"),
        _role("system:aggregate-to-edit", edit, "edit"),
        _role("system:aggregate-to-view", view, "view"),
        _role("system:aggregated-metrics-reader", metrics, "admin", "edit", "view"),
    ]


def _role(name: str, rules: list[Any], *aggregate_to: str) -> Manifest:
    labels = dict(_BOOTSTRAP["labels"])
    labels |= {f"rbac.authorization.k8s.io/aggregate-to-{role}": "true" for role in aggregate_to}
    return {"apiVersion": _RBAC, "kind": "ClusterRole", "metadata": {"name": name, "labels": labels}, "rules": rules}


def _aggregate(name: str, of: str) -> Manifest:
    selector = {"matchLabels": {f"rbac.authorization.k8s.io/aggregate-to-{of}": "true"}}
    role = _role(name, [])
    del role["rules"]
    return {**role, "aggregationRule": {"clusterRoleSelectors": [selector]}}


def _rule(group: str, resources: list[str], verbs: list[str]) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def _bindings() -> list[Manifest]:
    return [
        _binding("cluster-admin", ["system:masters"]),
        _binding("system:basic-user", ["system:authenticated"]),
        _binding("system:discovery", ["system:authenticated"]),
        _binding("system:public-info-viewer", ["system:authenticated", "system:unauthenticated"]),
    ]


def _binding(role: str, groups: list[str]) -> Manifest:
    return {
        "apiVersion": _RBAC,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": role, **_BOOTSTRAP},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": GROUP, "kind": "Group", "name": group} for group in groups],
    }
