"""Validation of quotas, limits, classes and leases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.sandbox.kinds.pods.pod import validate_toleration
from gitsync.sandbox.kinds.pods.resources import (
    amount,
    container_resource_name,
    non_negative,
    resource_name,
    validate_container_resources,
)
from gitsync.sandbox.registry.status import Cause
from gitsync.sandbox.validation.causes import (
    duplicate,
    forbidden,
    immutable,
    invalid,
    minimum,
    one_of,
    required,
)
from gitsync.sandbox.validation.names import dns_label, qualified_name
from gitsync.sandbox.validation.selectors import validate_labels

_SCOPES_THAT_EXIST = ("BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity")
_EXISTING_TEXT = (
    "ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
    "ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)
_SCOPES = (
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
)
_MAX_PRIORITY = 1_000_000_000
_SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_STANDARD_QUOTA = frozenset(
    {"cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory", "requests.storage"}
    | {"requests.ephemeral-storage", "limits.cpu", "limits.memory", "limits.ephemeral-storage"}
    | {"pods", "resourcequotas", "services", "services.nodeports", "services.loadbalancers", "secrets"}
    | {"replicationcontrollers", "persistentvolumeclaims", "configmaps"}
)
_LIMIT_MEMBERS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_LIMIT_TYPES = ("Container", "PersistentVolumeClaim", "Pod")


def validate_quota(new: Manifest, old: Manifest | None) -> list[Cause]:
    """Check a ResourceQuota."""
    spec = new["spec"]
    causes = []
    for name, text in spec.get("hard", {}).items():
        path = f"spec.hard[{name}]"
        causes += _quota_name(name, path)
        causes += non_negative(text, path)
        if (name in ("pods", "services", "secrets", "configmaps") or name.startswith("count/")) and amount(
            text
        ).nanos % 10**9:
            causes.append(invalid(path, text, "must be an integer"))
    for scope in spec.get("scopes", ()):
        if scope not in _SCOPES:
            causes.append(invalid("spec.scopes", spec["scopes"], "unsupported scope"))
    for expression in (spec.get("scopeSelector") or {}).get("matchExpressions") or ():
        causes += _scope_expression(expression, "spec.scopeSelector.matchExpressions")
    if old is not None:
        causes += immutable("spec.scopes", sorted(spec.get("scopes", ())), sorted(old["spec"].get("scopes", ())))
    return causes


def _scope_expression(expression: Mapping[str, Any], field: str) -> list[Cause]:
    """Check one expression (pkg/apis/core/validation: validateScopedResourceSelectorRequirement)."""
    scope, operator, values = (expression.get(name) or "" for name in ("scopeName", "operator", "values"))
    causes = [] if scope in _SCOPES else [invalid(f"{field}.scopeName", scope, "unsupported scope")]
    if scope in _SCOPES_THAT_EXIST and operator != "Exists":
        text = f"must be 'Exists' when scope is any of {_EXISTING_TEXT}"
        causes.append(invalid(f"{field}.operator", operator, text))
    if operator in ("In", "NotIn"):
        text = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
        return causes if values else [*causes, required(f"{field}.values", text)]
    if operator in ("Exists", "DoesNotExist"):
        text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
        return [*causes, invalid(f"{field}.values", values, text)] if values else causes
    return [*causes, invalid(f"{field}.operator", operator, "not a valid selector operator")]


def _quota_name(name: str, field: str) -> list[Cause]:
    causes = [invalid(field, name, text) for text in qualified_name(name)]
    if "/" not in name and name not in _STANDARD_QUOTA and not name.startswith(("hugepages-", "requests.hugepages-")):
        causes.append(invalid(field, name, "must be a standard resource type or fully qualified"))
        causes.append(invalid(field, name, "must be a standard resource for quota"))
    return causes


def validate_limit_range(new: Manifest, old: Manifest | None) -> list[Cause]:
    """Check a LimitRange."""
    causes = []
    types: set[str] = set()
    for index, item in enumerate(new["spec"].get("limits") or ()):
        field = f"spec.limits[{index}]"
        kind = item.get("type", "")
        problems = qualified_name(kind)
        if not problems and "/" not in kind and kind not in _LIMIT_TYPES:
            problems = ["must be a standard limit type or fully qualified"]
        causes += [invalid(f"{field}.type", kind, text) for text in problems]
        if kind in types:
            causes.append(duplicate(f"{field}.type", kind))
        types.add(kind)
        if kind == "Pod":
            for member in ("default", "defaultRequest"):
                if item.get(member):
                    text = "may not be specified when `type` is 'Pod'"
                    causes.append(forbidden(f"{field}.{member}", text))
        if kind == "PersistentVolumeClaim" and not {"storage"} & {*item.get("min", {}), *item.get("max", {})}:
            text = "either minimum or maximum storage value is required, but neither was provided"
            causes.append(required(f"{field}.limits", text))
        causes += _limit_names(item, field) + _limits(item, field)
    return causes


def _limit_names(item: Mapping[str, Any], field: str) -> list[Cause]:
    """Check the names of resources (pkg/apis/core/validation: validateLimitRangeResourceName)."""
    members = [name for name in _LIMIT_MEMBERS if item.get("type") != "Pod" or not name.startswith("default")]
    paths = ((name, f"{field}.{member}[{name}]") for member in members for name in item.get(member, {}))
    check = container_resource_name if item.get("type") in ("Pod", "Container") else resource_name
    return [cause for name, path in paths for cause in check(name, path)]


def _limits(item: Mapping[str, Any], field: str) -> list[Cause]:
    causes = []
    names = {name for member in _LIMIT_MEMBERS for name in item.get(member, {})}
    for name in sorted(names):
        least, most = item.get("min", {}).get(name), item.get("max", {}).get(name)
        default, request = item.get("default", {}).get(name), item.get("defaultRequest", {}).get(name)
        for low, high, member, what in (
            (least, most, "min", "min value {0} is greater than max value {1}"),
            (least, request, "defaultRequest", "min value {0} is greater than default request value {1}"),
            (request, most, "defaultRequest", "default request value {0} is greater than max value {1}"),
            (request, default, "defaultRequest", "default request value {0} is greater than default limit value {1}"),
            (least, default, "default", "min value {0} is greater than default value {1}"),
            (default, most, "default", "default value {0} is greater than max value {1}"),
        ):
            if low is not None and high is not None and amount(low) > amount(high):
                shown = {"min": least, "default": default, "defaultRequest": request}[member]
                causes.append(invalid(f"{field}.{member}[{name}]", shown, what.format(low, high)))
        ratio = item.get("maxLimitRequestRatio", {}).get(name)
        if ratio is not None and amount(ratio).nanos < 10**9:
            path = f"{field}.maxLimitRequestRatio[{name}]"
            causes.append(invalid(path, ratio, f"ratio {ratio} is less than 1"))
    return causes


def validate_priority_class(new: Manifest, old: Manifest | None) -> list[Cause]:
    """Check a PriorityClass."""
    value, name = new.get("value", 0), metadata_of(new).get("name", "")
    causes = []
    if name.startswith("system-"):
        if _SYSTEM.get(name) != value:
            text = "priority class names with 'system-' prefix are reserved for system use only"
            causes.append(forbidden("metadata.name", text))
    elif value > _MAX_PRIORITY:
        text = f"maximum allowed value of a user defined priority is {_MAX_PRIORITY}"
        causes.append(forbidden("value", text))
    policy = new.get("preemptionPolicy")
    if policy == "":
        causes.append(required("preemptionPolicy"))
    else:
        causes += one_of("preemptionPolicy", policy, ("Never", "PreemptLowerPriority"))
    if old is not None:
        if value != old.get("value", 0):
            causes.append(forbidden("value", "may not be changed in an update."))
        causes += immutable("preemptionPolicy", policy, old.get("preemptionPolicy"))
    return causes


def validate_runtime_class(new: Manifest, old: Manifest | None) -> list[Cause]:
    """Check a RuntimeClass."""
    handler, scheduling = new.get("handler", ""), new.get("scheduling") or {}
    causes = immutable("handler", handler, old.get("handler")) if old is not None else []
    if not handler:
        causes.append(required("handler"))
    else:
        causes += [invalid("handler", handler, text) for text in dns_label(handler)]
    overhead = (new.get("overhead") or {}).get("podFixed") or {}
    causes += validate_container_resources({"limits": overhead}, "overhead")
    causes += validate_labels(scheduling.get("nodeSelector"), "scheduling.nodeSelector")
    return causes + _tolerations(scheduling.get("tolerations") or [], "scheduling.tolerations")


def _tolerations(tolerations: list[Mapping[str, Any]], field: str) -> list[Cause]:
    """Check tolerations that must differ in more than their seconds (pkg/apis/node/validation: validateTolerations)."""
    causes = list[Cause]()
    seen = list[dict[str, Any]]()
    for index, toleration in enumerate(tolerations):
        causes += validate_toleration(toleration, f"{field}[{index}]")
        key = {name: value for name, value in toleration.items() if name != "tolerationSeconds"}
        causes += [duplicate(f"{field}[{index}]", toleration)] if key in seen else []
        seen.append(key)
    return causes


def validate_lease(new: Manifest, old: Manifest | None) -> list[Cause]:
    """Check a Lease."""
    spec = new.get("spec", {})
    seconds = spec.get("leaseDurationSeconds")
    causes = []
    if seconds is not None and seconds <= 0:
        causes.append(invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
    causes += minimum("spec.leaseTransitions", spec.get("leaseTransitions"))
    if "strategy" not in spec and spec.get("preferredHolder"):
        text = "may not be specified without `strategy`"
        causes.append(forbidden("spec.preferredHolder", text))
    return causes
