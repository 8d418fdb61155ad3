from __future__ import annotations

import pytest

from gitsync.render.kustomize.variables import expand
from tests.render.factories import config_map, refusal, rendered

POD = (
    "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, command: [$(V), 'x$(V)', $(W)]}]}\n"
)
VAR = "vars: [{name: V, objref: {apiVersion: v1, kind: ConfigMap, name: c}}]\n"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("$(A)", 5),
        ("x$(A)", "x5"),
        ("$(B)-$(A)", "b-5"),
        ("$$(A)", "$(A)"),
        ("$(X)", "$(X)"),
        ("$(A", "$(A"),
        ("$A $", "$A $"),
        ("$(L)", "$(L)"),
        ("no", "no"),
    ],
)
def test_variables_are_expanded(text, value):
    assert expand(text, {"A": 5, "B": "b", "L": [1]}, set()) == value


def test_a_var_takes_the_final_name_of_its_object():
    files = {
        "kustomization.yaml": f"resources: [r.yaml]\nnamePrefix: p-\n{VAR}",
        "r.yaml": config_map("c") + "---\n" + POD,
    }

    assert rendered(files).manifests[1]["spec"]["containers"][0]["command"] == ["p-c", "xp-c", "$(W)"]


def test_a_var_that_nothing_uses_is_said():
    made = rendered({"kustomization.yaml": f"resources: [r.yaml]\n{VAR}", "r.yaml": config_map("c")})

    assert "the var V is never used" in made.warnings[-1]


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        ("name: V, objref: {apiVersion: v1, kind: Secret, name: c}", "does not exist"),
        (
            "name: V, objref: {apiVersion: v1, kind: ConfigMap, name: c}, fieldref: {fieldpath: data.gone}",
            "does not have",
        ),
    ],
)
def test_a_var_without_a_value_is_refused_with_its_line(extra, says):
    line = refusal({"kustomization.yaml": f"resources: [r.yaml]\nvars:\n- {{{extra}}}\n", "r.yaml": config_map("c")})

    assert line.startswith("kustomization.yaml:3")
    assert says in line


def test_a_name_is_declared_once():
    text = f"resources: [b, r.yaml]\n{VAR}"
    files = {
        "kustomization.yaml": text,
        "r.yaml": POD,
        "b/kustomization.yaml": f"resources: [c.yaml]\n{VAR}",
        "b/c.yaml": config_map("c"),
    }

    assert "declared twice" in refusal(files)


def test_a_var_that_is_null_is_a_text():
    text = "resources: [r.yaml, c.yaml]\nvars:\n"
    text += "- {name: V, objref: {apiVersion: v1, kind: ConfigMap, name: c}, fieldref: {fieldpath: data}}\n"

    made = rendered({"kustomization.yaml": text, "r.yaml": POD, "c.yaml": config_map("c") + "data: null\n"}).manifests

    assert [one["spec"]["containers"][0]["command"] for one in made if one["kind"] == "Pod"] == [
        ["null", "xnull", "$(W)"]
    ]


def test_a_var_reaches_the_nfs_server_of_a_cron_job_where_kustomize_expects_it():
    """Kustomize leaves out the spec of the pod, so that the path that Kubernetes has is not reached."""
    volumes = "volumes: [{nfs: {server: $(V)}}]"
    job = (
        "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: j}\n"
        f"spec: {{jobTemplate: {{spec: {{template: {{{volumes}, spec: {{{volumes}}}}}}}}}}}\n"
    )
    files = {"kustomization.yaml": f"resources: [r.yaml]\n{VAR}", "r.yaml": config_map("c") + "---\n" + job}
    template = rendered(files).manifests[1]["spec"]["jobTemplate"]["spec"]["template"]

    assert template["volumes"] == [{"nfs": {"server": "c"}}]
    assert template["spec"]["volumes"] == [{"nfs": {"server": "$(V)"}}]
