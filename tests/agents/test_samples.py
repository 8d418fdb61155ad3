"""Verdicts on agents of known pass rates: how often a good one fails and a bad one passes."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import pytest

from gitsync.agents.evaluation.samples import AnswerOutcome, AnswerSample, ask_case, vote
from gitsync.agents.evaluation.verdict import CaseResult, EvaluationVerdict, chance_of_luck, judge
from gitsync.agents.model.evaluation import Evaluation
from tests.agents.factories import table

RUNS = int(os.environ.get("GITSYNC_EVALUATION_RUNS", "600"))
"""Evaluations of each agent; 20,000 take some minutes."""
PASSED, FAILED, UNKNOWN = AnswerOutcome.PASSED, AnswerOutcome.FAILED, AnswerOutcome.UNKNOWN


def evaluation(**settings: Any) -> Evaluation:
    return Evaluation.model_validate({"cases": {"name": "cases", "key": "cases.jsonl"}, **settings})


def simulated(rate: float, chance: random.Random) -> Callable[[], AnswerSample]:
    """Return an agent, or a judge, whose answers pass at this rate."""
    return lambda: AnswerSample(PASSED) if chance.random() < rate else AnswerSample(FAILED, "wrong")


def scripted(words: str) -> Callable[[], AnswerSample]:
    """Return an agent that answers in this order: passed, failed, unknown."""
    outcomes = {"p": PASSED, "f": FAILED, "u": UNKNOWN}
    answers = iter(words)
    return lambda: AnswerSample(outcomes[word := next(answers)], "" if word == "p" else "why")


# the rows of the documentation: answers, share that has to pass, rate of a good agent, rate of a bad one
DOCUMENTED = [(10, 80, 0.97, 0.35), (20, 80, 0.95, 0.5), (50, 85, 0.95, 0.7)]


def test_the_rows_are_those_of_the_page() -> None:
    rows = [[int(cell.removesuffix(" %")) for cell in row] for row in table("agents-evaluate.md", "`samples`")]
    assert [(samples, percent, good / 100, bad / 100) for samples, percent, good, bad in rows] == DOCUMENTED


@pytest.mark.parametrize(("samples", "percent", "good", "bad"), DOCUMENTED)
def test_false_verdicts_on_a_case_are_below_one_percent(samples: int, percent: int, good: float, bad: float) -> None:
    settings = evaluation(samples=samples, samplePercent=percent)
    chance = random.Random(samples)
    false_fails = sum(not ask_case("a", settings, simulated(good, chance), None).is_passed for _ in range(RUNS))
    false_passes = sum(ask_case("a", settings, simulated(bad, chance), None).is_passed for _ in range(RUNS))
    assert false_fails < 0.01 * RUNS
    assert false_passes < 0.01 * RUNS


def compared(own: float, serving: float, chance: random.Random) -> EvaluationVerdict:
    """Return the verdict on 20 cases, asked 20 times, by nothing but the comparison."""
    settings = evaluation(samples=20, samplePercent=1, passPercent=0, noWorseThanServing=True)
    results = [
        ask_case(f"case-{number}", settings, simulated(own, chance), simulated(serving, chance)) for number in range(20)
    ]
    return judge(settings, results)


def test_false_verdicts_of_a_comparison_are_below_one_percent() -> None:
    runs = RUNS // 12
    chance = random.Random(7)
    equal = [compared(rate, rate, chance).is_passed for rate in (0.5, 0.8, 0.95) for _ in range(runs)]
    assert equal.count(False) < 0.01 * len(equal)
    worse = [compared(0.8, 0.95, chance).is_passed for _ in range(runs)]
    assert worse.count(True) < 0.01 * len(worse)
    assert all(compared(0.95, 0.8, chance).is_passed for _ in range(runs))


def test_five_votes_of_a_judge_are_right_where_one_is_often_not() -> None:
    chance = random.Random(3)
    wrong = {votes: sum(vote(simulated(0.9, chance), votes).outcome is FAILED for _ in range(RUNS)) for votes in (1, 5)}
    assert wrong[1] > 0.05 * RUNS
    assert wrong[5] < 0.015 * RUNS


def test_an_early_end_changes_no_result() -> None:
    settings = evaluation(samples=9, samplePercent=67)
    chance = random.Random(5)
    for _ in range(500):
        words = "".join(chance.choices("pfu", (6, 2, 1), k=9))
        passed, failed = words.count("p"), words.count("f")
        expected = "passed" if passed >= 7 else "failed" if failed > 2 else "inconclusive"
        assert ask_case("a", settings, scripted(words), None).word == expected, words


def test_a_decided_case_is_not_asked_again() -> None:
    asked: list[str] = []

    def passing() -> AnswerSample:
        asked.append("?")
        return AnswerSample(PASSED)

    assert ask_case("a", evaluation(samples=20, samplePercent=50), passing, None).is_passed
    assert len(asked) == 10


@pytest.mark.parametrize(
    ("own", "serving", "result"),
    [
        ("ppp", "ppp", CaseResult("a", is_passed=True, was_passed=True)),
        ("pfp", "ppp", CaseResult("a", False, True, "passed 2 of 3: why", is_flaky=True, worse=1)),
        ("ppp", "fpf", CaseResult("a", True, False, better=2)),
        ("puu", "ppp", CaseResult("a", False, True, "passed 1 of 3: why", is_inconclusive=True)),
        ("ppp", "puu", CaseResult("a", is_passed=True, was_passed=None)),
    ],
)
def test_answers_of_both_revisions_are_counted(own: str, serving: str, result: CaseResult) -> None:
    settings = evaluation(samples=3, noWorseThanServing=True)
    assert ask_case("a", settings, scripted(own), scripted(serving)) == result


def test_the_verdict_names_what_is_worse_and_what_is_flaky() -> None:
    results = [
        CaseResult("refund", True, True, is_flaky=True, worse=9, better=0),
        CaseResult("billing", True, True),
    ]
    verdict = judge(evaluation(noWorseThanServing=True), results)
    assert not verdict.is_passed
    assert "worse than what serves: 9 answers failed that passed there, 0 the reverse" in verdict.message
    assert "flaky: refund" in verdict.message
    assert judge(evaluation(), results).is_passed


def test_the_test_of_mcnemar_is_exact() -> None:
    assert chance_of_luck(0, 0) == 1
    assert chance_of_luck(6, 1) == 8 / 128
    assert chance_of_luck(7, 0) == 1 / 128
    assert chance_of_luck(300, 100) < 1e-20
