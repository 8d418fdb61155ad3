"""Analysis of canaries by queries of the operator's Prometheus."""

from __future__ import annotations

from gitsync.agents.model.agent import Agent
from gitsync.agents.model.scaling import Analysis
from gitsync.agents.rollout.observed import AnalysisResult
from gitsync.agents.rollout.state import RolloutState, Stage
from gitsync.ports import MetricResult, MetricsProvider

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
