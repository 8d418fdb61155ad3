"""The health checks of the API server by name; all of them pass as long as the sandbox answers."""

from __future__ import annotations

_HOOKS = (
    "apiservice-discovery-controller",
    "apiservice-openapi-controller",
    "apiservice-openapiv3-controller",
    "apiservice-registration-controller",
    "apiservice-status-local-available-controller",
    "apiservice-status-remote-available-controller",
    "apiservice-wait-for-first-sync",
    "bootstrap-controller",
    "crd-informer-synced",
    "generic-apiserver-start-informers",
    "kube-apiserver-autoregistration",
    "peer-endpoint-reconciler-controller",
    "priority-and-fairness-config-consumer",
    "priority-and-fairness-config-producer",
    "priority-and-fairness-filter",
    "rbac/bootstrap-roles",
    "scheduling/bootstrap-system-priority-classes",
    "start-apiextensions-controllers",
    "start-apiextensions-informers",
    "start-apiserver-admission-initializer",
    "start-cluster-authentication-info-controller",
    "start-kube-aggregator-informers",
    "start-kube-apiserver-identity-lease-controller",
    "start-kube-apiserver-identity-lease-garbage-collector",
    "start-kubernetes-service-cidr-controller",
    "start-legacy-token-tracking-controller",
    "start-service-ip-repair-controllers",
    "start-system-namespaces-controller",
    "storage-object-count-tracker-hook",
    "storage-readiness",
)
_COMMON = ("autoregister-completion", "log", "ping", *(f"poststarthook/{hook}" for hook in _HOOKS))
_CHECKS = {
    "/healthz": (*_COMMON, "etcd", "loopback-serving-certificate"),
    "/livez": (*_COMMON, "etcd", "loopback-serving-certificate"),
    "/readyz": (*_COMMON, "informer-sync", "shutdown"),
}

PATHS = frozenset(path for root, names in _CHECKS.items() for path in (root, *(f"{root}/{name}" for name in names)))
"""Every path that answers ``ok``."""


def verbose(path: str) -> str:
    """Return what a root check says with ``?verbose``: a line for each check."""
    lines = [f"[+]{name} ok" for name in _CHECKS.get(path, ())]
    return "\n".join([*lines, f"{path.strip('/')} check passed", ""])
