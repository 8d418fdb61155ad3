from __future__ import annotations

import pytest
import yaml

from gitsync.errors import InvalidInput
from gitsync.render.patch.merge_keys import BUILT_IN, OpenApiSchema
from gitsync.render.patch.strategic_merge import merge
from tests.render.factories import patched

HEAD = {"apiVersion": "apps/v1", "kind": "Deployment"}


def pod(old: str, new: str) -> dict:
    """Return the pod spec that a patch makes of another."""
    manifests = [{**HEAD, "spec": {"template": {"spec": yaml.safe_load(text)}}} for text in (old, new)]
    return merge(*manifests, BUILT_IN)["spec"]["template"]["spec"]


def custom(old: str, new: str) -> dict:
    """Return the spec of a kind without a schema."""
    head = {"apiVersion": "x.io/v1", "kind": "Thing"}
    return merge({**head, "spec": yaml.safe_load(old)}, {**head, "spec": yaml.safe_load(new)}, BUILT_IN)["spec"]


@pytest.mark.parametrize(
    ("old", "new", "merged"),
    [
        pytest.param("{a: 1, b: 2}", "{b: 3}", {"a": 1, "b": 3}, id="a plain value is replaced"),
        pytest.param("{a: 1}", "{b: {c: 1}}", {"a": 1, "b": {"c": 1}}, id="a new mapping is added"),
        pytest.param("{a: 1, b: 2}", "{b: null}", {"a": 1}, id="null removes"),
        pytest.param("{a: {b: null}}", "{c: 1}", {"a": {"b": None}, "c": 1}, id="a null that was there stays"),
        pytest.param("{}", "{a: {b: null, c: 1}}", {"a": {"c": 1}}, id="a null in what is added goes"),
        pytest.param("{a: [1, 2]}", "{a: [3]}", {"a": [3]}, id="a list without keys is replaced"),
        pytest.param("{a: [{name: x, v: 1}]}", "{a: [{name: y}]}", {"a": [{"name": "y"}]}, id="also one of mappings"),
        pytest.param("{a: {b: 1, c: 2}}", "{a: {$patch: replace, d: 3}}", {"a": {"d": 3}}, id="a mapping is replaced"),
        pytest.param("{a: {b: 1}}", "{a: {$patch: delete}}", {}, id="a mapping is deleted"),
        pytest.param("{}", "{a: {$patch: delete, b: 1}}", {}, id="what is to be deleted is not added"),
        pytest.param("{a: {b: 1}}", "{a: {$patch: merge, c: 2}}", {"a": {"b": 1, "c": 2}}, id="merge is the rule"),
    ],
)
def test_merges_mappings(old, new, merged):
    assert custom(old, new) == merged


@pytest.mark.parametrize(
    ("old", "new", "merged"),
    [
        pytest.param(
            "containers: [{name: a, image: x}, {name: b}]",
            "containers: [{name: b, image: y}]",
            [{"name": "b", "image": "y"}, {"name": "a", "image": "x"}],
            id="what the patch names comes first",
        ),
        pytest.param(
            "containers: [{name: a}]",
            "containers: [{name: a, $patch: delete}, {name: c}]",
            [{"name": "c"}],
            id="an item is deleted",
        ),
        pytest.param(
            "containers: [{name: a, image: x}]",
            "containers: [{$patch: replace}, {name: c}]",
            [{"name": "c"}],
            id="the whole list is replaced",
        ),
        pytest.param(
            "containers: [{name: a, env: [{name: E, value: '1'}, {name: F}]}]",
            "containers: [{name: a, env: [{name: F, value: '2'}]}]",
            [{"name": "a", "env": [{"name": "F", "value": "2"}, {"name": "E", "value": "1"}]}],
            id="lists in items are merged too",
        ),
    ],
)
def test_merges_lists_by_the_keys_of_the_schema(old, new, merged):
    assert pod(old, new)["containers"] == merged


def test_ports_are_told_apart_by_port_and_protocol():
    old = "containers: [{name: a, ports: [{containerPort: 53, protocol: TCP}, {containerPort: 53, protocol: UDP}]}]"
    new = "containers: [{name: a, ports: [{containerPort: 53, protocol: UDP, name: dns}]}]"

    assert pod(old, new)["containers"][0]["ports"] == [
        {"containerPort": 53, "protocol": "TCP"},
        {"containerPort": 53, "protocol": "UDP", "name": "dns"},
    ]


def test_finalizers_are_a_set_with_the_patch_first():
    old = {**HEAD, "metadata": {"finalizers": ["a", "b"]}}

    assert merge(old, {**HEAD, "metadata": {"finalizers": ["c", "b"]}}, BUILT_IN)["metadata"]["finalizers"] == [
        "c",
        "b",
        "a",
    ]


def test_the_object_itself_can_be_deleted():
    assert merge(dict(HEAD), {**HEAD, "$patch": "delete"}, BUILT_IN) is None


def test_an_embedded_object_brings_its_own_schema():
    text = "template: {apiVersion: v1, kind: Pod, spec: {containers: [{name: a, image: x}]}}"

    merged = custom(text, "template: {spec: {containers: [{name: b}]}}")

    assert [one["name"] for one in merged["template"]["spec"]["containers"]] == ["b", "a"]


@pytest.mark.parametrize("new", ["a: [1]", "a: {b: 1}", "a: {$patch: shuffle}"])
def test_a_patch_of_another_structure_is_refused(new):
    with pytest.raises(InvalidInput):
        custom("a: {b: {c: 1}}" if "shuffle" in new or "[" in new else "a: x", new)


def test_a_patch_is_not_changed_by_applying_it():
    patch = {**HEAD, "spec": {"x": {"$patch": "replace", "y": [1]}}}
    before = yaml.safe_dump(patch)

    merge({**HEAD, "spec": {"x": {}}}, patch, BUILT_IN)["spec"]["x"]["y"].append(2)

    assert yaml.safe_dump(patch) == before


def test_a_schema_of_ones_own_says_how_lists_are_merged():
    schema = OpenApiSchema(
        {
            "definitions": {
                "thing": {
                    "x-kubernetes-group-version-kind": [{"group": "x.io", "version": "v1", "kind": "Thing"}],
                    "properties": {"spec": {"$ref": "#/definitions/spec"}},
                },
                "spec": {
                    "properties": {
                        "tools": {
                            "type": "array",
                            "items": {"type": "object"},
                            "x-kubernetes-patch-strategy": "merge",
                            "x-kubernetes-patch-merge-key": "id",
                        }
                    }
                },
            }
        }
    )
    head = {"apiVersion": "x.io/v1", "kind": "Thing"}
    merged = merge(
        {**head, "spec": {"tools": [{"id": 1, "v": 1}]}}, {**head, "spec": {"tools": [{"id": 1, "w": 2}]}}, schema
    )

    assert merged["spec"]["tools"] == [{"id": 1, "v": 1, "w": 2}]


def test_a_long_list_is_merged():
    env = [{"name": f"V{n}", "value": "x"} for n in range(3000)]
    manifest = {**HEAD, "spec": {"template": {"spec": {"containers": [{"name": "a", "env": env}]}}}}

    merged = merge(
        manifest, {**HEAD, "spec": {"template": {"spec": {"containers": [{"name": "a", "env": env}]}}}}, BUILT_IN
    )

    assert merged == manifest


def test_a_whole_object_is_not_replaced():
    assert merge({**HEAD, "spec": {"a": 1}}, {**HEAD, "spec": {"b": 2}, "$patch": "replace"}, BUILT_IN) == {
        **HEAD,
        "spec": {"a": 1},
    }


@pytest.mark.parametrize("directive", [None, "bogus"])
def test_a_directive_that_is_not_known_is_refused(directive):
    with pytest.raises(InvalidInput, match=r"unknown \$patch directive"):
        merge({**HEAD, "spec": {"a": 1}}, {**HEAD, "spec": {"$patch": directive}}, BUILT_IN)


def test_a_list_of_plain_values_takes_neither_nulls_nor_mappings():
    def finalizers(*items):
        head = {**HEAD, "metadata": {"name": "a", "finalizers": ["x"]}}
        return merge(head, {**HEAD, "metadata": {"finalizers": list(items)}}, BUILT_IN)["metadata"]["finalizers"]

    assert finalizers("y", None) == ["y", "x"]
    with pytest.raises(InvalidInput, match="plain values"):
        finalizers({"a": "b"})


BLANK = """\
apiVersion: {api_version}
kind: {kind}
metadata:
  name: a
  annotations:
spec:
  blank:
  written: null
  tilde: ~
  inner:
    blank:
    x: 1
  items:
  - blank:
    x: 1
"""


@pytest.mark.parametrize(("api_version", "kind"), [("apps/v1", "Deployment"), ("x.io/v1", "Agent")])
@pytest.mark.parametrize("form", ["{}", "# a tab in a comment\t\n{}\n...\n"], ids=["fast reader", "full parser"])
def test_a_member_that_the_object_leaves_blank_is_dropped(form, api_version, kind):
    """A member that is written as null stays, and so does a blank one in a list without keys."""
    head = f"apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: a}}\n"
    patch = "".join(f"    {line}\n" for line in f"{head}spec: {{y: 2}}".splitlines())
    manifest = patched(form.format(BLANK.format(api_version=api_version, kind=kind)), f"patches:\n- patch: |-\n{patch}")

    assert manifest["metadata"] == {"name": "a"}
    assert manifest["spec"] == {
        "written": None,
        "tilde": None,
        "inner": {"x": 1},
        "items": [{"blank": None, "x": 1}],
        "y": 2,
    }


def test_without_a_patch_blank_members_stay_and_keys_are_plain_texts():
    manifest = patched(BLANK.format(api_version="x.io/v1", kind="Agent"), "namePrefix: p-\n")

    assert manifest["spec"]["blank"] is None
    assert {type(key) for key in (*manifest["metadata"], *manifest["spec"], *manifest["spec"]["inner"])} == {str}
