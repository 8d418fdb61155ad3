"""Mutate new pods: set the service account and its token, the priority and tolerations."""

from __future__ import annotations

import random
from typing import Any

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.admission.attributes import Attributes
from gitsync.sandbox.controllers.client import ControllerClient

_TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_TOLERATED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_MIRROR = "kubernetes.io/config.mirror"


def _with_spec(pod: Manifest, **members: Any) -> Manifest:
    return {**pod, "spec": {**pod["spec"], **members}}


def with_service_account(api: ControllerClient, pod: Manifest, attributes: Attributes, rng: random.Random) -> Manifest:
    """Return the pod with its service account's name, pull secrets and token volume; the account must exist."""
    if _MIRROR in (pod["metadata"].get("annotations") or {}):
        return pod
    name = pod["spec"].get("serviceAccountName") or "default"
    account = api.get("", "ServiceAccount", attributes.namespace, name)
    if account is None:
        place = f"{attributes.namespace}/{name}"
        raise attributes.forbidden(f'error looking up service account {place}: serviceaccount "{name}" not found')
    pod = _with_spec(pod, serviceAccountName=name, serviceAccount=name)
    if not pod["spec"].get("imagePullSecrets") and account.get("imagePullSecrets"):
        pod = _with_spec(pod, imagePullSecrets=[dict(secret) for secret in account["imagePullSecrets"]])
    mounts = pod["spec"].get("automountServiceAccountToken", account.get("automountServiceAccountToken", True))
    return _with_token(pod, rng) if mounts else pod


def _with_token(pod: Manifest, rng: random.Random) -> Manifest:
    """Mount the token in every container that has nothing at its path yet."""
    spec = pod["spec"]
    volume = next((v["name"] for v in spec.get("volumes", ()) if v["name"].startswith("kube-api-access-")), "")
    name = volume or f"kube-api-access-{''.join(rng.choices(_LETTERS, k=5))}"
    mount = {"name": name, "readOnly": True, "mountPath": _TOKEN_PATH}
    members: dict[str, Any] = {}
    mounted = False
    for group in ("containers", "initContainers"):
        containers = []
        for container in spec.get(group) or ():
            if all(other.get("mountPath") != _TOKEN_PATH for other in container.get("volumeMounts", ())):
                container = {**container, "volumeMounts": [*container.get("volumeMounts", ()), mount]}
                mounted = True
            containers.append(container)
        if containers:
            members[group] = containers
    if mounted and not volume:
        members["volumes"] = [*spec.get("volumes", ()), {"name": name, "projected": _token_sources()}]
    return _with_spec(pod, **members)


def _token_sources() -> dict[str, Any]:
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [namespace]}},
        ],
        "defaultMode": 420,
    }


def with_priority(api: ControllerClient, pod: Manifest, attributes: Attributes) -> Manifest:
    """Return the pod with the priority of its class, of the default class, or zero."""
    name = pod["spec"].get("priorityClassName", "")
    found: Manifest | None = None
    members: dict[str, Any] = {}
    if name:
        found = api.get("scheduling.k8s.io", "PriorityClass", "", name)
        if found is None and name in _SYSTEM:
            found = {"value": _SYSTEM[name]}
        if found is None:
            raise attributes.forbidden(f"no PriorityClass with name {name} was found")
    else:
        defaults = [c for c in api.list("scheduling.k8s.io", "PriorityClass") if c.get("globalDefault")]
        if defaults:
            found = min(defaults, key=lambda candidate: int(candidate["value"]))
            members["priorityClassName"] = found["metadata"]["name"]
    value = int((found or {}).get("value", 0))
    given = pod["spec"].get("priority")
    if given is not None and given != value:
        why = f"the integer value of priority ({given}) must not be provided in pod spec; priority admission "
        raise attributes.forbidden(f"{why}controller computed {value} from the given PriorityClass name")
    policy = (found or {}).get("preemptionPolicy", "PreemptLowerPriority")
    wanted = pod["spec"].get("preemptionPolicy", policy)
    if wanted != policy:
        why = f"the string value of PreemptionPolicy ({wanted}) must not be provided in pod spec; priority admission "
        raise attributes.forbidden(f"{why}controller computed {policy} from the given PriorityClass name")
    return _with_spec(pod, priority=value, preemptionPolicy=policy, **members)


def with_tolerations(pod: Manifest) -> Manifest:
    """Return the pod with five minutes of patience with a node that is not ready or not reachable."""
    tolerations = pod["spec"].get("tolerations", [])
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in _TOLERATED
        if not any(_covers(toleration, key) for toleration in tolerations)
    ]
    return _with_spec(pod, tolerations=[*tolerations, *added]) if added else pod


def _covers(toleration: dict[str, Any], key: str) -> bool:
    if toleration.get("effect", "NoExecute") != "NoExecute":
        return False
    return bool(toleration.get("key", key) == key)
