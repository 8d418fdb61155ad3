"""Validation of ValidatingAdmissionPolicies and their bindings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.sandbox.kinds.pods.lifecycle import (
    validate_expression,
    validate_hook_rule,
    validate_match_conditions,
)
from gitsync.sandbox.registry.status import Cause
from gitsync.sandbox.validation.causes import duplicate, forbidden, invalid, malformed, not_supported, one_of, required
from gitsync.sandbox.validation.names import dns_1035_label, dns_subdomain, path_segment, qualified_name
from gitsync.sandbox.validation.selectors import validate_selector

VARIABLES = ("object", "oldObject", "request", "namespaceObject", "params", "variables")
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_ACTIONS = ("Audit", "Deny", "Warn")
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized")


def validate_policy(new: Manifest, old: Manifest | None) -> list[Cause]:
    """Check a policy: what it is about, and that its expressions compile."""
    spec = new["spec"]
    causes = one_of("spec.failurePolicy", spec.get("failurePolicy"), ("Fail", "Ignore"))
    causes += _param_kind(spec["paramKind"], "spec.paramKind") if "paramKind" in spec else []
    constraints = spec.get("matchConstraints")
    if constraints is None:
        causes.append(required("spec.matchConstraints"))
    else:
        causes += _match(constraints, "spec.matchConstraints")
        if not constraints.get("resourceRules"):
            causes.append(required("spec.matchConstraints.resourceRules"))
    causes += validate_match_conditions(spec.get("matchConditions", ()), "spec.matchConditions", VARIABLES)
    for index, item in enumerate(spec.get("variables", ())):
        causes += _variable(item, f"spec.variables[{index}]")
    validations = spec.get("validations", ())
    if not validations and not spec.get("auditAnnotations"):
        text = "validations or auditAnnotations must contain at least one item"
        causes += [required("spec.validations", text), required("spec.auditAnnotations", text)]
    for index, validation in enumerate(validations):
        causes += _validation(validation, f"spec.validations[{index}]")
    name = metadata_of(new).get("name", "")
    annotations = spec.get("auditAnnotations", ())
    keys = [annotation.get("key", "") for annotation in annotations]
    for index, annotation in enumerate(annotations):
        field = f"spec.auditAnnotations[{index}]"
        causes += _audit_annotation(annotation, name, field)
        causes += [duplicate(f"{field}.key", keys[index])] if keys[index] in keys[:index] else []
    return causes


def _variable(variable: Mapping[str, Any], field: str) -> list[Cause]:
    """Check a variable (pkg/apis/admissionregistration/validation: validateVariable)."""
    name, path = variable.get("name", ""), f"{field}.name"
    causes = [] if name.strip() else [required(path, "name is not specified")]
    if name.strip() and not _IDENTIFIER.fullmatch(name):
        causes.append(invalid(path, name, "must be a valid CEL identifier"))
    return causes + _expression(variable.get("expression", ""), f"{field}.expression")


def _audit_annotation(annotation: Mapping[str, Any], policy: str, field: str) -> list[Cause]:
    """Check an audit annotation (pkg/apis/admissionregistration/validation: validateAuditAnnotation)."""
    key, expression = annotation.get("key", ""), annotation.get("valueExpression", "")
    causes = malformed(f"{field}.key", f"{policy}/{key}", qualified_name)
    text = "valueExpression is not specified"
    results = ("string", "null_type")
    return causes + validate_expression(expression, f"{field}.valueExpression", VARIABLES, text, results)


def _validation(validation: Mapping[str, Any], field: str) -> list[Cause]:
    causes = _expression(validation.get("expression", ""), f"{field}.expression", "bool")
    if validation.get("messageExpression"):
        causes += _expression(validation["messageExpression"], f"{field}.messageExpression", "string")
    message = validation.get("message", "")
    if "\n" in message:
        causes.append(invalid(f"{field}.message", message, "message must not contain line breaks"))
    reason = validation.get("reason")
    if reason is not None and reason not in _REASONS:
        causes.append(not_supported(f"{field}.reason", reason, _REASONS))
    return causes


def _expression(expression: str, field: str, *results: str) -> list[Cause]:
    return validate_expression(expression, field, VARIABLES, "expression is not specified", results)


def _param_kind(of: Mapping[str, Any], field: str) -> list[Cause]:
    """Check the kind of parameters (pkg/apis/admissionregistration/validation: validateParamKind)."""
    group, _, version = of.get("apiVersion", "").rpartition("/")
    kind, path = of.get("kind", ""), f"{field}.apiVersion"
    if not of.get("apiVersion"):
        causes = [required(path)]
    elif "/" in group:
        causes = [invalid(path, of["apiVersion"], f"unexpected GroupVersion string: {of['apiVersion']}")]
    else:
        causes = malformed(path, group, dns_subdomain)[:1] if group else []
        causes += malformed(path, version, dns_1035_label)[:1]
    path = f"{field}.kind"
    return causes + (malformed(path, kind.lower(), dns_1035_label)[:1] if kind else [required(path)])


def _match(match: Mapping[str, Any], field: str) -> list[Cause]:
    causes = validate_selector(match.get("namespaceSelector"), f"{field}.namespaceSelector")
    causes += validate_selector(match.get("objectSelector"), f"{field}.objectSelector")
    for member in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(match.get(member, ())):
            causes += validate_hook_rule(rule, f"{field}.{member}[{index}]")
    return causes + one_of(f"{field}.matchPolicy", match.get("matchPolicy"), ("Equivalent", "Exact"))


def validate_policy_binding(new: Manifest, old: Manifest | None) -> list[Cause]:
    """Check the binding of a policy."""
    spec = new["spec"]
    name = spec.get("policyName", "")
    causes = malformed("spec.policyName", name, dns_subdomain) if name else [required("spec.policyName")]
    if "matchResources" in spec:
        causes += _match(spec["matchResources"], "spec.matchResources")
    actions = spec.get("validationActions") or ()
    if not actions:
        causes.append(required("spec.validationActions", "at least one validation action is required"))
    for index, action in enumerate(actions):
        if action in actions[:index]:
            causes.append(duplicate(f"spec.validationActions[{index}]", action))
        elif action not in _ACTIONS:
            causes.append(not_supported(f"spec.validationActions[{index}]", action, _ACTIONS))
    if "Deny" in actions and "Warn" in actions:
        text = "must not contain both Deny and Warn (repeating the same validation failure information in the API "
        causes.append(
            invalid("spec.validationActions", list(actions), f"{text}response and headers serves no purpose)")
        )
    reference = spec.get("paramRef")
    if reference is not None:
        causes += _parameter(reference, "spec.paramRef")
    return causes


def _parameter(reference: Mapping[str, Any], field: str) -> list[Cause]:
    name, selector = reference.get("name", ""), reference.get("selector")
    causes = malformed(f"{field}.name", name, path_segment) if name else []
    causes += validate_selector(selector, f"{field}.selector")
    if name and selector is not None:
        text = "name and selector are mutually exclusive"
        causes += [forbidden(f"{field}.{member}", text) for member in ("name", "selector")]
    if not name and selector is None:
        causes.append(required(field, "one of name or selector must be specified"))
    action, path = reference.get("parameterNotFoundAction"), f"{field}.parameterNotFoundAction"
    return causes + (one_of(path, action, ("Allow", "Deny")) if action else [required(path)])
