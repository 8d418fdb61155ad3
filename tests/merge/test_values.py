from __future__ import annotations

import copy
from typing import Any

import pytest

from gitsync.merge.values import (
    MAX_OPERATIONS,
    JsonPatchError,
    JsonPatchFormatError,
    json_patch,
    merge_patch,
)


@pytest.mark.parametrize(
    ("value", "patch", "result"),
    [  # the examples of RFC 7386, appendix A
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merges_as_the_standard_says(value: Any, patch: Any, result: Any) -> None:
    before = copy.deepcopy((value, patch))
    assert merge_patch(value, patch) == result
    assert (value, patch) == before


@pytest.mark.parametrize(
    ("value", "operation", "result"),
    [
        ({}, {"op": "add", "path": "/a", "value": 1}, {"a": 1}),
        ({"a": 1}, {"op": "add", "path": "/a", "value": 2}, {"a": 2}),
        ({"a": [1, 2]}, {"op": "add", "path": "/a/1", "value": 9}, {"a": [1, 9, 2]}),
        ({"a": [1]}, {"op": "add", "path": "/a/1", "value": 2}, {"a": [1, 2]}),
        ({"a": [1]}, {"op": "add", "path": "/a/-", "value": 2}, {"a": [1, 2]}),
        ({"a": [1, 2]}, {"op": "add", "path": "/a/-1", "value": 3}, {"a": [1, 2, 3]}),
        ({"a": [1, 2]}, {"op": "add", "path": "/a/-3", "value": 0}, {"a": [0, 1, 2]}),
        ({"a": [1, 2]}, {"op": "remove", "path": "/a/-1"}, {"a": [1]}),
        ({"a": [1, 2]}, {"op": "replace", "path": "/a/+1", "value": 3}, {"a": [1, 3]}),
        ({"a": {}}, {"op": "copy", "from": "/a/none", "path": "/b"}, {"a": {}, "b": None}),
        ({}, {"op": "add", "path": "a/b", "value": 1}, {"b": 1}),
        ({"a": 1}, {"op": "test", "path": "", "value": {"a": 1}}, {"a": 1}),
        ({"a": 1}, {"op": "replace", "path": "", "value": {"b": 2}}, {"b": 2}),
        ({"a/b": {"c~d": 1}}, {"op": "remove", "path": "/a~1b/c~0d"}, {"a/b": {}}),
        ({"a": [1, 2, 3]}, {"op": "remove", "path": "/a/1"}, {"a": [1, 3]}),
        ({"a": [1, 2]}, {"op": "replace", "path": "/a/0", "value": 9}, {"a": [9, 2]}),
        ({"a": {}}, {"op": "replace", "path": "/a/b", "value": 1}, {"a": {"b": 1}}),
        ({"a": [1, 2]}, {"op": "move", "from": "/a/1", "path": "/a/0"}, {"a": [2, 1]}),
        ({"a": {"b": 1}}, {"op": "move", "from": "/a/b", "path": "/c"}, {"a": {}, "c": 1}),
        ({"a": {"b": 1}}, {"op": "copy", "from": "/a", "path": "/c"}, {"a": {"b": 1}, "c": {"b": 1}}),
        ({"a": 1}, {"op": "test", "path": "/a", "value": 1.0}, {"a": 1}),
        ({}, {"op": "test", "path": "/a", "value": None}, {}),
        ({"a": [{"b": [1]}]}, {"op": "add", "path": "/a/0/b/0", "value": 0}, {"a": [{"b": [0, 1]}]}),
        ({}, {"op": "add", "path": "/a"}, {"a": None}),
    ],
)
def test_carries_an_operation_out(value: Any, operation: dict[str, Any], result: Any) -> None:
    before = copy.deepcopy(value)
    assert json_patch(value, [operation]) == result
    assert value == before, "the input is not changed"


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "fly", "path": "/a"},
        {"op": ["add"], "path": "/a"},
        {"path": "/a"},
        {"op": "add", "value": 1},
        {"op": "add", "path": "a", "value": 1},
        {"op": "add", "path": "/x/y", "value": 1},
        {"op": "add", "path": "/list/5", "value": 1},
        {"op": "add", "path": "/list/-3", "value": 1},
        {"op": "remove", "path": "/list/-2"},
        {"op": "add", "path": "", "value": {}},
        {"op": "test", "path": "/none/none", "value": None},
        {"op": "add", "path": "/list/x", "value": 1},
        {"op": "add", "path": "/text/x", "value": 1},
        {"op": "remove", "path": "/none"},
        {"op": "remove", "path": ""},
        {"op": "remove", "path": "/list/-"},
        {"op": "replace", "path": "/list/9", "value": 1},
        {"op": "replace", "path": "/list/99999999999999999999", "value": 1},
        {"op": "move", "from": "/none", "path": "/a"},
        {"op": "copy", "path": "/a"},
        {"op": "test", "path": "/text", "value": "y"},
        {"op": "test", "path": "/none", "value": 1},
        {"op": "test", "path": "/one", "value": True},
    ],
)
def test_refuses_an_operation_that_cannot_be_carried_out(operation: dict[str, Any]) -> None:
    with pytest.raises(JsonPatchError):
        json_patch({"list": [1], "text": "x", "one": 1}, [operation])


@pytest.mark.parametrize("operations", [{"op": "add"}, None, "x", [1], [{}] * (MAX_OPERATIONS + 1)])
def test_refuses_what_is_no_patch(operations: Any) -> None:
    with pytest.raises(JsonPatchFormatError):
        json_patch({}, operations)


def test_copies_that_grow_without_bound_are_stopped() -> None:
    double = [{"op": "copy", "from": "/x", "path": "/x/a"}] * 100
    with pytest.raises(JsonPatchError, match="copy operations add more than"):
        json_patch({"x": {"y": "z" * 1000}}, double)


def test_an_empty_patch_changes_nothing() -> None:
    value = {"a": 1}
    assert json_patch(value, []) is value
