"""What NetworkPolicies allow between Pods of one namespace. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gitsync.kube.selectors import matches
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import ref_of

_NAMESPACE_NAME = "kubernetes.io/metadata.name"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Pods: their namespace and labels, and the port on which they answer."""

    namespace: str
    labels: Mapping[str, str]
    port: int


def denied_by(sender: Endpoint, receiver: Endpoint, policies: Iterable[Manifest]) -> str:
    """
    Return which policies deny TCP from one to the other, empty where it is allowed.

    Pods that no policy of a direction selects are not restricted; of those that do, one rule has to allow it. Source:
    Kubernetes documentation, "Network Policies". A namespace selector is decided by the name of the namespace alone.
    """
    known = list(policies)
    for direction, own, other, members in (("Egress", sender, receiver, "to"), ("Ingress", receiver, sender, "from")):
        named = [policy for policy in known if _selects(policy, own, direction)]
        rules = [rule for policy in named for rule in at(policy, "spec", direction.lower()) or ()]
        if named and not any(_allows(rule, members, own, other, receiver.port) for rule in rules):
            return f"{direction.lower()} of {', '.join(sorted(ref_of(policy).name for policy in named))}"
    return ""


def _selects(policy: Manifest, endpoint: Endpoint, direction: str) -> bool:
    spec = policy.get("spec") or {}
    kinds = spec.get("policyTypes") or ["Ingress", *(["Egress"] if "egress" in spec else [])]
    is_here = ref_of(policy).namespace == endpoint.namespace
    return is_here and direction in kinds and matches(spec.get("podSelector") or {}, endpoint.labels)


def _allows(rule: Mapping[str, Any], members: str, own: Endpoint, other: Endpoint, port: int) -> bool:
    peers: Sequence[Mapping[str, Any]] = rule.get(members) or ()
    is_peer = not peers or any(_is_peer(peer, own, other) for peer in peers)
    ports = rule.get("ports") or ()
    return is_peer and (not ports or any(_is_port(one, port) for one in ports))


def _is_peer(peer: Mapping[str, Any], own: Endpoint, other: Endpoint) -> bool:
    if "ipBlock" in peer:
        return False
    namespaces, pods = peer.get("namespaceSelector"), peer.get("podSelector")
    if namespaces is None:
        is_near = own.namespace == other.namespace
    else:
        is_near = matches(namespaces, {_NAMESPACE_NAME: other.namespace})
    return is_near and (pods is None or matches(pods, other.labels))


def _is_port(given: Mapping[str, Any], port: int) -> bool:
    if given.get("protocol", "TCP") != "TCP":
        return False
    first = given.get("port")
    return (
        first is None or first == port or (isinstance(first, int) and first <= port <= int(given.get("endPort", first)))
    )
