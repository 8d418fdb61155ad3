from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from gitsync.merge.apply import reconciled, remove, with_named_fields
from gitsync.merge.fieldset import FieldSet
from gitsync.merge.typed import field_set
from tests.merge.sample_schema import ROOT, VALUES

A = 'k:{"name":"a","protocol":"TCP"}'


@pytest.mark.parametrize(
    ("value", "gone", "left"),
    [
        ({"text": "x", "number": 1}, [("f:text",)], {"number": 1}),
        ({"labels": {"a": "x", "b": "y"}}, [("f:labels", "f:a")], {"labels": {"b": "y"}}),
        ({"labels": {"a": "x"}}, [("f:labels", "f:a")], {"labels": None}),
        ({"labels": {"a": "x"}}, [("f:labels",)], None),
        ({"items": [{"name": "a"}, {"name": "b"}]}, [("f:items", A)], {"items": [{"name": "b"}]}),
        ({"items": [{"name": "a", "value": 1}]}, [("f:items", A, "f:value")], {"items": [{"name": "a"}]}),
        ({"items": [{"name": "a"}]}, [("f:items", A)], {"items": None}),
        ({"set": ["a", "b"]}, [("f:set", 'v:"a"')], {"set": ["b"]}),
        ({"whole": {"a": "x"}}, [("f:whole", "f:a")], {"whole": None}),
        ({"args": ["x"]}, [("f:args", "i:0")], {"args": None}),
        ({"text": "x"}, [("f:number",)], {"text": "x"}),
    ],
)
def test_removes_members_with_what_is_below(value: Any, gone: list[tuple[str, ...]], left: Any) -> None:
    assert remove(ROOT, value, FieldSet.of(gone).root) == left


@given(VALUES)
def test_nothing_of_what_was_removed_is_left(value: dict[str, Any]) -> None:
    fields = field_set(ROOT, value)
    bare = remove(ROOT, value, with_named_fields(ROOT, fields.root))
    assert set(field_set(ROOT, bare) & fields) == set()
    assert remove(ROOT, value, {}) is value


def test_declared_fields_above_a_member_count_as_members() -> None:
    root = FieldSet.of([("f:part", "f:a"), ("f:any", "f:x", "f:y"), ("f:items", A, "f:value")]).root
    assert set(FieldSet(with_named_fields(ROOT, root))) == {
        ("f:part",),
        ("f:part", "f:a"),
        ("f:any",),
        ("f:any", "f:x", "f:y"),
        ("f:items",),
        ("f:items", A, "f:value"),
    }


def test_what_became_atomic_is_owned_as_one() -> None:
    was = FieldSet.of([("f:whole", "f:a"), ("f:args", "i:0"), ("f:part", "f:a"), ("f:gone", "f:x")])
    assert set(FieldSet(reconciled(ROOT, was.root))) == {
        ("f:whole",),
        ("f:args",),
        ("f:part", "f:a"),
        ("f:gone", "f:x"),
    }
    unchanged = FieldSet.of([("f:whole",), ("f:part", "f:a")]).root
    assert reconciled(ROOT, unchanged) is unchanged


def test_what_the_type_does_not_have_stays() -> None:
    gone = FieldSet.of([("f:unknown", "f:a"), ("f:text", "f:a")]).root
    assert remove(ROOT, {"unknown": {"a": 1}, "text": "x"}, gone) == {"unknown": {"a": 1}, "text": "x"}
    assert with_named_fields(ROOT, gone) == {"f:unknown": {"f:a": {}}, "f:text": {".": {}, "f:a": {}}}
