"""Label and field selectors."""

from __future__ import annotations

from typing import Any

import pytest

from gitsync.sandbox.errors import ApiError
from gitsync.sandbox.registry.selectors import field_predicate, label_predicate


@pytest.mark.parametrize(
    ("text", "labels", "selected"),
    [
        ("a=1", {"a": "1"}, True),
        ("a==1", {"a": "2"}, False),
        ("a!=1", {}, True),
        ("a", {"a": ""}, True),
        ("!a", {"a": ""}, False),
        ("a in (1, 2)", {"a": "2"}, True),
        ("a in (1,2)", {}, False),
        ("a notin (1,2)", {}, True),
        ("a notin (1,2),b", {"a": "3", "b": "x"}, True),
        ("a>2", {"a": "3"}, True),
        ("a<2", {"a": "x"}, False),
        ("a=", {"a": ""}, True),
        ("example.com/tier=web", {"example.com/tier": "web"}, True),
    ],
)
def test_label_selectors_select(text: str, labels: dict[str, str], selected: bool) -> None:
    test = label_predicate(text)
    assert test is not None
    assert test(labels) is selected


def test_an_empty_selector_selects_everything() -> None:
    assert label_predicate("") is None
    assert label_predicate(" ") is None


@pytest.mark.parametrize("text", ["a=1=2", "in (", "-a=1", "a in 1", "a in (1", "a=1,", "a>x", "a=-", "=x"])
def test_malformed_label_selectors_are_refused(text: str) -> None:
    with pytest.raises(ApiError) as refused:
        label_predicate(text)
    assert refused.value.code == 400


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("metadata.name=p", True),
        ("metadata.name!=p", False),
        ("spec.nodeName=,status.phase=Running", True),
        ("spec.hostNetwork=false", True),
        ("status.podIP!=", False),
    ],
)
def test_field_selectors_select_pods(text: str, selected: bool) -> None:
    pod: dict[str, Any] = {"metadata": {"name": "p"}, "spec": {}, "status": {"phase": "Running"}}
    predicate, _ = field_predicate(text, "", "Pod")
    assert predicate is not None
    assert predicate(pod) is selected


def test_a_field_selector_tells_the_one_name_it_asks_for() -> None:
    assert field_predicate("metadata.name=x", "", "ConfigMap")[1] == "x"
    assert field_predicate("metadata.name!=x", "", "ConfigMap")[1] == ""


def test_a_custom_resource_may_declare_more_fields() -> None:
    predicate, _ = field_predicate("spec.colour=red", "example.com", "Widget", ("spec.colour",))
    assert predicate is not None
    assert predicate({"metadata": {}, "spec": {"colour": "red"}})


@pytest.mark.parametrize("text", ["data.a=1", "broken", "metadata.labels.a=1"])
def test_other_fields_are_refused(text: str) -> None:
    with pytest.raises(ApiError) as refused:
        field_predicate(text, "", "ConfigMap")
    assert refused.value.code == 400
