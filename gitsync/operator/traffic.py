"""Observe the route that divides the requests of an Agent."""

from __future__ import annotations

from collections.abc import Mapping

from gitsync.agents.expansion.access import is_routed
from gitsync.agents.model.agent import Agent
from gitsync.agents.rollout.observed import Route
from gitsync.objects.health import Health
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import GroupKind, ObjectRef
from gitsync.operator.kinds import child_resources
from gitsync.ports import Cluster, LiveCache
from gitsync.sync.observe import health_of

_ROUTE = GroupKind("gateway.networking.k8s.io", "HTTPRoute")


def observed_route(agent: Agent, children: Mapping[ObjectRef, Manifest], cluster: Cluster, live: LiveCache) -> Route:
    """Return the weight of the canary in the Agent's route, and what its gateways report; also of one that is to go."""
    ref = ObjectRef(_ROUTE.group, _ROUTE.kind, agent.namespace, agent.name)
    is_served = _ROUTE in child_resources(cluster)
    route = children.get(ref)
    weight = int(at(route, "spec", "rules", 0, "backendRefs", 1, "weight", default=0))
    if not is_routed(agent):
        return Route(weight)
    health = health_of(ref, route, live)
    return Route(weight, "" if health.health is Health.HEALTHY else health.message, is_served)
