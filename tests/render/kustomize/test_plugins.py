from __future__ import annotations

import pytest

from tests.render.factories import DEPLOYMENT, config_map, only, refusal, rendered

HEAD = "apiVersion: builtin\nkind: {kind}\nmetadata: {{name: x, namespace: n}}\n"


def transformed(kind: str, config: str, resource: str = DEPLOYMENT) -> dict:
    """Return what a transformer that a file configures makes of a resource."""
    return only(
        {
            "kustomization.yaml": "resources: [r.yaml]\ntransformers: [t.yaml]\n",
            "r.yaml": resource,
            "t.yaml": HEAD.format(kind=kind) + config,
        }
    )


@pytest.mark.parametrize(
    ("kind", "config", "field", "value"),
    [
        (
            "LabelTransformer",
            "labels: {a: 1}\nfieldSpecs: [{path: metadata/labels, create: true}]\n",
            "labels",
            {"a": "1"},
        ),
        (
            "AnnotationsTransformer",
            "annotations: {a: b}\nfieldSpecs: [{path: metadata/annotations, create: true}]\n",
            "annotations",
            {"a": "b"},
        ),
        ("PrefixTransformer", "prefix: p-\nfieldSpecs: [{path: metadata/name}]\n", "name", "p-web"),
        ("SuffixTransformer", "suffix: -s\nfieldSpecs: [{path: metadata/name}]\n", "name", "web-s"),
        ("PrefixSuffixTransformer", "prefix: p-\nsuffix: -s\nfieldSpecs: [{path: metadata/name}]\n", "name", "p-web-s"),
        ("NamespaceTransformer", "", "namespace", "n"),
        (
            "PatchTransformer",
            "target: {kind: Deployment}\npatch: '- {op: add, path: /metadata/x, value: z}'\n",
            "x",
            "z",
        ),
        (
            "PatchJson6902Transformer",
            "target: {kind: Deployment, name: web}\njsonOp: '- {op: add, path: /metadata/x, value: z}'\n",
            "x",
            "z",
        ),
        ("ValueAddTransformer", "value: v\ntargets: [{fieldPath: metadata/x/y}]\n", "x", {"y": "v"}),
    ],
)
def test_a_built_in_transformer_does_what_its_field_does(kind, config, field, value):
    assert transformed(kind, config)["metadata"][field] == value


def test_replicas_and_images_can_be_transformed_too():
    count = transformed(
        "ReplicaCountTransformer", "replica: {name: web, count: 9}\nfieldSpecs: [{path: spec/replicas}]\n"
    )
    image = transformed("ImageTagTransformer", "imageTag: {name: nginx, newTag: '9'}\n")

    assert count["spec"]["replicas"] == 9
    assert image["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:9"


@pytest.mark.parametrize(("position", "path"), [(1, "/v/a/b"), (2, "/a/v/b"), (9, "/a/b/v"), (0, "v")])
def test_a_value_is_added_at_a_position_of_a_file_path(position, path):
    config = f"value: v\ntargets: [{{fieldPath: spec/path, filePathPosition: {position}}}]\n"

    assert transformed("ValueAddTransformer", config, config_map("a") + "spec: {path: /a/b}\n")["spec"]["path"] == path


def test_a_transformer_may_be_written_inline():
    plugin = "apiVersion: builtin, kind: PrefixTransformer, metadata: {name: x}, prefix: p-"
    text = f"resources: [r.yaml]\ntransformers:\n- '{{{plugin}, fieldSpecs: [{{path: metadata/name}}]}}'\n"

    assert only({"kustomization.yaml": text, "r.yaml": DEPLOYMENT})["metadata"]["name"] == "p-web"


def test_a_generator_may_stand_in_a_file():
    files = {
        "kustomization.yaml": "generators: [g.yaml]\n",
        "g.yaml": HEAD.format(kind="ConfigMapGenerator") + "literals: [a=b]\n",
    }

    assert only(files)["data"] == {"a": "b"}


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (HEAD.format(kind="Nothing"), "Nothing is not a built-in transformer"),
        (HEAD.format(kind="PrefixTransformer") + "prefix: p-\n", "fieldSpecs is missing"),
        (HEAD.format(kind="PatchTransformer"), "neither path nor patch"),
        (HEAD.format(kind="NamespaceTransformer") + "setRoleBindingSubjects: some\n", "'some' is not known"),
        ("apiVersion: x/v1\nkind: G\nmetadata: {name: g}\n", "running programs is not supported"),
        (
            "apiVersion: x/v1\nkind: G\n"
            "metadata: {name: g, annotations: {config.kubernetes.io/function: 'exec: {path: x}'}}\n",
            "runs a function",
        ),
    ],
)
@pytest.mark.parametrize("field", ["transformers", "validators"])
def test_what_is_not_built_in_is_refused(field, config, says):
    line = refusal(
        {"kustomization.yaml": f"resources: [r.yaml]\n{field}: [t.yaml]\n", "r.yaml": DEPLOYMENT, "t.yaml": config}
    )

    assert says in line
    assert "t.yaml" in line


def test_a_validator_may_not_change_anything():
    validator = HEAD.format(kind="PrefixTransformer") + "prefix: p-\nfieldSpecs: [{path: metadata/name}]\n"
    files = {
        "kustomization.yaml": "resources: [r.yaml]\nvalidators: [v.yaml]\n",
        "r.yaml": DEPLOYMENT,
        "v.yaml": validator,
    }

    assert "changes the resources" in refusal(files)


def test_origins_and_transformations_are_written_where_asked():
    files = {
        "base/kustomization.yaml": "resources: [r.yaml]\n",
        "base/r.yaml": config_map("a"),
        "kustomization.yaml": "resources: [base]\nnamePrefix: p-\n"
        "buildMetadata: [originAnnotations, transformerAnnotations, managedByLabel]\n",
    }
    meta = rendered(files).manifests[0]["metadata"]

    assert meta["annotations"]["config.kubernetes.io/origin"] == "path: base/r.yaml\n"
    assert "kind: PrefixTransformer" in meta["annotations"]["alpha.config.kubernetes.io/transformations"]
    assert meta["labels"] == {"app.kubernetes.io/managed-by": "kustomize-(devel)"}


def test_two_transformers_of_one_kind_and_name_are_refused():
    text = "apiVersion: builtin\n    kind: PrefixTransformer\n    metadata: {name: t}\n    prefix: p-"
    rows = f"- |\n    {text}\n" * 2

    line = refusal({"r.yaml": DEPLOYMENT, "kustomization.yaml": f"resources: [r.yaml]\ntransformers:\n{rows}"})

    assert "already there" in line
