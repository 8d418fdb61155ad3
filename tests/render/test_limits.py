"""Small inputs that ask for very much are refused, clearly and in good time."""

from __future__ import annotations

import json

import pytest

from gitsync.errors import InvalidInput
from gitsync.render.build import check_count
from tests.render.factories import config_map, refusal

COMPONENT = "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n"


def test_a_json_patch_that_copies_a_field_into_itself():
    operations = [{"op": "copy", "from": "/data", "path": f"/data/x{number}"} for number in range(40)]
    files = {
        "r.yaml": config_map("a", k="v"),
        "p.json": json.dumps(operations),
        "kustomization.yaml": "resources: [r.yaml]\npatches: [{path: p.json, target: {kind: ConfigMap}}]\n",
    }

    assert "too large to be copied" in refusal(files)


@pytest.mark.parametrize("path", ["spec.x{number}", "spec.text"])
def test_replacements_that_copy_a_field_into_itself(path):
    source = "spec" if "number" in path else "spec.text"
    rows = "".join(
        f"- source: {{kind: Agent, fieldPath: {source}}}\n  targets:\n"
        f"  - {{select: {{kind: Agent}}, fieldPaths: [{path.format(number=number)}], "
        f"options: {{create: true{'' if source == 'spec' else ', delimiter: x'}}}}}\n"
        for number in range(40)
    )
    manifest = "apiVersion: x.io/v1\nkind: Agent\nmetadata: {name: a}\nspec: {text: axbxc}\n"

    line = refusal({"r.yaml": manifest, "kustomization.yaml": f"resources: [r.yaml]\nreplacements:\n{rows}"})

    assert "too large to be copied" in line


def test_components_that_name_each_other_twice_over():
    files = {
        f"c{number}/kustomization.yaml": f"{COMPONENT}components: [../c{number + 1}, ../c{number + 1}]\n"
        for number in range(30)
    }
    files["c30/kustomization.yaml"] = f"{COMPONENT}commonLabels: {{a: b}}\n"
    files["kustomization.yaml"] = "resources: [r.yaml]\ncomponents: [c0]\n"

    assert "more folders than the limit of 10000" in refusal({**files, "r.yaml": config_map("a")})


def test_a_regular_expression_of_many_characters():
    patch = f"patches: [{{target: {{name: '{'a?' * 3000}'}}, patch: '- {{op: remove, path: /data}}'}}]\n"

    assert "6006 characters" in refusal(
        {"r.yaml": config_map("a"), "kustomization.yaml": f"resources: [r.yaml]\n{patch}"}
    )


def test_the_items_of_a_list_count_as_objects():
    items = [{"kind": "ConfigMap"}] * 5
    manifests = [{"kind": "ConfigMapList", "items": items}, {"kind": "Secret"}, {"kind": "List", "items": "none"}]
    check_count(manifests, 7)
    with pytest.raises(InvalidInput, match=r"^has 7 objects, the limit is 6; divide it between several applications"):
        check_count(manifests, 6)
