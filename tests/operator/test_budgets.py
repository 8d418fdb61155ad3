"""The budget of an Agent: it warns before a limit, and then reports, throttles or suspends until the day ends."""

from __future__ import annotations

from typing import Any

import pytest

from gitsync.objects.manifest import Manifest, annotations_of
from gitsync.ports import MetricResult, Sample
from tests.agents.factories import agent
from tests.operator.agent_world import config_map
from tests.operator.fake_operator import AGENT, Operator

LIMIT = {"agent": {"tokensPerDay": 1000}}
DAY = 24 * 3600.0


class Meter:
    """A Prometheus that knows the tokens of the Agent."""

    def __init__(self, tokens: float = 0.0) -> None:
        self.tokens = tokens
        self.problem = ""
        self.is_pending = False

    def read(self, query: str, max_age: float) -> MetricResult | None:
        assert 'namespace="shop"' in query
        if self.is_pending:
            return None
        labels = {"service": "helper", "gen_ai_request_model": "small", "gen_ai_token_type": "input"}
        return MetricResult(problem=self.problem) if self.problem else MetricResult((Sample(self.tokens, "", labels),))


class Metered:
    """An Agent with three Pods and a budget, and what it used today."""

    def __init__(self, action: str = "Notify", **spec: Any) -> None:
        self.meter = Meter()
        budget = {**LIMIT, "onExceeded": action}
        self.operator = Operator(metrics=self.meter, **{"budget": budget, "replicas": 3, **spec})
        self.operator.settle()

    def uses(self, tokens: float, seconds: float = 60.0) -> None:
        self.meter.tokens = tokens
        self.operator.run(seconds)
        self.operator.run()

    @property
    def replicas(self) -> int:
        return int(self.operator.deployment()["spec"]["replicas"])

    @property
    def state(self) -> tuple[str, str]:
        condition = self.operator.condition("BudgetExceeded")
        return condition["status"], condition["reason"]

    @property
    def events(self) -> list[str]:
        warnings = [event["reason"] for event in self.operator.named("Event") if event["type"] == "Warning"]
        # The model is outside the cluster, which has a warning of its own.
        return [reason for reason in warnings if reason != "HostNeedsCIDR"]


def test_an_agent_within_its_budget_is_reported_and_runs() -> None:
    metered = Metered("Suspend")
    metered.uses(100)
    assert (metered.state, metered.replicas, metered.events) == (("False", "Within"), 3, [])
    assert metered.operator.status["budget"]["limits"][0]["used"] == "100"
    assert metered.operator.reconcile() == 60.0


@pytest.mark.parametrize("action", ["Notify", "Throttle", "Suspend"])
def test_a_warning_comes_before_anything_is_done(action: str) -> None:
    metered = Metered(action)
    metered.uses(850)
    assert (metered.state, metered.replicas, metered.events) == (("False", "NearLimit"), 3, ["NearLimit"])
    metered.uses(860)
    assert metered.events == ["NearLimit"]


@pytest.mark.parametrize(
    ("action", "reason", "replicas"),
    [("Notify", "Exceeded", 3), ("Throttle", "Throttled", 1), ("Suspend", "Suspended", 0)],
)
def test_an_exceeded_budget_does_what_the_spec_says(action: str, reason: str, replicas: int) -> None:
    metered = Metered(action)
    declared = metered.operator.cluster.objects[AGENT]
    metered.uses(1000)
    assert (metered.state, metered.replicas) == (("True", reason), replicas)
    assert reason in metered.events
    # The Agent is as Git declares it: only its children differ.
    live = metered.operator.cluster.objects[AGENT]
    assert (live["spec"], annotations_of(live)) == (declared["spec"], annotations_of(declared))


@pytest.mark.parametrize("action", ["Throttle", "Suspend"])
def test_the_next_day_begins_with_all_pods(action: str) -> None:
    metered = Metered(action)
    metered.uses(1200)
    metered.operator.start()  # a new process knows it by the status
    metered.meter.problem = "Prometheus did not answer"
    metered.operator.run(60)
    assert metered.replicas < 3
    metered.operator.run(DAY)
    metered.operator.settle()
    assert (metered.replicas, metered.state) == (3, ("Unknown", "NotMeasured"))


@pytest.mark.parametrize("action", ["Throttle", "Suspend"])
def test_a_higher_limit_counts_at_once(action: str) -> None:
    metered = Metered(action)
    metered.uses(1200)
    raised = {"agent": {"tokensPerDay": 5000}, "onExceeded": action}
    metered.operator.put(agent(budget=raised, replicas=3))
    metered.operator.settle()
    assert (metered.replicas, metered.state) == (3, ("False", "Within"))


def test_a_suspension_says_when_it_ends() -> None:
    metered = Metered("Suspend")
    metered.uses(1200)
    message = metered.operator.condition("Ready")["message"]
    assert message == (
        "stopped by its budget: the agent used 1,200 of 1,000 tokens today (120 %);"
        " it runs again tomorrow in UTC, or with a higher limit"
    )
    assert metered.operator.status["phase"] in ("Draining", "Suspended")


def test_a_throttled_autoscaler_decides_below_the_limit() -> None:
    scaling = {"minReplicas": 2, "maxReplicas": 9}
    budget = {**LIMIT, "onExceeded": "Throttle", "throttledReplicas": 4}
    metered = Metered(budget=budget, replicas=None, autoscaling=scaling)
    metered.uses(1200)
    (scaler,) = metered.operator.named("HorizontalPodAutoscaler")
    assert (scaler["spec"]["minReplicas"], scaler["spec"]["maxReplicas"]) == (2, 4)
    metered.uses(0, DAY)
    (scaler,) = metered.operator.named("HorizontalPodAutoscaler")
    assert scaler["spec"]["maxReplicas"] == 9


def test_a_new_revision_rolls_out_while_throttled() -> None:
    metered = Metered("Throttle")
    metered.uses(1200)
    serving = metered.operator.status["currentRevision"]
    budget = {**LIMIT, "onExceeded": "Throttle"}
    metered.operator.put(agent(budget=budget, replicas=3, prompt={"text": "Be short."}))
    metered.operator.settle()
    assert metered.operator.status["currentRevision"] != serving
    assert metered.replicas == 1


def test_a_budget_makes_no_revision() -> None:
    operator = Operator(metrics=Meter(), replicas=3)
    operator.settle()
    serving = operator.status["updateRevision"]
    operator.put(agent(replicas=3, budget=LIMIT))
    operator.settle()
    assert (operator.status["updateRevision"], operator.condition("BudgetExceeded")["reason"]) == (serving, "Within")


def test_the_removal_of_a_budget_waits_for_approval() -> None:
    metered = Metered()
    metered.operator.put(agent(replicas=3))
    metered.operator.settle()
    assert metered.operator.status["plan"]["class"] == "Dangerous"


def test_without_prometheus_a_budget_is_reported_as_unknown() -> None:
    operator = Operator(budget={**LIMIT, "onExceeded": "Suspend"})
    operator.settle()
    condition = operator.condition("BudgetExceeded")
    assert (condition["status"], condition["reason"]) == ("Unknown", "NotMeasured")
    assert "GITSYNC_PROMETHEUS" in condition["message"]
    assert operator.status["phase"] == "Running"


def test_an_answer_that_is_awaited_changes_no_status() -> None:
    metered = Metered("Suspend")
    metered.uses(850)
    metered.meter.is_pending = True
    writes = list(metered.operator.cluster.writes)
    assert metered.operator.run(60) == 0.3
    assert (metered.operator.cluster.writes, metered.state) == (writes, ("False", "NearLimit"))


def test_prices_come_from_the_config_map() -> None:
    budget = {"agent": {"costPerDay": "5"}, "prices": {"name": "model-prices", "key": "prices.json"}}
    metered = Metered(budget=budget)
    metered.uses(1_000_000)
    assert metered.state == ("Unknown", "NotMeasured")
    assert metered.operator.condition("ReferencesResolved")["message"] == "ConfigMap model-prices does not exist"
    table: Manifest = config_map("model-prices", **{"prices.json": '{"small": {"input": 4.5, "output": 9}}'})
    metered.operator.cluster.put(table)
    metered.uses(1_000_000)
    assert metered.state == ("False", "NearLimit")
    assert "4.50 of 5.00" in metered.operator.condition("BudgetExceeded")["message"]
