"""Cases of an evaluation: read them, compare answers with their assertions, and judge a revision. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import re2
from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

from gitsync.agents.model.base import Rule, Ruled
from gitsync.agents.model.evaluation import Evaluation
from gitsync.errors import InvalidInput
from gitsync.objects.parsing import Section, Text, parse_spec

_MOST_CASES = 1000
_LONGEST_MESSAGE = 200


class Assertion(Ruled):
    """What an answer has to be; exactly one member is set."""

    RULES = (
        Rule(
            "[has(self.contains), has(self.notContains), has(self.matches), has(self.toolCalled),"
            " has(self.toolNotCalled)].filter(one, one).size() == 1",
            "set exactly one of contains, notContains, matches, toolCalled and toolNotCalled",
        ),
    )

    contains: Text | None = Field(None, description="Text in the answer, in any case of letters.")
    not_contains: Text | None = Field(None, description="Text that is not in the answer.")
    matches: Text | None = Field(None, description="Regular expression (RE2) that a part of the answer matches.")
    tool_called: Text | None = Field(None, description="Tool that was called.")
    tool_not_called: Text | None = Field(None, description="Tool that was not called.")

    @field_validator("matches")
    @classmethod
    def _compiles(cls, pattern: str | None) -> str | None:
        try:
            re2.compile(pattern or "")
        except re2.error as error:
            raise PydanticCustomError("pattern", "not a regular expression: {why}", {"why": str(error)}) from error
        return pattern


class Case(Section):
    """One question and what its answer has to be."""

    name: Annotated[Text, Field(max_length=128)]
    input: Annotated[Text, Field(max_length=65536)]
    assert_: Annotated[tuple[Assertion, ...], Field(strict=False, alias="assert", min_length=1, max_length=32)]


@dataclass(frozen=True, slots=True)
class Answer:
    """What an agent answered, and the tools that it called, None where it does not report them."""

    text: str
    tools: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class CaseResult:
    """How one case ended: now, and on the revision that serves (None where none does); why it failed."""

    name: str
    is_passed: bool
    was_passed: bool | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an evaluation found; ``message`` names the failed cases."""

    is_passed: bool
    message: str
    results: tuple[CaseResult, ...]

    def to_status(self, limit: int) -> dict[str, Any]:
        """Return the verdict for a status, at most ``limit`` bytes of JSON: failed cases come first."""
        found: dict[str, Any] = {
            "result": "Passed" if self.is_passed else "Failed",
            "passed": sum(one.is_passed for one in self.results),
            "cases": len(self.results),
            "message": self.message[:_LONGEST_MESSAGE],
            "results": [],
        }
        for one in sorted(self.results, key=lambda one: (one.is_passed, one.name)):
            added = [*found["results"], _row(one)]
            if len(json.dumps({**found, "results": added}).encode()) > limit:
                break
            found["results"] = added
        return found


def parse_cases(text: str, place: str) -> tuple[Case, ...]:
    """Return the cases of JSON Lines; raise InvalidInput that names the line."""
    cases: list[Case] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            members = json.loads(line)
        except json.JSONDecodeError as error:
            raise InvalidInput(f"not JSON: {error}", location=f"{place}:{number}") from error
        case = parse_spec(Case, members, f"{place}:{number}")
        if any(known.name == case.name for known in cases):
            raise InvalidInput(f"a second case is named {case.name}", location=f"{place}:{number}")
        cases.append(case)
    if not 0 < len(cases) <= _MOST_CASES:
        raise InvalidInput(f"{len(cases)} cases", location=place, hint=f"write 1 to {_MOST_CASES} cases, one a line")
    return tuple(cases)


def failure(case: Case, answer: Answer) -> str:
    """Return why an answer fails a case, empty where it passes."""
    return "; ".join(filter(None, (_broken(one, answer) for one in case.assert_)))[:_LONGEST_MESSAGE]


def judge(evaluation: Evaluation, results: Sequence[CaseResult]) -> Verdict:
    """Return the verdict on a revision, by the share of passed cases and those that must pass."""
    failed = [one.name for one in results if not one.is_passed]
    regressed = [
        one.name
        for one in results
        if one.name in evaluation.must_pass and not one.is_passed and one.was_passed is not False
    ]
    percent = 100 * (len(results) - len(failed)) / len(results)
    is_passed = percent >= evaluation.pass_percent and not regressed
    message = f"{len(results) - len(failed)} of {len(results)} cases passed"
    message += f"; failed: {', '.join(failed)}" if failed else ""
    return Verdict(is_passed, message + (f"; must pass: {', '.join(regressed)}" if regressed else ""), tuple(results))


def _broken(assertion: Assertion, answer: Answer) -> str:
    text = answer.text.casefold()
    if assertion.contains is not None and assertion.contains.casefold() not in text:
        return f"the answer does not contain {assertion.contains!r}"
    if assertion.not_contains is not None and assertion.not_contains.casefold() in text:
        return f"the answer contains {assertion.not_contains!r}"
    if assertion.matches is not None and not re2.search(assertion.matches, answer.text):
        return f"no part of the answer matches {assertion.matches!r}"
    wanted = assertion.tool_called or assertion.tool_not_called
    if wanted is None:
        return ""
    if answer.tools is None:
        return "the agent does not report which tools it called"
    if (wanted in answer.tools) is (assertion.tool_called is not None):
        return ""
    return f"the tool {wanted} was {'not ' if assertion.tool_called else ''}called"


def _row(one: CaseResult) -> Mapping[str, str]:
    words = {True: "passed", False: "failed"}
    before = "" if one.was_passed is None else words[one.was_passed]
    found = {"name": one.name, "before": before, "now": words[one.is_passed], "message": one.message}
    return {name: value for name, value in found.items() if value}
