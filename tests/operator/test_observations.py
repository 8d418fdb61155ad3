"""The analysis of a canary by a Prometheus that answers later, or that there is none of."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gitsync.agents.model.agent import parse_agent
from gitsync.agents.rollout.observed import AnalysisResult
from gitsync.agents.rollout.state import RolloutStage, RolloutState
from gitsync.operator.observations import EvaluationReader, RolloutAnalysis
from gitsync.ports import MetricResult, Sample
from tests.agents.factories import agent
from tests.fakes.ports import FakeCluster, FakeReaderPorts

ANALYSIS = {"name": "errors", "prometheusQuery": "errors", "max": "0.05"}
AGENT = parse_agent(agent(update={"type": "Canary", "canary": {"steps": [{"weight": 50}], "analysis": [ANALYSIS]}}))
AT_A_STEP = RolloutState(current="a-1", goal="a-2", stage=RolloutStage.UPDATE)


class Metrics:
    """A Prometheus with this answer."""

    def __init__(self, answer: MetricResult | None) -> None:
        self._answer = answer

    def read(self, query: str, max_age: float) -> MetricResult | None:
        return self._answer


@pytest.mark.parametrize(
    ("answer", "result", "period"),
    [
        (None, AnalysisResult(is_pending=True), 0.3),
        (MetricResult((Sample(0.01), Sample(0.2))), AnalysisResult("errors is 0.2, over 0.05"), 10.0),
        (MetricResult((Sample(0.05),)), AnalysisResult(), 10.0),
        (MetricResult(problem="does not answer"), AnalysisResult(), 10.0),
    ],
    ids=["pending", "exceeded", "within", "failing"],
)
def test_the_answer_of_a_query_is_read_before_it_is_old(
    answer: MetricResult | None, result: AnalysisResult, period: float
) -> None:
    analysis = RolloutAnalysis(Metrics(answer))
    found = analysis.result(AGENT, AT_A_STEP)
    assert (found, analysis.period(AGENT, AT_A_STEP, found)) == (result, period)
    assert analysis.result(AGENT, RolloutState(current="a-1")) == AnalysisResult()


def test_queries_without_a_prometheus_are_named() -> None:
    found = RolloutAnalysis(None).result(AGENT, AT_A_STEP)
    assert (found.unmeasured, found.is_pending) == ("the analysis needs a Prometheus, see GITSYNC_PROMETHEUS", False)
    assert RolloutAnalysis(None).period(AGENT, AT_A_STEP, found) is None


@pytest.mark.parametrize(
    ("status", "seconds", "is_trouble"),
    [
        ({}, 60, False),
        ({"startTime": "2026-01-01T00:00:00Z"}, 9, False),
        ({"startTime": "2026-01-01T00:00:00Z"}, 10, True),
        ({"startTime": "2026-01-01T00:00:00Z", "active": 0}, 60, True),
        ({"startTime": "2026-01-01T00:00:00Z", "active": 1}, 60, False),
        ({"startTime": "2026-01-01T00:00:00Z", "failed": 1}, 60, False),
    ],
)
def test_a_job_whose_pod_is_not_created_is_reported(status: dict[str, Any], seconds: int, is_trouble: bool) -> None:
    cluster = FakeCluster()
    reader = EvaluationReader(FakeReaderPorts(cluster))  # type: ignore[arg-type]
    metadata = {"name": "triage-validate-1", "namespace": "shop", "uid": "7"}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "status": status}
    message = reader.trouble(job, datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds))
    assert ("kubectl describe job triage-validate-1" in message) is is_trouble
