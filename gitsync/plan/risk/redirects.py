"""Risk rules for traffic and names that lead elsewhere: Services, endpoints, name resolution, open policies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gitsync.kube.kinds import SERVICE
from gitsync.objects.change import Change
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import GroupKind
from gitsync.plan.risk.privileges import pod_specs

_NETWORK_POLICY = GroupKind("networking.k8s.io", "NetworkPolicy")
_ENDPOINT_KINDS = (GroupKind("", "Endpoints"), GroupKind("discovery.k8s.io", "EndpointSlice"))
_ANYWHERE = ("0.0.0.0/0", "::/0")


def redirects_service(change: Change) -> str | None:
    """
    Match a Service that takes over addresses or names, and endpoints that are written by hand.

    Who sets externalIPs receives what others send there (CVE-2020-8554); an ExternalName sends what is meant for a
    Service of the cluster elsewhere; endpoints may name Pods of other namespaces (CVE-2021-25740).
    """
    if change.desired is None:
        return None
    if change.ref.of in _ENDPOINT_KINDS:
        differs = change.live is None or _endpoints(change.desired) != _endpoints(change.live)
        return "endpoints that no selector chooses" if differs else None
    if change.ref.of != SERVICE:
        return None
    added = sorted(_texts(change.desired, "externalIPs") - _texts(change.live, "externalIPs"))
    if added:
        return f"externalIPs {added[0]}"
    name = at(change.desired, "spec", "externalName")
    if at(change.desired, "spec", "type") == "ExternalName" and name != at(change.live, "spec", "externalName"):
        return f"ExternalName {name}"
    ranges = _texts(change.live, "loadBalancerSourceRanges")
    wider = _texts(change.desired, "loadBalancerSourceRanges") - ranges
    if ranges and (wider or not _texts(change.desired, "loadBalancerSourceRanges")):
        return "loadBalancerSourceRanges"
    return None


def redirects_names(change: Change) -> str | None:
    """Match pods that resolve names otherwise than before: a host of a model service may be another one then."""
    live = pod_specs(change.live)
    for path, spec in pod_specs(change.desired).items():
        known = live.get(path, {})
        for member in ("hostAliases", "dnsConfig"):
            if spec.get(member) and spec[member] != known.get(member):
                return member
    return None


def opens_new_policy(change: Change) -> str | None:
    """Match a new NetworkPolicy that allows a direction to or from everywhere: policies add up, none takes away."""
    if change.ref.of != _NETWORK_POLICY or change.live is not None or change.desired is None:
        return None
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for rule in at(change.desired, "spec", direction, default=()) or ():
            # A rule with ports does not open everything.
            if isinstance(rule, dict) and not rule.get("ports") and _is_anywhere(rule.get(peers)):
                return f"{direction} {peers} everywhere"
    return None


def _is_anywhere(peers: Any) -> bool:
    # absent or empty: all peers
    if not peers:
        return True
    return any(
        at(peer, "ipBlock", "cidr") in _ANYWHERE or ("namespaceSelector" in peer and not peer["namespaceSelector"])
        for peer in peers
        if isinstance(peer, dict)
    )


def _endpoints(manifest: Manifest) -> Any:
    return manifest.get("subsets"), manifest.get("endpoints"), manifest.get("ports")


def _texts(manifest: Manifest | None, member: str) -> frozenset[str]:
    return frozenset(_strings(at(manifest, "spec", member)))


def _strings(value: Any) -> Iterator[str]:
    yield from (item for item in value or () if isinstance(item, str))
