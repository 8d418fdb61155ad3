"""A field of a rendered object is found in the file that says it."""

from __future__ import annotations

import pytest

from gitsync.objects.tree import Entry
from gitsync.render.provenance.locate import locate_field

BASE = """apiVersion: v1
kind: ConfigMap
metadata:
  name: other
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 2
  template:
    spec:
      containers:
        - name: side
          image: side:1
        - name: web
          image: web:1
          args: [a, b]
"""
PATCH = """apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replcas: 3
"""


class Files:
    """A tree of texts."""

    def __init__(self, **texts: str) -> None:
        self._texts = {name.replace("_", "/") + ".yaml": text for name, text in texts.items()}

    def entry(self, path: str) -> Entry | None:
        return Entry.FILE if path in self._texts else None

    def names(self, path: str) -> tuple[str, ...]:
        return tuple(self._texts)

    def read(self, path: str) -> bytes:
        return self._texts[path].encode()

    def blob_id(self, path: str) -> str:
        return path


def rendered(name: str = "web") -> dict[str, object]:
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}}


@pytest.mark.parametrize(
    ("field", "place"),
    [
        pytest.param(".spec.replicas", "base/web.yaml:11", id="a member"),
        pytest.param('.spec.template.spec.containers[name="web"].image', "base/web.yaml:18", id="an item by its key"),
        pytest.param(".spec.template.spec.containers[0].image", "base/web.yaml:16", id="an item by its index"),
        pytest.param('.spec.template.spec.containers[name="gone"].image', "base/web.yaml:14", id="the nearest that is"),
        pytest.param(".spec.replcas", "over/patch.yaml:6", id="the file that says most of it wins"),
        pytest.param("", "base/web.yaml:6", id="the object itself"),
    ],
)
def test_the_line_of_a_field_is_found(field: str, place: str) -> None:
    files = {"base_web": BASE, "over_patch": PATCH} if "replcas" in field else {"base_web": BASE}
    tree = Files(**files)
    names = ["base/web.yaml", "over/patch.yaml", "absent.yaml"]
    assert locate_field(tree, names, rendered(), field) == place


def test_an_overlay_may_have_added_to_the_name() -> None:
    tree = Files(base_web=BASE)
    assert locate_field(tree, ["base/web.yaml"], rendered("prod-web-v2"), ".spec.replicas") == "base/web.yaml:11"


def test_what_no_file_says_has_no_place() -> None:
    assert locate_field(Files(base_web=BASE), ["base/web.yaml"], rendered("api"), ".spec.replicas") == ""


def test_a_file_that_cannot_be_read_is_passed_over() -> None:
    tree = Files(broken="a: [", base_web=BASE)
    assert locate_field(tree, ["broken.yaml", "base/web.yaml"], rendered(), ".spec.replicas") == "base/web.yaml:11"
