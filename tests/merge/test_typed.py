from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitsync.merge.fieldset import FieldSet
from gitsync.merge.schema import DEDUCED, Schemas
from gitsync.merge.typed import TypedError, field_set, misfits
from tests.merge.sample_schema import ROOT, VALUES


@pytest.mark.parametrize(
    ("value", "paths"),
    [
        pytest.param({"text": "x"}, [("f:text",)], id="a leaf"),
        pytest.param({"part": {"a": "x"}}, [("f:part", "f:a")], id="a struct is not owned, its leaves are"),
        pytest.param({"labels": {"a": "x"}}, [("f:labels", "f:a")], id="nor is a map that is declared"),
        pytest.param({"any": {"a": {"b": 1}}}, [("f:any", "f:a"), ("f:any", "f:a", "f:b")], id="an item of a map is"),
        pytest.param({"whole": {"a": "x"}}, [("f:whole",)], id="an atomic map is one leaf"),
        pytest.param({"args": ["x", "x"]}, [("f:args",)], id="an atomic list is one leaf"),
        pytest.param({"set": ["x", "y"]}, [("f:set", 'v:"x"'), ("f:set", 'v:"y"')], id="a set owns its members"),
        pytest.param(
            {"items": [{"name": "a", "value": 1}]},
            [
                ("f:items", 'k:{"name":"a","protocol":"TCP"}'),
                ("f:items", 'k:{"name":"a","protocol":"TCP"}', "f:name"),
                ("f:items", 'k:{"name":"a","protocol":"TCP"}', "f:value"),
            ],
            id="an item is owned under its key with defaults, its defaulted member is not",
        ),
        pytest.param({"labels": {}}, [("f:labels",)], id="an empty map"),
        pytest.param({"labels": None}, [("f:labels",)], id="null"),
        pytest.param({"set": []}, [], id="an empty list holds nothing to own"),
        pytest.param({"set": None}, [("f:set",)], id="a null list"),
    ],
)
def test_owns(value: dict[str, Any], paths: list[tuple[str, ...]]) -> None:
    assert set(field_set(ROOT, value)) == set(paths)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"foo": 1}, ".foo: field not declared in schema"),
        ({"part": {"c": 1}}, ".part.c: field not declared in schema"),
        ({"whole": {"c": 1}}, ".whole.c: field not declared in schema"),
        ({"number": "x"}, ".number: expected numeric (int or float), got string"),
        ({"number": True}, ".number: expected numeric (int or float), got bool"),
        ({"number": {}}, ".number: expected numeric (int or float), got map[string]interface {}"),
        ({"text": 1}, ".text: expected string, got &value.valueUnstructured{Value:1}"),
        ({"text": ["a"]}, ".text: expected string, got &value.valueUnstructured{Value:[a]}"),
        ({"flag": "x"}, ".flag: expected boolean, got &{x}"),
        ({"amount": []}, ".amount: expected any scalar, got &{[]}"),
        ({"labels": ["a"]}, ".labels: expected map, got &{[a]}"),
        ({"args": {"a": 1}}, ".args: expected list, got &{map[a:1]}"),
        ({"args": "x"}, ".args: expected list, got &{x}"),
        (
            {"items": [{"name": "A"}, {"name": "A"}]},
            '.items: duplicate entries for key [name="A",protocol="TCP"]',
        ),
        ({"items": [{"name": "A", "foo": 1}]}, '.items[name="A",protocol="TCP"].foo: field not declared in schema'),
        ({"items": [None]}, ".items: element 0: associative list with keys may not have a null element"),
        ({"items": ["x"]}, ".items: element 0: associative list with keys may not have non-map elements"),
        ({"set": ["a", "a"]}, '.set: duplicate entries for key [="a"]'),
        ({"set": [{}]}, ".set: element 0: associative list without keys has an element that's a map type"),
        ({"set": [[]]}, ".set: element 0: not supported: associative list with lists as elements"),
        ({"set": [None]}, ".set: element 0: associative list without keys has an element that's an explicit null"),
        ({"args": [1]}, ".args[0]: expected string, got &value.valueUnstructured{Value:1}"),
    ],
)
def test_says_what_does_not_fit_in_the_api_servers_words(value: dict[str, Any], words: str) -> None:
    with pytest.raises(TypedError) as raised:
        field_set(ROOT, value)
    assert raised.value.upstream() == words


def test_says_all_that_does_not_fit() -> None:
    with pytest.raises(TypedError) as raised:
        field_set(ROOT, {"number": "x", "text": 1})
    assert raised.value.upstream().splitlines() == [
        "errors:",
        "  .number: expected numeric (int or float), got string",
        "  .text: expected string, got &value.valueUnstructured{Value:1}",
    ]
    assert "\n" not in str(raised.value)


KEYED = Schemas(
    {
        "t": {
            "type": "object",
            "properties": {
                "items": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"id": {"type": "string"}, "at": {"type": "integer"}}},
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["id", "at"],
                }
            },
        },
    }
).named("t")


def test_a_key_without_default_may_be_left_out_but_not_all_of_them() -> None:
    assert ("f:items", 'k:{"id":"a"}') in field_set(KEYED, {"items": [{"id": "a"}, {"id": "a", "at": 1}]})
    with pytest.raises(TypedError, match=r'element 1: .* omits all key fields \["id" "at"\]'):
        field_set(KEYED, {"items": [{"id": "a"}, {}]})


def test_a_live_list_may_hold_a_key_twice() -> None:
    live = {"items": [{"name": "a", "value": 1}, {"name": "a", "value": 2}], "set": ["x", "x"]}
    assert set(field_set(ROOT, live, duplicates=True)) == {
        ("f:items", 'k:{"name":"a","protocol":"TCP"}'),
        ("f:set", 'v:"x"'),
    }


def test_a_deduced_type_takes_any_value_and_owns_lists_whole() -> None:
    value = {"a": {"b": [1, {"c": 2}]}, "d": None, "e": {}}
    assert set(field_set(DEDUCED, value)) == {("f:a",), ("f:a", "f:b"), ("f:d",), ("f:e",)}


@given(VALUES)
def test_any_value_of_the_type_fits(value: dict[str, Any]) -> None:
    fields = field_set(ROOT, value)
    assert FieldSet.from_v1(fields.to_v1()) == fields
    assert {path[0][2:] for path in fields} <= value.keys()


JSON = st.recursive(
    st.sampled_from([0, 1.5, "x", True, None, 2**70, "\ud800"]),
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "name", "items", "set", "labels", "whole", "part", "any"]), below)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(sorted(ROOT.declared)), JSON))
def test_any_value_fits_or_is_refused_with_a_reason(value: dict[str, Any]) -> None:
    problems = list(misfits(ROOT, value))
    if problems:
        assert all(problem.startswith(".") for problem in problems)
        with pytest.raises(TypedError) as raised:
            field_set(ROOT, value)
        assert list(raised.value.problems) == problems
    else:
        assert field_set(ROOT, value, duplicates=True) == field_set(ROOT, value)
