from __future__ import annotations

import pytest

from gitsync.kube.field_path import follow

DOCUMENT = {
    "metadata": {"annotations": {"example.com/a": "1", "example": {"com/a": "2"}}},
    "spec": {
        "containers": [{"name": "a]b"}, {"name": "web", "ports": [{"containerPort": 80}, {"containerPort": 81}]}],
        "finalizers": ["x", "y"],
    },
}


@pytest.mark.parametrize(
    ("field", "path"),
    [
        ("", ()),
        (".spec.containers", ("spec", "containers")),
        ('.spec.containers[name="web"].name', ("spec", "containers", 1, "name")),
        ('.spec.containers[name="a]b"]', ("spec", "containers", 0)),
        (".spec.containers[1].name", ("spec", "containers", 1, "name")),
        ('.spec.finalizers[="y"]', ("spec", "finalizers", 1)),
        ('.spec["containers"][0]', ("spec", "containers", 0)),
        (
            '.spec.containers[name="web"].ports[containerPort=81,protocol="TCP"]',
            ("spec", "containers", 1, "ports", 1),
        ),
        (".metadata.annotations.example.com/a", ("metadata", "annotations", "example.com/a")),
    ],
)
def test_a_path_is_followed_to_its_end(field, path):
    assert follow(DOCUMENT, field) == (path, True)


@pytest.mark.parametrize(
    ("field", "path"),
    [
        (".spec.gone.deep", ("spec",)),
        (".specs", ()),
        ('.spec.containers[name="gone"].image', ("spec", "containers")),
        (".spec.containers[9]", ("spec", "containers")),
        (".spec.containers[name=web]", ("spec", "containers")),
        (".spec.containers.name", ("spec", "containers")),
        (".spec[0]", ("spec",)),
    ],
)
def test_what_is_not_there_ends_the_path(field, path):
    assert follow(DOCUMENT, field) == (path, False)
