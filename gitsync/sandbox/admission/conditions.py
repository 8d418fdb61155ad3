"""Match conditions: CEL expressions that decide whether a webhook or a policy evaluates a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gitsync.sandbox.kinds.policies import VARIABLES
from gitsync.sandbox.validation.cel import CompileError, EvaluationError, compile_expression


class ConditionError(ValueError):
    """A condition that has no value."""


def hold(conditions: Sequence[Mapping[str, Any]], data: Mapping[str, Any]) -> bool:
    """
    Return whether all conditions are true.

    One that is false decides, whatever the others are; else one without a value raises ConditionError.
    """
    problems = []
    for condition in conditions:
        try:
            value = compile_expression(condition["expression"].strip(), VARIABLES).evaluate(data)
        except (CompileError, EvaluationError) as error:
            problems.append(f"expression '{condition['expression'].strip()}' resulted in error: {error}")
            continue
        if value is not True:
            return False
    if problems:
        raise ConditionError("; ".join(problems))
    return True
