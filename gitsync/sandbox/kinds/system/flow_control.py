"""Validation of FlowSchemas and PriorityLevelConfigurations (pkg/apis/flowcontrol/validation)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.sandbox.registry.status import Cause
from gitsync.sandbox.validation.causes import (
    between,
    forbidden,
    invalid,
    malformed,
    not_supported,
    required,
)
from gitsync.sandbox.validation.names import dns_label, dns_subdomain

_MAX_PRECEDENCE = 10_000
_MAX_QUEUES = 10_000_000
_HASH_BITS = 60
_VERBS = frozenset({"get", "list", "create", "update", "delete", "deletecollection", "patch", "watch", "proxy"})
_SUBJECTS = {"ServiceAccount": "serviceAccount", "User": "user", "Group": "group"}
_RESOURCE_MEMBERS = {"apiGroups": ("api group", "api groups"), "resources": ("resource", "resources")}


def validate_flow_schema(new: Manifest, old: Manifest | None) -> list[Cause]:
    """Check a FlowSchema."""
    spec, name = new["spec"], metadata_of(new).get("name", "")
    field, precedence = "spec.matchingPrecedence", spec.get("matchingPrecedence", 0)
    causes: list[Cause] = []
    if precedence <= 0:
        causes.append(invalid(field, precedence, "must be a positive value"))
    if precedence > _MAX_PRECEDENCE:
        causes.append(invalid(field, precedence, f"must not be greater than {_MAX_PRECEDENCE}"))
    if precedence == 1 and name != "exempt":
        causes.append(invalid(field, precedence, "only the schema named 'exempt' may have matchingPrecedence 1"))
    method = spec.get("distinguisherMethod")
    if method is not None and method.get("type") not in ("ByNamespace", "ByUser"):
        shown = {"Type": method.get("type", "")}
        causes.append(not_supported("spec.distinguisherMethod.type", shown, ("ByNamespace", "ByUser")))
    level = (spec.get("priorityLevelConfiguration") or {}).get("name", "")
    field = "spec.priorityLevelConfiguration.name"
    causes += malformed(field, level, dns_subdomain) if level else [required(field, "must reference a priority level")]
    for index, rule in enumerate(spec.get("rules") or ()):
        causes += _rule(rule, f"spec.rules[{index}]")
    return causes


def _rule(rule: Mapping[str, Any], field: str) -> Iterator[Cause]:
    subjects, resources, urls = (rule.get(name) or () for name in ("subjects", "resourceRules", "nonResourceRules"))
    for index, subject in enumerate(subjects):
        yield from _subject(subject, f"{field}.subjects[{index}]")
    if not subjects:
        yield required(f"{field}.subjects", "subjects must contain at least one value")
    if not resources and not urls:
        yield required(field, "at least one of resourceRules and nonResourceRules has to be non-empty")
    for index, resource in enumerate(resources):
        yield from _resource_rule(resource, f"{field}.resourceRules[{index}]")
    for index, url in enumerate(urls):
        yield from _url_rule(url, f"{field}.nonResourceRules[{index}]")


def _subject(subject: Mapping[str, Any], field: str) -> Iterator[Cause]:
    kind = subject.get("kind", "")
    if kind not in _SUBJECTS:
        yield not_supported(f"{field}.kind", kind, _SUBJECTS)
        return
    member = _SUBJECTS[kind]
    named, at = subject.get(member), f"{field}.{member}"
    if named is None:
        yield required(at, f"{member} is required when subject kind is '{kind}'")
    else:
        name = named.get("name", "")
        if not name:
            yield required(f"{at}.name")
        elif kind == "ServiceAccount" and name != "*":
            yield from malformed(f"{at}.name", name, dns_subdomain)
        if kind == "ServiceAccount":
            yield from _account_namespace(named.get("namespace", ""), f"{at}.namespace")
    for other, absent in _SUBJECTS.items():
        if other != kind and subject.get(absent) is not None:
            yield forbidden(f"{field}.{absent}", f"{absent} is forbidden when subject kind is not '{other}'")


def _account_namespace(namespace: str, field: str) -> list[Cause]:
    if not namespace:
        return [required(field, "must specify namespace for service account")]
    return malformed(field, namespace, dns_label)


def _alone(values: Sequence[str], field: str, what: str) -> list[Cause]:
    """Return the cause of a wildcard beside other values."""
    if "*" not in values or len(values) == 1:
        return []
    return [invalid(field, values, f"if '*' is present, must not specify other {what}")]


def _verbs(verbs: Sequence[str], field: str) -> list[Cause]:
    if not verbs:
        return [required(field, "verbs must contain at least one value")]
    if "*" in verbs or set(verbs) <= _VERBS:
        return _alone(verbs, field, "verbs")
    return [not_supported(field, verbs, _VERBS)]


def _resource_rule(rule: Mapping[str, Any], field: str) -> Iterator[Cause]:
    yield from _verbs(rule.get("verbs") or (), f"{field}.verbs")
    for member, (one, many) in _RESOURCE_MEMBERS.items():
        values = rule.get(member) or ()
        if not values:
            yield required(f"{field}.{member}", f"resource rules must supply at least one {one}")
        yield from _alone(values, f"{field}.{member}", many)
    namespaces = rule.get("namespaces") or ()
    if not namespaces and not rule.get("clusterScope"):
        text = "resource rules that are not cluster scoped must supply at least one namespace"
        yield required(f"{field}.namespaces", text)
    elif "*" in namespaces:
        yield from _alone(namespaces, f"{field}.namespaces", "namespaces")
    else:
        for index, namespace in enumerate(namespaces):
            for text in dns_label(namespace):
                at, intro = f"{field}.namespaces[{index}]", "each member of this list must be '*' or a DNS-1123 label; "
                yield invalid(at, namespace, intro + text)


def _url_rule(rule: Mapping[str, Any], field: str) -> Iterator[Cause]:
    yield from _verbs(rule.get("verbs") or (), f"{field}.verbs")
    urls, at = rule.get("nonResourceURLs") or (), f"{field}.nonResourceURLs"
    if not urls:
        yield required(at, "nonResourceURLs must contain at least one value")
    elif "*" in urls:
        yield from _alone(urls, at, "non-resource URLs")
    else:
        for index, url in enumerate(urls):
            problem = _url_problem(url)
            if problem:
                yield invalid(f"{at}[{index}]", url, problem)


def _url_problem(url: str) -> str:
    if not url:
        return "must not be empty"
    if not url.startswith("/"):
        return "must start with slash"
    if " " in url:
        return "must not contain white-space"
    if "//" in url:
        return "must not contain double slash"
    if url.count("*") > 1 or ("*" in url and not url.endswith("/*")):
        return "wildcard can only do suffix matching"
    return ""


def validate_priority_level(new: Manifest, old: Manifest | None) -> list[Cause]:
    """Check a PriorityLevelConfiguration."""
    spec, name = new["spec"], metadata_of(new).get("name", "")
    kind, limited, exempt = spec.get("type", ""), spec.get("limited"), spec.get("exempt")
    causes: list[Cause] = []
    if (name == "exempt") != (kind == "Exempt"):
        causes.append(invalid("spec.type", kind, "must be 'Exempt' if and only if `name` is 'exempt'"))
    if kind == "Exempt":
        if limited is not None:
            causes.append(forbidden("spec.limited", "must be nil if the type is not Limited"))
        return causes + (_shares(exempt, "spec.exempt") if exempt is not None else [])
    if kind != "Limited":
        return [*causes, not_supported("spec.type", kind, ("Exempt", "Limited"))]
    if exempt is not None:
        causes.append(forbidden("spec.exempt", "must be nil if the type is Limited"))
    if limited is None:
        return [*causes, required("spec.limited", "must not be empty when type is Limited")]
    causes += _shares(limited, "spec.limited") + _response(limited.get("limitResponse") or {})
    borrowed = limited.get("borrowingLimitPercent")
    if borrowed is not None and borrowed < 0:
        text = "if specified, must be a non-negative integer"
        causes.append(invalid("spec.limited.borrowingLimitPercent", borrowed, text))
    return causes


def _shares(level: Mapping[str, Any], field: str) -> list[Cause]:
    shares = level.get("nominalConcurrencyShares")
    at, text = f"{field}.nominalConcurrencyShares", "must be a non-negative integer"
    causes = [invalid(at, shares, text)] if shares is not None and shares < 0 else []
    return causes + between(f"{field}.lendablePercent", level.get("lendablePercent"), 0, 100)


def _response(response: Mapping[str, Any]) -> list[Cause]:
    kind, queuing, field = response.get("type", ""), response.get("queuing"), "spec.limited.limitResponse"
    if kind == "Reject":
        text = "must be nil if limited.limitResponse.type is not Limited"
        return [forbidden(f"{field}.queuing", text)] if queuing is not None else []
    if kind != "Queue":
        return [not_supported(f"{field}.type", kind, ("Queue", "Reject"))]
    if queuing is None:
        return [required(f"{field}.queuing", "must not be empty if limited.limitResponse.type is Limited")]
    return _queuing(queuing, f"{field}.queuing")


def _queuing(queuing: Mapping[str, Any], field: str) -> list[Cause]:
    length, queues, hand = (queuing.get(name, 0) for name in ("queueLengthLimit", "queues", "handSize"))
    causes = [invalid(f"{field}.queueLengthLimit", length, "must be positive")] if length <= 0 else []
    if queues <= 0:
        causes.append(invalid(f"{field}.queues", queues, "must be positive"))
    elif queues > _MAX_QUEUES:
        causes.append(invalid(f"{field}.queues", queues, f"must not be greater than {_MAX_QUEUES}"))
    problem = _hand_problem(queues, hand)
    return [*causes, invalid(f"{field}.handSize", hand, problem)] if problem else causes


def _hand_problem(queues: int, hand: int) -> str:
    if hand <= 0:
        return "must be positive"
    if hand > queues:
        return f"should not be greater than queues ({queues})"
    if math.ceil(math.log2(queues) * hand) > _HASH_BITS:
        return f"required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {_HASH_BITS}"
    return ""
