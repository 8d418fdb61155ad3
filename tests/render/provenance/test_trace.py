from __future__ import annotations

import pytest

from gitsync.objects.ref import ObjectRef
from gitsync.objects.tree import Entry
from gitsync.render.provenance.trace import locate_field, place, trace
from tests.render.factories import DEPLOYMENT, rendered

FILES = {
    "kustomization.yaml": "resources: [base]\nnamePrefix: a-\nimages:\n- {name: nginx, newTag: '2'}\n"
    "patches: [{path: p.yaml}]\n",
    "p.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 3\n",
    "base/kustomization.yaml": "resources: [web.yaml, key.yaml]\nconfigMapGenerator:\n- {name: c, literals: [a=1]}\n",
    "base/web.yaml": DEPLOYMENT,
    "base/key.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: key}\nstringData:\n  token: x\n",
}
WEB = ObjectRef("apps", "Deployment", "shop", "a-web")
IMAGE = '.spec.template.spec.containers[name="web"].image'


def steps(ref: ObjectRef, *fields: str) -> dict[str, list[str]]:
    found = trace(rendered(FILES, provenance=True), {ref: fields})
    return {field: [str(setter) for setter in setters] for field, setters in found.get(ref, {}).items()}


def test_a_field_is_traced_through_every_step() -> None:
    assert steps(WEB, ".spec.replicas", IMAGE) == {
        ".spec.replicas": ["base/web.yaml:6: resource", "p.yaml:5: PatchTransformer"],
        IMAGE: ["base/web.yaml:11: resource", "kustomization.yaml:4: ImageTagTransformer"],
    }


def test_the_empty_field_is_the_object() -> None:
    assert steps(WEB, "") == {"": ["base/web.yaml:1: resource"]}


def test_a_whole_part_begins_in_one_line_and_names_later_steps_once() -> None:
    assert steps(WEB, ".spec.template.spec.containers") == {
        ".spec.template.spec.containers": ["base/web.yaml:9: resource", "kustomization.yaml:4: ImageTagTransformer"]
    }


def test_the_data_of_a_secret_may_be_written_as_text() -> None:
    ref = ObjectRef("", "Secret", "shop", "a-key")
    assert steps(ref, ".data.token") == {".data.token": ["base/key.yaml:5: resource"]}


def test_what_no_file_says_is_left_out() -> None:
    assert steps(WEB, ".metadata.labels.gitsync.dev/application", ".spec.nothing") == {}
    assert steps(ObjectRef("", "Pod", "", "web"), "") == {}


def test_the_last_file_has_the_last_word_whatever_the_build_adds() -> None:
    made = rendered(FILES, provenance=True)
    name = next(one["metadata"]["name"] for one in made.manifests if one["kind"] == "ConfigMap")
    ref = ObjectRef("", "ConfigMap", "", name)

    setters = trace(made, {ref: [".metadata.name"]})[ref][".metadata.name"]

    assert [setter.step for setter in setters] == ["ConfigMapGenerator", "PrefixTransformer", "name hash"]
    assert place(setters) == "kustomization.yaml:2"
    assert place(()) == ""


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


def deployed(name: str = "web") -> dict[str, object]:
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
    assert locate_field(tree, names, deployed(), field) == place


def test_an_overlay_may_have_added_to_the_name() -> None:
    tree = Files(base_web=BASE)
    assert locate_field(tree, ["base/web.yaml"], deployed("prod-web-v2"), ".spec.replicas") == "base/web.yaml:11"


def test_what_no_file_says_has_no_place() -> None:
    assert locate_field(Files(base_web=BASE), ["base/web.yaml"], deployed("api"), ".spec.replicas") == ""


def test_a_file_that_cannot_be_read_is_passed_over() -> None:
    tree = Files(broken="a: [", base_web=BASE)
    assert locate_field(tree, ["broken.yaml", "base/web.yaml"], deployed(), ".spec.replicas") == "base/web.yaml:11"
