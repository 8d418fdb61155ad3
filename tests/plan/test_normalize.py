"""From what was rendered to what is compared and applied."""

from __future__ import annotations

import pytest

from gitsync.errors import InvalidInput
from gitsync.objects.manifest import annotations_of, labels_of
from gitsync.plan.normalize import declared, desired_objects, without_nulls
from gitsync.plan.tracking import is_owned, owner_of
from tests.plan.factories import application, config, desired_of, is_namespaced

APP = application()


def only(*manifests):
    ((ref, manifest),) = desired_objects(APP, manifests, is_namespaced).items()
    return ref, manifest


def test_an_object_without_a_namespace_gets_the_destination():
    ref, manifest = only(config())
    assert ref.namespace == manifest["metadata"]["namespace"] == "shop"


def test_an_object_that_names_its_namespace_keeps_it():
    named = config()
    named["metadata"]["namespace"] = "other"
    assert only(named)[0].namespace == "other"


def test_a_cluster_scoped_object_has_no_namespace():
    ref, manifest = only({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "namespace": "shop"}})
    assert ref.namespace == ""
    assert "namespace" not in manifest["metadata"]


def test_every_object_carries_the_marks_of_its_owner():
    _, manifest = only(config(annotations={"note": "kept"}))
    assert labels_of(manifest) == {"gitsync.dev/application": "desk"}
    assert annotations_of(manifest)["gitsync.dev/tracking-id"] == "gitsync/desk:/ConfigMap/shop/settings"
    assert annotations_of(manifest)["note"] == "kept"
    assert is_owned(APP, manifest)
    assert owner_of(manifest) == "gitsync/desk"


def test_marks_in_git_cannot_be_forged():
    forged = config(annotations={"gitsync.dev/tracking-id": "gitsync/other:/ConfigMap/shop/settings"})
    _, manifest = only(forged)
    assert owner_of(manifest) == "gitsync/desk"


def test_the_marks_of_a_copy_name_nobody():
    _, manifest = only(config())
    copy = {**manifest, "metadata": {**manifest["metadata"], "name": "copy"}}
    assert owner_of(copy) == ""


def test_an_object_that_stands_twice_is_refused():
    with pytest.raises(InvalidInput, match="ConfigMap shop/settings: is declared twice"):
        desired_of(APP, config(), config())


@pytest.mark.parametrize(
    "manifest",
    [
        {"kind": "ConfigMap", "metadata": {"name": "x"}},
        {"apiVersion": "v1", "metadata": {"name": "x"}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}},
        {"apiVersion": "v1", "kind": "ConfigMap"},
    ],
)
def test_an_object_without_an_identity_is_refused(manifest):
    with pytest.raises(InvalidInput, match="has no apiVersion, kind or"):
        desired_of(APP, manifest)


def test_lists_are_unpacked_at_any_depth():
    inner = {"apiVersion": "v1", "kind": "ConfigMapList", "items": [config("a")]}
    outer = {"apiVersion": "v1", "kind": "List", "items": [inner, config("b")]}
    assert {ref.name for ref in desired_of(APP, outer)} == {"a", "b"}


def test_a_list_of_something_else_is_refused():
    with pytest.raises(InvalidInput, match="contains an item that is not an object"):
        desired_of(APP, {"apiVersion": "v1", "kind": "List", "metadata": {"name": "l"}, "items": ["text"]})


def test_a_kind_that_only_ends_in_list_is_an_object():
    assert desired_of(APP, {"apiVersion": "x.dev/v1", "kind": "AllowList", "metadata": {"name": "a"}})


def secret(**members):
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, **members}


def test_string_data_becomes_data():
    assert declared(secret(data={"a": "MQ=="}, stringData={"a": "2", "b": None}))["data"] == {"a": "Mg==", "b": ""}
    assert declared(secret(stringData={}))["metadata"] == {"name": "s"}


@pytest.mark.parametrize("data", [{"a": 1}, ["a"]])
def test_string_data_that_is_no_text_is_refused_without_its_value(data):
    with pytest.raises(InvalidInput, match="Secret s: stringData"):
        declared(secret(stringData=data))


def test_status_and_what_only_the_server_says_are_dropped():
    manifest = config()
    manifest["status"] = {"x": 1}
    manifest["metadata"] |= {"uid": "u", "creationTimestamp": None, "managedFields": []}
    assert declared(manifest) == config()


def test_nulls_are_dropped_at_any_depth_and_the_rest_is_shared():
    value = {"a": None, "b": {"c": None}, "d": [{"e": None}, 1], "f": {"g": 1}}
    assert without_nulls(value) == {"b": {}, "d": [{}, 1], "f": {"g": 1}}
    assert without_nulls(value)["f"] is value["f"]


def test_what_was_made_of_the_very_same_manifest_is_taken_over():
    one, other, before = config(), config(name="other"), {}
    first = desired_objects(APP, [one, other], is_namespaced, before)
    second = desired_objects(APP, [one, config(name="other")], is_namespaced, before)
    assert first == second == desired_objects(APP, [one, other], is_namespaced)
    assert [second[ref] is made for ref, made in first.items()] == [True, False]


def test_a_kind_whose_scope_changed_is_placed_anew():
    one, before = config(), {}
    desired_objects(APP, [one], is_namespaced, before)
    (ref,) = desired_objects(APP, [one], lambda _: False, before)
    assert ref.namespace == ""


def test_what_is_not_declared_any_more_is_forgotten_and_a_refusal_forgets_nothing():
    one, other, before = config(), config(name="other"), {}
    desired_objects(APP, [one, other], is_namespaced, before)
    with pytest.raises(InvalidInput, match="declared twice"):
        desired_objects(APP, [one, one], is_namespaced, before)
    assert len(before) == 2
    desired_objects(APP, [other], is_namespaced, before)
    assert [made.manifest for made in before.values()] == [other]
