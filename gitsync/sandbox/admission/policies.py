"""ValidatingAdmissionPolicy: rules in CEL that the operator binds to requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gitsync.kube.selectors import matches
from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.sandbox.admission.attributes import AdmissionAttributes
from gitsync.sandbox.admission.matching import ConditionError, hold, namespace_of, request_of, rule_matches, selected
from gitsync.sandbox.kinds.admission import VARIABLES
from gitsync.sandbox.registry.contract import ControllerClient
from gitsync.sandbox.validation.cel import CompileError, EvaluationError, compile_expression

GROUP = "admissionregistration.k8s.io"
_CODES = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413, "Invalid": 422}

_NO_PARAMS = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"

Data = Mapping[str, Any]
Verdict = tuple[str, str]
"""The reason and the message of a denial."""


def check(api: ControllerClient, attributes: AdmissionAttributes) -> None:
    """Refuse what a bound policy denies; warn where the binding only warns."""
    # Policies about policies could lock administrators out.
    if attributes.resource.group == GROUP:
        return
    for binding in api.list(GROUP, "ValidatingAdmissionPolicyBinding"):
        policy = api.get(GROUP, "ValidatingAdmissionPolicy", "", binding["spec"].get("policyName", ""))
        if policy is None or not _is_about(api, policy, binding, attributes):
            continue
        for reason, message in _denials(api, policy, binding, attributes):
            _enforce(policy, binding, attributes, reason, message)


def _is_about(api: ControllerClient, policy: Manifest, binding: Manifest, attributes: AdmissionAttributes) -> bool:
    constraints = policy["spec"].get("matchConstraints") or {}
    resources = binding["spec"].get("matchResources")
    if not _matches(api, constraints, attributes, needs_rule=True):
        return False
    return resources is None or _matches(api, resources, attributes, needs_rule=False)


def _matches(api: ControllerClient, match: Data, attributes: AdmissionAttributes, *, needs_rule: bool) -> bool:
    if not selected(api, match, attributes):
        return False
    any_version = match.get("matchPolicy", "Equivalent") == "Equivalent"
    excluded = match.get("excludeResourceRules", ())
    if any(rule_matches(rule, attributes, any_version=any_version) for rule in excluded):
        return False
    rules = match.get("resourceRules", ())
    if not rules:
        return not needs_rule
    return any(rule_matches(rule, attributes, any_version=any_version) for rule in rules)


def _denials(
    api: ControllerClient, policy: Manifest, binding: Manifest, attributes: AdmissionAttributes
) -> Iterator[Verdict]:
    spec = policy["spec"]
    strict = spec.get("failurePolicy", "Fail") == "Fail"
    for params in _params(api, policy, binding, attributes):
        if params is _MISSING:
            if (binding["spec"].get("paramRef") or {}).get("parameterNotFoundAction", "Deny") == "Deny" and strict:
                yield "", _NO_PARAMS
            continue
        data = _data(api, attributes, params)
        try:
            if not hold(spec.get("matchConditions", ()), data):
                continue
            data = _with_variables(spec.get("variables", ()), data)
        # failurePolicy decides what an expression without a value means.
        except (ConditionError, CompileError, EvaluationError) as error:
            if strict:
                yield "", str(error)
            continue
        for validation in spec.get("validations", ()):
            verdict = _verdict(validation, data, strict=strict)
            if verdict is not None:
                yield verdict


_MISSING: Manifest = {}


def _params(
    api: ControllerClient, policy: Manifest, binding: Manifest, attributes: AdmissionAttributes
) -> list[Manifest | None]:
    """Return the parameter objects of a binding; one None where the policy takes none."""
    kind = policy["spec"].get("paramKind")
    reference = binding["spec"].get("paramRef")
    if kind is None or reference is None:
        return [None]
    group = kind.get("apiVersion", "").rpartition("/")[0]
    namespace = reference.get("namespace", attributes.namespace)
    if reference.get("name"):
        params = api.get(group, kind["kind"], namespace, reference["name"]) or api.get(
            group, kind["kind"], "", reference["name"]
        )
        return [params] if params is not None else [_MISSING]
    selector = reference.get("selector") or {}
    listed = [
        obj
        for obj in api.list(group, kind["kind"], namespace)
        if matches(selector, metadata_of(obj).get("labels") or {})
    ]
    return list(listed) or [_MISSING]


def _data(api: ControllerClient, attributes: AdmissionAttributes, params: Manifest | None) -> dict[str, Any]:
    return {
        "object": attributes.obj,
        "oldObject": attributes.old,
        "request": request_of(attributes, ""),
        "namespaceObject": namespace_of(api, attributes),
        "params": params,
        "variables": {},
    }


def _with_variables(variables: Any, data: dict[str, Any]) -> dict[str, Any]:
    """Compute the policy's variables in order; one may use those before it."""
    computed: dict[str, Any] = {}
    for variable in variables:
        program = compile_expression(variable["expression"].strip(), VARIABLES)
        computed[variable["name"]] = program.evaluate({**data, "variables": computed})
    return {**data, "variables": computed}


def _verdict(validation: Data, data: Data, *, strict: bool) -> Verdict | None:
    expression = validation["expression"].strip()
    try:
        if compile_expression(expression, VARIABLES).evaluate(data) is True:
            return None
    except (CompileError, EvaluationError) as error:
        return ("", f"expression '{expression}' resulted in error: {error}") if strict else None
    return validation.get("reason", ""), _message(validation, expression, data)


def _message(validation: Data, expression: str, data: Data) -> str:
    if validation.get("messageExpression"):
        try:
            text = compile_expression(validation["messageExpression"].strip(), VARIABLES).evaluate(data)
        except (CompileError, EvaluationError):
            text = ""
        if isinstance(text, str) and text.strip():
            return text.strip()
    return str(validation.get("message") or f"failed expression: {expression}").strip()


def _enforce(policy: Manifest, binding: Manifest, attributes: AdmissionAttributes, reason: str, message: str) -> None:
    names = f"'{metadata_of(policy)['name']}' with binding '{metadata_of(binding)['name']}'"
    actions = binding["spec"].get("validationActions") or ()
    if "Deny" in actions:
        error = attributes.forbidden(f"ValidatingAdmissionPolicy {names} denied request: {message}")
        error.reason = reason or "Invalid"
        # The reason of the validation decides the HTTP status.
        error.code = _CODES.get(error.reason, 422)
        text = f"ValidatingAdmissionPolicy {names} denied request: {message}"
        error.details = {**error.details, "causes": [{"message": text}]}
        raise error
    if "Warn" in actions:
        attributes.warnings.append(f"Validation failed for ValidatingAdmissionPolicy {names}: {message}")
