"""Assertions on the answer of an agent."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import re2
from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

from gitsync.kube.model import FreeForm, Rule, Ruled
from gitsync.objects.parsing import Text

if TYPE_CHECKING:
    from jsonschema.exceptions import SchemaError, ValidationError

Grade = Callable[[str, str], str]
"""Judge an answer by a rubric; return why it fails, empty where it passes."""

_ONE_OF = (
    *("contains", "notContains", "matches", "notMatches", "jsonSchema"),
    *("toolCalled", "toolNotCalled", "maxSeconds", "maxTokens", "rubric"),
)
_NAMES = f"{', '.join(_ONE_OF[:-1])} and {_ONE_OF[-1]}"


class Assertion(Ruled):
    """What an answer has to be; exactly one member is set, besides the arguments of a tool."""

    RULES = (
        Rule(
            f"[{', '.join(f'has(self.{name})' for name in _ONE_OF)}].filter(one, one).size() == 1",
            f"set exactly one of {_NAMES}",
        ),
        Rule(
            "!has(self.arguments) || has(self.toolCalled) || has(self.toolNotCalled)",
            "are those of toolCalled or toolNotCalled",
            "arguments",
        ),
    )

    contains: Text | None = Field(None, description="Text in the answer, in any case of letters.")
    not_contains: Text | None = Field(None, description="Text that is not in the answer.")
    matches: Text | None = Field(None, description="Regular expression (RE2) that a part of the answer matches.")
    not_matches: Text | None = Field(None, description="Regular expression (RE2) that no part of the answer matches.")
    json_schema: FreeForm | None = Field(
        None, description="JSON Schema (draft 2020-12) of the answer, which has to be JSON; patterns are RE2."
    )
    tool_called: Text | None = Field(None, description="Tool that was called.")
    tool_not_called: Text | None = Field(None, description="Tool that was not called.")
    arguments: FreeForm | None = Field(None, description="Arguments that the call of the tool has, among others.")
    max_seconds: Annotated[float, Field(gt=0)] | None = Field(None, description="Seconds that the answer may take.")
    max_tokens: Annotated[int, Field(ge=1)] | None = Field(None, description="Tokens that the answer may take.")
    rubric: Text | None = Field(None, description="What a model judges the answer by: `judge` of the evaluation.")

    @field_validator("matches", "not_matches")
    @classmethod
    def _compiles(cls, pattern: str | None) -> str | None:
        try:
            # RE2 matches in linear time, whatever pattern a repository has.
            re2.compile(pattern or "")
        except re2.error as error:
            raise PydanticCustomError("pattern", "not a regular expression: {why}", {"why": str(error)}) from error
        return pattern

    @field_validator("json_schema")
    @classmethod
    def _is_schema(cls, schema: dict[str, Any] | None) -> dict[str, Any] | None:
        why = check_schema(schema) if schema is not None else ""
        if why:
            raise PydanticCustomError("schema", "not a JSON Schema: {why}", {"why": why})
        return schema


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool; ``arguments`` are empty where the agent does not report them."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AgentAnswer:
    """An answer, the tools that were called (None: not reported), the tokens that the agent reports, and seconds."""

    text: str
    tools: tuple[ToolCall, ...] | None = None
    tokens: int = 0
    seconds: float = 0.0


def broken(assertion: Assertion, answer: AgentAnswer, grade: Grade | None) -> str:
    """Return why an answer breaks an assertion, empty where it does not; a rubric needs a ``grade``."""
    if assertion.json_schema is not None:
        return violation(answer.text, assertion.json_schema)
    if assertion.rubric is not None:
        return grade(assertion.rubric, answer.text) if grade else "no model judges: spec.evaluation.judge is not set"
    if assertion.tool_called is not None or assertion.tool_not_called is not None:
        return _broken_call(assertion, answer)
    if assertion.max_seconds is not None and answer.seconds > assertion.max_seconds:
        return f"the answer took {answer.seconds:.3g} seconds, more than {assertion.max_seconds:g}"
    if assertion.max_tokens is not None:
        return _broken_budget(assertion.max_tokens, answer.tokens)
    return _broken_text(assertion, answer.text)


def _broken_text(assertion: Assertion, text: str) -> str:
    # casefold and not lower: it also compares letters such as the German sharp s.
    folded = text.casefold()
    if assertion.contains is not None and assertion.contains.casefold() not in folded:
        return f"the answer does not contain {assertion.contains!r}"
    if assertion.not_contains is not None and assertion.not_contains.casefold() in folded:
        return f"the answer contains {assertion.not_contains!r}"
    if assertion.matches is not None and not re2.search(assertion.matches, text):
        return f"no part of the answer matches {assertion.matches!r}"
    if assertion.not_matches is not None and re2.search(assertion.not_matches, text):
        return f"a part of the answer matches {assertion.not_matches!r}"
    return ""


def _broken_call(assertion: Assertion, answer: AgentAnswer) -> str:
    wanted = assertion.tool_called or assertion.tool_not_called
    arguments = assertion.arguments or {}
    if answer.tools is None:
        return "the agent does not report which tools it called"
    calls = [call for call in answer.tools if call.name == wanted]
    # An agent may report names only: whether the arguments were right is unknown then.
    if arguments and any(not call.arguments for call in calls):
        return "the agent does not report the arguments of its tool calls"
    is_called = any(_has(call.arguments, arguments) for call in calls)
    if is_called is (assertion.tool_called is not None):
        return ""
    how = " with these arguments" if arguments else ""
    return f"the tool {wanted} was {'' if is_called else 'not '}called{how}"


def _broken_budget(most: int, tokens: int) -> str:
    if not tokens:
        return "the agent does not report its tokens"
    return f"the answer took {tokens} tokens, more than {most}" if tokens > most else ""


def _has(actual: Any, wanted: Any) -> bool:
    """Whether a value is the wanted one, or a map with the wanted members."""
    if isinstance(wanted, Mapping) and isinstance(actual, Mapping):
        return all(name in actual and _has(actual[name], value) for name, value in wanted.items())
    return bool(actual == wanted)


def check_schema(schema: Mapping[str, Any]) -> str:
    """Return why a mapping is not a JSON Schema, empty where it is one."""
    # loaded at the first schema: the library takes a second and 21 MiB, at each start of the controller
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return f"{_path(error)}{error.message}"
    return ""


def violation(text: str, schema: Mapping[str, Any]) -> str:
    """Return how a text is not JSON of this schema, empty where it is."""
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return "the answer is not JSON"
    try:
        # An empty registry: a schema must not make the evaluation fetch other documents.
        validator = _validator_class()(schema, registry=Registry())
        errors = sorted(validator.iter_errors(value), key=lambda error: list(error.path))
    except (Unresolvable, re2.error) as error:
        return f"the JSON Schema cannot be applied: {error}"
    return f"the answer breaks its JSON Schema: {_path(errors[0])}{errors[0].message}" if errors else ""


def _path(error: ValidationError | SchemaError) -> str:
    path = error.json_path.removeprefix("$").removeprefix(".")
    return f"{path}: " if path else ""


@cache
def _validator_class() -> Any:
    """Return the validator of the draft with patterns of RE2: those of ``re`` may take exponential time."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError
    from jsonschema.validators import extend

    def pattern(validator: Any, pattern: str, value: Any, schema: Any) -> Iterator[ValidationError]:
        if isinstance(value, str) and not re2.search(pattern, value):
            yield ValidationError(f"{value!r} does not match {pattern!r}")

    def pattern_properties(validator: Any, patterns: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
        for pattern, below in patterns.items() if isinstance(value, dict) else ():
            for name in value:
                if re2.search(pattern, name):
                    yield from validator.descend(value[name], below, path=name, schema_path=pattern)

    return extend(Draft202012Validator, {"pattern": pattern, "patternProperties": pattern_properties})
