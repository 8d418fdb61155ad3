from __future__ import annotations

from typing import Any

import pytest

from gitsync.kube.selectors import matches
from gitsync.sandbox.validation.causes import show
from gitsync.sandbox.validation.metadata import is_empty, validate_selector

LABELS = {"app": "web", "tier": "a"}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        ({}, True),
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "db"}}, False),
        (expression("app", "In", "db", "web"), True),
        (expression("app", "NotIn", "web"), False),
        (expression("none", "NotIn", "web"), True),
        (expression("app", "Exists"), True),
        (expression("none", "Exists"), False),
        (expression("app", "DoesNotExist"), False),
    ],
)
def test_a_selector_matches_labels(selector: dict[str, Any], chosen: bool) -> None:
    assert matches(selector, LABELS) is chosen


@pytest.mark.parametrize(
    ("selector", "fields"),
    [
        (None, []),
        ({"matchLabels": {"a b": "x"}}, ["s.matchLabels"]),
        (expression("app", "In"), ["s.matchExpressions[0].values"]),
        (expression("app", "Exists", "x"), ["s.matchExpressions[0].values"]),
        (expression("app", "Near"), ["s.matchExpressions[0].operator"]),
        (expression("", "Exists"), ["s.matchExpressions[0].key", "s.matchExpressions[0].key"]),
        (expression("app", "In", "a b"), ["s.matchExpressions[0].values[0]"]),
    ],
)
def test_the_syntax_of_a_selector_is_checked(selector: Any, fields: list[str]) -> None:
    assert [cause.field for cause in validate_selector(selector, "s")] == fields


def test_an_empty_selector_has_no_requirement() -> None:
    assert is_empty({"matchLabels": {}})
    assert is_empty(None)
    assert not is_empty(expression("a", "Exists"))


def test_values_are_shown_as_json() -> None:
    assert show({"a": ['"', 1, None]}) == '{"a":["\\"",1,null]}'
    assert show(1 << 80) == str(1 << 80)
