"""Mutate new pods: service account and token, priority, tolerations, and what their RuntimeClass adds."""

from __future__ import annotations

import random
from typing import Any

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.admission.attributes import AdmissionAttributes
from gitsync.sandbox.registry.contract import ControllerClient

_TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_TOLERATED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
# A mirror pod reflects a static pod of a kubelet, which runs whatever the API says.
_MIRROR = "kubernetes.io/config.mirror"


def _with_spec(pod: Manifest, **members: Any) -> Manifest:
    return {**pod, "spec": {**pod["spec"], **members}}


def with_service_account(
    api: ControllerClient, pod: Manifest, attributes: AdmissionAttributes, rng: random.Random
) -> Manifest:
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
    # The pod decides, then the account, then the default.
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
            # plugin/pkg/admission/serviceaccount: one hour and seven seconds, by which the server knows its own
            # volumes.
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [namespace]}},
        ],
        "defaultMode": 420,
    }


def with_priority(api: ControllerClient, pod: Manifest, attributes: AdmissionAttributes) -> Manifest:
    """Return the pod with the priority of its class, of the default class, or zero."""
    name = pod["spec"].get("priorityClassName", "")
    priority_class: Manifest | None = None
    members: dict[str, Any] = {}
    if name:
        priority_class = api.get("scheduling.k8s.io", "PriorityClass", "", name)
        if priority_class is None and name in _SYSTEM:
            priority_class = {"value": _SYSTEM[name]}
        if priority_class is None:
            raise attributes.forbidden(f"no PriorityClass with name {name} was found")
    else:
        defaults = [c for c in api.list("scheduling.k8s.io", "PriorityClass") if c.get("globalDefault")]
        if defaults:
            # Of several default classes the lowest value counts.
            priority_class = min(defaults, key=lambda candidate: int(candidate["value"]))
            members["priorityClassName"] = priority_class["metadata"]["name"]
    value = int((priority_class or {}).get("value", 0))
    given_priority = pod["spec"].get("priority")
    # Only the class decides, or any user could preempt others.
    if given_priority is not None and given_priority != value:
        why = f"the integer value of priority ({given_priority}) must not be provided in pod spec; priority admission "
        raise attributes.forbidden(f"{why}controller computed {value} from the given PriorityClass name")
    policy = (priority_class or {}).get("preemptionPolicy", "PreemptLowerPriority")
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
    # An absent effect matches all effects.
    if toleration.get("effect", "NoExecute") != "NoExecute":
        return False
    return bool(toleration.get("key", key) == key)


def with_runtime_class(api: ControllerClient, pod: Manifest, attributes: AdmissionAttributes) -> Manifest:
    """Return the pod with the overhead, node selector and tolerations of its RuntimeClass, which must exist."""
    spec = pod["spec"]
    name = spec.get("runtimeClassName")
    runtime_class = api.get("node.k8s.io", "RuntimeClass", "", name) if name else {}
    if runtime_class is None:
        raise attributes.forbidden(f'pod rejected: RuntimeClass "{name}" not found')
    overhead = (runtime_class.get("overhead") or {}).get("podFixed")
    given_overhead = spec.get("overhead")
    if given_overhead and not overhead:
        raise attributes.forbidden("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
    if given_overhead and given_overhead != overhead:
        raise attributes.forbidden("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
    members: dict[str, Any] = {"overhead": overhead} if overhead else {}
    scheduling = runtime_class.get("scheduling") or {}
    nodes = scheduling.get("nodeSelector") or {}
    wanted = spec.get("nodeSelector") or {}
    for key, value in nodes.items():
        if wanted.get(key, value) != value:
            raise attributes.forbidden(
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value};"
                f" pod.spec.nodeSelector[{key}] = {wanted[key]}"
            )
    if nodes:
        members["nodeSelector"] = {**wanted, **nodes}
    tolerations = spec.get("tolerations", [])
    added = [toleration for toleration in scheduling.get("tolerations") or () if toleration not in tolerations]
    if added:
        members["tolerations"] = [*tolerations, *added]
    return {**pod, "spec": {**spec, **members}} if members else pod
