"""The analysis of a canary by a Prometheus that answers later, has no data, or is not configured."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gitsync.agents.model.agent import Agent, parse_agent
from gitsync.agents.rollout.observed import AnalysisResult
from gitsync.agents.rollout.state import RolloutStage, RolloutState
from gitsync.errors import InvalidInput
from gitsync.operator.observations import EvaluationReader, RolloutAnalysis
from gitsync.ports import MetricResult, Sample
from tests.agents.factories import agent
from tests.fakes.ports import FakeCluster, FakeReaderPorts

ANALYSIS = {"name": "errors", "prometheusQuery": "errors", "max": "0.05"}
COMPARED = {"name": "errors", "prometheusQuery": "errors{r='$revision'}", "maxAboveServing": "0.02"}
AT_A_STEP = RolloutState(current="helper-1", goal="helper-2", stage=RolloutStage.UPDATE)
DEAD = MetricResult(problem="the query gives no data")


def canary(*analysis: dict[str, Any]) -> Agent:
    return parse_agent(agent(update={"type": "Canary", "canary": {"steps": [{"weight": 50}], "analysis": analysis}}))


def measured(value: float) -> MetricResult:
    return MetricResult((Sample(value),))


class Metrics:
    """A Prometheus with these answers by query; one that is not among them is pending."""

    def __init__(self, answers: dict[str, MetricResult]) -> None:
        self._answers = answers

    def read(self, query: str, max_age: float) -> MetricResult | None:
        return self._answers.get(query)


def result(answers: dict[str, MetricResult], *analysis: dict[str, Any]) -> AnalysisResult:
    return RolloutAnalysis(Metrics(answers)).result(canary(*analysis), AT_A_STEP)


@pytest.mark.parametrize(
    ("answers", "expected", "period"),
    [
        ({}, AnalysisResult(is_pending=True), 0.3),
        ({"errors": MetricResult((Sample(0.01), Sample(0.2)))}, AnalysisResult("errors is 0.2, over 0.05"), 10.0),
        ({"errors": measured(0.05)}, AnalysisResult(), 10.0),
        ({"errors": DEAD}, AnalysisResult(absent="errors has no data: the query gives no data"), 10.0),
    ],
    ids=["pending", "exceeded", "within", "absent"],
)
def test_the_answer_of_a_query_is_read_before_it_is_old(
    answers: dict[str, MetricResult], expected: AnalysisResult, period: float
) -> None:
    analysis = RolloutAnalysis(Metrics(answers))
    found = analysis.result(canary(ANALYSIS), AT_A_STEP)
    assert (found, analysis.period(canary(ANALYSIS), AT_A_STEP, found)) == (expected, period)
    assert analysis.result(canary(ANALYSIS), RolloutState(current="helper-1")) == AnalysisResult()


def test_queries_without_a_prometheus_have_no_data() -> None:
    found = RolloutAnalysis(None).result(canary(ANALYSIS), AT_A_STEP)
    assert found == AnalysisResult(absent="errors has no data: it needs a Prometheus, see GITSYNC_PROMETHEUS")
    assert RolloutAnalysis(None).period(canary(ANALYSIS), AT_A_STEP, found) is None


def test_the_limit_with_a_deadline_decides_about_missing_data() -> None:
    held = {**ANALYSIS, "onNoData": "Hold"}
    ends = {**ANALYSIS, "name": "delay", "prometheusQuery": "delay"}
    ignored = {**ANALYSIS, "name": "cost", "prometheusQuery": "cost", "onNoData": "Ignore"}
    absent = {"errors": DEAD, "delay": DEAD, "cost": DEAD}
    assert result(absent, ignored) == AnalysisResult()
    assert result(absent, ignored, held).is_held
    both = result(absent, held, ends)
    assert (both.absent, both.is_held) == ("delay has no data: the query gives no data", False)
    # What is known to be exceeded needs no other data.
    assert result(absent | {"errors": measured(1)}, held, ends).exceeded == "errors is 1, over 0.05"


@pytest.mark.parametrize(
    ("own", "serving", "expected"),
    [
        (measured(0.05), measured(0.03), AnalysisResult()),
        (measured(0.06), measured(0.03), AnalysisResult("errors is 0.06, over 0.05 by what serves")),
        (
            measured(0.06),
            DEAD,
            AnalysisResult(absent="errors has no data: the revision that serves: the query gives no data"),
        ),
        (DEAD, measured(0.03), AnalysisResult(absent="errors has no data: the query gives no data")),
    ],
    ids=["within", "over", "nothing serves", "absent"],
)
def test_a_limit_may_follow_what_serves(own: MetricResult, serving: MetricResult, expected: AnalysisResult) -> None:
    assert result({"errors{r='2'}": own, "errors{r='1'}": serving}, COMPARED) == expected
    assert result({"errors{r='2'}": measured(0.01)}, COMPARED) == AnalysisResult(is_pending=True)


@pytest.mark.parametrize(
    ("limit", "problem"),
    [
        ({"name": "errors", "prometheusQuery": "errors"}, "needs max, maxAboveServing or both"),
        ({**COMPARED, "prometheusQuery": "errors"}, "needs $revision"),
    ],
)
def test_a_limit_that_limits_nothing_is_rejected(limit: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(problem)):
        canary(limit)


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
