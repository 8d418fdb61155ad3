"""How much of a budget is used by a reading, and what is known of it where nothing can be measured."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from gitsync.agents.budget import (
    BudgetReading,
    BudgetResult,
    BudgetState,
    Price,
    TokenCount,
    budget_conditions,
    judge_budget,
    parse_prices,
    usage_query,
)
from gitsync.agents.model.agent import parse_agent
from gitsync.agents.model.scaling import Budget
from gitsync.errors import InvalidInput
from tests.agents.factories import agent

NOON = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
TOMORROW = datetime(2026, 1, 2, 0, 0, 30, tzinfo=UTC)
TABLE = {"name": "model-prices", "key": "prices.json"}
PRICES = {"small": Price(1.0, 4.0)}
DOWN = BudgetReading(problem="Prometheus did not answer")


def budget(**members: Any) -> Budget:
    parsed = parse_agent(agent(budget=members)).spec.budget
    assert parsed is not None
    return parsed


def used(*counts: tuple[str, str, float], model: str = "small") -> BudgetReading:
    """Return a reading of Services, directions and tokens."""
    tokens = [TokenCount(service, model, direction == "output", number) for service, direction, number in counts]
    return BudgetReading(tuple(tokens), prices=PRICES)


def judged(
    limits: Budget, reading: BudgetReading, last: BudgetState | None = None, now: datetime = NOON
) -> BudgetState:
    return judge_budget(limits, "helper", reading, last.status if last else {}, now)


@pytest.mark.parametrize(
    ("tokens", "result", "percent"),
    [
        (0, BudgetResult.WITHIN, 0),
        (799, BudgetResult.WITHIN, 79),
        (800, BudgetResult.NEAR, 80),
        (999, BudgetResult.NEAR, 99),
        (1000, BudgetResult.EXCEEDED, 100),
        (2500, BudgetResult.EXCEEDED, 250),
    ],
)
def test_tokens_are_within_near_or_beyond_a_limit(tokens: int, result: BudgetResult, percent: int) -> None:
    state = judged(budget(agent={"tokensPerDay": 1000}), used(("helper", "input", tokens), ("other", "input", 5000)))
    assert (state.result, state.status["limits"][0]["percent"]) == (result, percent)
    assert state.message == f"the agent used {tokens:,} of 1,000 tokens today ({percent} %)"


def test_money_is_counted_by_the_price_of_each_direction() -> None:
    limits = budget(agent={"costPerDay": "10"}, prices=TABLE)
    state = judged(limits, used(("helper", "input", 2_000_000), ("helper", "output", 1_500_000)))
    assert (state.status["limits"][0]["used"], state.result) == ("8.00", BudgetResult.NEAR)
    assert state.message == "the agent used tokens for 8.00 of 10.00 today (80 %)"


def test_the_nearest_of_several_limits_decides() -> None:
    limits = budget(agent={"tokensPerDay": 1000}, allAgents={"tokensPerDay": 5000})
    state = judged(limits, used(("helper", "input", 100), ("other", "output", 4900)))
    assert (state.result, state.message) == (
        BudgetResult.EXCEEDED,
        "all agents of the namespace used 5,000 of 5,000 tokens today (100 %)",
    )


@pytest.mark.parametrize(
    ("reading", "problem"),
    [
        (DOWN, "Prometheus did not answer"),
        (used(("other", "input", 1)), "no tokens of the agent are measured"),
        (used(("helper", "input", 1), model="large"), "no price for model large"),
        (
            BudgetReading((TokenCount("helper", "small", False, 1),), prices_problem="a/b: is not a table"),
            "a/b: is not a table",
        ),
    ],
)
def test_what_cannot_be_measured_is_not_within_the_budget(reading: BudgetReading, problem: str) -> None:
    limits = budget(agent={"costPerDay": "10"}, prices=TABLE, onExceeded="Suspend")
    state = judged(limits, reading)
    assert (state.result, state.message, state.is_exceeded) == (BudgetResult.UNKNOWN, problem, False)
    (condition,) = budget_conditions(limits, state)
    assert (condition.status, condition.reason, condition.message) == ("Unknown", "NotMeasured", problem)


def test_a_limit_that_is_measured_does_not_hide_one_that_is_not() -> None:
    limits = budget(agent={"tokensPerDay": 1000, "costPerDay": "10"}, prices=TABLE)
    state = judged(limits, used(("helper", "input", 900), model="large"))
    assert state.result is BudgetResult.UNKNOWN
    assert state.message == "the agent used 900 of 1,000 tokens today (90 %); no price for model large"


@pytest.mark.parametrize("reading", [DOWN, BudgetReading(), used(("helper", "input", 3))])
def test_an_exceeded_limit_stays_so_until_the_day_ends(reading: BudgetReading) -> None:
    limits = budget(agent={"tokensPerDay": 1000})
    exceeded = judged(limits, used(("helper", "input", 1200)))
    assert judged(limits, reading, exceeded).is_exceeded
    assert not judged(limits, reading, exceeded, TOMORROW).is_exceeded


def test_a_raised_limit_counts_at_once() -> None:
    exceeded = judged(budget(agent={"tokensPerDay": 1000}), used(("helper", "input", 1200)))
    raised = judged(budget(agent={"tokensPerDay": 2000}), used(("helper", "input", 1200)), exceeded)
    assert (raised.result, raised.status["limits"][0]["percent"]) == (BudgetResult.WITHIN, 60)


def test_the_status_does_not_change_within_a_percent() -> None:
    limits = budget(agent={"tokensPerDay": 100_000})
    state = judged(limits, used(("helper", "input", 50_000)))
    assert judged(limits, used(("helper", "input", 50_999)), state).status == state.status
    assert judged(limits, used(("helper", "input", 51_000)), state).status != state.status


@pytest.mark.parametrize(
    ("action", "reason"), [("Notify", "Exceeded"), ("Throttle", "Throttled"), ("Suspend", "Suspended")]
)
def test_the_condition_says_what_is_done(action: str, reason: str) -> None:
    limits = budget(agent={"tokensPerDay": 1000}, onExceeded=action)
    (condition,) = budget_conditions(limits, judged(limits, used(("helper", "input", 1000))))
    assert (condition.status, condition.reason) == ("True", reason)
    (near,) = budget_conditions(limits, judged(limits, used(("helper", "input", 950))))
    assert (near.status, near.reason) == ("False", "NearLimit")


@pytest.mark.parametrize(
    ("now", "minutes"), [(TOMORROW, 5), (NOON, 721), (datetime(2026, 1, 1, 23, 59, 59, tzinfo=UTC), 1440)]
)
def test_usage_is_asked_since_midnight(now: datetime, minutes: int) -> None:
    assert usage_query("shop", now) == (
        "sum by (service, gen_ai_request_model, gen_ai_token_type)"
        f' (increase(gen_ai_client_token_usage_sum{{namespace="shop"}}[{minutes}m]))'
    )


def test_a_price_table_is_read() -> None:
    assert parse_prices('{"small": {"input": 1, "output": 4.0}}', "model-prices/prices.json") == PRICES


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "5",
        '{"small": 1}',
        '{"small": {"input": 1}}',
        '{"small": {"input": "a", "output": 1}}',
        '{"small": {"input": -1, "output": 1}}',
        '{"small": {"input": NaN, "output": 1}}',
        '{"small": {"input": 1, "output": Infinity}}',
    ],
)
def test_another_text_is_not_a_price_table(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"model-prices/prices\.json"):
        parse_prices(text, "model-prices/prices.json")


def test_series_without_labels_are_counted_as_input() -> None:
    assert TokenCount.of_series({"service": "helper"}, 7) == TokenCount("helper", "without a name", False, 7)
    labels = {"service": "helper", "gen_ai_request_model": "small", "gen_ai_token_type": "output"}
    assert TokenCount.of_series(labels, 7) == TokenCount("helper", "small", True, 7)
