"""The budget of an Agent: what was used today by metrics, how much of its limits that is, and what follows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from typing import Any, Final

from gitsync.agents.model.agent import AgentSpec
from gitsync.agents.model.scaling import Budget, DailyLimit
from gitsync.errors import InvalidInput
from gitsync.objects.conditions import Condition
from gitsync.objects.manifest import content_hash

BUDGET_EXCEEDED: Final = "BudgetExceeded"
"""The condition of an Agent with a budget."""
BUDGET_UNKNOWN: Final = "NotMeasured"
"""The reason of the condition where a budget cannot be checked."""
_METRIC: Final = "gen_ai_client_token_usage_sum"
"""The metric of the GenAI semantic conventions 1.37, which the pages show too."""
_MILLION: Final = 1_000_000
_SHORTEST: Final = 5
"""Minutes that a query covers at least: `increase` needs two scrapes, and gives nothing just after midnight."""


class BudgetResult(Enum):
    """How much of a budget is used; the value is what the status says."""

    WITHIN = "Within"
    NEAR = "NearLimit"
    EXCEEDED = "Exceeded"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class Price:
    """What a million tokens of a model cost, by direction."""

    input: float
    output: float

    def of(self, asked: float, answered: float) -> float:
        """Return what tokens of questions and answers cost."""
        return (asked * self.input + answered * self.output) / _MILLION


Prices = Mapping[str, Price]
"""Prices by the name of the model, as the label ``gen_ai_request_model`` has it."""


def parse_prices(text: str, place: str) -> Prices:
    """Return the prices of a table in JSON; raise InvalidInput that names ``place`` for another text."""
    hint = 'write {"model": {"input": 0.6, "output": 2.4}}, the prices of a million tokens'
    try:
        table = json.loads(text)
        prices = {model: Price(float(price["input"]), float(price["output"])) for model, price in table.items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidInput("is not a table of prices", location=place, hint=hint) from error
    # NaN too, for which no comparison is true
    invalid = [model for model, price in prices.items() if not (0 <= price.input < 1e9 and 0 <= price.output < 1e9)]
    if invalid:
        raise InvalidInput(f"the price of {invalid[0]} is not a number from 0", location=place, hint=hint)
    return prices


def usage_query(namespace: str, now: datetime) -> str:
    """
    Return the query for the tokens of a namespace since midnight, by Service, model and direction.

    It is the same for all Agents of the namespace within a minute, so that Prometheus is asked once for all of them.
    """
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    minutes = max(int((now - midnight).total_seconds() // 60) + 1, _SHORTEST)
    series = f'{_METRIC}{{namespace="{namespace}"}}[{minutes}m]'
    return f"sum by (service, gen_ai_request_model, gen_ai_token_type) (increase({series}))"


@dataclass(frozen=True, slots=True)
class TokenCount:
    """Tokens of one Service, one model and one direction, as a series of `usage_query` has them."""

    service: str
    model: str
    is_output: bool
    tokens: float

    @classmethod
    def of_series(cls, labels: Mapping[str, str], tokens: float) -> TokenCount:
        """Return the tokens of a series with these labels."""
        # The conventions have two directions; what is neither counts as input.
        is_output = labels.get("gen_ai_token_type") == "output"
        model = labels.get("gen_ai_request_model", "") or "without a name"
        return cls(labels.get("service", ""), model, is_output, tokens)


@dataclass(frozen=True, slots=True)
class BudgetReading:
    """
    What is known of the usage of a day: the counts of `usage_query`, or the problem why there are none.

    ``prices`` are those of the table; ``prices_problem`` is why it cannot be read, empty where it can.
    """

    counts: tuple[TokenCount, ...] = ()
    problem: str = ""
    prices: Prices = field(default_factory=dict)
    prices_problem: str = ""


@dataclass(frozen=True, slots=True)
class BudgetState:
    """What is known of a budget: the member of the status, the result, and a sentence for people."""

    status: Mapping[str, Any]
    result: BudgetResult
    message: str

    @property
    def is_exceeded(self) -> bool:
        """Whether more than a limit is used."""
        return self.result is BudgetResult.EXCEEDED


@dataclass(frozen=True, slots=True)
class _Measured:
    """What is used of one limit; None where that cannot be known, with the problem."""

    scope: str
    unit: str
    limit: float
    used: float | None
    problem: str = ""


def judge_budget(
    budget: Budget, service: str, reading: BudgetReading | None, previous: Mapping[str, Any], now: datetime
) -> BudgetState:
    """
    Return how much of the budget is used at a time, by a reading and by the last status of the same day.

    Without a reading, while Prometheus has not answered yet, the last status of the same day and budget stays.

    Usage of a day never becomes less: a Prometheus that restarts, or that forgets the series of a stopped Agent, must
    not start it again. What cannot be measured is never within the budget: the result is Unknown then, but a limit that
    is known to be exceeded stays so.
    """
    day = now.date().isoformat()
    subject = content_hash(budget.model_dump(mode="json"))[:10]
    if reading is None and (previous.get("day"), previous.get("subject")) == (day, subject):
        return BudgetState(previous, BudgetResult(previous["result"]), str(previous.get("message", "")))
    reading = reading or BudgetReading(problem="Prometheus has not answered yet")
    prices = content_hash({model: [price.input, price.output] for model, price in reading.prices.items()})[:10]
    last_rows = previous.get("limits", ()) if previous.get("day") == day else ()
    last = {
        (row["scope"], row["unit"]): row
        for row in last_rows
        # A corrected price counts at once, also where it makes the cost less.
        if row["unit"] == "tokens" or previous.get("prices") == prices
    }
    rows = []
    problems = []
    for measured in _measured(budget, service, reading):
        if measured.used is None:
            problems.append(measured.problem)
        row = _row(measured, last.get((measured.scope, measured.unit), {}))
        if row:
            rows.append(row)
    worst = max(rows, key=lambda row: float(row["percent"]), default=None)
    message = "; ".join([*([_sentence(worst)] if worst else []), *dict.fromkeys(problems)])
    result = _result(budget, worst, has_problem=bool(problems))
    status = {"day": day, "subject": subject, "result": result.value, "limits": rows, "message": message}
    if reading.prices:
        status["prices"] = prices
    return BudgetState({name: value for name, value in status.items() if value}, result, message)


def _result(budget: Budget, worst: Mapping[str, Any] | None, *, has_problem: bool) -> BudgetResult:
    percent = worst["percent"] if worst is not None else 0
    if percent >= 100:
        return BudgetResult.EXCEEDED
    if has_problem:
        return BudgetResult.UNKNOWN
    return BudgetResult.NEAR if percent >= budget.warn_percent else BudgetResult.WITHIN


def _measured(budget: Budget, service: str, reading: BudgetReading) -> Iterator[_Measured]:
    """Yield what is used of each limit."""
    own = tuple(count for count in reading.counts if count.service == service)
    if budget.agent is not None:
        yield from _of_limit("Agent", budget.agent, replace(reading, counts=own))
    if budget.all_agents is not None:
        yield from _of_limit("Namespace", budget.all_agents, reading)


def _of_limit(scope: str, limit: DailyLimit, reading: BudgetReading) -> Iterator[_Measured]:
    # Nothing was used, or nothing is measured: metrics do not tell which.
    absent = "" if reading.counts else f"no tokens of the {scope.lower()} are measured"
    problem = reading.problem or absent
    if limit.tokens_per_day is not None:
        used = None if problem else sum(count.tokens for count in reading.counts)
        yield _Measured(scope, "tokens", limit.tokens_per_day, used, problem)
    if limit.cost_per_day is not None:
        unpriced = sorted({count.model for count in reading.counts} - reading.prices.keys())
        unknown = problem or reading.prices_problem or (f"no price for model {', '.join(unpriced)}" if unpriced else "")
        cost = None if unknown else sum(_cost(count, reading.prices[count.model]) for count in reading.counts)
        yield _Measured(scope, "cost", limit.cost_per_day, cost, unknown)


def _cost(count: TokenCount, price: Price) -> float:
    return price.of(0.0, count.tokens) if count.is_output else price.of(count.tokens, 0.0)


def _row(measured: _Measured, last: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of a limit in the status, empty where nothing is known of it."""
    known = [float(last["used"])] if last else []
    known += [measured.used] if measured.used is not None else []
    if not known:
        return {}
    used = max(known)
    # A limit of nothing is reached by nothing.
    percent = int(used * 100 / measured.limit) if measured.limit > 0 else 100
    row = {"scope": measured.scope, "unit": measured.unit, "limit": _number(measured, measured.limit)}
    # Within a percent the status stays as it is: each Agent would be written each minute else.
    if last and last.get("percent") == percent and last.get("limit") == row["limit"]:
        return dict(last)
    return {**row, "used": _number(measured, used), "percent": percent}


def _number(measured: _Measured, value: float) -> str:
    """Return a number as the status has it: texts, since JSON does not keep the digits of floats."""
    return f"{value:.0f}" if measured.unit == "tokens" else f"{value:.2f}"


def _sentence(row: Mapping[str, Any]) -> str:
    whose = "all agents of the namespace" if row["scope"] == "Namespace" else "the agent"
    if row["unit"] == "tokens":
        amount = f"{int(row['used']):,} of {int(row['limit']):,} tokens"
    else:
        amount = f"tokens for {row['used']} of {row['limit']}"
    return f"{whose} used {amount} today ({row['percent']} %)"


def budget_conditions(budget: Budget | None, state: BudgetState | None) -> tuple[Condition, ...]:
    """Return the condition of a budget, if there is one; its reason is what is done, or how near the limit is."""
    if budget is None or state is None:
        return ()
    if state.result is BudgetResult.UNKNOWN:
        return (Condition(BUDGET_EXCEEDED, "Unknown", BUDGET_UNKNOWN, state.message),)
    if not state.is_exceeded:
        return (Condition(BUDGET_EXCEEDED, "False", state.result.value, state.message),)
    reason = {"Notify": "Exceeded", "Throttle": "Throttled", "Suspend": "Suspended"}[budget.on_exceeded]
    return (Condition(BUDGET_EXCEEDED, "True", reason, state.message),)


def throttled(spec: AgentSpec, replicas: int) -> AgentSpec:
    """Return the spec with at most this number of replicas; an autoscaler keeps deciding below it."""
    scaling = spec.autoscaling
    if scaling is None:
        return spec.model_copy(update={"replicas": min(1 if spec.replicas is None else spec.replicas, replicas)})
    limits = {
        "min_replicas": min(scaling.min_replicas, replicas),
        "max_replicas": min(scaling.max_replicas, replicas),
    }
    return spec.model_copy(update={"autoscaling": scaling.model_copy(update=limits)})
