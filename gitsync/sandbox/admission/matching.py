"""Whether a webhook or a policy is about a request: its rules, selectors, and conditions in CEL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gitsync.kube.selectors import matches
from gitsync.objects.manifest import Manifest, labels_of
from gitsync.sandbox.admission.attributes import AdmissionAttributes
from gitsync.sandbox.kinds.admission import VARIABLES
from gitsync.sandbox.registry.contract import ControllerClient
from gitsync.sandbox.validation.cel import CompileError, EvaluationError, compile_expression


class ConditionError(ValueError):
    """A condition that has no value."""


def hold(conditions: Sequence[Mapping[str, Any]], data: Mapping[str, Any]) -> bool:
    """
    Return whether all conditions are true.

    One that is false decides, whatever the others are; else one without a value raises ConditionError.
    """
    problems = []
    for condition in conditions:
        try:
            value = compile_expression(condition["expression"].strip(), VARIABLES).evaluate(data)
        except (CompileError, EvaluationError) as error:
            problems.append(f"expression '{condition['expression'].strip()}' resulted in error: {error}")
            continue
        # matchConditions are evaluated independently: one that is false ends it even if another failed.
        if value is not True:
            return False
    if problems:
        raise ConditionError("; ".join(problems))
    return True


Rule = Mapping[str, Any]


def rule_matches(rule: Rule, attributes: AdmissionAttributes, *, any_version: bool) -> bool:
    """Return whether one rule is about the request; ``any_version`` is the match policy Equivalent."""
    resource = attributes.resource
    if not _has(rule.get("operations"), attributes.operation) or not _has(rule.get("apiGroups"), resource.group):
        return False
    # Equivalent also matches the same object at another version; groups that share a kind are not matched here.
    if not any_version and not _has(rule.get("apiVersions"), resource.version):
        return False
    scope = rule.get("scope", "*")
    if scope != "*" and (scope == "Namespaced") is not resource.namespaced:
        return False
    names = rule.get("resourceNames")
    if names and attributes.name not in names:
        return False
    return any(_is_resource(text, resource.plural, attributes.subresource) for text in rule.get("resources") or ())


def _has(values: Iterable[str] | None, wanted: str) -> bool:
    return any(value in ("*", wanted) for value in values or ())


def _is_resource(text: str, plural: str, subresource: str) -> bool:
    wanted, _, part = text.partition("/")
    return wanted in ("*", plural) and (part == subresource or (part == "*" and text != "*"))


def selected(api: ControllerClient, hook: Mapping[str, Any], attributes: AdmissionAttributes) -> bool:
    """Return whether the selectors for namespace and object pick the request."""
    labels = namespace_labels(api, attributes)
    selector = hook.get("namespaceSelector") or {}
    if labels is not None and not matches(selector, labels):
        return False
    selector = hook.get("objectSelector") or {}
    # Either of the two may match, so that a change of labels cannot evade a webhook.
    candidates = [obj for obj in (attributes.obj, attributes.old) if obj is not None]
    return any(matches(selector, labels_of(obj)) for obj in candidates)


def namespace_labels(api: ControllerClient, attributes: AdmissionAttributes) -> dict[str, str] | None:
    """Return the labels of the request's namespace, None for a request without one."""
    # A namespace is selected by its own labels.
    if attributes.is_of("", "Namespace"):
        return attributes.labels
    namespace = namespace_of(api, attributes)
    return None if namespace is None else labels_of(namespace)


def namespace_of(api: ControllerClient, attributes: AdmissionAttributes) -> Manifest | None:
    """Return the namespace that the request is in."""
    return api.get("", "Namespace", "", attributes.namespace) if attributes.namespace else None


def request_of(attributes: AdmissionAttributes, uid: str) -> dict[str, Any]:
    """Return the ``request`` of an AdmissionReview, which CEL expressions see too."""
    resource = attributes.resource
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    place = {"group": resource.group, "version": resource.version, "resource": resource.plural}
    request: dict[str, Any] = {
        "uid": uid,
        "kind": kind,
        "resource": place,
        "requestKind": kind,
        "requestResource": place,
        "name": attributes.name,
        "operation": attributes.operation,
        "userInfo": attributes.user.to_dict(),
        "object": attributes.obj,
        "oldObject": attributes.old,
        "dryRun": attributes.dry_run,
        "options": _options(attributes),
    }
    if attributes.subresource:
        request["subResource"] = request["requestSubResource"] = attributes.subresource
    if attributes.namespace:
        request["namespace"] = attributes.namespace
    return request


def _options(attributes: AdmissionAttributes) -> dict[str, Any]:
    kind = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}[attributes.operation]
    options: dict[str, Any] = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
    if attributes.dry_run:
        options["dryRun"] = ["All"]
    return options
