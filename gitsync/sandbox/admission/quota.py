"""ResourceQuota: reject requests that exceed a quota, and charge the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gitsync.kube.quantity import Quantity
from gitsync.objects.manifest import Manifest
from gitsync.sandbox.admission.attributes import CREATE, UPDATE, AdmissionAttributes
from gitsync.sandbox.kinds.pods.resources import amount, quality_of_service
from gitsync.sandbox.registry.contract import ControllerClient

MANAGER = "kube-apiserver"
Usage = dict[str, Quantity]

_COUNTED = frozenset(
    {"configmaps", "persistentvolumeclaims", "replicationcontrollers", "resourcequotas", "secrets", "services"}
)
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_ONE = 10**9


def charge(api: ControllerClient, obj: Manifest, attributes: AdmissionAttributes) -> None:
    """Refuse a request beyond a quota of its namespace; else add to the used amounts of each quota it counts in."""
    if not _counts(attributes):
        return
    usage = usage_of(obj, attributes.resource.plural, attributes.resource.group)
    if attributes.operation == UPDATE and attributes.old is not None:
        old_usage = usage_of(attributes.old, attributes.resource.plural, attributes.resource.group)
        # Only the difference is charged; a smaller request gives back.
        usage = {name: _minus(value, old_usage.get(name)) for name, value in usage.items()}
    charged = []
    for quota in api.list("", "ResourceQuota", attributes.namespace):
        if not in_scope(quota, obj, is_pod=attributes.is_of("", "Pod")):
            continue
        # The status, which the controller copies from the spec: a quota counts once it has been calculated.
        hard = (quota.get("status") or {}).get("hard") or {}
        if attributes.operation == CREATE:
            _must_specify(quota, hard, obj, attributes)
        added = {name: value for name, value in usage.items() if name in hard and value.nanos}
        if added:
            _must_fit(quota, hard, added, attributes)
            charged.append((quota, added))
    # A dry run may be refused, but uses nothing up.
    if attributes.dry_run:
        return
    for quota, added in charged:
        used = (quota.get("status") or {}).get("used") or {}
        total = {name: str(_plus(amount(used.get(name, "0")), value)) for name, value in added.items()}
        status = {**quota["status"], "used": {**used, **total}}
        # Charged at once, so that two requests cannot both take the last of it; the controller recounts later.
        api.update({**quota, "status": status}, manager=MANAGER, subresource="status")


def _counts(attributes: AdmissionAttributes) -> bool:
    """A status is free; only what is created, and services, claims and pods that change, count."""
    if not attributes.namespace or attributes.subresource:
        return False
    if attributes.operation == UPDATE:
        return attributes.is_of("", "Service", "PersistentVolumeClaim", "Pod")
    return attributes.operation == CREATE


def usage_of(obj: Manifest, plural: str, group: str) -> Usage:
    """Return what an object counts as."""
    single = Quantity(_ONE)
    usage: Usage = {f"count/{plural}.{group}" if group else f"count/{plural}": single}
    # The short names are those of the core group.
    if group:
        return usage
    if plural in _COUNTED:
        usage[plural] = single
    if plural == "pods":
        usage |= _pod_usage(obj)
    elif plural == "services":
        usage |= _service_usage(obj)
    elif plural == "persistentvolumeclaims":
        usage |= _claim_usage(obj)
    return usage


def _pod_usage(pod: Manifest) -> Usage:
    # Pods that have ended use nothing.
    if (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded"):
        return {}
    usage: Usage = {"pods": Quantity(_ONE)}
    for member in ("requests", "limits"):
        for name, value in _pod_total(pod["spec"], member).items():
            usage[f"{member}.{name}"] = value
            if member == "requests" and name in _COMPUTE:
                usage[name] = value
    return usage


def _pod_total(spec: Mapping[str, Any], member: str) -> Usage:
    """Return the sum over the containers, at least what the largest init container asks for."""
    total: Usage = {}
    for container in spec.get("containers") or ():
        for name, text in (container.get("resources") or {}).get(member, {}).items():
            total[name] = _plus(total.get(name), amount(text))
    # They run one by one before the others, so only the largest counts.
    for container in spec.get("initContainers", ()):
        for name, text in (container.get("resources") or {}).get(member, {}).items():
            total[name] = max(total.get(name, amount(text)), amount(text))
    return total


def _service_usage(service: Manifest) -> Usage:
    spec = service["spec"]
    ports = len(spec.get("ports", ()))
    usage: Usage = {}
    if spec.get("type") == "NodePort":
        usage["services.nodeports"] = Quantity(ports * _ONE)
    elif spec.get("type") == "LoadBalancer":
        usage["services.loadbalancers"] = Quantity(_ONE)
        if spec.get("allocateLoadBalancerNodePorts", True):
            usage["services.nodeports"] = Quantity(ports * _ONE)
    return usage


def _claim_usage(claim: Manifest) -> Usage:
    storage = claim["spec"].get("resources", {}).get("requests", {}).get("storage")
    usage: Usage = {}
    if storage is not None:
        usage["requests.storage"] = amount(storage)
    name = claim["spec"].get("storageClassName")
    if name:
        prefix = f"{name}.storageclass.storage.k8s.io"
        usage[f"{prefix}/persistentvolumeclaims"] = Quantity(_ONE)
        if storage is not None:
            usage[f"{prefix}/requests.storage"] = amount(storage)
    return usage


def _plus(a: Quantity | None, b: Quantity) -> Quantity:
    return b if a is None else Quantity(a.nanos + b.nanos, b.form)


def _minus(a: Quantity, b: Quantity | None) -> Quantity:
    return a if b is None else Quantity(a.nanos - b.nanos, a.form)


def in_scope(quota: Manifest, obj: Manifest, *, is_pod: bool) -> bool:
    """Return whether the quota counts this object; quotas with scopes count pods only."""
    spec = quota["spec"]
    scopes = spec.get("scopes", ())
    expressions = (spec.get("scopeSelector") or {}).get("matchExpressions", ())
    if not scopes and not expressions:
        return True
    if not is_pod:
        return False
    pod = obj["spec"]
    if not all(_has_scope(scope, pod) for scope in scopes):
        return False
    return all(_meets(expression, pod) for expression in expressions)


def _has_scope(scope: str, pod: Mapping[str, Any]) -> bool:
    match scope:
        case "Terminating":
            return "activeDeadlineSeconds" in pod
        case "NotTerminating":
            return "activeDeadlineSeconds" not in pod
        case "BestEffort":
            return quality_of_service(pod) == "BestEffort"
        case "NotBestEffort":
            return quality_of_service(pod) != "BestEffort"
        case "PriorityClass":
            return bool(pod.get("priorityClassName"))
        case _:
            return False


def _meets(expression: Mapping[str, Any], pod: Mapping[str, Any]) -> bool:
    scope = expression.get("scopeName", "")
    operator = expression.get("operator", "Exists")
    if scope != "PriorityClass" or operator in ("Exists", "DoesNotExist"):
        return _has_scope(scope, pod) is (operator != "DoesNotExist")
    return (pod.get("priorityClassName", "") in expression.get("values", ())) is (operator == "In")


def _must_specify(quota: Manifest, hard: Mapping[str, str], obj: Manifest, attributes: AdmissionAttributes) -> None:
    """Refuse a pod whose containers do not say what the quota limits."""
    if not attributes.is_of("", "Pod"):
        return
    missing: dict[str, list[str]] = {}
    for name in sorted(hard):
        member, _, resource = name.rpartition(".")
        if name in ("cpu", "memory"):
            member = "requests"
            resource = name
        if member not in ("requests", "limits") or resource not in _COMPUTE:
            continue
        lacking = [
            container["name"]
            for container in obj["spec"].get("containers") or ()
            if resource not in (container.get("resources") or {}).get(member, {})
        ]
        if lacking:
            missing.setdefault(name, lacking)
    if missing:
        listed = "; ".join(f"{name} for: {','.join(names)}" for name, names in missing.items())
        raise attributes.forbidden(f"failed quota: {quota['metadata']['name']}: must specify {listed}")


def _must_fit(quota: Manifest, hard: Mapping[str, str], added: Usage, attributes: AdmissionAttributes) -> None:
    used = (quota.get("status") or {}).get("used") or {}
    over = [
        name
        for name in sorted(added)
        # A quota that was lowered below its usage still allows requests that use less.
        if added[name].nanos > 0 and _plus(amount(used.get(name, "0")), added[name]) > amount(hard[name])
    ]
    if not over:
        return

    def listed(values: Mapping[str, Any]) -> str:
        return ",".join(f"{name}={values.get(name, '0')}" for name in over)

    raise attributes.forbidden(
        f"exceeded quota: {quota['metadata']['name']}, requested: {listed(added)}, used: {listed(used)}, "
        f"limited: {listed(hard)}"
    )
