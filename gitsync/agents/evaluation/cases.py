"""
Cases of an evaluation: what is asked, and what the answer has to be; also from a promptfoo configuration.

The tests of promptfoo are taken over as far as they map cleanly. Source: promptfoo's documentation, "Configuration
reference" (tests, defaultTest, vars, prompts) and "Assertions and metrics" (types and their values).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import re2
from pydantic import Field

from gitsync.agents.evaluation.assertions import AgentAnswer, Assertion, Grade, broken
from gitsync.errors import InvalidInput
from gitsync.objects.manifest import at
from gitsync.objects.parsing import Section, Text, parse_spec

_MOST_CASES = 1000
_LONGEST_MESSAGE = 200


class Case(Section):
    """One question and what its answer has to be."""

    name: Annotated[Text, Field(max_length=128)]
    input: Annotated[Text, Field(max_length=65536)]
    assert_: Annotated[tuple[Assertion, ...], Field(strict=False, alias="assert", min_length=1, max_length=32)]


def parse_cases(text: str, place: str) -> tuple[Case, ...]:
    """Return the cases of JSON Lines; raise InvalidInput that names the line."""
    cases: list[Case] = []
    # Empty lines are counted, so that the number is the one that editors show.
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            members = json.loads(line)
        except json.JSONDecodeError as error:
            raise InvalidInput(f"not JSON: {error}", location=f"{place}:{number}") from error
        case = parse_spec(Case, members, f"{place}:{number}")
        # Names are how ``mustPass`` and the comparison with the serving revision find a case.
        if any(known.name == case.name for known in cases):
            raise InvalidInput(f"a second case is named {case.name}", location=f"{place}:{number}")
        cases.append(case)
    if not 0 < len(cases) <= _MOST_CASES:
        raise InvalidInput(f"{len(cases)} cases", location=place, hint=f"write 1 to {_MOST_CASES} cases, one a line")
    return tuple(cases)


def failure(case: Case, answer: AgentAnswer, grade: Grade | None = None) -> str:
    """Return why an answer fails a case, empty where it passes; ``grade`` judges by rubrics."""
    return "; ".join(filter(None, (broken(assertion, answer, grade) for assertion in case.assert_)))[:_LONGEST_MESSAGE]


_VARIABLE = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}")
_IGNORED = frozenset({"type", "value", "metric", "description"})
"""Members of an assertion that do not change whether it passes."""
Members = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Imported:
    """Cases as members of JSON Lines, and what has no counterpart, one line each."""

    cases: tuple[Members, ...]
    left_out: tuple[str, ...]


def imported(document: Any, place: str) -> Imported:
    """Return the cases of a configuration; raise InvalidInput where it has no list of tests."""
    tests = at(document, "tests") if isinstance(document, dict) else None
    if not isinstance(tests, list) or not all(isinstance(test, dict) for test in tests):
        raise InvalidInput("has no list of tests", location=f"{place}: tests", hint="tests of other files are not read")
    cases: list[Members] = []
    left_out: list[str] = []
    for number, test in enumerate(tests, start=1):
        name = _name(test, number, cases)
        try:
            case = {"name": name, "input": _input(document, test)}
            asserted = list(_assertions(document, test, name, left_out))
            # Each case is validated alone, so that one that does not fit is reported and the others are used.
            parse_spec(Case, {**case, "assert": asserted}, f"{place}: {name}")
        except InvalidInput as error:
            left_out.append(f"{name}: {error.message}")
        else:
            cases.append({**case, "assert": asserted})
    return Imported(tuple(cases), tuple(left_out))


def _name(test: Mapping[str, Any], number: int, cases: list[Members]) -> str:
    name = str(test.get("description") or f"test {number}")[:120]
    # promptfoo does not need unique descriptions; the number of the test makes a name of them.
    return name if all(case["name"] != name for case in cases) else f"{name} {number}"


def _input(document: Members, test: Mapping[str, Any]) -> str:
    """Return the message of a test: its only prompt with the variables, or its only variable."""
    variables = {**(at(document, "defaultTest", "vars") or {}), **(test.get("vars") or {})}
    # A list is a matrix in promptfoo: it would be several tests.
    if not all(isinstance(value, str | int | float) for value in variables.values()):
        raise InvalidInput("a variable is not a text: each combination would be a test of its own")
    prompts = document.get("prompts") or []
    # A prompt in another file is not read, so that the message of such a test is not known.
    if len(prompts) == 1 and isinstance(prompts[0], str) and not prompts[0].startswith("file:"):
        return _VARIABLE.sub(lambda match: str(variables.get(match[1], match[0])), prompts[0])
    if prompts or len(variables) != 1:
        raise InvalidInput("the message is not one prompt in the file, or one variable")
    return str(next(iter(variables.values())))


def _assertions(document: Members, test: Mapping[str, Any], name: str, left_out: list[str]) -> Iterator[Members]:
    """Yield our assertions of a test; add those without a counterpart to the list."""
    for assertion in [*(at(document, "defaultTest", "assert") or []), *(test.get("assert") or [])]:
        kind = str(assertion.get("type"))
        # The limit of a latency is its threshold; that of a score has no counterpart.
        member = "threshold" if kind == "latency" else "value"
        more = sorted(assertion.keys() - _IGNORED - {member})
        convert = _KINDS.get(kind)
        converted = [] if convert is None or more else convert(assertion.get(member))
        if converted:
            yield from converted
        else:
            left_out.append(f"{name}: assertion {kind}" + (f" with {', '.join(more)}" if more else ""))


def _escaped(value: Any, around: str = "{}") -> str:
    # re2's own escape: what ``re`` escapes differs, and RE2 rejects unknown escapes.
    return around.format(re2.escape(str(value)))


def _any_of(values: Any, flags: str = "") -> list[Members]:
    return [{"matches": f"{flags}{'|'.join(map(_escaped, values))}"}]


def _tools(values: Any, member: str) -> list[Members]:
    """Return assertions for names of tools; none for counts and patterns, which have no counterpart."""
    names = values if isinstance(values, list) else [values]
    return [{member: name} for name in names] if all(isinstance(name, str) for name in names) else []


def _tool_arguments(value: Any) -> list[Members]:
    """Return the assertion for a call with some arguments; none where they have to be the only ones."""
    if not isinstance(value, dict) or value.keys() - {"name", "args", "mode"} or value.get("mode") == "exact":
        return []
    return [{"toolCalled": str(value.get("name")), "arguments": value.get("args") or {}}]


def _seconds(milliseconds: Any) -> list[Members]:
    return [{"maxSeconds": milliseconds / 1000}] if isinstance(milliseconds, int | float) else []


_KINDS: Final[dict[str, Callable[[Any], list[Members]]]] = {
    "contains": lambda value: [{"matches": _escaped(value)}],
    "not-contains": lambda value: [{"notMatches": _escaped(value)}],
    "icontains": lambda value: [{"contains": str(value)}],
    "not-icontains": lambda value: [{"notContains": str(value)}],
    "contains-all": lambda values: [{"matches": _escaped(value)} for value in values],
    "icontains-all": lambda values: [{"contains": str(value)} for value in values],
    "contains-any": _any_of,
    "icontains-any": lambda values: _any_of(values, "(?i)"),
    "starts-with": lambda value: [{"matches": _escaped(value, r"\A{}")}],
    "equals": lambda value: [{"matches": _escaped(value, r"\A{}\z")}],
    "regex": lambda value: [{"matches": str(value)}],
    "not-regex": lambda value: [{"notMatches": str(value)}],
    "is-json": lambda value: [{"jsonSchema": value or {}}],
    "latency": _seconds,
    "trajectory:tool-used": lambda value: _tools(value, "toolCalled"),
    "not-trajectory:tool-used": lambda value: _tools(value, "toolNotCalled"),
    "trajectory:tool-args-match": _tool_arguments,
    "llm-rubric": lambda value: [{"rubric": str(value)}],
}
"""What each type becomes; those of promptfoo compare with the case of letters."""
