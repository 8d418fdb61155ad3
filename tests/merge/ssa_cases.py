"""Run the server-side apply cases of the conformance data through the merge core."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gitsync.merge.apply import Applied, Conflicts, FieldManager, Managers, Writer, apply, update
from gitsync.merge.fieldset import FieldSet
from gitsync.merge.schema import DEDUCED, REFERENCE, Schema, Schemas
from gitsync.merge.typed import TypedError
from gitsync.merge.values import same


def run(folder: Path) -> list[tuple[str, str]]:
    """Run every case of a folder; return its name and what is wrong, empty when it passed."""
    cases = [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]
    return [(case["name"], problem(case)) for case in cases]


def problem(case: dict[str, Any]) -> str:
    """Run the steps of one case and return what differs from what must result, empty when nothing does."""
    return next(_problems(case), "")


def _problems(case: dict[str, Any]) -> Iterator[str]:
    schema = _schema(case)
    live: Any = {}
    outcome: Any
    managers: Managers = {}
    for number, step in enumerate(case["steps"]):
        if step["op"] == "change-schema":
            schema = _schema(step | {"root": case["root"]})
            continue
        version = step["apiVersion"]
        ignored = FieldSet.of(tuple(path) for path in (case.get("ignored") or {}).get(version, ()))
        try:
            if step["op"] == "update":
                writer = Writer(FieldManager(step["manager"], "Update"), version, ignored=ignored)
                managers = update(live, step["object"], schema, managers, writer)
                live, outcome = step["object"], "ok"
            else:
                writer = Writer(FieldManager(step["manager"], "Apply"), version, ignored=ignored)
                force = step["op"] == "force-apply"
                result = apply(live, step["object"], schema, managers, writer, force=force)
                outcome = result
                if isinstance(result, Applied):
                    live, managers, outcome = result.object, result.managers, "ok"
        except TypedError:
            outcome = "error"
        if isinstance(outcome, Conflicts):
            outcome = {"conflicts": sorted([c.manager.name, list(c.path)] for c in outcome.conflicts)}
        expected = step["expect"]
        if isinstance(expected, dict):
            expected = {"conflicts": sorted([c["manager"], c["path"]] for c in expected["conflicts"])}
        if outcome != expected:
            yield f"step {number}: expected {expected}, got {outcome}"
    expect = case["expect"]
    if "object" in expect and not same(live, expect["object"]):
        yield f"object: expected {expect['object']}, got {live}"
    if "managed" in expect:
        wanted = {
            name: (entry["apiVersion"], sorted(map(tuple, entry["paths"]))) for name, entry in expect["managed"].items()
        }
        got = {manager.name: (owned.api_version, sorted(owned.fields)) for manager, owned in managers.items()}
        if got != wanted:
            yield f"managed: expected {wanted}, got {got}"


def _schema(case: dict[str, Any]) -> Schema:
    """Return the schema of the object; the suite's ``x-relationship`` becomes what OpenAPI says in its place."""
    if case["schema"] == "deduced":
        return DEDUCED
    schemas = case["openapi"]["components"]["schemas"]
    return Schemas.from_openapi([{"components": {"schemas": _translated(schemas, schemas)}}]).named(case["root"])


def _translated(schema: Any, schemas: dict[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_translated(item, schemas) for item in schema]
    if not isinstance(schema, dict):
        return schema
    out = {key: _translated(value, schemas) for key, value in schema.items() if key != "x-relationship"}
    relationship = schema.get("x-relationship")
    if relationship:
        part = schema if "$ref" in schema else schema["allOf"][0]
        target = schemas[part["$ref"].removeprefix(REFERENCE)] if "$ref" in part else part
        if target.get("type") == "array":
            keyed = "map" if target.get("x-kubernetes-list-map-keys") else "set"
            out["x-kubernetes-list-type"] = "atomic" if relationship == "atomic" else keyed
        else:
            out["x-kubernetes-map-type"] = "atomic" if relationship == "atomic" else "granular"
    return out
