"""Validation of where and when a pod is scheduled: affinity, topology spread, gates and resource claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gitsync.sandbox.errors import StatusCause
from gitsync.sandbox.validation.causes import (
    duplicate,
    forbidden,
    invalid,
    malformed,
    not_supported,
    one_of,
    required,
)
from gitsync.sandbox.validation.metadata import validate_selector
from gitsync.sandbox.validation.names import dns_label, dns_subdomain, label_value, qualified_name

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
_INCLUSION = ("Honor", "Ignore")


def validate_affinity(affinity: Mapping[str, Any], field: str) -> list[StatusCause]:
    """Check node and pod affinity."""
    causes = []
    node = affinity.get("nodeAffinity", {})
    if _REQUIRED in node:
        path = f"{field}.nodeAffinity.{_REQUIRED}"
        causes += validate_node_selector(node[_REQUIRED], path)
    for index, preference in enumerate(node.get(_PREFERRED, ())):
        path = f"{field}.nodeAffinity.{_PREFERRED}[{index}]"
        causes += _weight(preference, path)
        causes += _node_term(preference.get("preference", {}), f"{path}.preference")
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind, {})
        for index, term in enumerate(rules.get(_REQUIRED, ())):
            causes += _pod_term(term, f"{field}.{kind}.{_REQUIRED}[{index}]")
        for index, preference in enumerate(rules.get(_PREFERRED, ())):
            path = f"{field}.{kind}.{_PREFERRED}[{index}]"
            causes += _weight(preference, path)
            causes += _pod_term(preference.get("podAffinityTerm", {}), f"{path}.podAffinityTerm")
    return causes


def _weight(preference: Mapping[str, Any], field: str) -> list[StatusCause]:
    weight = preference.get("weight", 0)
    # An absent weight is 0 and thus an error: it has no default.
    return [] if 1 <= weight <= 100 else [invalid(f"{field}.weight", weight, "must be in the range 1-100")]


def validate_node_selector(selector: Mapping[str, Any], field: str) -> list[StatusCause]:
    """Check a node selector: terms of expressions and fields."""
    terms = selector.get("nodeSelectorTerms") or ()
    if not terms:
        # Terms are alternatives, so none of them would match no node.
        return [required(f"{field}.nodeSelectorTerms", "must have at least one node selector term")]
    causes = []
    for index, term in enumerate(terms):
        causes += _node_term(term, f"{field}.nodeSelectorTerms[{index}]")
    return causes


def _node_term(term: Mapping[str, Any], field: str) -> list[StatusCause]:
    causes = []
    for index, requirement in enumerate(term.get("matchExpressions", ())):
        causes += _node_requirement(requirement, f"{field}.matchExpressions[{index}]")
    for index, requirement in enumerate(term.get("matchFields", ())):
        causes += _field_requirement(requirement, f"{field}.matchFields[{index}]")
    return causes


def _field_requirement(requirement: Mapping[str, Any], field: str) -> list[StatusCause]:
    """Check a requirement on a field of nodes, of which only the name can be selected."""
    key, operator, values = (requirement.get(member) or "" for member in ("key", "operator", "values"))
    causes = list[StatusCause]()
    if operator not in ("In", "NotIn"):
        causes.append(invalid(f"{field}.operator", operator, "not a valid selector operator"))
    elif len(values) != 1:
        text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        causes.append(required(f"{field}.values", text))
    # A DaemonSet pins its pods to a node by this field; no other is indexed by the scheduler.
    if key != "metadata.name":
        return [*causes, invalid(f"{field}.key", key, "not a valid field selector key")]
    for index, value in enumerate(values):
        causes += malformed(f"{field}.values[{index}]", value, dns_subdomain)
    return causes


def _node_requirement(requirement: Mapping[str, Any], field: str) -> list[StatusCause]:
    operator = requirement.get("operator", "")
    values = requirement.get("values", ())
    causes = []
    if operator in ("In", "NotIn"):
        if not values:
            causes.append(required(f"{field}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            causes.append(forbidden(f"{field}.values", text))
    elif operator in ("Gt", "Lt"):
        # The value is an integer in a text, which is compared with that of the label.
        if len(values) != 1:
            text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            causes.append(required(f"{field}.values", text))
    else:
        causes.append(invalid(f"{field}.operator", operator, "not a valid selector operator"))
    key = requirement.get("key", "")
    causes += [invalid(f"{field}.key", key, text) for text in qualified_name(key)]
    for index, value in enumerate(values):
        causes += [invalid(f"{field}.values[{index}]", value, text) for text in label_value(value)]
    return causes


def _pod_term(term: Mapping[str, Any], field: str) -> list[StatusCause]:
    causes = validate_selector(term.get("labelSelector"), f"{field}.labelSelector")
    causes += validate_selector(term.get("namespaceSelector"), f"{field}.namespaceSelector")
    for name in term.get("namespaces", ()):
        # The real path lacks the s and the index.
        causes += malformed(f"{field}.namespace", name, dns_label)
    keys = term.get("matchLabelKeys", ())
    others = term.get("mismatchLabelKeys", ())
    causes += _label_keys(keys, term, f"{field}.matchLabelKeys")
    causes += _label_keys(others, term, f"{field}.mismatchLabelKeys")
    for index, key in enumerate(keys):
        if key in others:
            text = "exists in both matchLabelKeys and mismatchLabelKeys"
            causes.append(invalid(f"{field}.matchLabelKeys[{index}]", key, text))
    key = term.get("topologyKey", "")
    path = f"{field}.topologyKey"
    causes += [] if key else [required(path, "can not be empty")]
    return causes + malformed(path, key, qualified_name)


def _label_keys(keys: Sequence[str], term: Mapping[str, Any], field: str) -> list[StatusCause]:
    # The server merges these keys into the selector when the pod is created.
    if keys and term.get("labelSelector") is None:
        return [forbidden(field, "must not be specified when labelSelector is not set")]
    return [cause for index, key in enumerate(keys) for cause in malformed(f"{field}[{index}]", key, qualified_name)]


def validate_spread(constraints: Sequence[Mapping[str, Any]], field: str) -> list[StatusCause]:
    """Check topology spread constraints (pkg/apis/core/validation: validateTopologySpreadConstraints)."""
    causes = list[StatusCause]()
    kinds = [(item.get("topologyKey", ""), item.get("whenUnsatisfiable", "")) for item in constraints]
    for index, constraint in enumerate(constraints):
        causes += _spread(constraint, f"{field}[{index}]")
        # At the earlier one of two, unlike other lists.
        if kinds[index] in kinds[index + 1 :]:
            path = f"{field}[{index}].{{topologyKey, whenUnsatisfiable}}"
            causes.append(duplicate(path, f"{{{kinds[index][0]}, {kinds[index][1]}}}"))
    return causes


def _spread(constraint: Mapping[str, Any], field: str) -> list[StatusCause]:
    skew = constraint.get("maxSkew", 0)
    causes = [] if skew > 0 else [invalid(f"{field}.maxSkew", skew, "must be greater than zero")]
    if not constraint.get("topologyKey"):
        causes.append(required(f"{field}.topologyKey", "can not be empty"))
    action = constraint.get("whenUnsatisfiable", "")
    if action not in _UNSATISFIABLE:
        causes.append(not_supported(f"{field}.whenUnsatisfiable", action, _UNSATISFIABLE))
    domains = constraint.get("minDomains")
    if domains is not None and domains <= 0:
        causes.append(invalid(f"{field}.minDomains", domains, "must be greater than zero"))
    # With ScheduleAnyway the number of domains has no effect on the skew.
    if domains is not None and action != "DoNotSchedule":
        text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        causes.append(invalid(f"{field}.minDomains", domains, text))
    if constraint.get("matchLabelKeys") and constraint.get("labelSelector") is None:
        causes.append(forbidden(f"{field}.matchLabelKeys", "must not be specified when labelSelector is not set"))
    causes += one_of(f"{field}.nodeAffinityPolicy", constraint.get("nodeAffinityPolicy"), _INCLUSION)
    causes += one_of(f"{field}.nodeTaintsPolicy", constraint.get("nodeTaintsPolicy"), _INCLUSION)
    return causes + validate_selector(constraint.get("labelSelector"), f"{field}.labelSelector")


_CLAIMS = ("resourceClaimName", "resourceClaimTemplateName")
_ONE_OF = "one of: `resourceClaimName`, `resourceClaimTemplateName`"


def validate_gates(spec: Mapping[str, Any], field: str) -> list[StatusCause]:
    """Check gates and claims (pkg/apis/core/validation: validateReadinessGates, …SchedulingGates, …ResourceClaims)."""
    causes = list[StatusCause]()
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        causes += malformed(f"{field}.readinessGates[{index}].conditionType", gate["conditionType"], qualified_name)
    # Readiness gates may repeat, scheduling gates are a map by name.
    names = [gate.get("name", "") for gate in spec.get("schedulingGates") or ()]
    for index, name in enumerate(names):
        path = f"{field}.schedulingGates[{index}]"
        causes += malformed(path, name, qualified_name)
        causes += [duplicate(path, name)] if name in names[:index] else []
    return causes + _claims(spec.get("resourceClaims") or (), f"{field}.resourceClaims")


def _claims(claims: Sequence[Mapping[str, Any]], field: str) -> list[StatusCause]:
    causes = list[StatusCause]()
    names = [claim.get("name", "") for claim in claims]
    for index, claim in enumerate(claims):
        path = f"{field}[{index}]"
        causes += _claim_name(names[index], names[:index], f"{path}.name")
        references = [member for member in _CLAIMS if claim.get(member) is not None]
        if len(references) != 1:
            causes.append(invalid(path, claim, f"at most {_ONE_OF}" if references else f"must specify {_ONE_OF}"))
        causes += [cause for name in references for cause in malformed(f"{path}.{name}", claim[name], dns_subdomain)]
    return causes


def _claim_name(name: str, earlier: Iterable[str], field: str) -> list[StatusCause]:
    if not name:
        return [required(field)]
    return [duplicate(field, name)] if name in earlier else malformed(field, name, dns_label)
