"""Validation of webhook configurations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.registry.status import Cause
from gitsync.sandbox.validation.causes import (
    between,
    duplicate,
    invalid,
    malformed,
    not_supported,
    one_of,
    required,
    too_many,
)
from gitsync.sandbox.validation.cel import CompileError, compile_expression
from gitsync.sandbox.validation.names import dns_1035_label, dns_subdomain, path_segment, qualified_name
from gitsync.sandbox.validation.selectors import validate_selector

_MAX_CONDITIONS = 64
_HOOK_VARIABLES = ("object", "oldObject", "request", "authorizer")


def validate_webhooks(new: Manifest, old: Manifest | None) -> list[Cause]:
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


def _webhook(hook: Mapping[str, Any], field: str) -> list[Cause]:
    name = hook.get("name", "")
    causes = []
    if not name:
        causes.append(required(f"{field}.name"))
    elif name.count(".") < 2:
        text = "should be a domain with at least three segments separated by dots"
        causes.append(invalid(f"{field}.name", name, text))
    versions = hook.get("admissionReviewVersions") or []
    for index, version in enumerate(versions):
        path, again = f"{field}.admissionReviewVersions[{index}]", version in versions[:index]
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
) -> list[Cause]:
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
) -> list[Cause]:
    """Check that an expression compiles, to one of ``results``; ``unset`` is the text for one that is empty."""
    if not expression.strip():
        return [required(field, unset)]
    try:
        found = compile_expression(expression.strip(), variables).result
    except CompileError as error:
        return [invalid(field, expression, str(error))]
    if not results or found in (*results, "dyn"):
        return []
    wanted = results[0] if len(results) == 1 else f"one of [{' '.join(results)}]"
    return [invalid(field, expression, f"must evaluate to {wanted} but got {found}")]


def validate_hook_rule(rule: Mapping[str, Any], field: str) -> list[Cause]:
    """Check which operations on which resources a webhook or policy is about."""
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


def _client(client: Mapping[str, Any], field: str) -> list[Cause]:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        return [required(field, "exactly one of url or service is required")]
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


def _service(service: Mapping[str, Any], field: str) -> list[Cause]:
    """
    Check the Service of a webhook (apiserver/pkg/util/webhook: ValidateWebhookService).

    Its callers pass name and namespace in the wrong order, so that a cause names the other one.
    """
    swapped = {"name": "namespace", "namespace": "name"}
    causes = [required(f"{field}.{member}") for member, other in swapped.items() if not service.get(other)]
    causes += between(f"{field}.port", service.get("port"), 1, 65535)
    path, text = f"{field}.path", service.get("path") or "/"
    if text == "/":
        return causes
    if text == "//":
        return [*causes, invalid(path, text, "segment[0] may not be empty")]
    if not text.startswith("/"):
        causes.append(invalid(path, text, "must start with a '/'"))
    for index, segment in enumerate(text[1:].removesuffix("/").split("/")):
        problems = dns_subdomain(segment) if segment else ["may not be empty"]
        causes += [invalid(path, text, f"segment[{index}]{':' if segment else ''} {problem}") for problem in problems]
    return causes
