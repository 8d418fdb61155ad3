"""What one environment takes over from another."""

from __future__ import annotations

import pytest

from gitsync.edit.promotion import promoted_values
from gitsync.errors import InvalidInput
from gitsync.render.build import build
from tests.preview.factories import deployment, tree

BASE = {
    "base/kustomization.yaml": "resources: [d.yaml, c.yaml]",
    "base/d.yaml": deployment(),
    "base/c.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: prompt}, data: {text: a, other: b}}",
}
STAGING = """\
resources: [../base]
namePrefix: staging-
images: [{name: web, newTag: "2"}]
replicas: [{name: web, count: 1}]
patches: [{patch: "{apiVersion: v1, kind: ConfigMap, metadata: {name: prompt}, data: {text: better}}"}]
"""
PROD = """\
resources: [../base]
namePrefix: prod-
images: [{name: web, newTag: "1"}]
replicas: [{name: web, count: 9}]
"""
FILES = tree({**BASE, "staging/kustomization.yaml": STAGING, "prod/kustomization.yaml": PROD})


def values(*take: str) -> list[tuple[str, str, object]]:
    promoted = promoted_values(build(FILES, "staging"), build(FILES, "prod"), take, "staging at 1")
    return [(str(value.ref), value.path, value.value) for value, problem in promoted if not problem]


def test_images_are_taken_and_replicas_stay() -> None:
    path = '.spec.template.spec.containers[name="main"].image'
    assert values("images") == [("Deployment prod-web", path, "web:2")]


def test_named_fields_are_taken() -> None:
    assert values("ConfigMap.data") == [("ConfigMap prod-prompt", ".data.text", "better")]
    assert values("ConfigMap.data.other", "Deployment.metadata.labels") == []


def test_what_one_environment_alone_has_is_not_taken() -> None:
    alone = tree({"a/d.yaml": deployment("one", image="web:2"), "b/d.yaml": deployment("two")})
    assert list(promoted_values(build(alone, "a"), build(alone, "b"), ["images"], "a")) == []


def test_objects_of_other_files_are_the_same_by_name() -> None:
    other = tree({"a/d.yaml": deployment(image="web:2"), "b/e.yaml": deployment()})
    [(value, problem)] = promoted_values(build(other, "a"), build(other, "b"), ["images"], "a")
    assert (value.value, value.manager, problem) == ("web:2", "a", "")


@pytest.mark.parametrize("entry", ["prompts", "configmap.data", "ConfigMap", ""])
def test_an_entry_that_names_no_field_is_an_error(entry: str) -> None:
    with pytest.raises(InvalidInput, match=r"neither images nor a field"):
        values(entry)
