"""Validation of webhook configurations, and of admission policies with their bindings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.sandbox.errors import StatusCause
from gitsync.sandbox.validation.causes import (
    between,
    duplicate,
    forbidden,
    invalid,
    malformed,
    not_supported,
    one_of,
    required,
    service_path,
    too_many,
)
from gitsync.sandbox.validation.cel import CompileError, compile_expression
from gitsync.sandbox.validation.metadata import validate_selector
from gitsync.sandbox.validation.names import dns_1035_label, dns_subdomain, path_segment, qualified_name

# pkg/apis/admissionregistration/validation: MatchConditions may have 64 items.
_MAX_CONDITIONS = 64
# Webhooks have no params and no variables, which admission policies have.
_HOOK_VARIABLES = ("object", "oldObject", "request", "authorizer")


def validate_webhooks(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check a ValidatingWebhookConfiguration or a MutatingWebhookConfiguration."""
    causes = []
    names: set[str] = set()
    for index, hook in enumerate(new.get("webhooks", ())):
        field = f"webhooks[{index}]"
        name = hook.get("name", "")
        if name and name in names:
            causes.append(duplicate(f"{field}.name", name))
        names.add(name)
        causes += _webhook(hook, field)
    return causes


def _webhook(hook: Mapping[str, Any], field: str) -> list[StatusCause]:
    name = hook.get("name", "")
    causes = []
    if not name:
        causes.append(required(f"{field}.name"))
    # Names of webhooks are global in audits, so they carry a domain of their owner.
    elif name.count(".") < 2:
        text = "should be a domain with at least three segments separated by dots"
        causes.append(invalid(f"{field}.name", name, text))
    versions = hook.get("admissionReviewVersions") or []
    for index, version in enumerate(versions):
        path = f"{field}.admissionReviewVersions[{index}]"
        again = version in versions[:index]
        causes += [invalid(path, version, "duplicate version")] if again else malformed(path, version, dns_1035_label)
    if not versions:
        path = f"{field}.admissionReviewVersions"
        causes.append(required(path, "must specify one of v1, v1beta1"))
    elif not {"v1", "v1beta1"} & set(hook["admissionReviewVersions"]):
        path = f"{field}.admissionReviewVersions"
        text = "must include at least one of v1, v1beta1"
        causes.append(invalid(path, hook["admissionReviewVersions"], text))
    for member in ("namespaceSelector", "objectSelector"):
        causes += validate_selector(hook.get(member), f"{field}.{member}") if hook.get(member) else []
    causes += one_of(f"{field}.reinvocationPolicy", hook.get("reinvocationPolicy"), ("IfNeeded", "Never"))
    causes += validate_match_conditions(hook.get("matchConditions") or (), f"{field}.matchConditions")
    for index, rule in enumerate(hook.get("rules", ())):
        causes += validate_hook_rule(rule, f"{field}.rules[{index}]")
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


def validate_match_conditions(
    conditions: Sequence[Mapping[str, Any]], field: str, variables: tuple[str, ...] = _HOOK_VARIABLES
) -> list[StatusCause]:
    """Check match conditions (pkg/apis/admissionregistration/validation: validateMatchConditions)."""
    causes = [] if len(conditions) <= _MAX_CONDITIONS else [too_many(field, len(conditions), _MAX_CONDITIONS)]
    names = [condition.get("name", "") for condition in conditions]
    for index, (name, condition) in enumerate(zip(names, conditions, strict=True)):
        text = condition.get("expression", "")
        causes += validate_expression(text, f"{field}[{index}].expression", variables, results=("bool",))
        path = f"{field}[{index}].name"
        causes += malformed(path, name, qualified_name) if name else [required(path)]
        causes += [duplicate(path, name)] if name and name in names[:index] else []
    return causes


def validate_expression(
    expression: str, field: str, variables: tuple[str, ...], unset: str = "", results: tuple[str, ...] = ()
) -> list[StatusCause]:
    """Check that an expression compiles, to one of ``results``; ``unset`` is the text for one that is empty."""
    if not expression.strip():
        return [required(field, unset)]
    try:
        result = compile_expression(expression.strip(), variables).result
    except CompileError as error:
        return [invalid(field, expression, str(error))]
    # An expression of the type dyn is checked when it runs.
    if not results or result in (*results, "dyn"):
        return []
    wanted = results[0] if len(results) == 1 else f"one of [{' '.join(results)}]"
    return [invalid(field, expression, f"must evaluate to {wanted} but got {result}")]


def validate_hook_rule(rule: Mapping[str, Any], field: str) -> list[StatusCause]:
    """Check which operations on which resources a webhook or policy is about."""
    causes = []
    for member in ("apiGroups", "apiVersions", "resources", "operations"):
        values = rule.get(member) or ()
        if not values:
            causes.append(required(f"{field}.{member}"))
        # Resources have wildcards of their own, such as pods/*.
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
    for member in ("apiVersions", "resources"):
        empty = (index for index, value in enumerate(rule.get(member) or ()) if not value)
        causes += [required(f"{field}.{member}[{index}]") for index in empty]
    for index, operation in enumerate(rule.get("operations") or ()):
        choices = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
        if operation not in choices:
            causes.append(not_supported(f"{field}.operations[{index}]", operation, choices))
    for index, name in enumerate(rule.get("resourceNames") or ()):
        causes += malformed(f"{field}.resourceNames[{index}]", name, path_segment)
    return causes + one_of(f"{field}.scope", rule.get("scope"), ("*", "Cluster", "Namespaced"))


def _client(client: Mapping[str, Any], field: str) -> list[StatusCause]:
    url = client.get("url")
    service = client.get("service")
    if (url is None) == (service is None):
        return [required(field, "exactly one of url or service is required")]
    # Certificates are the only way in which a server trusts a webhook.
    if url is not None and not url.startswith("https://"):
        scheme = url.partition(":")[0] if "://" in url else ""
        text = f"'https' is the only allowed URL scheme; got \"{scheme}\"; desired format: https://host[/path]"
        causes = [invalid(f"{field}.url", url, text)]
        if "://" not in url:
            causes.append(invalid(f"{field}.url", "", "host must be specified; desired format: https://host[/path]"))
        return causes
    if service is not None:
        return _service(service, f"{field}.service")
    return []


def _service(service: Mapping[str, Any], field: str) -> list[StatusCause]:
    """
    Check the Service of a webhook (apiserver/pkg/util/webhook: ValidateWebhookService).

    Its callers pass name and namespace in the wrong order, so that a cause names the other one.
    """
    swapped = {"name": "namespace", "namespace": "name"}
    causes = [required(f"{field}.{member}") for member, other in swapped.items() if not service.get(other)]
    causes += between(f"{field}.port", service.get("port"), 1, 65535)
    return causes + service_path(f"{field}.path", service.get("path") or "/")


VARIABLES = ("object", "oldObject", "request", "namespaceObject", "params", "variables")
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_ACTIONS = ("Audit", "Deny", "Warn")
# The reason becomes the HTTP status of the refusal.
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized")


def validate_policy(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check a policy: what it is about, and that its expressions compile."""
    spec = new["spec"]
    # The order of causes is that of validateValidatingAdmissionPolicySpec.
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


def _variable(variable: Mapping[str, Any], field: str) -> list[StatusCause]:
    """Check a variable (pkg/apis/admissionregistration/validation: validateVariable)."""
    name = variable.get("name", "")
    path = f"{field}.name"
    causes = [] if name.strip() else [required(path, "name is not specified")]
    if name.strip() and not _IDENTIFIER.fullmatch(name):
        causes.append(invalid(path, name, "must be a valid CEL identifier"))
    return causes + _expression(variable.get("expression", ""), f"{field}.expression")


def _audit_annotation(annotation: Mapping[str, Any], policy: str, field: str) -> list[StatusCause]:
    """Check an audit annotation (pkg/apis/admissionregistration/validation: validateAuditAnnotation)."""
    key = annotation.get("key", "")
    expression = annotation.get("valueExpression", "")
    # The key in the audit log is prefixed by the name of the policy, so both together are checked.
    causes = malformed(f"{field}.key", f"{policy}/{key}", qualified_name)
    text = "valueExpression is not specified"
    results = ("string", "null_type")
    return causes + validate_expression(expression, f"{field}.valueExpression", VARIABLES, text, results)


def _validation(validation: Mapping[str, Any], field: str) -> list[StatusCause]:
    causes = _expression(validation.get("expression", ""), f"{field}.expression", "bool")
    if validation.get("messageExpression"):
        causes += _expression(validation["messageExpression"], f"{field}.messageExpression", "string")
    message = validation.get("message", "")
    # Messages become Warning headers, which have one line; the API server trims them first.
    if "\n" in message.strip():
        causes.append(invalid(f"{field}.message", message, "message must not contain line breaks"))
    reason = validation.get("reason")
    if reason is not None and reason not in _REASONS:
        causes.append(not_supported(f"{field}.reason", reason, _REASONS))
    return causes


def _expression(expression: str, field: str, *results: str) -> list[StatusCause]:
    return validate_expression(expression, field, VARIABLES, "expression is not specified", results)


def _param_kind(of: Mapping[str, Any], field: str) -> list[StatusCause]:
    """Check the kind of parameters (pkg/apis/admissionregistration/validation: validateParamKind)."""
    group, _, version = of.get("apiVersion", "").rpartition("/")
    kind = of.get("kind", "")
    path = f"{field}.apiVersion"
    if not of.get("apiVersion"):
        causes = [required(path)]
    elif "/" in group:
        causes = [invalid(path, of["apiVersion"], f"unexpected GroupVersion string: {of['apiVersion']}")]
    else:
        # The server reports only the first problem of each.
        causes = malformed(path, group, dns_subdomain)[:1] if group else []
        causes += malformed(path, version, dns_1035_label)[:1]
    path = f"{field}.kind"
    return causes + (malformed(path, kind.lower(), dns_1035_label)[:1] if kind else [required(path)])


def _match(match: Mapping[str, Any], field: str) -> list[StatusCause]:
    causes = validate_selector(match.get("namespaceSelector"), f"{field}.namespaceSelector")
    causes += validate_selector(match.get("objectSelector"), f"{field}.objectSelector")
    for member in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(match.get(member, ())):
            causes += validate_hook_rule(rule, f"{field}.{member}[{index}]")
    return causes + one_of(f"{field}.matchPolicy", match.get("matchPolicy"), ("Equivalent", "Exact"))


def validate_policy_binding(new: Manifest, old: Manifest | None) -> list[StatusCause]:
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
    # A client would read the same text as an error and as a warning.
    if "Deny" in actions and "Warn" in actions:
        text = "must not contain both Deny and Warn (repeating the same validation failure information in the API "
        causes.append(
            invalid("spec.validationActions", list(actions), f"{text}response and headers serves no purpose)")
        )
    reference = spec.get("paramRef")
    if reference is not None:
        causes += _parameter(reference, "spec.paramRef")
    return causes


def _parameter(reference: Mapping[str, Any], field: str) -> list[StatusCause]:
    name = reference.get("name", "")
    selector = reference.get("selector")
    causes = malformed(f"{field}.name", name, path_segment) if name else []
    causes += validate_selector(selector, f"{field}.selector")
    if name and selector is not None:
        text = "name and selector are mutually exclusive"
        causes += [forbidden(f"{field}.{member}", text) for member in ("name", "selector")]
    if not name and selector is None:
        causes.append(required(field, "one of name or selector must be specified"))
    action = reference.get("parameterNotFoundAction")
    path = f"{field}.parameterNotFoundAction"
    return causes + (one_of(path, action, ("Allow", "Deny")) if action else [required(path)])
