from __future__ import annotations

from gitsync.objects.ref import ObjectRef
from gitsync.render.provenance.trace import place, trace
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
        IMAGE: ["base/web.yaml:11: resource", "kustomization.yaml:3: ImageTagTransformer"],
    }


def test_the_empty_field_is_the_object() -> None:
    assert steps(WEB, "") == {"": ["base/web.yaml:1: resource"]}


def test_a_whole_part_begins_in_one_line_and_names_later_steps_once() -> None:
    assert steps(WEB, ".spec.template.spec.containers") == {
        ".spec.template.spec.containers": ["base/web.yaml:9: resource", "kustomization.yaml:3: ImageTagTransformer"]
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
