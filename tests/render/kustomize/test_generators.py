from __future__ import annotations

import pytest

from gitsync.render.build import build
from tests.render.factories import config_map, only, refusal, rendered
from tests.render.kustomize_cases import MemoryTree


def generated(arguments: str, **files: str) -> dict:
    """Return the ConfigMap of a generator, without the hash in its name."""
    text = f"configMapGenerator:\n- name: g\n  options: {{disableNameSuffixHash: true}}\n{arguments}"
    return only({"kustomization.yaml": text, **{name.replace("__", "."): body for name, body in files.items()}})


@pytest.mark.parametrize(
    ("literal", "value"),
    [("k=v", "v"), ("k=a=b", "a=b"), ('k="v"', "v"), ("k='v'", "v"), ("k='", "'"), ("k=", ""), ("k=\"v'", "\"v'")],
)
def test_a_literal_is_split_at_the_first_sign(literal, value):
    quoted = literal.replace("'", "''")

    assert generated(f"  literals: ['{quoted}']\n")["data"] == {"k": value}


def test_a_file_is_named_after_itself_or_as_told():
    made = generated("  files: [a.txt, k=a.txt]\n", a__txt="content\n")

    assert made["data"] == {"a.txt": "content\n", "k": "content\n"}


def test_what_is_not_text_goes_to_binary_data():
    tree = MemoryTree(
        {"kustomization.yaml": b"configMapGenerator: [{name: g, files: [x.bin]}]\n", "x.bin": b"\xff\xfe"}
    )
    (manifest,) = build(tree, "").manifests

    assert manifest["binaryData"] == {"x.bin": "//4="}
    assert "data" not in manifest


def test_an_env_file_has_comments_and_keys_without_a_value(monkeypatch):
    monkeypatch.setenv("EMPTY", "from our environment")

    made = generated("  envs: [e.env]\n", e__env="\ufeffA=1\n# no\n\n  B= x \nEMPTY\n")

    assert made["data"] == {"A": "1", "B": " x ", "EMPTY": ""}


def test_a_long_secret_is_written_in_lines():
    text = f"secretGenerator:\n- name: s\n  literals: [k={'x' * 60}]\n"
    value = only({"kustomization.yaml": text})["data"]["k"]

    assert [len(line) for line in value.splitlines()] == [70, 10]
    assert value.endswith("\n")


def test_the_name_ends_with_the_hash_of_the_content():
    names = [
        only({"kustomization.yaml": f"configMapGenerator: [{{name: g, literals: [k={value}]}}]\n"})["metadata"]["name"]
        for value in ("a", "a", "b")
    ]

    assert names[0] == names[1] != names[2]
    assert names[0].startswith("g-")
    assert len(names[0]) == 12


def test_common_options_are_joined_with_those_of_a_generator():
    text = (
        "generatorOptions: {labels: {a: '1', b: '1'}, immutable: true, disableNameSuffixHash: true}\n"
        "configMapGenerator: [{name: g, options: {labels: {b: '2'}, annotations: {c: d}}}]\n"
    )
    made = only({"kustomization.yaml": text})

    assert made["metadata"] == {"name": "g", "labels": {"a": "1", "b": "2"}, "annotations": {"c": "d"}}
    assert made["immutable"] is True


@pytest.mark.parametrize(
    ("behavior", "data"), [("merge", {"a": "1", "b": "3", "c": "4"}), ("replace", {"b": "3", "c": "4"})]
)
def test_a_generator_changes_what_a_base_has(behavior, data):
    files = {
        "base/kustomization.yaml": "configMapGenerator: [{name: g, literals: [a=1, b=2]}]\nnamePrefix: p-\n",
        "kustomization.yaml": "resources: [base]\nconfigMapGenerator:\n"
        f"- {{name: g, behavior: {behavior}, literals: [b=3, c=4]}}\n",
    }
    made = only(files)

    assert made["data"] == data
    assert made["metadata"]["name"].startswith("p-g-")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("{literals: [a=b]}", "has no name"),
        ("{name: g, literals: [a=b, a]}", "literal 2 is not of the form key=value"),
        ("{name: g, literals: [=b]}", "not of the form key=value"),
        ("{name: g, literals: [a=1, a=2]}", "repeats the key 'a'"),
        ("{name: g, files: [gone.txt]}", "gone.txt does not exist"),
        ("{name: g, files: [=x]}", "neither a path nor of the form"),
        ("{name: g, behavior: merge}", "nothing to merge"),
        ('{name: g, literals: ["a=\\tb\\nc"]}', "the value of a begins with a tab"),
        ('{name: g, literals: ["a=\\x7f"]}', "the value of a holds the control character U+007F"),
        ("{name: a}", "exists already"),
    ],
)
def test_what_a_generator_cannot_do_is_refused_with_its_line(arguments, says):
    line = refusal(
        {"kustomization.yaml": f"resources: [a.yaml]\nconfigMapGenerator:\n- {arguments}\n", "a.yaml": config_map("a")}
    )

    assert line.startswith("kustomization.yaml:3")
    assert says in line


def test_a_behavior_that_is_not_known_counts_as_create_with_a_warning():
    made = rendered({"kustomization.yaml": "configMapGenerator:\n- {name: g, behavior: shuffle, literals: [a=b]}\n"})

    assert made.manifests[0]["data"] == {"a": "b"}
    assert made.warnings == (
        "kustomization.yaml:2: ConfigMap g: the behavior 'shuffle' is not known and counts as create",
    )


def test_a_secret_without_content_has_empty_data():
    assert only({"kustomization.yaml": "secretGenerator: [{name: s}]\n"}) == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s-46f8b28mk5"},
        "type": "Opaque",
        "data": {},
    }


def test_a_line_of_an_env_file_without_a_name_is_lost():
    assert generated("  envs: [e.env]\n", e__env="=x\nA=1\n=y\n")["data"] == {"A": "1"}


def test_a_date_in_an_option_stays_as_it_is_written():
    options = "options: {labels: {d: 2001-02-03}}"

    made = only({"kustomization.yaml": f"configMapGenerator:\n- name: g\n  {options}\n"})

    assert made["metadata"]["labels"] == {"d": "2001-02-03"}


def test_references_follow_the_hash():
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {volumes: [{name: v, configMap: {name: g}}]}\n"
    made = rendered({"kustomization.yaml": "resources: [p.yaml]\nconfigMapGenerator: [{name: g}]\n", "p.yaml": pod})
    config, manifest = made.manifests

    assert manifest["spec"]["volumes"][0]["configMap"]["name"] == config["metadata"]["name"] != "g"


def test_of_many_generators_each_finds_what_it_merges_with() -> None:
    """Also what an earlier one made, and what one has merged with already."""
    made = rendered(
        {
            "base/kustomization.yaml": "namePrefix: p-\nconfigMapGenerator:\n- {name: a, literals: [k=1]}\n",
            "kustomization.yaml": (
                "resources: [base]\n"
                "generatorOptions: {disableNameSuffixHash: true}\n"
                "configMapGenerator:\n"
                "- {name: a, behavior: merge, literals: [l=2]}\n"
                "- {name: b, literals: [k=1]}\n"
                "- {name: p-a, behavior: merge, literals: [m=3]}\n"
                "- {name: b, behavior: replace, literals: [k=2]}\n"
            ),
        }
    )
    assert {one["metadata"]["name"]: one["data"] for one in made.manifests} == {
        "p-a": {"k": "1", "l": "2", "m": "3"},
        "b": {"k": "2"},
    }
