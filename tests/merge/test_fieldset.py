from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitsync.merge.fieldset import FieldSet, human, key_element, value_element

ELEMENTS = st.sampled_from(["f:a", "f:b", "f:c", 'k:{"name":"x"}', 'v:"y"', "v:1", "i:0"])
PATHS = st.lists(ELEMENTS, min_size=1, max_size=4).map(tuple)
SETS = st.frozensets(PATHS, max_size=8)


def test_a_member_with_members_below_it_is_written_with_a_dot() -> None:
    assert FieldSet.of([("f:a",), ("f:a", "f:b"), ("f:c", "f:d")]).to_v1() == {
        "f:a": {".": {}, "f:b": {}},
        "f:c": {"f:d": {}},
    }


@pytest.mark.parametrize(
    ("path", "is_in"),
    [
        (("f:a",), True),
        (("f:a", "f:b"), True),
        (("f:c",), False),
        (("f:c", "f:d"), True),
        (("f:x",), False),
        ((), False),
    ],
)
def test_tells_which_paths_are_members(path: tuple[str, ...], is_in: bool) -> None:
    assert (path in FieldSet.of([("f:a",), ("f:a", "f:b"), ("f:c", "f:d")])) is is_in


def test_reads_any_spelling_of_an_element_and_compares_equal() -> None:
    loose = {'k:{"b": 1.0, "a":"x"}': {".": {}}, "v:2.0": {}}
    assert FieldSet.from_v1(loose) == FieldSet.of([('k:{"a":"x","b":1}',), ("v:2",)])


@pytest.mark.parametrize("fields", [[], {"x:a": {}}, {"f:a": 1}, {"k:[]": {}}, {"k:{}": {}}, {"v:{": {}}, {"i:x": {}}])
def test_refuses_what_is_no_field_set(fields: object) -> None:
    with pytest.raises(ValueError):
        FieldSet.from_v1(fields)


def test_without_takes_everything_below_a_member_away() -> None:
    whole = FieldSet.of([("f:status", "f:a"), ("f:status", "f:b", "f:c"), ("f:spec",)])
    assert set(whole.without(FieldSet.of([("f:status",)]))) == {("f:spec",)}


def test_leaves_are_the_members_without_members_below() -> None:
    assert set(FieldSet.of([("f:a",), ("f:a", "f:b"), ("f:c",)]).leaves()) == {("f:a", "f:b"), ("f:c",)}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("f:spec", "f:replicas"), ".spec.replicas"),
        (("f:spec", "f:containers", 'k:{"name":"a"}', "f:image"), '.spec.containers[name="a"].image'),
        (('k:{"protocol":"TCP","containerPort":80}',), '[containerPort=80,protocol="TCP"]'),
        (("f:metadata", "f:finalizers", 'v:"x/y"'), '.metadata.finalizers[="x/y"]'),
        (("f:list", "i:3"), ".list[3]"),
    ],
)
def test_prints_paths_as_the_api_server_does(path: tuple[str, ...], text: str) -> None:
    assert human(path) == text


@pytest.mark.parametrize("value", [2**70, "\ud800", -(2**65)])
def test_elements_of_values_that_json_libraries_refuse_are_still_distinct(value: object) -> None:
    assert key_element({"n": value}) != key_element({"n": 0})
    assert human((value_element(value),))


@given(SETS, SETS)
def test_the_set_laws_hold(a: frozenset[tuple[str, ...]], b: frozenset[tuple[str, ...]]) -> None:
    left, right = FieldSet.of(a), FieldSet.of(b)
    assert set(left) == a
    assert set(left | right) == a | b
    assert set(left & right) == a & b
    assert set(left - right) == a - b
    assert {path for path in b if path in left} == a & b
    assert bool(left - right) == bool(a - b)


@given(SETS, SETS)
def test_equal_sets_are_equal_values(a: frozenset[tuple[str, ...]], b: frozenset[tuple[str, ...]]) -> None:
    left, right = FieldSet.of(a), FieldSet.of(b)
    assert left | right == right | left
    assert left & right == right & left
    assert (left - right) | (left & right) == left
    assert FieldSet.of(a - b) == left - right
    assert hash(left | right) == hash(right | left)


@given(SETS, SETS)
def test_without_removes_members_and_what_is_below(
    a: frozenset[tuple[str, ...]], b: frozenset[tuple[str, ...]]
) -> None:
    left = {path for path in a if not any(path[: len(other)] == other for other in b)}
    assert set(FieldSet.of(a).without(FieldSet.of(b))) == left


@given(SETS)
@settings(max_examples=50)
def test_the_wire_form_reads_back_as_the_same_set(paths: frozenset[tuple[str, ...]]) -> None:
    fields = FieldSet.of(paths)
    assert FieldSet.from_v1(fields.to_v1()) == fields


def test_nothing_is_left_of_a_set_without_itself() -> None:
    fields = FieldSet.of([("f:a",), ("f:b", "f:c")])
    assert not fields - fields
    assert not fields.without(fields)


def test_elements_with_values_of_any_depth_are_spelled_one_way() -> None:
    assert value_element([1.0, {"b": 2.0}]) == value_element([1, {"b": 2}])
    assert FieldSet.from_v1({"v:1.0": {}, "v:2.0": {}, "f:a": {".": {}}}) == FieldSet.of([("v:1",), ("v:2",), ("f:a",)])
