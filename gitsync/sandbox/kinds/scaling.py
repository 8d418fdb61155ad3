"""Validation of HorizontalPodAutoscalers and PodDisruptionBudgets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.errors import StatusCause
from gitsync.sandbox.kinds.pods.resources import amount
from gitsync.sandbox.kinds.workloads import not_over_100_percent, positive_int_or_percent
from gitsync.sandbox.validation.causes import forbidden, invalid, malformed, minimum, not_supported, one_of, required
from gitsync.sandbox.validation.metadata import validate_selector
from gitsync.sandbox.validation.names import path_segment

_SOURCES = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
# The order in which the Go function reads the sources.
_SOURCE_ORDER = ("object", "external", "pods", "resource", "containerResource")
_TARGETS = {"AverageValue": "averageValue", "Utilization": "averageUtilization", "Value": "value"}
_SCALE_TO_ZERO = "must specify at least one Object or External metric to support scaling to zero replicas"
_SELECT = ("Disabled", "Max", "Min")
_EVICTION = ("AlwaysAllow", "IfHealthyBudget")
# MaxStabilizationWindowSeconds, one hour.
_MAX_WINDOW = 3600
# MaxPeriodSeconds, half an hour.
_MAX_PERIOD = 1800


def validate_autoscaler(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check a HorizontalPodAutoscaler."""
    spec = new["spec"]
    least = spec.get("minReplicas")
    most = spec.get("maxReplicas", 0)
    causes = []
    # Zero needs the gate HPAScaleToZero, which is off.
    if least is not None and least < 1:
        causes.append(invalid("spec.minReplicas", least, "must be greater than or equal to 1"))
    if most == 0:
        causes.append(required("spec.maxReplicas", "must be set and greater than 0"))
    else:
        causes += minimum("spec.maxReplicas", most, 1)
    if least is not None and most < least:
        causes.append(invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`"))
    target = spec.get("scaleTargetRef", {})
    causes += _reference(target, "spec.scaleTargetRef") + _group(target)
    percentage = spec.get("targetCPUUtilizationPercentage")  # the real server converts it to a metric of v2
    if percentage is not None and percentage < 1:
        path = "spec.metrics[0].resource.target.averageUtilization"
        causes.append(invalid(path, percentage, "must be greater than 0"))
    causes += _metrics(spec.get("metrics", ()), least)
    return causes + _behavior(spec.get("behavior", {}))


def _reference(target: Mapping[str, Any], field: str) -> list[StatusCause]:
    """Check kind and name (pkg/apis/autoscaling/validation: ValidateCrossVersionObjectReference)."""
    causes = list[StatusCause]()
    for member in ("kind", "name"):
        path = f"{field}.{member}"
        value = target.get(member, "")
        causes += malformed(path, value, path_segment) if value else [required(path)]
    return causes


def _group(target: Mapping[str, Any]) -> list[StatusCause]:
    """Check the apiVersion of a target: only a ReplicationController is of no group."""
    version = target.get("apiVersion", "")
    field = "spec.scaleTargetRef.apiVersion"
    if version.count("/") > 1:
        return [invalid(field, version, f"unexpected GroupVersion string: {version}")]
    # The only kind with a scale in the core group.
    if "/" in version or (version, target.get("kind")) == ("v1", "ReplicationController"):
        return []
    return [invalid(field, version, "apiVersion must specify API group")]


def _metrics(metrics: Any, least: int | None) -> list[StatusCause]:
    causes: list[StatusCause] = []
    for index, metric in enumerate(metrics):
        causes += _metric(metric, f"spec.metrics[{index}]")
    # Metrics of pods cannot be measured without pods.
    if least == 0 and not any(metric.get("type") in ("Object", "External") for metric in metrics):
        causes.append(forbidden("spec.metrics", _SCALE_TO_ZERO))
    return causes


def _metric(metric: Mapping[str, Any], field: str) -> list[StatusCause]:
    """Check a metric (pkg/apis/autoscaling/validation: validateMetricSpec); an unknown type is reported twice."""
    kind = metric.get("type", "")
    causes = [] if kind else [required(f"{field}.type", "must specify a metric source type")]
    unknown = [] if kind in _SOURCES else [not_supported(f"{field}.type", kind, _SOURCES)]
    # Once here and once with the other causes at the end, as the real function appends it twice.
    causes += unknown
    present = [member for member in _SOURCE_ORDER if metric.get(member) is not None]
    if present:
        causes += _source(metric[present[0]], f"{field}.{present[0]}", present[0])
    wanted = _SOURCES.get(kind, "")
    if wanted and wanted not in present:
        causes.append(required(f"{field}.{wanted}", "must populate information for the given metric source"))
    if len(present) > 1:
        text = "must populate the given metric source only"
        unknown = [*unknown, *(forbidden(f"{field}.{name}", text) for name in present if name != wanted)]
    return causes + unknown


def _source(source: Mapping[str, Any], field: str, member: str) -> list[StatusCause]:
    named = member in ("resource", "containerResource")
    if named and not source.get("name"):
        causes = [required(f"{field}.name", "must specify a resource name")]
    elif not named and not source.get("metric", {}).get("name"):
        causes = [required(f"{field}.metric.name", "must specify a metric name")]
    else:
        causes = [] if named else malformed(f"{field}.metric.name", source["metric"]["name"], path_segment)
    if member == "object":
        causes += _reference(source.get("describedObject", {}), f"{field}.describedObject")
    return causes + _target(source.get("target", {}), f"{field}.target", member)


def _target(target: Mapping[str, Any], field: str, source: str) -> list[StatusCause]:
    kind = target.get("type", "")
    causes = [required(f"{field}.type", "must specify a metric target type")] if not kind else []
    if kind not in _TARGETS:
        text = "must be either Utilization, Value, or AverageValue"
        causes.append(invalid(f"{field}.type", kind, text))
    for member in ("value", "averageValue"):
        if member in target and amount(target[member]).nanos <= 0:
            causes.append(invalid(f"{field}.{member}", target[member], "must be positive"))
    utilization = target.get("averageUtilization")
    if utilization is not None and utilization < 1:
        causes.append(invalid(f"{field}.averageUtilization", utilization, "must be greater than 0"))
    if source in ("resource", "containerResource"):
        if utilization is None and "averageValue" not in target:
            text = "must set either a target raw value or a target utilization"
            causes.append(required(f"{field}.averageUtilization", text))
        if utilization is not None and "averageValue" in target:
            text = "may not set both a target raw value and a target utilization"
            causes.append(forbidden(f"{field}.averageValue", text))
    elif source == "pods" and "averageValue" not in target:
        causes.append(required(f"{field}.averageValue", "must specify a positive target averageValue"))
    elif source in ("object", "external") and not {"value", "averageValue"} & target.keys():
        text = "must set either a target value for metric or a per-pod target"
        causes.append(required(f"{field}.averageValue", text))
    return causes


def _behavior(behavior: Mapping[str, Any]) -> list[StatusCause]:
    causes = []
    for direction in ("scaleUp", "scaleDown"):
        rules = behavior.get(direction)
        if rules is None:
            continue
        field = f"spec.behavior.{direction}"
        window = rules.get("stabilizationWindowSeconds")
        if window is not None and window < 0:
            path = f"{field}.stabilizationWindowSeconds"
            causes.append(invalid(path, window, "must be greater than or equal to zero"))
        elif window is not None and window > _MAX_WINDOW:
            text = f"must be less than or equal to {_MAX_WINDOW}"
            causes.append(invalid(f"{field}.stabilizationWindowSeconds", window, text))
        tolerance = rules.get("tolerance")
        # A canonical quantity.
        if tolerance is not None and tolerance.startswith("-"):
            causes.append(invalid(f"{field}.tolerance", tolerance, "must be greater than or equal to 0"))
        causes += one_of(f"{field}.selectPolicy", rules.get("selectPolicy"), _SELECT)
        policies = rules.get("policies", ())
        if not policies:
            # Only where a client sends an empty list: an absent one is defaulted.
            causes.append(required(f"{field}.policies", "must specify at least one Policy"))
        for index, policy in enumerate(policies):
            causes += _scaling_policy(policy, f"{field}.policies[{index}]")
    return causes


def _scaling_policy(policy: Mapping[str, Any], field: str) -> list[StatusCause]:
    kind = policy.get("type", "")
    value = policy.get("value", 0)
    period = policy.get("periodSeconds", 0)
    causes = []
    if kind not in ("Percent", "Pods"):
        causes.append(not_supported(f"{field}.type", kind, ("Percent", "Pods")))
    if value <= 0:
        causes.append(invalid(f"{field}.value", value, "must be greater than zero"))
    if period <= 0:
        causes.append(invalid(f"{field}.periodSeconds", period, "must be greater than zero"))
    elif period > _MAX_PERIOD:
        text = f"must be less than or equal to {_MAX_PERIOD}"
        causes.append(invalid(f"{field}.periodSeconds", period, text))
    return causes


def validate_budget(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check a PodDisruptionBudget."""
    spec = new["spec"]
    causes = []
    # Each follows from the other.
    if "minAvailable" in spec and "maxUnavailable" in spec:
        text = "minAvailable and maxUnavailable cannot be both set"
        causes.append(invalid("spec", _budget_shown(spec), text))
    for member in ("minAvailable", "maxUnavailable"):
        if member in spec:
            causes += positive_int_or_percent(f"spec.{member}", spec[member])
            causes += not_over_100_percent(f"spec.{member}", spec[member])
    causes += validate_selector(spec.get("selector"), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    return causes + one_of("spec.unhealthyPodEvictionPolicy", policy, _EVICTION)


def _budget_shown(spec: Mapping[str, Any]) -> dict[str, Any]:
    members = ("minAvailable", "selector", "maxUnavailable", "unhealthyPodEvictionPolicy")
    return {name[0].upper() + name[1:]: spec.get(name) for name in members}
