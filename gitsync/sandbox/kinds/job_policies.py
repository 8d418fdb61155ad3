"""Validation of the failure and success policies of a Job (pkg/apis/batch/validation)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gitsync.sandbox.errors import StatusCause
from gitsync.sandbox.validation.causes import duplicate, invalid, minimum, not_supported, required, too_long, too_many
from gitsync.sandbox.validation.names import qualified_name

_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")
# pkg/apis/batch/validation: maxPodFailurePolicyRules.
_MOST_RULES = 20
# maxPodFailurePolicyOnExitCodesValues: exit codes are one byte, and 0 is not a failure.
_MOST_VALUES = 255


def validate_pod_failure_policy(spec: Mapping[str, Any], field: str) -> list[StatusCause]:
    """Check the rules of a Job's spec; their containers have to be in its template."""
    rules = (spec.get("podFailurePolicy") or {}).get("rules") or ()
    if len(rules) > _MOST_RULES:
        return [too_many(f"{field}.podFailurePolicy.rules", len(rules), _MOST_RULES)]
    pod = spec["template"].get("spec") or {}
    names = {container.get("name") for group in ("containers", "initContainers") for container in pod.get(group) or ()}
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


def _action(action: str, limits_indexes: bool, field: str) -> list[StatusCause]:
    # Without a limit for each index an index cannot fail alone.
    if action == "FailIndex" and not limits_indexes:
        return [invalid(field, action, "requires the backoffLimitPerIndex to be set")]
    return _choice(action, _ACTIONS, field)


def _choice(value: str, choices: Sequence[str], field: str) -> list[StatusCause]:
    if not value:
        # Go prints a slice with blanks between its items.
        quoted = " ".join(f'"{choice}"' for choice in choices)
        return [required(field, f"valid values: [{quoted}]")]
    return [] if value in choices else [not_supported(field, value, choices)]


def _source(rule: Mapping[str, Any], field: str) -> list[StatusCause]:
    has_codes = rule.get("onExitCodes") is not None
    has_conditions = bool(rule.get("onPodConditions"))
    # A rule matches by one thing, so that the first match is clear.
    if has_codes != has_conditions:
        return []
    both = "specifying both OnExitCodes and OnPodConditions is not supported"
    none = "specifying one of OnExitCodes and OnPodConditions is required"
    return [invalid(field, "", both if has_codes else none)]


def _exit_codes(codes: Mapping[str, Any], names: set[Any], field: str) -> list[StatusCause]:
    operator = codes.get("operator", "")
    values = codes.get("values") or []
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
        # A container that ended with 0 has succeeded.
        if operator == "In" and value == 0:
            causes.append(invalid(f"{field}.values[{index}]", 0, "must not be 0 for the In operator"))
        if value in values[:index]:
            causes.append(duplicate(f"{field}.values[{index}]", value))
    # The list is a set in the schema; one order makes two equal rules equal bytes.
    if sorted(values) != values:
        causes.append(invalid(f"{field}.values", values, "must be ordered"))
    return causes


def _condition(pattern: Mapping[str, Any], field: str) -> list[StatusCause]:
    kind = pattern.get("type", "")
    causes = [invalid(f"{field}.type", kind, text) for text in qualified_name(kind)]
    return causes + _choice(pattern.get("status", ""), _STATUSES, f"{field}.status")


# pkg/apis/batch/validation: maxJobSuccessPolicyRule.
_MAX_RULES = 20
# maxJobSuccessPolicySucceededIndexesLimit, in bytes of the text.
_MAX_INDEXES = 64 * 1024


def validate_success_policy(spec: Mapping[str, Any], field: str) -> list[StatusCause]:
    """Check the rules of a success policy (pkg/apis/batch/validation: validateSuccessPolicy)."""
    rules = spec["successPolicy"].get("rules") or ()
    completions = spec.get("completions", 0)
    text = "at least one rules must be specified when the successPolicy is specified"
    causes = [] if rules else [required(field, text)]
    causes += [too_many(field, len(rules), _MAX_RULES)] if len(rules) > _MAX_RULES else []
    for index, rule in enumerate(rules):
        causes += _rule(rule, f"{field}[{index}]", completions)
    return causes


def _rule(rule: Mapping[str, Any], field: str, completions: int) -> list[StatusCause]:
    count = rule.get("succeededCount")
    indexes = rule.get("succeededIndexes")
    if count is None and indexes is None:
        return [required(field, "at least one of succeededCount or succeededIndexes must be specified")]
    causes = list[StatusCause]()
    total = 0
    if indexes is not None:
        path = f"{field}.succeededIndexes"
        causes += [too_long(path, _MAX_INDEXES)] if len(indexes) > _MAX_INDEXES else []
        try:
            total = _count(indexes, completions)
        except ValueError as error:
            causes.append(invalid(path, indexes, f"error parsing succeededIndexes: {error}"))
    return causes if count is None else causes + _counted(count, f"{field}.succeededCount", completions, indexes, total)


def _counted(count: int, field: str, completions: int, indexes: str | None, total: int) -> list[StatusCause]:
    causes = minimum(field, count)
    if count > completions:
        text = f"must be less than or equal to {completions} (the number of specified completions)"
        causes.append(invalid(field, count, text))
    if indexes is not None and count > total:
        text = f"must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        causes.append(invalid(field, count, text))
    return causes


def _count(indexes: str, completions: int) -> int:
    """Return how many indexes a text such as ``1,3-5`` names; raise ValueError for another (validateIndexesFormat)."""
    total = 0
    last = -1
    for part in indexes.split(",") if indexes else ():
        ends = part.split("-")
        if len(ends) > 2 or not all(end.isascii() and end.isdecimal() for end in ends):
            raise ValueError(
                f'the fragment "{part}" violates the requirement that an index interval can have at most two parts'
            )
        first = int(ends[0])
        final = int(ends[-1])
        if max(first, final) >= completions:
            raise ValueError(f'too large index: "{max(first, final)}"')
        # Ordered and disjoint, so that the count needs no set.
        if first <= last or (len(ends) == 2 and final <= first):
            raise ValueError(f"non-increasing order, previous: {last}, current: {first}")
        total = total + final - first + 1
        last = final
    return total
