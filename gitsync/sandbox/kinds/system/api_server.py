"""Validation of the kinds that configure an API server: APIServices, FlowSchemas and PriorityLevelConfigurations."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.sandbox.errors import StatusCause
from gitsync.sandbox.validation.causes import (
    between,
    forbidden,
    invalid,
    malformed,
    not_supported,
    required,
)
from gitsync.sandbox.validation.names import dns_1035_label, dns_label, dns_subdomain

# The group of the server itself has 18000; the bound leaves space for few above it.
_PRIORITIES = {"groupPriorityMinimum": 20_000, "versionPriority": 1_000}
_MAX_PORT = 65_535


def validate_api_service(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check an APIService, whose name says its version and group."""
    spec = new["spec"]
    name = metadata_of(new).get("name", "")
    group = spec.get("group", "")
    version = spec.get("version", "")
    causes: list[StatusCause] = []
    if name and name != f"{version}.{group}":
        text = f'must be `spec.version+"."+spec.group`: "{version}.{group}"'
        causes.append(invalid("metadata.name", name, text))
    # The message is really that of the server.
    if not group and version != "v1":
        text = "only v1 may have an empty group and it better be legacy kube"
        causes.append(required("spec.group", text))
    causes += malformed("spec.group", group, dns_subdomain) if group else []
    causes += malformed("spec.version", version, dns_1035_label)
    for member, most in _PRIORITIES.items():
        value = spec.get(member, 0)
        if not 0 < value <= most:
            causes.append(invalid(f"spec.{member}", value, f"must be positive and less than {most}"))
    service = spec.get("service")
    return causes + (_local(spec) if service is None else _remote(spec, service))


def _local(spec: Mapping[str, Any]) -> list[StatusCause]:
    causes = []
    if spec.get("caBundle"):
        causes.append(invalid("spec.caBundle", spec["caBundle"], "local APIServices may not have a caBundle"))
    if spec.get("insecureSkipTLSVerify"):
        text = "local APIServices may not have insecureSkipTLSVerify"
        causes.append(invalid("spec.insecureSkipTLSVerify", True, text))
    return causes


def _remote(spec: Mapping[str, Any], service: Mapping[str, Any]) -> list[StatusCause]:
    causes = [required(f"spec.service.{member}") for member in ("namespace", "name") if not service.get(member)]
    port = service.get("port", 0)
    if not 0 < port <= _MAX_PORT:
        text = f"port is not valid: must be between 1 and {_MAX_PORT}, inclusive"
        causes.append(invalid("spec.service.port", port, text))
    # The bundle would never be used.
    if spec.get("insecureSkipTLSVerify") and spec.get("caBundle"):
        text = "may not be true if caBundle is present"
        causes.append(invalid("spec.insecureSkipTLSVerify", True, text))
    return causes


# flowcontrol.FlowSchemaMaxMatchingPrecedence.
_MAX_PRECEDENCE = 10_000
# priorityLevelConfigurationQueuingMaxQueues.
_MAX_QUEUES = 10_000_000
# shufflesharding.MaxHashBits: the hand of a flow is dealt from one 64-bit hash.
_HASH_BITS = 60
_VERBS = frozenset({"get", "list", "create", "update", "delete", "deletecollection", "patch", "watch", "proxy"})
_SUBJECTS = {"ServiceAccount": "serviceAccount", "User": "user", "Group": "group"}
_RESOURCE_MEMBERS = {"apiGroups": ("api group", "api groups"), "resources": ("resource", "resources")}


def validate_flow_schema(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check a FlowSchema."""
    spec = new["spec"]
    name = metadata_of(new).get("name", "")
    field = "spec.matchingPrecedence"
    precedence = spec.get("matchingPrecedence", 0)
    causes: list[StatusCause] = []
    if precedence <= 0:
        causes.append(invalid(field, precedence, "must be a positive value"))
    if precedence > _MAX_PRECEDENCE:
        causes.append(invalid(field, precedence, f"must not be greater than {_MAX_PRECEDENCE}"))
    # The first rule decides, and administrators must not be locked out by another one.
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


def _rule(rule: Mapping[str, Any], field: str) -> Iterator[StatusCause]:
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


def _subject(subject: Mapping[str, Any], field: str) -> Iterator[StatusCause]:
    kind = subject.get("kind", "")
    if kind not in _SUBJECTS:
        yield not_supported(f"{field}.kind", kind, _SUBJECTS)
        return
    member = _SUBJECTS[kind]
    named = subject.get(member)
    at = f"{field}.{member}"
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


def _account_namespace(namespace: str, field: str) -> list[StatusCause]:
    if not namespace:
        return [required(field, "must specify namespace for service account")]
    return malformed(field, namespace, dns_label)


def _alone(values: Sequence[str], field: str, what: str) -> list[StatusCause]:
    """Return the cause of a wildcard beside other values."""
    if "*" not in values or len(values) == 1:
        return []
    return [invalid(field, values, f"if '*' is present, must not specify other {what}")]


def _verbs(verbs: Sequence[str], field: str) -> list[StatusCause]:
    if not verbs:
        return [required(field, "verbs must contain at least one value")]
    # With a wildcard, unknown verbs are reported as beside it, not as unknown.
    if "*" in verbs or set(verbs) <= _VERBS:
        return _alone(verbs, field, "verbs")
    return [not_supported(field, verbs, _VERBS)]


def _resource_rule(rule: Mapping[str, Any], field: str) -> Iterator[StatusCause]:
    yield from _verbs(rule.get("verbs") or (), f"{field}.verbs")
    for member, (singular, plural) in _RESOURCE_MEMBERS.items():
        values = rule.get(member) or ()
        if not values:
            yield required(f"{field}.{member}", f"resource rules must supply at least one {singular}")
        yield from _alone(values, f"{field}.{member}", plural)
    namespaces = rule.get("namespaces") or ()
    if not namespaces and not rule.get("clusterScope"):
        text = "resource rules that are not cluster scoped must supply at least one namespace"
        yield required(f"{field}.namespaces", text)
    elif "*" in namespaces:
        yield from _alone(namespaces, f"{field}.namespaces", "namespaces")
    else:
        for index, namespace in enumerate(namespaces):
            for text in dns_label(namespace):
                at = f"{field}.namespaces[{index}]"
                intro = "each member of this list must be '*' or a DNS-1123 label; "
                yield invalid(at, namespace, intro + text)


def _url_rule(rule: Mapping[str, Any], field: str) -> Iterator[StatusCause]:
    yield from _verbs(rule.get("verbs") or (), f"{field}.verbs")
    urls = rule.get("nonResourceURLs") or ()
    at = f"{field}.nonResourceURLs"
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


def validate_priority_level(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check a PriorityLevelConfiguration."""
    spec = new["spec"]
    name = metadata_of(new).get("name", "")
    kind = spec.get("type", "")
    limited = spec.get("limited")
    exempt = spec.get("exempt")
    causes: list[StatusCause] = []
    # Only the level of that name may be without limits.
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


def _shares(level: Mapping[str, Any], field: str) -> list[StatusCause]:
    shares = level.get("nominalConcurrencyShares")
    at = f"{field}.nominalConcurrencyShares"
    text = "must be a non-negative integer"
    causes = [invalid(at, shares, text)] if shares is not None and shares < 0 else []
    return causes + between(f"{field}.lendablePercent", level.get("lendablePercent"), 0, 100)


def _response(response: Mapping[str, Any]) -> list[StatusCause]:
    kind = response.get("type", "")
    queuing = response.get("queuing")
    field = "spec.limited.limitResponse"
    if kind == "Reject":
        text = "must be nil if limited.limitResponse.type is not Limited"
        return [forbidden(f"{field}.queuing", text)] if queuing is not None else []
    if kind != "Queue":
        return [not_supported(f"{field}.type", kind, ("Queue", "Reject"))]
    if queuing is None:
        return [required(f"{field}.queuing", "must not be empty if limited.limitResponse.type is Limited")]
    return _queuing(queuing, f"{field}.queuing")


def _queuing(queuing: Mapping[str, Any], field: str) -> list[StatusCause]:
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
    # Each card of the hand uses log2(queues) bits of the hash.
    if math.ceil(math.log2(queues) * hand) > _HASH_BITS:
        return f"required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {_HASH_BITS}"
    return ""
