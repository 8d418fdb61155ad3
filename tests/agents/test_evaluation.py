"""Cases, their assertions, and the verdict on a revision."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gitsync.agents.evaluation import Answer, CaseResult, Verdict, failure, judge, parse_cases
from gitsync.agents.model.evaluation import Evaluation
from gitsync.errors import InvalidInput

TOOLS = ("find_order",)


def case(*assertions: dict[str, str], name: str = "a") -> str:
    return json.dumps({"name": name, "input": "?", "assert": assertions})


@pytest.mark.parametrize(
    ("assertion", "answer", "why"),
    [
        ({"contains": "Billing"}, Answer("queue: billing"), ""),
        ({"contains": "billing"}, Answer("queue: other"), "the answer does not contain 'billing'"),
        ({"notContains": "promise"}, Answer("I PROMISE"), "the answer contains 'promise'"),
        ({"matches": "[1-4]$"}, Answer("urgency 5"), "no part of the answer matches '[1-4]$'"),
        ({"matches": "[1-4]$"}, Answer("urgency 4"), ""),
        ({"toolCalled": "find_order"}, Answer("", TOOLS), ""),
        ({"toolCalled": "close"}, Answer("", TOOLS), "the tool close was not called"),
        ({"toolNotCalled": "find_order"}, Answer("", TOOLS), "the tool find_order was called"),
        ({"toolNotCalled": "close"}, Answer("", TOOLS), ""),
        ({"toolNotCalled": "close"}, Answer(""), "the agent does not report which tools it called"),
    ],
)
def test_an_answer_is_compared_with_an_assertion(assertion: dict[str, str], answer: Answer, why: str) -> None:
    (only,) = parse_cases(case(assertion), "cases.jsonl")
    assert failure(only, answer) == why


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "cases.jsonl: 0 cases"),
        ("{", "cases.jsonl:1: not JSON"),
        (f"\n{case({'contains': 'a', 'matches': 'b'})}", "cases.jsonl:2.assert[0]"),
        (case({"matches": "("}), "cases.jsonl:1.assert[0].matches: not a regular expression"),
        (case({"contain": "a"}), "cases.jsonl:1.assert[0].contain"),
        (case(), "cases.jsonl:1.assert"),
        (f"{case({'contains': 'a'})}\n{case({'contains': 'b'})}", "cases.jsonl:2: a second case is named a"),
    ],
)
def test_an_invalid_case_names_its_line(text: str, problem: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_cases(text, "cases.jsonl")
    assert str(refused.value).startswith(problem)


def results(**ended: tuple[bool, bool | None]) -> list[CaseResult]:
    return [CaseResult(name, now, before, "" if now else "why") for name, (now, before) in ended.items()]


@pytest.mark.parametrize(
    ("ended", "settings", "is_passed"),
    [
        ({"a": (True, None), "b": (True, None)}, {}, True),
        ({"a": (True, True), "b": (False, True)}, {}, False),
        ({"a": (True, True), "b": (False, True)}, {"passPercent": 50}, True),
        ({"a": (True, True), "b": (False, True)}, {"passPercent": 50, "mustPass": ["b"]}, False),
        ({"a": (True, True), "b": (False, False)}, {"passPercent": 50, "mustPass": ["b"]}, True),
        ({"a": (True, None), "b": (False, None)}, {"passPercent": 50, "mustPass": ["b"]}, False),
    ],
)
def test_share_and_regressions_decide(
    ended: dict[str, tuple[bool, bool | None]], settings: dict[str, Any], is_passed: bool
) -> None:
    given = {"cases": {"name": "cases", "key": "cases.jsonl"}, **settings}
    assert judge(Evaluation.model_validate(given), results(**ended)).is_passed is is_passed


def test_a_verdict_fits_in_a_termination_message_failed_cases_first() -> None:
    found = [
        CaseResult(f"case-{number:03}", number != 70, True, "" if number != 70 else "x" * 200) for number in range(100)
    ]
    status = Verdict(False, "99 of 100 cases passed", tuple(found)).to_status(2000)
    assert len(json.dumps(status).encode()) <= 2000
    assert (status["passed"], status["cases"], status["result"]) == (99, 100, "Failed")
    assert status["results"][0] == {"name": "case-070", "before": "passed", "now": "failed", "message": "x" * 200}
