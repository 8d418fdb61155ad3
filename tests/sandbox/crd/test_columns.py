from __future__ import annotations

from typing import Any

import pytest

from gitsync.sandbox.crd import columns
from gitsync.sandbox.crd.columns import PathError, parse_path
from tests.sandbox.crd.factories import definition, widget

NOW = 1_704_164_645.0
READY = {"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Odd", "status": "False"}]}}


def test_a_definition_without_columns_shows_name_and_age() -> None:
    found = columns(definition(), "v1")
    obj = widget()
    obj["metadata"] = {**obj["metadata"], "creationTimestamp": "2024-01-02T02:59:05Z"}
    assert [column.name for column in found] == ["Name", "Age"]
    assert [column.cell(obj, NOW) for column in found] == ["w", "5m"]


@pytest.mark.parametrize(
    ("kind", "path", "members", "cell"),
    [
        ("string", ".spec.a", {"spec": {"a": "x"}}, "x"),
        ("string", ".spec.a", {"spec": {"a": {"b": 1}}}, '{"b":1}'),
        ("string", '.status.conditions[?(@.type=="Ready")].status', READY, "True"),
        ("string", ".status.conditions[*].type", READY, "Ready"),
        ("integer", ".spec.a", {"spec": {"a": 3}}, 3),
        ("integer", ".spec.a", {"spec": {"a": "three"}}, None),
        ("number", ".spec.a", {"spec": {"a": 0.5}}, 0.5),
        ("boolean", ".spec.a", {"spec": {"a": False}}, False),
        ("date", ".spec.a", {"spec": {"a": "2024-01-02T03:04:00Z"}}, "5s"),
        ("date", ".spec.a", {"spec": {"a": "soon"}}, "<invalid>"),
        ("string", ".spec.none", {"spec": {}}, None),
        ("string", ".metadata.labels.app\\.kubernetes\\.io/name", {}, None),
    ],
)
def test_cells_follow_the_type_of_their_column(kind: str, path: str, members: dict[str, Any], cell: Any) -> None:
    crd = definition(additionalPrinterColumns=[{"name": "A", "type": kind, "jsonPath": path, "priority": 1}])
    column = columns(crd, "v1")[1]
    assert column.cell(widget(**members), NOW) == cell
    assert (column.kind, column.priority) == (kind, 1)
    assert column.description == f"Custom resource definition column (in JSONPath format): {path}"


@pytest.mark.parametrize("path", ["spec.a", ".a[", ".a[?(x)]"])
def test_a_path_that_cannot_be_read_is_refused(path: str) -> None:
    with pytest.raises(PathError):
        parse_path(path)


def test_paths_reach_everywhere() -> None:
    obj = {"a": {"b": [{"c": 1}, {"c": 2}]}, "x.y": 5}
    assert parse_path("..c")(obj) == [1, 2]
    assert parse_path(".a.b[-1].c")(obj) == [2]
    assert parse_path(".a.b[0:1].c")(obj) == [1]
    assert parse_path("['x.y']")(obj) == [5]
    assert parse_path("{.a.b[?(@.c!=1)].c}")(obj) == [2]
