"""Health of the Gateway API: objects that are accepted, resolved and programmed."""

from __future__ import annotations

from typing import Any

from gitsync.health.rules import (
    Rule,
    condition_of,
    conditions_of,
    degraded,
    healthy,
    items,
    message,
    number,
    progressing,
    text,
)
from gitsync.objects.health import HealthStatus
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import GroupKind

_GROUP = "gateway.networking.k8s.io"


def gateway(live: Manifest) -> HealthStatus:
    """Judge a Gateway by its own conditions, then by those of its listeners."""
    conditions = conditions_of(live)
    listeners = items(live, "status", "listeners")
    verdict = _verdict(conditions, "", "Gateway")
    for listener in listeners:
        verdict = verdict or _verdict(items(listener, "conditions"), "Listener: ", "Listener")
    if verdict is not None:
        return verdict
    spoken = at(live, "status", "conditions") is not None or listeners
    return healthy("Gateway is healthy") if spoken else progressing("Waiting for Gateway status")


def gateway_class(live: Manifest) -> HealthStatus:
    """Judge a GatewayClass by whether its newest generation was accepted."""
    waiting = "Waiting for GatewayClass status"
    for condition in conditions_of(live):
        if condition.get("type") != "Accepted" or _is_stale(live, condition):
            continue
        if condition.get("status") == "True":
            return healthy(message(condition) or "GatewayClass is accepted")
        if condition.get("status") == "False":
            return degraded(message(condition) or "GatewayClass is not accepted")
        return progressing(message(condition) or waiting)
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
        if any(_is_stale(live, condition) for condition in items(ancestor, "conditions")):
            name = text(ancestor, "ancestorRef", "name")
            return progressing(f"Waiting for Ancestor {name} to update BackendTLSPolicy status")
    result = progressing("Waiting for BackendTLSPolicy status")
    for ancestor in ancestors:
        conditions = items(ancestor, "conditions")
        accepted = condition_of(conditions, "Accepted") or {}
        # Every controller writes an entry; one that does not know the target says nothing of this policy.
        if accepted and accepted.get("status") != "True" and accepted.get("reason") == "TargetNotFound":
            continue
        for condition in conditions:
            if condition.get("type") in ("Accepted", "ResolvedRefs") and condition.get("status") != "True":
                return degraded(f"Ancestor {text(ancestor, 'ancestorRef', 'name')}: {message(condition)}")
        if accepted:
            result = healthy("BackendTLSPolicy is healthy")
    return result


def _verdict(conditions: list[dict[str, Any]], prefix: str, what: str) -> HealthStatus | None:
    """Return what is wrong or unfinished by some conditions, None where nothing is."""
    for kind in ("ResolvedRefs", "Accepted"):
        for condition in conditions:
            if condition.get("type") == kind and condition.get("status") == "False":
                return degraded(prefix + (message(condition) or f"Failed condition: {kind}"))
    programmed = condition_of(conditions, "Programmed")
    if programmed is not None and programmed.get("status") != "True":
        return progressing(prefix + (message(programmed) or f"{what} is still being programmed"))
    return None


def _is_stale(live: Manifest, condition: dict[str, Any]) -> bool:
    generation = at(live, "metadata", "generation")
    observed = condition.get("observedGeneration")
    return generation is not None and observed is not None and observed != generation


def _saw_newest(live: Manifest, parent: dict[str, Any]) -> bool:
    conditions = items(parent, "conditions")
    generation = number(live, "metadata", "generation", default=-1)
    if generation == -1:
        return bool(conditions)
    return any(condition.get("observedGeneration") == generation for condition in conditions)


RULES: dict[GroupKind, Rule] = {
    GroupKind(_GROUP, "BackendTLSPolicy"): backend_tls_policy,
    GroupKind(_GROUP, "Gateway"): gateway,
    GroupKind(_GROUP, "GatewayClass"): gateway_class,
    **{GroupKind(_GROUP, kind): route for kind in ("GRPCRoute", "HTTPRoute", "TCPRoute", "TLSRoute", "UDPRoute")},
}
