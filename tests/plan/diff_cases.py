"""
Run the drift conformance cases: ``run(folder)`` judges the verdicts, ``run_paths`` where the drift is.

A case is decided as the planner decides: from the live object, and by the recorded dry run where that is not certain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from gitsync.errors import InvalidInput
from gitsync.merge.schema import REFERENCE, Schema, Schemas, builtin, kind_schema
from gitsync.objects.application import IgnoreRule
from gitsync.objects.change import DRIFT
from gitsync.objects.manifest import Manifest, group_of
from gitsync.plan.drift import Drift, compare_objects, find_drift
from gitsync.plan.drift import Path as Elements
from gitsync.plan.ignored_fields import IgnoredFields, without_ignored
from gitsync.plan.normalize import declared
from tests.plan.factories import three_way_drift

Found = tuple[bool, frozenset[str]]

_TYPES = {
    "core/Quantity": "io.k8s.apimachinery.pkg.api.resource.Quantity",
    "meta/v1/Duration": "io.k8s.apimachinery.pkg.apis.meta.v1.Duration",
}


def run(folder: Path) -> list[tuple[str, str]]:
    """Return each case's name and what is wrong with its verdict, empty when it is right."""
    return [(case["name"], _verdict_problem(case)) for case in cases(folder)]


def run_paths(folder: Path) -> list[tuple[str, str]]:
    """Return each case's name and what is wrong with its changed paths, for the cases that name them."""
    return [(case["name"], _path_problem(case)) for case in cases(folder) if "changed_paths" in case["expect"]]


def cases(folder: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(folder.glob("*.json")):
        yield orjson.loads(file.read_bytes())


def _verdict_problem(case: dict[str, Any]) -> str:
    found, wanted = compare(case)[0], case["expect"]["in_sync"]
    return "" if found is wanted else f"in_sync {found}, expected {wanted}"


def _path_problem(case: dict[str, Any]) -> str:
    found, wanted = compare(case)[1], frozenset(case["expect"]["changed_paths"])
    return "" if found == wanted else f"{sorted(found)}, expected {sorted(wanted)}"


def compare(case: dict[str, Any]) -> Found:
    """Return whether a case is in sync and where it is not."""
    if case["live"] is None:
        return False, frozenset({""})
    try:
        drift = drift_of(case)
    except InvalidInput:
        return False, frozenset({""})
    changed = [
        _cut(path) for difference, path in zip(drift.differences, drift.paths, strict=True) if difference.kind in DRIFT
    ]
    return drift.in_sync, frozenset(changed)


def drift_of(case: dict[str, Any]) -> Drift:
    """Return the drift of a case whose live object exists."""
    options = case.get("options") or {}
    live, desired = case["live"], declared(case["desired"])
    schema = schema_of(desired, options)
    method, manager = options.get("method", "three-way"), options.get("manager", "")
    dry_run = options.get("dry_run")
    if method == "three-way":
        drift = three_way_drift(desired, live, schema)
    elif method == "managed-fields" or dry_run is None:
        drift = find_drift(desired, live, schema, manager)
    else:
        drift = find_drift(desired, live, schema, manager)
        if not drift.certain or options.get("ignore_mutation_webhook") is not None:
            only = options.get("ignore_mutation_webhook") is True
            drift = compare_objects(dry_run, live, schema, manager, owned_only=only)
    rules = [_rule(rule) for rule in options.get("ignore_differences", ())]
    if options.get("ignore_aggregated_roles") and "aggregationRule" in desired:
        rules.append(IgnoreRule(kind="ClusterRole", json_pointers=("/rules",)))
    return without_ignored(IgnoredFields(rules), desired, live, schema, drift).drift


def _rule(rule: Mapping[str, Any]) -> IgnoreRule:
    return IgnoreRule(
        kind=rule.get("kind", "*"),
        group=rule.get("group", ""),
        json_pointers=tuple(rule.get("jsonPointers", ())),
        jq_paths=tuple(rule.get("jqPathExpressions", ())),
        managers=tuple(rule.get("managedFieldsManagers", ())),
    )


def schema_of(manifest: Manifest, options: Mapping[str, Any]) -> Schema | None:
    """Return the schema of a case's kind: a built-in one, or one made of the types that the case knows."""
    api_version = str(manifest.get("apiVersion") or "")
    group, kind = group_of(api_version), str(manifest.get("kind"))
    known = kind_schema(builtin(), manifest)
    types = [t for t in options.get("known_types", ()) if (t["group"], t["kind"]) == (group, kind)]
    if known is not None or not types:
        return known
    root: dict[str, Any] = {"type": "object", "properties": {}, "x-kubernetes-preserve-unknown-fields": True}
    for known_type in types:
        *parents, last = known_type["field"].split(".")
        place = root
        for parent in parents:
            place = place["properties"].setdefault(
                parent, {"type": "object", "properties": {}, "x-kubernetes-preserve-unknown-fields": True}
            )
        group_version, _, name = known_type["type"].rpartition("/")
        reference = _TYPES.get(known_type["type"]) or f"io.k8s.api.{group_version.replace('/', '.')}.{name}"
        held: dict[str, Any] = {"$ref": REFERENCE + reference}
        place["properties"][last] = {"type": "array", "items": held} if last == "containers" else held
    raw = {_TYPES["meta/v1/Duration"]: {"type": "string"}, **builtin().raw}
    return Schemas(raw).from_crd(root)


def _cut(path: Elements) -> str:
    """Return the JSON Pointer of a path up to the first list on the way."""
    names = []
    for element in path:
        if not element.startswith("f:"):
            break
        names.append(element[2:].replace("~", "~0").replace("/", "~1"))
    return "".join(f"/{name}" for name in names)
