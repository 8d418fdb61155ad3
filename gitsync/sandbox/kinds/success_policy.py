"""Validation of the success policy of an indexed Job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gitsync.sandbox.registry.status import Cause
from gitsync.sandbox.validation.causes import invalid, minimum, required, too_long, too_many

_MAX_RULES = 20
_MAX_INDEXES = 64 * 1024


def validate_success_policy(spec: Mapping[str, Any], field: str) -> list[Cause]:
    """Check the rules of a success policy (pkg/apis/batch/validation: validateSuccessPolicy)."""
    rules, completions = spec["successPolicy"].get("rules") or (), spec.get("completions", 0)
    text = "at least one rules must be specified when the successPolicy is specified"
    causes = [] if rules else [required(field, text)]
    causes += [too_many(field, len(rules), _MAX_RULES)] if len(rules) > _MAX_RULES else []
    for index, rule in enumerate(rules):
        causes += _rule(rule, f"{field}[{index}]", completions)
    return causes


def _rule(rule: Mapping[str, Any], field: str, completions: int) -> list[Cause]:
    count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
    if count is None and indexes is None:
        return [required(field, "at least one of succeededCount or succeededIndexes must be specified")]
    causes, total = list[Cause](), 0
    if indexes is not None:
        path = f"{field}.succeededIndexes"
        causes += [too_long(path, _MAX_INDEXES)] if len(indexes) > _MAX_INDEXES else []
        try:
            total = _count(indexes, completions)
        except ValueError as error:
            causes.append(invalid(path, indexes, f"error parsing succeededIndexes: {error}"))
    return causes if count is None else causes + _counted(count, f"{field}.succeededCount", completions, indexes, total)


def _counted(count: int, field: str, completions: int, indexes: str | None, total: int) -> list[Cause]:
    causes = minimum(field, count)
    if count > completions:
        text = f"must be less than or equal to {completions} (the number of specified completions)"
        causes.append(invalid(field, count, text))
    if indexes is not None and count > total:
        text = f"must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        causes.append(invalid(field, count, text))
    return causes


def _count(indexes: str, completions: int) -> int:
    """Return how many indexes a text such as ``1,3-5`` names; raise ValueError for another (validateIndexesFormat)."""
    total, last = 0, -1
    for part in indexes.split(",") if indexes else ():
        ends = part.split("-")
        if len(ends) > 2 or not all(end.isascii() and end.isdecimal() for end in ends):
            raise ValueError(
                f'the fragment "{part}" violates the requirement that an index interval can have at most two parts'
            )
        first, final = int(ends[0]), int(ends[-1])
        if max(first, final) >= completions:
            raise ValueError(f'too large index: "{max(first, final)}"')
        if first <= last or (len(ends) == 2 and final <= first):
            raise ValueError(f"non-increasing order, previous: {last}, current: {first}")
        total, last = total + final - first + 1, final
    return total
