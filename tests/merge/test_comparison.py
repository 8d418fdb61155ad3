from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given

from gitsync.merge.apply import with_named_fields
from gitsync.merge.comparison import compare
from gitsync.merge.fieldset import FieldSet
from gitsync.merge.schema import DEDUCED, Schema
from gitsync.merge.typed import field_set
from tests.merge.sample_schema import ROOT, VALUES

A = 'k:{"name":"a","protocol":"TCP"}'


@pytest.mark.parametrize(
    ("before", "after", "added", "modified", "removed"),
    [
        pytest.param({}, {"text": "x"}, ["text"], [], [], id="added"),
        pytest.param({"text": "x"}, {"text": "y"}, [], ["text"], [], id="modified"),
        pytest.param({"text": "x"}, {}, [], [], ["text"], id="removed"),
        pytest.param({"number": 1}, {"number": 1.0}, [], [], [], id="one number"),
        pytest.param({"any": 1}, {"any": True}, [], ["any"], [], id="a number differs from a boolean"),
        pytest.param({"any": [1]}, {"any": [True]}, [], ["any"], [], id="in lists neither"),
        pytest.param({"amount": "1"}, {"amount": "1000m"}, [], ["amount"], [], id="another spelling"),
        pytest.param({"whole": {"a": "x"}}, {"whole": {"a": "y"}}, [], ["whole"], [], id="whole"),
        pytest.param({"args": ["a", "b"]}, {"args": ["b", "a"]}, [], ["args"], [], id="order of an atomic list"),
        pytest.param({"set": ["a", "b"]}, {"set": ["b", "a"]}, [], [], [], id="order of a set"),
        pytest.param({}, {"part": {"a": "x"}}, ["part", "part/a"], [], [], id="a struct with its leaves"),
        pytest.param({"labels": {}}, {"labels": None}, [], ["labels"], [], id="empty to null"),
        pytest.param({"labels": {"a": "x"}}, {"labels": None}, [], [], ["labels/a"], id="a map to null"),
        pytest.param({"labels": None}, {"labels": {"a": "x"}}, ["labels/a"], [], [], id="null to a map"),
        pytest.param({"any": {"a": 1}}, {"any": 1}, [], ["any"], ["any/a"], id="a map to a scalar"),
        pytest.param({"any": 1}, {"any": {"a": 1}}, ["any/a"], ["any"], [], id="a scalar to a map"),
        pytest.param({"any": [1]}, {"any": {"a": 1}}, ["any/a"], ["any"], [], id="a list to a map"),
    ],
)
def test_tells_what_changed(
    before: dict[str, Any], after: dict[str, Any], added: list[str], modified: list[str], removed: list[str]
) -> None:
    def paths(texts: list[str]) -> FieldSet:
        return FieldSet.of(tuple(f"f:{name}" for name in text.split("/")) for text in texts)

    change = compare(ROOT, before, after)
    assert (change.added, change.modified, change.removed) == (paths(added), paths(modified), paths(removed))
    assert bool(change) == bool(added or modified or removed)


def twice(first: int, second: int) -> dict[str, Any]:
    return {"items": [{"name": "a", "value": first}, {"name": "a", "value": second}]}


def once(value: int) -> dict[str, Any]:
    return {"items": [{"name": "a", "value": value}]}


ITEM = {("f:items", A)}
MEMBERS = {("f:items", A, "f:name"), ("f:items", A, "f:value")}


@pytest.mark.parametrize(
    ("before", "after", "added", "modified", "removed"),
    [
        pytest.param(twice(1, 2), twice(1, 2), set(), set(), set(), id="the same duplicates"),
        pytest.param(twice(1, 2), twice(1, 3), set(), ITEM, set(), id="a duplicate changed"),
        pytest.param(once(1), twice(1, 2), ITEM, set(), ITEM | MEMBERS, id="became two"),
        pytest.param(twice(1, 2), once(1), ITEM | MEMBERS, set(), ITEM, id="became one"),
        pytest.param({"items": []}, twice(1, 2), ITEM, set(), set(), id="two at once"),
        pytest.param(twice(1, 2), {"items": []}, set(), set(), ITEM, id="both gone"),
    ],
)
def test_compares_duplicates_as_one(
    before: dict[str, Any], after: dict[str, Any], added: set[Any], modified: set[Any], removed: set[Any]
) -> None:
    change = compare(ROOT, before, after)
    assert (set(change.added), set(change.modified), set(change.removed)) == (added, modified, removed)


def test_leaves_ignored_paths_out() -> None:
    change = compare(ROOT, {}, {"part": {"a": "x"}, "text": "x"}).less(FieldSet.of([("f:part",)]))
    assert set(change.added) == {("f:text",)}


@pytest.mark.parametrize("schema", [ROOT, DEDUCED], ids=["typed", "deduced"])
@given(before=VALUES, after=VALUES)
def test_comparing_is_symmetric_and_covers_every_field(
    schema: Schema, before: dict[str, Any], after: dict[str, Any]
) -> None:
    there, back = compare(schema, before, after), compare(schema, after, before)
    assert there.added == back.removed
    assert there.modified == back.modified
    held = FieldSet(with_named_fields(schema, field_set(schema, before).root))
    assert FieldSet({}) == (field_set(schema, after) - held) - (there.added | there.modified)
    assert not compare(schema, before, copy.deepcopy(before))


def test_nothing_and_an_empty_object_differ_in_no_field() -> None:
    assert not compare(ROOT, {}, None)
    assert not compare(ROOT, None, {})


def test_members_that_the_type_does_not_have_are_not_compared() -> None:
    assert not compare(ROOT, {"unknown": 1, "text": "x"}, {"other": 2, "text": "x"})
