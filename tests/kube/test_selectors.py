from __future__ import annotations

import pytest

from gitsync.kube.selectors import holds, matches

LABELS = {"app": "web", "gpus": "4"}


def requirement(operator: str, *values: str, key: str = "app") -> dict[str, object]:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("selector", "selects"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "web", "tier": "x"}}, False),
        ({"matchLabels": {"app": "web"}, "matchExpressions": [requirement("Exists", key="tier")]}, False),
    ],
)
def test_a_selector_selects_what_meets_all_its_requirements(selector, selects):
    assert matches(selector, LABELS) is selects


@pytest.mark.parametrize(
    ("rule", "holds_for"),
    [
        (requirement("In", "web", "api"), True),
        (requirement("In", "api"), False),
        (requirement("NotIn", "api"), True),
        (requirement("NotIn", "api", key="absent"), True),
        (requirement("Exists"), True),
        (requirement("DoesNotExist"), False),
        (requirement("DoesNotExist", key="absent"), True),
        (requirement("Gt", "3", key="gpus"), True),
        (requirement("Lt", "4", key="gpus"), False),
        (requirement("Gt", "3", key="app"), False),
        (requirement("Lt", "3", key="absent"), False),
    ],
)
def test_each_operator(rule, holds_for):
    assert holds(rule, LABELS) is holds_for


@pytest.mark.parametrize(
    ("value", "bound", "is_met"),
    [
        ("3", "2", True),
        ("2", "2", False),
        ("-1", "-2", True),
        ("--5", "1", False),
        ("²", "1", False),
        ("3", "x", False),
    ],
)
def test_only_integers_are_compared(value: str, bound: str, is_met: bool) -> None:
    assert holds({"key": "size", "operator": "Gt", "values": [bound]}, {"size": value}) is is_met
