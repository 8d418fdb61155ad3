"""Validation of the podFailurePolicy of a Job (pkg/apis/batch/validation: validatePodFailurePolicy)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gitsync.sandbox.registry.status import Cause
from gitsync.sandbox.validation.causes import duplicate, invalid, not_supported, required, too_many
from gitsync.sandbox.validation.names import qualified_name

_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")
_MOST_RULES, _MOST_VALUES = 20, 255


def validate_pod_failure_policy(spec: Mapping[str, Any], field: str) -> list[Cause]:
    """Check the rules of a Job's spec; their containers have to be in its template."""
    rules = (spec.get("podFailurePolicy") or {}).get("rules") or ()
    if len(rules) > _MOST_RULES:
        return [too_many(f"{field}.podFailurePolicy.rules", len(rules), _MOST_RULES)]
    pod = spec["template"].get("spec") or {}
    names = {one.get("name") for group in ("containers", "initContainers") for one in pod.get(group) or ()}
    causes = []
    for index, rule in enumerate(rules):
        path = f"{field}.podFailurePolicy.rules[{index}]"
        causes += _action(rule.get("action", ""), "backoffLimitPerIndex" in spec, f"{path}.action")
        causes += _source(rule, path)
        if rule.get("onExitCodes") is not None:
            causes += _exit_codes(rule["onExitCodes"], names, f"{path}.onExitCodes")
        for number, pattern in enumerate(rule.get("onPodConditions") or ()):
            causes += _condition(pattern, f"{path}.onPodConditions[{number}]")
    return causes


def _action(action: str, limits_indexes: bool, field: str) -> list[Cause]:
    if action == "FailIndex" and not limits_indexes:
        return [invalid(field, action, "requires the backoffLimitPerIndex to be set")]
    return _choice(action, _ACTIONS, field)


def _choice(value: str, choices: Sequence[str], field: str) -> list[Cause]:
    if not value:
        quoted = " ".join(f'"{one}"' for one in choices)
        return [required(field, f"valid values: [{quoted}]")]
    return [] if value in choices else [not_supported(field, value, choices)]


def _source(rule: Mapping[str, Any], field: str) -> list[Cause]:
    has_codes, has_conditions = rule.get("onExitCodes") is not None, bool(rule.get("onPodConditions"))
    if has_codes != has_conditions:
        return []
    both = "specifying both OnExitCodes and OnPodConditions is not supported"
    none = "specifying one of OnExitCodes and OnPodConditions is required"
    return [invalid(field, "", both if has_codes else none)]


def _exit_codes(codes: Mapping[str, Any], names: set[Any], field: str) -> list[Cause]:
    operator, values = codes.get("operator", ""), codes.get("values") or []
    causes = _choice(operator, _OPERATORS, f"{field}.operator")
    container = codes.get("containerName")
    if container is not None and container not in names:
        text = "must be one of the container or initContainer names in the pod template"
        causes.append(invalid(f"{field}.containerName", container, text))
    if not values:
        causes.append(invalid(f"{field}.values", values, "at least one value is required"))
    elif len(values) > _MOST_VALUES:
        causes.append(too_many(f"{field}.values", len(values), _MOST_VALUES))
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            causes.append(invalid(f"{field}.values[{index}]", 0, "must not be 0 for the In operator"))
        if value in values[:index]:
            causes.append(duplicate(f"{field}.values[{index}]", value))
    if sorted(values) != values:
        causes.append(invalid(f"{field}.values", values, "must be ordered"))
    return causes


def _condition(pattern: Mapping[str, Any], field: str) -> list[Cause]:
    kind = pattern.get("type", "")
    causes = [invalid(f"{field}.type", kind, text) for text in qualified_name(kind)]
    return causes + _choice(pattern.get("status", ""), _STATUSES, f"{field}.status")
