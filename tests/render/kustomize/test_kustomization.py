from __future__ import annotations

import pytest

from tests.render.factories import config_map, only, refusal, rendered

RESOURCE = {"a.yaml": config_map("a")}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("resource: [a.yaml]\n", "unknown field 'resource'; did you mean 'resources'?"),
        ("resources: [a.yaml]\nimages: [{nam: x}]\n", "unknown field 'nam'; did you mean 'name'?"),
        ("resources: [a.yaml]\nzzz: 1\n", "unknown field 'zzz'; known are"),
        ("resources: a.yaml\n", "resources must be a list, not a text"),
        (
            "resources: [a.yaml]\ncommonLabels: {a: 1}\n",
            "commonLabels.a must be a text, not a number; write it in quotes",
        ),
        ("resources: [a.yaml]\nreplicas: [{name: a, count: x}]\n", "replicas.0.count must be a whole number"),
        ("resources: [a.yaml]\nlabels: [{includeSelectors: 1}]\n", "must be true or false"),
        ("apiVersion: v2\nresources: [a.yaml]\n", "apiVersion 'v2' is not known"),
        ("kind: Thing\nresources: [a.yaml]\n", "neither Kustomization nor Component"),
        ("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n", "empty"),
        ("- a\n", "must be a mapping"),
        ("", "empty"),
        ("helmChartInflationGenerator: [{chartName: x}]\n", "helmChartInflationGenerator is not supported"),
        ("resources: [a.yaml]\nbuildMetadata: [x]\n", "unknown option 'x'"),
    ],
)
def test_what_is_wrong_in_the_file_is_refused(text, says):
    assert says in refusal({**RESOURCE, "kustomization.yaml": text})


def test_the_line_of_the_fault_is_given():
    text = "resources:\n- a.yaml\nimages:\n- name: x\n  newTg: '1'\n"

    assert refusal({**RESOURCE, "kustomization.yaml": text}).startswith("kustomization.yaml:5: ")


def test_names_are_read_without_regard_to_case():
    assert (
        only({**RESOURCE, "kustomization.yaml": "resources: [a.yaml]\nnameprefix: p-\n"})["metadata"]["name"] == "p-a"
    )


def test_deprecated_fields_are_said_with_their_lines():
    made = rendered({**RESOURCE, "kustomization.yaml": "bases: []\nresources: [a.yaml]\ncommonLabels: {x: z}\n"})

    assert [line.split(":")[1] for line in made.warnings] == ["1", "3"]


def test_a_field_that_stands_twice_counts_once_and_is_said():
    made = rendered({**RESOURCE, "kustomization.yaml": "namePrefix: x-\nresources: [a.yaml]\nnamePrefix: y-\n"})

    assert made.manifests[0]["metadata"]["name"] == "y-a"
    assert "duplicate" in made.warnings[0]


def test_null_is_the_same_as_nothing():
    assert only({**RESOURCE, "kustomization.yaml": "resources: [a.yaml]\nnamePrefix:\nimages: null\n"})


def test_only_the_first_document_counts():
    assert only({**RESOURCE, "kustomization.yaml": "resources: [a.yaml]\n---\nresources: [gone.yaml]\n"})


@pytest.mark.parametrize(
    ("pairs", "labels"),
    [("{'on': x}", {"on": "x"}), ("{a: 'yes'}", {"a": "yes"}), ("{a: yesterday}", {"a": "yesterday"})],
)
def test_quoted_words_are_texts(pairs, labels):
    text = f"resources: [a.yaml]\nlabels:\n- pairs: {pairs}\n"

    assert only({**RESOURCE, "kustomization.yaml": text})["metadata"]["labels"] == labels


@pytest.mark.parametrize("pairs", ["{a: yes}", "{a: off}", "{on: x}", "{n: x}"])
def test_words_that_yaml_1_1_reads_as_flags_are_no_texts(pairs):
    assert refusal({**RESOURCE, "kustomization.yaml": f"resources: [a.yaml]\nlabels:\n- pairs: {pairs}\n"})


def test_words_that_yaml_1_1_reads_as_flags_are_flags():
    text = "resources: [a.yaml]\ngeneratorOptions: {disableNameSuffixHash: yes}\nconfigMapGenerator: [{name: g}]\n"

    assert {one["metadata"]["name"] for one in rendered({**RESOURCE, "kustomization.yaml": text}).manifests} == {
        "a",
        "g",
    }


@pytest.mark.parametrize(
    ("configuration", "says"),
    [
        ("nameReferences: []\n", "unknown field 'nameReferences'; did you mean 'nameReference'?"),
        ("kind: TransformerConfig\n", "unknown field 'kind'"),
        ("namePrefix: [{path: a, creat: true}]\n", "unknown field 'creat'; did you mean 'create'?"),
        ("namePrefix: [{path: a, kind: y}]\n", "must be a text"),
    ],
)
def test_a_configuration_with_an_unknown_field_is_refused_with_its_line(configuration, says):
    files = {"kustomization.yaml": "resources: [a.yaml]\nconfigurations: [c.yaml]\n", "a.yaml": config_map("a")}

    line = refusal({**files, "c.yaml": configuration})

    assert line.startswith("c.yaml:1: ")
    assert says in line


@pytest.mark.parametrize(
    ("definitions", "what"),
    [
        ("kind: CustomResourceDefinition\nmetadata: {name: a}\n", "a CustomResourceDefinition"),
        ("- a\n", "something else"),
        ("# nothing\n", "something else"),
    ],
)
def test_crds_takes_definitions_and_nothing_else(definitions, what):
    files = {"kustomization.yaml": "resources: [a.yaml]\ncrds: [c.yaml]\n", "a.yaml": config_map("a")}

    assert f"c.yaml: crds takes a file of OpenAPI definitions, and this is {what}" in refusal(
        {**files, "c.yaml": definitions}
    )


def test_a_file_of_replacements_that_is_empty_is_refused():
    files = {"kustomization.yaml": "resources: [a.yaml]\nreplacements: [{path: c.yaml}]\n", "a.yaml": config_map("a")}

    assert "holds no replacement" in refusal({**files, "c.yaml": "# nothing\n"})
