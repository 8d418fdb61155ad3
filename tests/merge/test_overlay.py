from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given

from gitsync.merge.apply import with_named_fields
from gitsync.merge.fieldset import FieldSet
from gitsync.merge.overlay import merge
from gitsync.merge.schema import DEDUCED
from gitsync.merge.typed import TypedError, field_set
from tests.merge.sample_schema import ROOT, VALUES


def named(*names: str) -> list[dict[str, Any]]:
    return [{"name": name} for name in names]


@pytest.mark.parametrize(
    ("live", "applied", "order"),
    [
        pytest.param("ab", "ba", "ba", id="the applied order wins"),
        pytest.param("xab", "ba", "xba", id="what stood before stays before"),
        pytest.param("axb", "ab", "axb", id="what stood between stays between"),
        pytest.param("abx", "ab", "abx", id="what stood after stays after"),
        pytest.param("ab", "cab", "cab", id="a new first item comes first"),
        pytest.param("ab", "acb", "acb", id="a new item stands where it is applied"),
        pytest.param("ab", "c", "abc", id="an unrelated item comes last"),
        pytest.param("", "ba", "ba", id="onto nothing"),
        pytest.param("ab", "", "ab", id="nothing applied"),
        pytest.param("abcd", "dcba", "dcba", id="reversed"),
    ],
)
def test_orders_items(live: str, applied: str, order: str) -> None:
    merged = merge(ROOT, {"items": named(*live)}, {"items": named(*applied)})
    assert merged["items"] == named(*order)
    assert merge(ROOT, {"set": list(live)}, {"set": list(applied)})["set"] == list(order)


@pytest.mark.parametrize(
    ("live", "applied", "merged"),
    [
        ({"labels": {"a": "1"}}, {"labels": {"b": "2"}}, {"labels": {"a": "1", "b": "2"}}),
        ({"whole": {"a": "1"}}, {"whole": {"b": "2"}}, {"whole": {"b": "2"}}),
        ({"args": ["a"]}, {"args": ["b"]}, {"args": ["b"]}),
        ({"labels": {"a": "1"}}, {"labels": {}}, {"labels": {"a": "1"}}),
        ({"labels": {"a": "1"}}, {"labels": None}, {"labels": {"a": "1"}}),
        ({"whole": {"a": "1"}}, {"whole": None}, {"whole": None}),
        ({"set": ["a"]}, {"set": None}, {"set": ["a"]}),
        ({"labels": None}, {"labels": {}}, {"labels": {}}),
        ({"labels": {}}, {"labels": None}, {"labels": None}),
        ({}, {"set": []}, {"set": []}),
        ({"set": []}, {"set": []}, {"set": []}),
        ({"number": 1}, {"number": 1.0}, {"number": 1}),
        ({"amount": "1"}, {"amount": "1000m"}, {"amount": "1000m"}),
        ({"amount": "1"}, {"amount": 1}, {"amount": 1}),
        ({"any": 1}, {"any": {"a": 1}}, {"any": {"a": 1}}),
        ({"any": 1}, {"any": True}, {"any": True}),
    ],
)
def test_merges(live: dict[str, Any], applied: dict[str, Any], merged: dict[str, Any]) -> None:
    got = merge(ROOT, live, applied)
    assert got == merged
    assert repr(got) == repr(merged), "True and 1 are not the same value"


def test_an_item_that_is_there_twice_is_replaced_by_the_applied_one() -> None:
    live = {"items": [{"name": "a", "value": 1}, {"name": "a", "value": 2}, {"name": "b"}]}
    merged = merge(ROOT, live, {"items": [{"name": "a", "value": 3}]})
    assert merged == {"items": [{"name": "a", "value": 3}, {"name": "b"}]}


def test_a_scalar_takes_the_place_of_a_map() -> None:
    assert merge(DEDUCED, {"a": {"b": 1}}, {"a": 1}) == {"a": 1}


@given(VALUES, VALUES)
def test_what_is_applied_is_there_afterwards_and_nothing_else_is_lost(
    live: dict[str, Any], applied: dict[str, Any]
) -> None:
    before = copy.deepcopy((live, applied))
    try:
        merged = merge(ROOT, live, applied)
    except TypedError:
        return
    assert (live, applied) == before
    assert merge(ROOT, merged, applied) is merged
    everything = FieldSet(with_named_fields(ROOT, field_set(ROOT, merged).root))
    assert FieldSet({}) == field_set(ROOT, applied) - everything


@given(VALUES)
def test_applying_what_is_there_is_the_very_same_object(value: dict[str, Any]) -> None:
    assert merge(ROOT, value, copy.deepcopy(value)) is value
