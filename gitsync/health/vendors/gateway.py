"""Health of the Gateway API: objects that are accepted, resolved and programmed."""

from __future__ import annotations

from typing import Any

from gitsync.health.fields import condition, conditions, items, message, number, text
from gitsync.health.rules import Rule, degraded, healthy, progressing
from gitsync.objects.health import HealthStatus
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import GroupKind

_GROUP = "gateway.networking.k8s.io"


def gateway(live: Manifest) -> HealthStatus:
    """Judge a Gateway by its own conditions, then by those of its listeners."""
    found, listeners = conditions(live), items(live, "status", "listeners")
    verdict = _verdict(found, "", "Gateway")
    for listener in listeners:
        verdict = verdict or _verdict(items(listener, "conditions"), "Listener: ", "Listener")
    if verdict is not None:
        return verdict
    spoken = at(live, "status", "conditions") is not None or listeners
    return healthy("Gateway is healthy") if spoken else progressing("Waiting for Gateway status")


def gateway_class(live: Manifest) -> HealthStatus:
    """Judge a GatewayClass by whether its newest generation was accepted."""
    waiting = "Waiting for GatewayClass status"
    for each in conditions(live):
        if each.get("type") != "Accepted" or _is_stale(live, each):
            continue
        if each.get("status") == "True":
            return healthy(message(each) or "GatewayClass is accepted")
        if each.get("status") == "False":
            return degraded(message(each) or "GatewayClass is not accepted")
        return progressing(message(each) or waiting)
    return progressing(waiting)


def route(live: Manifest) -> HealthStatus:
    """Judge a route by each gateway that it is attached to and that has seen its newest generation."""
    kind = text(live, "kind")
    parents = [parent for parent in items(live, "status", "parents") if _saw_newest(live, parent)]
    for parent in parents:
        verdict = _verdict(items(parent, "conditions"), f"Parent {text(parent, 'parentRef', 'name')}: ", "Route")
        if verdict is not None:
            return verdict
    return healthy(f"{kind} is healthy") if parents else progressing(f"Waiting for {kind} status")


def backend_tls_policy(live: Manifest) -> HealthStatus:
    """Judge a BackendTLSPolicy by each ancestor whose controller is responsible for its target."""
    ancestors = items(live, "status", "ancestors")
    for ancestor in ancestors:
        if any(_is_stale(live, each) for each in items(ancestor, "conditions")):
            name = text(ancestor, "ancestorRef", "name")
            return progressing(f"Waiting for Ancestor {name} to update BackendTLSPolicy status")
    result = progressing("Waiting for BackendTLSPolicy status")
    for ancestor in ancestors:
        found = items(ancestor, "conditions")
        accepted = condition(found, "Accepted") or {}
        # Every controller writes an entry; one that does not know the target says nothing of this policy.
        if accepted and accepted.get("status") != "True" and accepted.get("reason") == "TargetNotFound":
            continue
        for each in found:
            if each.get("type") in ("Accepted", "ResolvedRefs") and each.get("status") != "True":
                return degraded(f"Ancestor {text(ancestor, 'ancestorRef', 'name')}: {message(each)}")
        if accepted:
            result = healthy("BackendTLSPolicy is healthy")
    return result


def _verdict(found: list[dict[str, Any]], prefix: str, what: str) -> HealthStatus | None:
    """Return what is wrong or unfinished by some conditions, None where nothing is."""
    for kind in ("ResolvedRefs", "Accepted"):
        for each in found:
            if each.get("type") == kind and each.get("status") == "False":
                return degraded(prefix + (message(each) or f"Failed condition: {kind}"))
    programmed = condition(found, "Programmed")
    if programmed is not None and programmed.get("status") != "True":
        return progressing(prefix + (message(programmed) or f"{what} is still being programmed"))
    return None


def _is_stale(live: Manifest, each: dict[str, Any]) -> bool:
    generation, observed = at(live, "metadata", "generation"), each.get("observedGeneration")
    return generation is not None and observed is not None and observed != generation


def _saw_newest(live: Manifest, parent: dict[str, Any]) -> bool:
    found = items(parent, "conditions")
    generation = number(live, "metadata", "generation", default=-1)
    if generation == -1:
        return bool(found)
    return any(each.get("observedGeneration") == generation for each in found)


RULES: dict[GroupKind, Rule] = {
    GroupKind(_GROUP, "BackendTLSPolicy"): backend_tls_policy,
    GroupKind(_GROUP, "Gateway"): gateway,
    GroupKind(_GROUP, "GatewayClass"): gateway_class,
    **{GroupKind(_GROUP, kind): route for kind in ("GRPCRoute", "HTTPRoute", "TCPRoute", "TLSRoute", "UDPRoute")},
}
