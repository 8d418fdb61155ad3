from __future__ import annotations

import pytest

from tests.render.factories import config_map, only, patched, refusal, rendered

NOTE = "internal.config.kubernetes.io"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {volumes: [{name: v, configMap: {name: old}}]}\n"


def noted(**notes: str) -> str:
    """Return the text of a ConfigMap with such notes."""
    lines = "".join(f"    {NOTE}/{name}: {value}\n" for name, value in notes.items())
    return config_map("new").replace("name: new\n", f"name: new\n  annotations:\n{lines}")


FORMER = noted(previousNames="old", previousNamespaces="default", previousKinds="ConfigMap")


def test_references_and_patches_find_an_object_by_the_name_noted_in_it():
    files = {
        "r.yaml": f"{FORMER}---\n{POD}",
        "kustomization.yaml": "resources: [r.yaml]\npatches:\n"
        "- patch: '{apiVersion: v1, kind: ConfigMap, metadata: {name: old}, data: {a: b}}'\n",
    }

    config, pod = rendered(files).manifests

    assert config == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}, "data": {"a": "b"}}
    assert pod["spec"]["volumes"][0]["configMap"]["name"] == "new"


def test_names_that_are_noted_in_part_say_nothing_and_uneven_ones_are_refused():
    files = {"kustomization.yaml": "resources: [r.yaml]\n"}

    assert only({**files, "r.yaml": noted(previousNames="old")})["metadata"] == {"name": "new"}
    assert "do not list equally many" in refusal({**files, "r.yaml": FORMER.replace(": old", ": 'old,older'")})


@pytest.mark.parametrize(
    ("manifest", "change"),
    [
        (noted(needsHashSuffix="enabled"), ""),
        (config_map("new"), f"commonAnnotations: {{{NOTE}/needsHashSuffix: enabled}}\n"),
    ],
)
def test_a_hash_that_is_noted_as_wanted_is_added(manifest, change):
    assert patched(manifest, change)["metadata"] == {"name": "new-6ct58987ht"}


@pytest.mark.parametrize(("note", "name"), [("enabled", "b"), ("disabled", "a")])
def test_a_patch_may_note_that_it_changes_the_name(note, name):
    patch = (
        f"{{apiVersion: v1, kind: ConfigMap, metadata: {{name: b, annotations: {{{NOTE}/allowNameChange: {note}}}}}}}"
    )

    made = patched(config_map("a"), f"patches:\n- target: {{kind: ConfigMap}}\n  patch: '{patch}'\n")

    assert made["metadata"] == {"name": name}
