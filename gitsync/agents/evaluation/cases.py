"""Cases of an evaluation: what is asked, and what the answer has to be."""

from __future__ import annotations

import json
from typing import Annotated

from pydantic import Field

from gitsync.agents.evaluation.assertions import Answer, Assertion, Grade, broken
from gitsync.errors import InvalidInput
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


def failure(case: Case, answer: Answer, grade: Grade | None = None) -> str:
    """Return why an answer fails a case, empty where it passes; ``grade`` judges by rubrics."""
    return "; ".join(filter(None, (broken(assertion, answer, grade) for assertion in case.assert_)))[:_LONGEST_MESSAGE]
