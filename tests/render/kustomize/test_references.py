from __future__ import annotations

import pytest

from tests.render.factories import config_map, refusal, rendered

POD = (
    "apiVersion: v1\nkind: Pod\nmetadata: {{name: p{meta}}}\n"
    "spec: {{volumes: [{{name: v, configMap: {{name: {name}}}}}]}}\n"
)


def referred(files: dict[str, str]) -> list[str]:
    """Return the ConfigMap names in the pods of a build."""
    return [one["spec"]["volumes"][0]["configMap"]["name"] for one in rendered(files).manifests if one["kind"] == "Pod"]


def test_a_reference_follows_a_prefix_through_every_layer():
    files = {
        "a/b/kustomization.yaml": "resources: [r.yaml]\nnamePrefix: b-\n",
        "a/b/r.yaml": config_map("c") + "---\n" + POD.format(meta="", name="c"),
        "a/kustomization.yaml": "resources: [b]\nnameSuffix: -a\n",
        "kustomization.yaml": "resources: [a]\nnamePrefix: top-\n",
    }

    assert referred(files) == ["top-b-c-a"]


def test_a_reference_to_what_is_not_built_stays():
    files = {"kustomization.yaml": "resources: [r.yaml]\nnamePrefix: p-\n", "r.yaml": POD.format(meta="", name="other")}

    assert referred(files) == ["other"]


def test_objects_of_two_variants_refer_to_their_own():
    files = {
        "base/kustomization.yaml": "resources: [r.yaml]\n",
        "base/r.yaml": config_map("c") + "---\n" + POD.format(meta="", name="c"),
        "x/kustomization.yaml": "resources: [../base]\nnamePrefix: x-\n",
        "z/kustomization.yaml": "resources: [../base]\nnamePrefix: y-\n",
        "kustomization.yaml": "resources: [x, z]\n",
    }

    assert referred(files) == ["x-c", "y-c"]


def test_a_reference_stays_in_its_namespace():
    files = {
        "kustomization.yaml": "resources: [r.yaml]\nnamePrefix: p-\n",
        "r.yaml": config_map("c").replace("name: c", "name: c\n  namespace: one")
        + "---\n"
        + POD.format(meta=", namespace: two", name="c"),
    }

    assert referred(files) == ["c"]


def test_a_subject_takes_name_and_namespace_of_its_account():
    binding = (
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: b}\n"
        "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: r}\n"
        "subjects: [{kind: ServiceAccount, name: s, namespace: default}]\n"
    )
    account = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: s}\n"
    files = {
        "kustomization.yaml": "resources: [r.yaml]\nnamePrefix: p-\nnamespace: ns\n",
        "r.yaml": f"{binding}---\n{account}",
    }

    assert rendered(files).manifests[1]["subjects"] == [{"kind": "ServiceAccount", "name": "p-s", "namespace": "ns"}]


def test_a_choice_between_two_is_refused_with_both():
    account = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: s, namespace: {space}}}\n"
    binding = (
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: b}\n"
        "subjects: [{kind: ServiceAccount, name: s}]\n"
    )
    text = "---\n".join((account.format(space="x"), account.format(space="y"), binding))
    line = refusal({"kustomization.yaml": "resources: [r.yaml]\nnamePrefix: p-\n", "r.yaml": text})

    assert "x/p-s" in line
    assert "y/p-s" in line


def test_many_objects_of_one_name_are_distinguished():
    parts = []
    for number in range(400):
        space = f"n{number}"
        parts.append(config_map("c").replace("name: c", f"name: c\n  namespace: {space}"))
        parts.append(POD.format(meta=f", namespace: {space}", name="c"))

    assert set(
        referred({"kustomization.yaml": "resources: [r.yaml]\nnamePrefix: p-\n", "r.yaml": "---\n".join(parts)})
    ) == {"p-c"}


@pytest.mark.parametrize(
    ("body", "blocked"),
    [
        ("apiVersion: apps/v1\nkind: Deployment\nspec: x\n", "spec"),
        ("apiVersion: apps/v1\nkind: Deployment\nspec: {template: {spec: {containers: x}}}\n", "containers"),
        ("apiVersion: apps/v1\nkind: Deployment\nspec: {template: {spec: {containers: [x]}}}\n", "containers"),
        ("apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nspec: {scaleTargetRef: x}\n", "scaleTargetRef"),
    ],
)
def test_a_plain_value_on_the_way_to_a_reference_is_refused(body, blocked):
    line = refusal({"kustomization.yaml": "resources: [r.yaml]\n", "r.yaml": f"{body}metadata: {{name: a}}\n"})

    assert line.startswith("r.yaml: ")
    assert f"{blocked} is a plain value" in line


def test_null_and_empty_values_on_the_way_to_a_reference_are_fine():
    manifest = (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {template: {spec: {volumes: [null]}}}\n"
    )

    assert rendered({"kustomization.yaml": "resources: [r.yaml]\n", "r.yaml": manifest}).manifests


@pytest.mark.parametrize("namespace", ["5", "true", "[a]", "{a: b}", "", "null"])
def test_a_subject_whose_namespace_is_not_a_text_is_refused(namespace):
    binding = (
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: b}\n"
        f"subjects:\n- kind: ServiceAccount\n  name: a\n  namespace: {namespace}\n"
    )
    line = refusal({"kustomization.yaml": "resources: [r.yaml]\n", "r.yaml": binding})

    assert line.startswith("r.yaml: RoleBinding b: the namespace of a subject is not a text")
