from __future__ import annotations

import pytest

from tests.render.factories import DEPLOYMENT, config_map, only, patched, refusal, rendered


def test_a_merge_patch_finds_its_object_by_kind_and_name():
    patch = "patches:\n- patch: '{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 4}}'\n"

    assert patched(DEPLOYMENT, patch)["spec"]["replicas"] == 4


def test_a_patch_finds_an_object_by_the_name_it_had_in_its_base():
    files = {
        "base/kustomization.yaml": "resources: [d.yaml]\nnamePrefix: p-\n",
        "base/d.yaml": DEPLOYMENT,
        "kustomization.yaml": "resources: [base]\npatches: [{path: p.yaml}]\n",
        "p.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 4}\n",
    }

    manifest = only(files)

    assert (manifest["metadata"]["name"], manifest["spec"]["replicas"]) == ("p-web", 4)


def test_a_target_selects_by_regular_expressions_and_labels():
    maps = "---\n".join(config_map(name) for name in ("a1", "a2", "b1"))
    made = rendered(
        {
            "r.yaml": maps,
            "kustomization.yaml": "resources: [r.yaml]\npatches:\n- target: {kind: Config.*, name: a.}\n"
            "  patch: '- {op: add, path: /data, value: {x: y}}'\n",
        }
    )

    assert ["data" in manifest for manifest in made.manifests] == [True, True, False]


def test_a_merge_patch_keeps_the_name_unless_it_may_change_it():
    patch = "patches:\n- target: {kind: ConfigMap}\n  patch: '{apiVersion: v1, kind: Secret, metadata: {name: z}}'\n"

    kept = patched(config_map("a"), patch)
    changed = patched(config_map("a"), patch + "  options: {allowNameChange: true, allowKindChange: true}\n")

    assert (kept["kind"], kept["metadata"]["name"]) == ("ConfigMap", "a")
    assert (changed["kind"], changed["metadata"]["name"]) == ("Secret", "z")


def test_references_follow_an_object_that_a_patch_renames():
    files = {
        "r.yaml": config_map("a") + "---\n" + DEPLOYMENT + "      volumes:\n      - {name: v, configMap: {name: a}}\n",
        "kustomization.yaml": "resources: [r.yaml]\npatches:\n- target: {kind: ConfigMap}\n"
        "  patch: '- {op: replace, path: /metadata/name, value: b}'\n",
    }

    assert rendered(files).manifests[1]["spec"]["template"]["spec"]["volumes"][0]["configMap"]["name"] == "b"


def test_quotes_in_the_object_keep_a_number_of_the_patch_a_text():
    manifest = config_map("a", PORT="8080") + "spec: {plain: abc}\n"
    head = "apiVersion: v1, kind: ConfigMap, metadata: {name: a}"
    patch = f"patches:\n- patch: '{{{head}, data: {{PORT: 0900}}, spec: {{plain: 1}}}}'\n"

    made = patched(manifest, patch)

    assert (made["data"]["PORT"], made["spec"]["plain"]) == ("0900", 1)


@pytest.mark.parametrize("block", ["|-", ">-", "|2-"])
def test_a_block_of_lines_in_the_object_keeps_a_number_of_the_patch_a_text(block):
    manifest = f"{config_map('a')}data:\n  PORT: {block}\n    80\n"

    made = patched(
        manifest, "patches:\n- patch: '{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {PORT: 90}}'\n"
    )

    assert made["data"] == {"PORT": "90"}


@pytest.mark.parametrize(
    ("operation", "spec"),
    [
        pytest.param("{op: add, path: /spec/l/-, value: 3}", {"l": [1, 2, 3], "m": {"k": 1}}, id="append"),
        pytest.param("{op: add, path: /spec/l/0, value: 3}", {"l": [3, 1, 2], "m": {"k": 1}}, id="insert"),
        pytest.param("{op: replace, path: /spec/l/-1, value: 3}", {"l": [1, 3], "m": {"k": 1}}, id="from the end"),
        pytest.param("{op: replace, path: /spec/new, value: 3}", {"l": [1, 2], "m": {"k": 1}, "new": 3}, id="absent"),
        pytest.param("{op: remove, path: /spec/m/k}", {"l": [1, 2], "m": {}}, id="remove"),
        pytest.param("{op: move, from: /spec/m/k, path: /spec/k}", {"l": [1, 2], "m": {}, "k": 1}, id="move"),
        pytest.param("{op: copy, from: /spec/m/k, path: /spec/k}", {"l": [1, 2], "m": {"k": 1}, "k": 1}, id="copy"),
        pytest.param("{op: test, path: /spec/m/k, value: 1}", {"l": [1, 2], "m": {"k": 1}}, id="test"),
        pytest.param(
            "{op: add, path: /spec/n, value: 9007199254740993}",
            {"l": [1, 2], "m": {"k": 1}, "n": 9007199254740992},
            id="a large number",
        ),
    ],
)
def test_a_json_patch_is_applied_as_kustomize_does(operation, spec):
    manifest = config_map("a") + "spec: {l: [1, 2], m: {k: 1}}\n"

    assert patched(manifest, f"patches:\n- target: {{kind: ConfigMap}}\n  patch: '- {operation}'\n")["spec"] == spec


@pytest.mark.parametrize(
    ("operation", "spec"),
    [
        pytest.param("{op: add, path: /spec/a, value: yes}", {"a": True}, id="a flag of YAML 1.1"),
        pytest.param("{op: add, path: /spec/a, value: ''yes''}", {"a": "yes"}, id="a quoted word"),
        pytest.param("{op: add, path: /spec/a, value: 2001-01-01}", {"a": "2001-01-01"}, id="a date"),
        pytest.param("{op: add, path: /spec/a}", {"a": None}, id="no value"),
        pytest.param("{op: replace, path: /spec/a, value: null}", {"a": None}, id="null"),
        pytest.param("{op: test, path: /spec/a, value: null}", {}, id="what is absent is null"),
    ],
)
def test_a_json_patch_takes_values_as_kustomize_reads_them(operation, spec):
    manifest = config_map("a") + "spec: {}\n"

    assert patched(manifest, f"patches:\n- target: {{kind: ConfigMap}}\n  patch: '- {operation}'\n")["spec"] == spec


def test_a_json_patch_leaves_the_numbers_of_its_object_as_go_spells_floats():
    manifest = config_map("a") + "  annotations: {n: 12345678, o: 0755, p: 1.50}\nspec: {n: 12345678901234567}\n"

    made = patched(manifest, "patches:\n- target: {kind: ConfigMap}\n  patch: '- {op: add, path: /x, value: 1}'\n")

    assert made["metadata"]["annotations"] == {"n": "1.2345678e+07", "o": "493", "p": "1.5"}
    assert made["spec"]["n"] == 12345678901234568


@pytest.mark.parametrize(
    "text", ["[{op: add}]", '[{"op": "add",}]', '[{"op": "add", "value": 07}]', '[{"value": NaN}]']
)
def test_a_json_patch_that_begins_with_a_bracket_must_be_json(text):
    files = {
        "r.yaml": config_map("a"),
        "p.json": text,
        "kustomization.yaml": "resources: [r.yaml]\npatches:\n- {path: p.json, target: {kind: ConfigMap}}\n",
    }

    assert refusal(files).startswith("p.json:1: a patch that begins with [ must be JSON")


@pytest.mark.parametrize("text", ["", "# a comment", "{}", "[]", "null"])
@pytest.mark.parametrize("target", ["", ", target: {kind: ConfigMap}"])
def test_a_patch_file_without_an_object_changes_nothing(text, target):
    files = {"r.yaml": config_map("a"), "p.yaml": f"{text}\n"}
    kustomization = f"resources: [r.yaml]\npatches: [{{path: p.yaml{target}}}]\n"

    assert only({**files, "kustomization.yaml": kustomization})["metadata"] == {"name": "a"}


@pytest.mark.parametrize("text", ["[]", "# a comment"])
def test_a_legacy_patch_that_is_empty_is_refused(text):
    patch = f"patchesJson6902:\n- target: {{kind: ConfigMap, version: v1, name: a}}\n  patch: '{text}'\n"

    line = refusal({"r.yaml": config_map("a"), "kustomization.yaml": f"resources: [r.yaml]\n{patch}"})

    assert "the patch is empty" in line


@pytest.mark.parametrize("value", ["x", "null", "[]"])
def test_annotations_that_a_json_patch_makes_something_else_are_none(value):
    patch = f"- {{op: add, path: /metadata/annotations, value: {value}}}"

    made = patched(
        config_map("a"), f"commonAnnotations: {{c: d}}\npatches:\n- target: {{kind: ConfigMap}}\n  patch: '{patch}'\n"
    )

    assert made["metadata"] == {"name": "a", "annotations": {"c": "d"}}


def test_labels_that_are_empty_in_a_patch_with_a_target_change_nothing():
    patch = "apiVersion: v1\n    kind: ConfigMap\n    metadata: {name: z, labels: {}, annotations: 1}"

    made = patched(config_map("a"), f"patches:\n- target: {{kind: ConfigMap}}\n  patch: |\n    {patch}\n")

    assert made["metadata"] == {"name": "a"}


def test_a_json_patch_may_add_to_annotations_that_are_not_there():
    patch = "patches:\n- target: {kind: ConfigMap}\n  patch: '- {op: add, path: /metadata/annotations/a, value: b}'\n"

    assert patched(config_map("a"), patch)["metadata"]["annotations"] == {"a": "b"}


@pytest.mark.parametrize(
    ("patch", "says"),
    [
        (
            "{target: {kind: ConfigMap}, patch: '- {op: remove, path: /data/x}'}",
            "operation 0 of the JSON patch (remove /data/x)",
        ),
        ("{patch: '- {op: remove, path: /data}'}", "no target"),
        ("{target: {kind: ConfigMap}, patch: '- {op: add, path: \"\", value: []}'}", "means the whole object"),
        ("{target: {kind: ConfigMap}, patch: '- {op: add, path: /metadata, value: x}'}", "metadata is no longer"),
        ("{target: {kind: ConfigMap}, patch: '- {op: add, path: /metadata/name, value: []}'}", "name is no longer"),
        ("{patch: just text}", "neither a strategic merge patch nor a JSON patch"),
        ("{target: {kind: ConfigMap}}", "neither path nor patch"),
        ("{path: p.yaml, patch: x}", "path and patch"),
        ("{path: gone.yaml}", "gone.yaml does not exist"),
        ("{patch: '{apiVersion: v1, kind: ConfigMap, metadata: {name: z}}'}", "no resource matches the patch"),
        ("{target: {name: '('}, patch: '- {op: remove, path: /data}'}", "not a regular expression"),
        ("{target: {labelSelector: 'a in'}, patch: '- {op: remove, path: /data}'}", "not a label selector"),
    ],
)
def test_a_patch_that_does_not_fit_is_refused_with_its_line(patch, says):
    line = refusal({"r.yaml": config_map("a"), "kustomization.yaml": f"resources: [r.yaml]\npatches:\n- {patch}\n"})

    assert line.startswith("kustomization.yaml:3")
    assert says in line


@pytest.mark.parametrize(
    ("operation", "says"),
    [
        ("{op: test, path: /data/k, value: hidden too}", "another value is there"),
        ("{op: add, path: /gone/k, value: hidden}", "no such place"),
        ("{op: odd, path: /data/k, value: hidden}", "Unknown operation 'odd'"),
    ],
)
def test_a_json_patch_that_fails_quotes_no_values(operation, says):
    secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {k: hidden}\n"
    patch = f"resources: [r.yaml]\npatches:\n- target: {{kind: Secret}}\n  patch: '- {operation}'\n"
    line = refusal({"r.yaml": secret, "kustomization.yaml": patch})

    assert says in line
    assert "hidden" not in line


def test_several_merge_patches_cannot_share_a_target():
    two = config_map("a") + "---\n" + config_map("b")

    assert "several" in refusal(
        {
            "r.yaml": two,
            "p.yaml": two,
            "kustomization.yaml": "resources: [r.yaml]\npatches: [{path: p.yaml, target: {kind: X}}]\n",
        }
    )


def test_a_deleted_object_is_gone_and_cannot_be_patched():
    delete = "- patch: '{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, $patch: delete}'\n"
    files = {"r.yaml": config_map("a") + "---\n" + config_map("b")}

    assert only({**files, "kustomization.yaml": f"resources: [r.yaml]\npatches:\n{delete}"})["metadata"]["name"] == "b"
    assert "no resource" in refusal({**files, "kustomization.yaml": f"resources: [r.yaml]\npatches:\n{delete}{delete}"})
