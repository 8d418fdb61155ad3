"""The part of jq that names fields."""

from __future__ import annotations

import pytest

from gitsync.errors import InvalidInput
from gitsync.plan.jq_paths import expression_of, paths

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


LIVE = {
    "metadata": {"annotations": {"example.com/team": "a"}},
    "spec": {
        "containers": [{"name": "proxy"}, {"name": "web", "image": "web:1", "args": ["-v", "-q"]}],
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 1}],
        "finalizers": ["a", "b"],
    },
}


@pytest.mark.parametrize(
    ("field", "keys"),
    [
        (".spec", ("spec",)),
        ('.spec.containers[name="web"].image', ("spec", "containers", 1, "image")),
        ('.spec.containers[name="web"]', ("spec", "containers", 1)),
        ('.spec.containers[name="web"].args[1]', ("spec", "containers", 1, "args", 1)),
        ('.spec.ports[port=80,protocol="TCP"].targetPort', ("spec", "ports", 0, "targetPort")),
        (".metadata.annotations.example.com/team", ("metadata", "annotations", "example.com/team")),
        # of a set, the list
        ('.spec.finalizers[="b"]', ("spec", "finalizers")),
    ],
)
def test_a_field_of_the_api_server_has_a_jq_path(field, keys):
    assert paths(expression_of(field, None, LIVE), LIVE) == (keys,)


def test_a_field_that_no_side_has_has_a_jq_path():
    assert expression_of('.spec.containers[name="web"].image') == '.spec.containers[] | select(.name == "web") | .image'
