"""Validation of quotas, limits, classes and leases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.sandbox.errors import StatusCause
from gitsync.sandbox.kinds.pods.pod import validate_toleration
from gitsync.sandbox.kinds.pods.resources import (
    amount,
    container_resource_name,
    non_negative,
    resource_name,
    validate_container_resources,
)
from gitsync.sandbox.validation.causes import (
    duplicate,
    forbidden,
    immutable,
    invalid,
    minimum,
    one_of,
    required,
)
from gitsync.sandbox.validation.metadata import validate_labels
from gitsync.sandbox.validation.names import dns_label, qualified_name

# These scopes select by a fact of the pod, not by a value, so only the operator Exists makes sense.
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
# pkg/apis/scheduling: HighestUserDefinablePriority; greater values are left to the system classes below.
_MAX_PRIORITY = 1_000_000_000
_SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
# pkg/apis/core/helper: IsStandardQuotaResourceName.
_STANDARD_QUOTA = frozenset(
    {"cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory", "requests.storage"}
    | {"requests.ephemeral-storage", "limits.cpu", "limits.memory", "limits.ephemeral-storage"}
    | {"pods", "resourcequotas", "services", "services.nodeports", "services.loadbalancers", "secrets"}
    | {"replicationcontrollers", "persistentvolumeclaims", "configmaps"}
)
# Each of these is a map from resource to quantity.
_LIMIT_MEMBERS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_LIMIT_TYPES = ("Container", "PersistentVolumeClaim", "Pod")


def validate_quota(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check a ResourceQuota."""
    spec = new["spec"]
    causes = []
    for name, text in spec.get("hard", {}).items():
        path = f"spec.hard[{name}]"
        causes += _quota_name(name, path)
        causes += non_negative(text, path)
        # Objects are counted, so half of one is not a quota (IsIntegerResourceName); cpu and memory may be fractions.
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
        # The server compares scopes as sets: their order may change.
        causes += immutable("spec.scopes", sorted(spec.get("scopes", ())), sorted(old["spec"].get("scopes", ())))
    return causes


def _scope_expression(expression: Mapping[str, Any], field: str) -> list[StatusCause]:
    """Check one expression (pkg/apis/core/validation: validateScopedResourceSelectorRequirement)."""
    scope, operator, values = (expression.get(name) or "" for name in ("scopeName", "operator", "values"))
    causes = [] if scope in _SCOPES else [invalid(f"{field}.scopeName", scope, "unsupported scope")]
    if scope in _SCOPES_THAT_EXIST and operator != "Exists":
        text = f"must be 'Exists' when scope is any of {_EXISTING_TEXT}"
        causes.append(invalid(f"{field}.operator", operator, text))
    if operator in ("In", "NotIn"):
        # The check of the operator ends here: with a value missing, no second cause is added.
        text = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
        return causes if values else [*causes, required(f"{field}.values", text)]
    if operator in ("Exists", "DoesNotExist"):
        text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
        return [*causes, invalid(f"{field}.values", values, text)] if values else causes
    return [*causes, invalid(f"{field}.operator", operator, "not a valid selector operator")]


def _quota_name(name: str, field: str) -> list[StatusCause]:
    causes = [invalid(field, name, text) for text in qualified_name(name)]
    if "/" not in name and name not in _STANDARD_QUOTA and not name.startswith(("hugepages-", "requests.hugepages-")):
        causes.append(invalid(field, name, "must be a standard resource type or fully qualified"))
        causes.append(invalid(field, name, "must be a standard resource for quota"))
    return causes


def validate_limit_range(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check a LimitRange."""
    causes = []
    types: set[str] = set()
    for index, item in enumerate(new["spec"].get("limits") or ()):
        field = f"spec.limits[{index}]"
        kind = item.get("type", "")
        # An own type, example.com/Thing, is allowed: a LimitRange may be written for an admission plugin of others.
        problems = qualified_name(kind)
        if not problems and "/" not in kind and kind not in _LIMIT_TYPES:
            problems = ["must be a standard limit type or fully qualified"]
        causes += [invalid(f"{field}.type", kind, text) for text in problems]
        if kind in types:
            causes.append(duplicate(f"{field}.type", kind))
        types.add(kind)
        if kind == "Pod":
            for member in ("default", "defaultRequest"):
                # A Pod has no resources of its own to default; only the sum over its containers is bounded.
                if item.get(member):
                    text = "may not be specified when `type` is 'Pod'"
                    causes.append(forbidden(f"{field}.{member}", text))
        # A claim has only one resource that a limit can be about.
        if kind == "PersistentVolumeClaim" and not {"storage"} & {*item.get("min", {}), *item.get("max", {})}:
            text = "either minimum or maximum storage value is required, but neither was provided"
            causes.append(required(f"{field}.limits", text))
        causes += _limit_names(item, field) + _limits(item, field)
    return causes


def _limit_names(item: Mapping[str, Any], field: str) -> list[StatusCause]:
    """Check the names of resources (pkg/apis/core/validation: validateLimitRangeResourceName)."""
    members = [name for name in _LIMIT_MEMBERS if item.get("type") != "Pod" or not name.startswith("default")]
    paths = ((name, f"{field}.{member}[{name}]") for member in members for name in item.get(member, {}))
    check = container_resource_name if item.get("type") in ("Pod", "Container") else resource_name
    return [cause for name, path in paths for cause in check(name, path)]


def _limits(item: Mapping[str, Any], field: str) -> list[StatusCause]:
    causes = []
    # Sorted for an order of causes that does not depend on hashing; Go iterates a map, whose order is random.
    names = {name for member in _LIMIT_MEMBERS for name in item.get(member, {})}
    for name in sorted(names):
        least = item.get("min", {}).get(name)
        most = item.get("max", {}).get(name)
        default = item.get("default", {}).get(name)
        request = item.get("defaultRequest", {}).get(name)
        # The order is that of ValidateLimitRange, and the cause names the member whose value is at fault, not the one
        # compared with.
        for low, high, member, what in (
            (least, most, "min", "min value {0} is greater than max value {1}"),
            (least, request, "defaultRequest", "min value {0} is greater than default request value {1}"),
            (request, most, "defaultRequest", "default request value {0} is greater than max value {1}"),
            (request, default, "defaultRequest", "default request value {0} is greater than default limit value {1}"),
            (least, default, "default", "min value {0} is greater than default value {1}"),
            (default, most, "default", "default value {0} is greater than max value {1}"),
        ):
            # Compared as quantities: "500m" is below "1", which as texts it is not.
            if low is not None and high is not None and amount(low) > amount(high):
                shown = {"min": least, "default": default, "defaultRequest": request}[member]
                causes.append(invalid(f"{field}.{member}[{name}]", shown, what.format(low, high)))
        ratio = item.get("maxLimitRequestRatio", {}).get(name)
        # Limit divided by request: below 1 no container could satisfy it.
        if ratio is not None and amount(ratio).nanos < 10**9:
            path = f"{field}.maxLimitRequestRatio[{name}]"
            causes.append(invalid(path, ratio, f"ratio {ratio} is less than 1"))
    return causes


def validate_priority_class(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check a PriorityClass."""
    value = new.get("value", 0)
    name = metadata_of(new).get("name", "")
    causes = []
    # The two classes of kubelets and control planes are created by the server itself under these names and values.
    if name.startswith("system-"):
        if _SYSTEM.get(name) != value:
            text = "priority class names with 'system-' prefix are reserved for system use only"
            causes.append(forbidden("metadata.name", text))
    elif value > _MAX_PRIORITY:
        text = f"maximum allowed value of a user defined priority is {_MAX_PRIORITY}"
        causes.append(forbidden("value", text))
    policy = new.get("preemptionPolicy")
    # An absent policy is defaulted before; only an explicit empty text arrives here.
    if policy == "":
        causes.append(required("preemptionPolicy"))
    else:
        causes += one_of("preemptionPolicy", policy, ("Never", "PreemptLowerPriority"))
    if old is not None:
        if value != old.get("value", 0):
            # Pods carry the number of their class, which would no longer agree with it (ValidatePriorityClassUpdate).
            causes.append(forbidden("value", "may not be changed in an update."))
        causes += immutable("preemptionPolicy", policy, old.get("preemptionPolicy"))
    return causes


def validate_runtime_class(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check a RuntimeClass."""
    handler = new.get("handler", "")
    scheduling = new.get("scheduling") or {}
    causes = immutable("handler", handler, old.get("handler")) if old is not None else []
    if not handler:
        causes.append(required("handler"))
    else:
        # The handler becomes a name in the configuration of containerd or CRI-O.
        causes += [invalid("handler", handler, text) for text in dns_label(handler)]
    # Overhead is checked as limits of a container are: it is added to the sum of the pod.
    overhead = (new.get("overhead") or {}).get("podFixed") or {}
    causes += validate_container_resources({"limits": overhead}, "overhead")
    causes += validate_labels(scheduling.get("nodeSelector"), "scheduling.nodeSelector")
    return causes + _tolerations(scheduling.get("tolerations") or [], "scheduling.tolerations")


def _tolerations(tolerations: list[Mapping[str, Any]], field: str) -> list[StatusCause]:
    """Check tolerations that must differ in more than their seconds (pkg/apis/node/validation: validateTolerations)."""
    causes = list[StatusCause]()
    keys = list[dict[str, Any]]()
    for index, toleration in enumerate(tolerations):
        causes += validate_toleration(toleration, f"{field}[{index}]")
        # Two tolerations of one taint with different seconds would contradict each other.
        key = {name: value for name, value in toleration.items() if name != "tolerationSeconds"}
        causes += [duplicate(f"{field}[{index}]", toleration)] if key in keys else []
        keys.append(key)
    return causes


def validate_lease(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check a Lease."""
    spec = new.get("spec", {})
    seconds = spec.get("leaseDurationSeconds")
    causes = []
    if seconds is not None and seconds <= 0:
        causes.append(invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
    causes += minimum("spec.leaseTransitions", spec.get("leaseTransitions"))
    # Coordinated leader election: a preferred holder means something only to a strategy (ValidateLeaseSpec).
    if "strategy" not in spec and spec.get("preferredHolder"):
        text = "may not be specified without `strategy`"
        causes.append(forbidden("spec.preferredHolder", text))
    return causes
