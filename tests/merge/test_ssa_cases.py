"""The runner of the conformance cases itself: what it can spell, and that it can fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gitsync.merge.schema import REFERENCE
from tests.merge.ssa_cases import problem, run

SCHEMAS: dict[str, Any] = {
    "granular": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}},
    "whole": {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "x-kubernetes-map-type": "atomic",
    },
    "keyed": {
        "type": "array",
        "items": {"type": "object", "properties": {"name": {"type": "string"}, "value": {"type": "number"}}},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    },
    "plain": {"type": "array", "items": {"type": "string"}},
}


def case(member: dict[str, Any], value: Any, *paths: list[str]) -> dict[str, Any]:
    root = {"type": "object", "properties": {"x": member}}
    step = {"op": "apply", "manager": "m", "apiVersion": "v1", "object": {"x": value}, "expect": "ok"}
    return {
        "name": "own",
        "schema": [],
        "openapi": {"components": {"schemas": {**SCHEMAS, "root": root}}},
        "root": "root",
        "steps": [step],
        "expect": {"object": {"x": value}, "managed": {"m": {"apiVersion": "v1", "paths": [*paths]}}},
    }


def at(name: str, relationship: str) -> dict[str, Any]:
    return {"allOf": [{"$ref": REFERENCE + name}], "x-relationship": relationship}


A = 'k:{"name":"a"}'


@pytest.mark.parametrize(
    ("member", "value", "paths"),
    [
        (at("granular", "atomic"), {"a": "1"}, [["f:x"]]),
        (at("whole", "separable"), {"a": "1"}, [["f:x", "f:a"]]),
        (at("keyed", "atomic"), [{"name": "a"}], [["f:x"]]),
        (at("keyed", "associative"), [{"name": "a"}], [["f:x", A], ["f:x", A, "f:name"]]),
        (at("plain", "associative"), ["a"], [["f:x", 'v:"a"']]),
        ({"$ref": f"{REFERENCE}whole", "x-relationship": "separable"}, {"b": "1"}, [["f:x", "f:b"]]),
        ({"allOf": [SCHEMAS["plain"]], "x-relationship": "associative"}, ["a"], [["f:x", 'v:"a"']]),
    ],
)
def test_a_relationship_beside_a_reference_holds_there(member: Any, value: Any, paths: list[list[str]]) -> None:
    assert problem(case(member, value, *paths)) == ""


@pytest.mark.parametrize(
    "change",
    [
        {"expect": {"object": {"x": {"a": "2"}}}},
        {"expect": {"managed": {}}},
        {"expect": {"managed": {"m": {"apiVersion": "v2", "paths": [["f:x", "f:a"]]}}}},
    ],
)
def test_a_case_that_expects_something_else_fails(change: dict[str, Any]) -> None:
    right = case({"$ref": f"{REFERENCE}granular"}, {"a": "1"}, ["f:x", "f:a"])
    assert problem(right) == ""
    assert problem({**right, **change}) != ""


def test_a_step_that_should_be_refused_and_is_not_fails() -> None:
    right = case({"$ref": f"{REFERENCE}granular"}, {"a": "1"}, ["f:x", "f:a"])
    right["steps"][0]["expect"] = "error"
    assert problem(right).startswith("step 0: expected error, got ok")


def test_a_folder_of_cases_is_run_by_name(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(json.dumps(case({"$ref": f"{REFERENCE}whole"}, {"a": "1"}, ["f:x"])))
    assert run(tmp_path) == [("own", "")]
