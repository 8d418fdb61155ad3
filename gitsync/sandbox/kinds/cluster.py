"""What is wrong with namespaces, quotas, limits, classes, leases and events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.sandbox.kinds.resources import amount, non_negative
from gitsync.sandbox.status import Cause
from gitsync.sandbox.validation.causes import (
    duplicate,
    forbidden,
    immutable,
    invalid,
    minimum,
    not_supported,
    one_of,
    required,
)
from gitsync.sandbox.validation.names import dns_label, qualified_name

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
            break
    if old is not None:
        causes += immutable("spec.scopes", sorted(spec.get("scopes", ())), sorted(old["spec"].get("scopes", ())))
    return causes


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
        causes += [invalid(f"{field}.type", kind, text) for text in qualified_name(kind)]
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
        causes += _limits(item, field)
    return causes


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
    causes += one_of("preemptionPolicy", policy, ("Never", "PreemptLowerPriority"))
    if old is not None:
        if value != old.get("value", 0):
            causes.append(forbidden("value", "may not be changed in an update."))
        causes += immutable("preemptionPolicy", policy, old.get("preemptionPolicy"))
    return causes


def validate_runtime_class(new: Manifest, old: Manifest | None) -> list[Cause]:
    """Check a RuntimeClass."""
    handler = new.get("handler", "")
    if old is not None and handler != old.get("handler"):
        return immutable("handler", handler, old.get("handler"))
    if not handler:
        return [required("handler")]
    return [invalid("handler", handler, text) for text in dns_label(handler)]


def validate_lease(new: Manifest, old: Manifest | None) -> list[Cause]:
    """Check a Lease."""
    spec = new.get("spec", {})
    seconds = spec.get("leaseDurationSeconds")
    causes = []
    if seconds is not None and seconds <= 0:
        causes.append(invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
    causes += minimum("spec.leaseTransitions", spec.get("leaseTransitions"))
    if spec.get("strategy") is None and spec.get("preferredHolder"):
        text = "may not be specified without `strategy`"
        causes.append(forbidden("spec.preferredHolder", text))
    return causes


def validate_event(new: Manifest, old: Manifest | None) -> list[Cause]:
    """Check that an event is in the namespace of what it is about."""
    about = new.get("involvedObject") or new.get("regarding") or {}
    mine = metadata_of(new).get("namespace", "")
    theirs = about.get("namespace", "")
    if (theirs and theirs != mine) or (not theirs and mine != "default" and about):
        return [invalid("involvedObject.namespace", theirs, "does not match event.namespace")]
    return []


def validate_webhooks(new: Manifest, old: Manifest | None) -> list[Cause]:
    """Check a ValidatingWebhookConfiguration or a MutatingWebhookConfiguration."""
    causes = []
    names: set[str] = set()
    for index, hook in enumerate(new.get("webhooks", ())):
        field = f"webhooks[{index}]"
        name = hook.get("name", "")
        if name in names:
            causes.append(duplicate(f"{field}.name", name))
        names.add(name)
        causes += _webhook(hook, field)
    return causes


def _webhook(hook: Mapping[str, Any], field: str) -> list[Cause]:
    name = hook.get("name", "")
    causes = []
    if not name:
        causes.append(required(f"{field}.name"))
    elif name.count(".") < 2:
        text = "should be a domain with at least three segments separated by dots"
        causes.append(invalid(f"{field}.name", name, text))
    if not hook.get("admissionReviewVersions"):
        path = f"{field}.admissionReviewVersions"
        causes.append(required(path, "must specify one of v1, v1beta1"))
    elif not {"v1", "v1beta1"} & set(hook["admissionReviewVersions"]):
        path = f"{field}.admissionReviewVersions"
        text = "must include at least one of v1, v1beta1"
        causes.append(invalid(path, hook["admissionReviewVersions"], text))
    for index, rule in enumerate(hook.get("rules", ())):
        causes += _hook_rule(rule, f"{field}.rules[{index}]")
    causes += one_of(f"{field}.failurePolicy", hook.get("failurePolicy"), ("Fail", "Ignore"))
    causes += one_of(f"{field}.matchPolicy", hook.get("matchPolicy"), ("Equivalent", "Exact"))
    effects = hook.get("sideEffects")
    if effects is None:
        causes.append(required(f"{field}.sideEffects", "must specify one of None, NoneOnDryRun"))
    else:
        causes += one_of(f"{field}.sideEffects", effects, ("None", "NoneOnDryRun"))
    seconds = hook.get("timeoutSeconds")
    if seconds is not None and not 1 <= seconds <= 30:
        text = "the timeout value must be between 1 and 30 seconds"
        causes.append(invalid(f"{field}.timeoutSeconds", seconds, text))
    return causes + _client(hook.get("clientConfig", {}), f"{field}.clientConfig")


def _hook_rule(rule: Mapping[str, Any], field: str) -> list[Cause]:
    causes = []
    for member in ("apiGroups", "apiVersions", "resources", "operations"):
        values = rule.get(member) or ()
        if not values:
            causes.append(required(f"{field}.{member}"))
        elif "*" in values and len(values) > 1 and member != "resources":
            text = (
                "if '*' is present, must not specify other "
                + {
                    "apiGroups": "API groups",
                    "apiVersions": "API versions",
                    "operations": "operations",
                }[member]
            )
            causes.append(invalid(f"{field}.{member}", values, text))
    for index, operation in enumerate(rule.get("operations") or ()):
        choices = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
        if operation not in choices:
            causes.append(not_supported(f"{field}.operations[{index}]", operation, choices))
    return causes + one_of(f"{field}.scope", rule.get("scope"), ("*", "Cluster", "Namespaced"))


def _client(client: Mapping[str, Any], field: str) -> list[Cause]:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        return [required(field, "exactly one of url or service is required")]
    if url is not None and not url.startswith("https://"):
        scheme = url.partition(":")[0] if "://" in url else ""
        text = f"'https' is the only allowed URL scheme; got \"{scheme}\"; desired format: https://host[/path]"
        return [invalid(f"{field}.url", url, text)]
    if service is not None:
        return [required(f"{field}.service.{name}") for name in ("name", "namespace") if not service.get(name)]
    return []
