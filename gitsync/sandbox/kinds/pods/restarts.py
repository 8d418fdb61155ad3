"""Validation of what restarts a container (pkg/apis/core/validation: validateContainerRestartPolicy)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gitsync.sandbox.registry.status import Cause
from gitsync.sandbox.validation.causes import not_supported, one_of, required, too_many

_POLICIES = ("Always", "Never", "OnFailure")
_ACTIONS = ("Restart", "RestartAllContainers")
_OPERATORS = ("In", "NotIn")
_MOST_RULES = 20
_MOST_VALUES = 255


def validate_restarts(container: Mapping[str, Any], field: str, *, init: bool = False) -> list[Cause]:
    """Check the policy of a container and its rules; those of an init container need a policy to be checked."""
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    causes = one_of(f"{field}.restartPolicy", policy, _POLICIES)
    if policy is None and rules:
        causes.append(required(f"{field}.restartPolicy", "must specify restartPolicy when restart rules are used"))
        if init:
            return causes
    if len(rules) > _MOST_RULES:
        causes.append(too_many(f"{field}.restartPolicyRules", len(rules), _MOST_RULES))
    for index, rule in enumerate(rules):
        causes += _rule(rule, f"{field}.restartPolicyRules[{index}]")
    return causes


def _rule(rule: Mapping[str, Any], field: str) -> list[Cause]:
    action, codes = rule.get("action", ""), rule.get("exitCodes")
    causes = [] if action in _ACTIONS else [not_supported(f"{field}.action", action, _ACTIONS)]
    if codes is None:
        return [*causes, required(f"{field}.exitCodes", "must be specified")]
    operator, values = codes.get("operator", ""), codes.get("values") or ()
    if operator not in _OPERATORS:
        causes.append(not_supported(f"{field}.exitCodes.operator", operator, _OPERATORS))
    if len(values) > _MOST_VALUES:
        causes.append(too_many(f"{field}.exitCodes.values", len(values), _MOST_VALUES))
    return causes
