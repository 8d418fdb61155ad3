"""Analysis of canaries by queries of the operator's Prometheus."""

from __future__ import annotations

from gitsync.agents.model.agent import Agent
from gitsync.agents.rollout.advance import Rollout
from gitsync.agents.rollout.state import RolloutState, Stage
from gitsync.ports import MetricsProvider

_PERIOD = 10.0
"""Seconds between two evaluations of the queries of a canary."""


class RolloutAnalysis:
    """Evaluate the queries of canaries; without a Prometheus, or while it does not answer, nothing is decided."""

    def __init__(self, metrics: MetricsProvider | None) -> None:
        self._metrics = metrics

    def problem(self, agent: Agent, state: RolloutState) -> str:
        """Return which limit a canary exceeds, empty while none is known to be exceeded."""
        canary = agent.spec.update.canary
        if self._metrics is None or canary is None or state.stage is not Stage.UPDATE:
            return ""
        for one in canary.analysis:
            result = self._metrics.read(one.query, _PERIOD)
            worst = max((sample.value for sample in result.samples), default=None) if result else None
            if worst is not None and worst > one.max:
                return f"{one.name} is {worst:.4g}, over {one.max:g}"
        return ""

    def period(self, agent: Agent, rollout: Rollout) -> float | None:
        """Return the seconds until the queries are evaluated again, None where there are none."""
        canary = agent.spec.update.canary
        is_watched = canary is not None and canary.analysis and rollout.state.stage is Stage.UPDATE
        return _PERIOD if is_watched and self._metrics is not None else None
