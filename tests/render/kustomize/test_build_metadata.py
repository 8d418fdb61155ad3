from __future__ import annotations

import pytest
import yaml

from tests.render.factories import config_map, patched, rendered

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {volumes: [{name: v, configMap: {name: g}}]}\n"
HEAD = "apiVersion: v1, kind: ConfigMap"


def origin_annotations(change: str) -> tuple[dict, list[str]]:
    """Return the origin annotation of an object and the kinds of its transformers."""
    manifest = patched(config_map("a"), f"buildMetadata: [originAnnotations, transformerAnnotations]\n{change}")
    annotations = {
        name.rpartition("/")[2]: yaml.safe_load(text) for name, text in manifest["metadata"]["annotations"].items()
    }
    steps = annotations.get("transformations", [])
    return annotations["origin"], [step["configuredBy"]["kind"] for step in steps]


@pytest.mark.parametrize(
    ("change", "kinds"),
    [
        ("labels: [{pairs: {a: b}}]\n", ["LabelTransformer", "LabelTransformer"]),
        ("labels: [{pairs: {a: b}}]\ncommonLabels: {c: d}\n", ["LabelTransformer", "LabelTransformer"]),
        ("commonLabels: {c: d}\nnamePrefix: p-\n", ["PrefixTransformer", "LabelTransformer"]),
    ],
)
def test_label_transformers_are_listed_as_kustomize_does(change, kinds):
    assert origin_annotations(change) == ({"path": "r.yaml"}, kinds)


@pytest.mark.parametrize(
    "operation",
    ["{op: add, path: /metadata/annotations, value: {}}", "{op: replace, path: /metadata, value: {name: a}}"],
)
def test_a_json_patch_that_replaces_the_annotations_becomes_the_origin(operation):
    origin, kinds = origin_annotations(
        f"namePrefix: p-\npatches:\n- target: {{kind: ConfigMap}}\n  patch: '- {operation}'\n"
    )

    assert origin["configuredBy"]["kind"] == "PatchTransformer"
    assert kinds == ["PrefixTransformer"]


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (f"patches: [{{patch: '{{{HEAD}, metadata: {{name: g, annotations: {{a: b}}}}}}'}}]", "p-g-4h2mbtbbt6"),
        (f"patches: [{{patch: '{{{HEAD}, metadata: {{name: g, annotations: null}}}}'}}]", "p-g"),
        (f"patches: [{{patch: '{{{HEAD}, metadata: {{name: g, annotations: {{$patch: replace}}}}}}'}}]", "p-g"),
        (f"patches: [{{patch: '{{{HEAD}, metadata: {{name: g, $patch: delete}}}}'}}]", "p-g"),
        (
            "replacements:\n- source: {kind: Pod, fieldPath: metadata.annotations}\n"
            "  targets: [{select: {kind: ConfigMap}, fieldPaths: [metadata.annotations], options: {create: true}}]",
            "p-g",
        ),
    ],
)
def test_an_object_whose_annotations_are_replaced_has_no_hash_and_no_former_name(change, name):
    files = {
        "base/kustomization.yaml": "resources: [r.yaml]\nnamePrefix: p-\n"
        "configMapGenerator: [{name: g, literals: [a=b]}]\n",
        "base/r.yaml": POD.replace("name: p}", "name: p, annotations: {x: z}}"),
        "kustomization.yaml": f"resources: [base]\n{change}\n",
    }

    config, pod = rendered(files).manifests

    assert config["metadata"]["name"] == name
    assert pod["spec"]["volumes"][0]["configMap"]["name"] == (name if name.endswith("6") else "g")


@pytest.mark.parametrize("behavior", ["merge", "replace"])
def test_a_generated_object_keeps_the_transformers_of_the_one_it_changes(behavior):
    head = "buildMetadata: [transformerAnnotations]\nconfigMapGenerator:\n- {name: g"
    files = {
        "base/kustomization.yaml": f"namePrefix: b-\n{head}}}\n",
        "over/kustomization.yaml": f"resources: [../base]\nnameSuffix: -o\n{head}, behavior: {behavior}}}\n",
    }
    annotations = rendered(files, "over").manifests[0]["metadata"]["annotations"]
    steps = yaml.safe_load(annotations["alpha.config.kubernetes.io/transformations"])

    assert [step["configuredBy"]["kind"] for step in steps] == ["PrefixTransformer", "SuffixTransformer"]
