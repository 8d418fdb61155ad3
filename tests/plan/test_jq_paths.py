"""The part of jq that names fields."""

from __future__ import annotations

import pytest

from gitsync.errors import InvalidInput
from gitsync.plan.jq_paths import paths

POD = {
    "metadata": {"annotations": {"a.b/c": "x"}},
    "spec": {"containers": [{"name": "web", "env": [{"name": "A"}, {"name": "B"}]}, {"name": "side", "on": True}]},
}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (".", [()]),
        (".spec.replicas", [("spec", "replicas")]),
        (".spec.containers[0].image", [("spec", "containers", 0, "image")]),
        (".spec.containers[-1]", [("spec", "containers", 1)]),
        (".spec.containers[7]", []),
        (".spec.containers[].name", [("spec", "containers", 0, "name"), ("spec", "containers", 1, "name")]),
        ('.spec.containers[] | select(.name == "side")', [("spec", "containers", 1)]),
        (
            '.spec.containers[] | select(.name == "web") | .env[] | select(.name != "A")',
            [("spec", "containers", 0, "env", 1)],
        ),
        (".spec.containers[] | select(.on == true).name", [("spec", "containers", 1, "name")]),
        ('.metadata.annotations["a.b/c"]', [("metadata", "annotations", "a.b/c")]),
        ('.metadata.annotations."a.b/c"', [("metadata", "annotations", "a.b/c")]),
        (".metadata.annotations[]?", [("metadata", "annotations", "a.b/c")]),
        (".spec.containers[] | select(.env[1].name == \"B\") | .name", [("spec", "containers", 0, "name")]),
        (".spec.fakeField.foo[]", []),
        (".metadata.annotations[0]", []),
        (".spec.containers.name", []),
    ],
)  # fmt: skip
def test_an_expression_names_paths(expression, expected):
    assert list(paths(expression, POD)) == expected


@pytest.mark.parametrize(
    "expression",
    [
        "del(.spec)",
        ".spec | keys",
        ".spec.containers[1:2]",
        '.spec.containers[] | select(.name | test("(a+)+$"))',
        "..",
        ".a.b + .c",
        ".a" * 600,
    ],
)
def test_more_than_that_is_refused(expression):
    with pytest.raises(InvalidInput, match="is not a supported jq path"):
        paths(expression, POD)
