"""What a rollout observes beside its workloads: queries of its canary, the verdict of its evaluation, and its route."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gitsync.agents.expansion.access import is_routed
from gitsync.agents.expansion.checks import EVALUATION
from gitsync.agents.model.agent import Agent
from gitsync.agents.model.scaling import Analysis
from gitsync.agents.rollout.observed import AnalysisResult, Route
from gitsync.agents.rollout.state import RolloutState, Stage
from gitsync.objects.health import Health
from gitsync.objects.manifest import Manifest, at, metadata_of, uid_of
from gitsync.objects.ref import GroupKind, ObjectRef
from gitsync.operator.kinds import child_resources
from gitsync.ports import Cluster, LiveCache, MetricResult, MetricsProvider, Ports
from gitsync.sync.observe import health_of

_PERIOD = 10.0
"""Seconds between two evaluations of the queries of a canary."""

_PENDING = 0.3
"""Seconds until the answer of a query is read: an older one than a period does not count."""

_UNMEASURED = AnalysisResult(unmeasured="the analysis needs a Prometheus, see GITSYNC_PROMETHEUS")


class RolloutAnalysis:
    """Evaluate the queries of canaries; without a Prometheus, or while it fails, nothing is decided."""

    def __init__(self, metrics: MetricsProvider | None) -> None:
        self._metrics = metrics

    def result(self, agent: Agent, state: RolloutState) -> AnalysisResult:
        """Return which limit a canary exceeds, where one is known to be exceeded."""
        queries = _queries(agent, state)
        if self._metrics is None:
            return _UNMEASURED if queries else AnalysisResult()
        found = [(one, self._metrics.read(one.query, _PERIOD)) for one in queries]
        exceeded = next(filter(None, (_exceeded(*one) for one in found)), "")
        return AnalysisResult(exceeded, is_pending=any(result is None for _, result in found))

    def period(self, agent: Agent, state: RolloutState, last: AnalysisResult) -> float | None:
        """Return the seconds until the queries are evaluated again, None where none is."""
        if self._metrics is None or not _queries(agent, state):
            return None
        return _PENDING if last.is_pending else _PERIOD


def _queries(agent: Agent, state: RolloutState) -> tuple[Analysis, ...]:
    """Return the queries that judge the rollout at this stage."""
    canary = agent.spec.update.canary
    return canary.analysis if canary is not None and state.stage is Stage.UPDATE else ()


def _exceeded(limit: Analysis, result: MetricResult | None) -> str:
    worst = max((sample.value for sample in result.samples), default=None) if result else None
    return f"{limit.name} is {worst:.4g}, over {limit.max:g}" if worst is not None and worst > limit.max else ""


_FIRST_LIST = 5.0


class EvaluationReader:
    """Read verdicts; Pods are followed only in namespaces with an Agent that has an evaluation."""

    def __init__(self, ports: Ports) -> None:
        self._cluster = ports.cluster
        self._live = ports.live

    def verdict(self, agent: Agent, job: Manifest | None) -> Mapping[str, Any] | None:
        """Return the verdict of the newest Pod of the Job, empty where it has none, None while no Pod has ended."""
        pods = self._cluster.resource("", "v1", "Pod")
        if agent.spec.evaluation is None or job is None or pods is None:
            return {}
        self._live.follow([(pods, agent.namespace)], _FIRST_LIST)
        found = [one for one in self._live.dependents(uid_of(job)) if one.get("kind") == "Pod"]
        found.sort(key=lambda one: str(metadata_of(one).get("creationTimestamp", "")))
        if not any(at(one, "status", "phase") in ("Succeeded", "Failed") for one in found):
            return None
        return next(filter(None, map(_message, reversed(found))), {})


def _message(pod: Manifest) -> dict[str, Any]:
    """Return what the evaluation wrote as its termination message."""
    for status in at(pod, "status", "containerStatuses") or ():
        text = at(status, "state", "terminated", "message") if status.get("name") == EVALUATION else None
        if isinstance(text, str):
            try:
                found = json.loads(text)
            except json.JSONDecodeError:
                return {}
            return found if isinstance(found, dict) else {}
    return {}


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
