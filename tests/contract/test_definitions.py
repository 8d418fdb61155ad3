"""Commits that change a CustomResourceDefinition together with its resources."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

from gitsync.objects.manifest import Manifest, at, uid_of
from tests.contract.manifests import config_map, definition, deployment, manifest
from tests.contract.stage import Stage, eventually

CRDS = "apiextensions.k8s.io/v1"


def group_of(stage: Stage) -> str:
    """Return a group of this test, whose definition is removed after it."""
    group = f"{stage.system}.example.com"
    stage.remember("CustomResourceDefinition", f"widgets.{group}", CRDS)
    return group


def with_fields(made: Manifest, **fields: Any) -> Manifest:
    """Return a definition whose first version has more members of ``spec``."""
    changed = deepcopy(made)
    properties = changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    properties["spec"]["properties"] |= fields
    return changed


def with_version(made: Manifest, name: str, **fields: Any) -> Manifest:
    """Return a definition with another version, which is stored, first."""
    added = with_fields(made, **fields)["spec"]["versions"][0] | {"name": name}
    former = [version | {"storage": False} for version in made["spec"]["versions"]]
    return {**made, "spec": {**made["spec"], "versions": [added, *former]}}


def widget(group: str, name: str = "w", version: str = "v1", **spec: Any) -> Manifest:
    return manifest(f"{group}/{version}", "Widget", name, spec=spec)


def test_a_new_field_and_its_use_are_applied_by_one_commit(stage: Stage) -> None:
    group = group_of(stage)
    stage.sync({"crd.yaml": definition(group), "w.yaml": widget(group, size=1)})
    # the same schemas as those of a controller that runs for long
    stage.synced(stage.commit({"w.yaml": widget(group, size=2)}))
    color = {"color": {"type": "string", "enum": ["red", "blue"]}}
    changed = with_fields(definition(group), **color)
    stage.synced(stage.commit({"crd.yaml": changed, "w.yaml": widget(group, size=2, color="red")}))
    assert stage.live("Widget", "w", api=f"{group}/v1")["spec"] == {"size": 2, "color": "red"}
    assert stage.status()["history"][0]["outcome"] == "Succeeded"


def test_a_new_version_and_its_use_are_applied_by_one_commit(stage: Stage) -> None:
    group = group_of(stage)
    stage.sync({"crd.yaml": definition(group), "w.yaml": widget(group, size=1)})
    before = stage.live("Widget", "w", api=f"{group}/v1")["metadata"]["uid"]
    changed = with_version(definition(group), "v2", color={"type": "string"})
    files = {"crd.yaml": changed, "w.yaml": widget(group, version="v2", size=1, color="red")}
    stage.synced(stage.commit({**files, "new.yaml": widget(group, "new", "v2", color="blue")}))
    after = stage.live("Widget", "w", api=f"{group}/v2")
    assert (after["metadata"]["uid"], after["spec"]) == (before, {"size": 1, "color": "red"})
    assert stage.live("Widget", "new", api=f"{group}/v2")


def test_an_object_of_a_version_that_is_removed_is_pruned(stage: Stage) -> None:
    group = group_of(stage)
    both = with_version(definition(group), "v2")
    stage.sync({"a.yaml": config_map("a", a="1"), "crd.yaml": both, "w.yaml": widget(group, size=1)})
    both["spec"]["versions"][1]["served"] = False
    stage.synced(stage.commit({"crd.yaml": both, "w.yaml": None}))
    eventually(stage, lambda: stage.get("Widget", "w", api=f"{group}/v2") is None)


def test_a_field_that_another_application_adds_is_used_soon_after(stage: Stage) -> None:
    group = group_of(stage)
    stage.repo.commit({"crds/crd.yaml": json.dumps(definition(group))})
    stage.commit({"w.yaml": widget(group, size=1)})
    stage.application("crds", source={"path": "crds"})
    stage.start()
    stage.phase("Synced", "crds")
    stage.application()
    stage.phase("Synced")
    commit = stage.commit({"w.yaml": widget(group, size=1, color="red")})
    eventually(stage, lambda: "field not declared in schema" in json.dumps(stage.status()))
    changed = with_fields(definition(group), color={"type": "string"})
    stage.repo.commit({"crds/crd.yaml": json.dumps(changed)})
    stage.synced(commit, timeout=10)
    assert stage.live("Widget", "w", api=f"{group}/v1")["spec"]["color"] == "red"


def with_dead_webhook(made: Manifest) -> Manifest:
    """Return a definition whose objects are converted by a webhook that does not answer."""
    webhook = {"clientConfig": {"url": "https://127.0.0.1:9/convert"}, "conversionReviewVersions": ["v1"]}
    return {**made, "spec": {**made["spec"], "conversion": {"strategy": "Webhook", "webhook": webhook}}}


def test_a_dead_conversion_webhook_stops_its_own_kind_only(stage: Stage) -> None:
    group = group_of(stage)
    stage.sync({"crd.yaml": definition(group), "w.yaml": widget(group, size=1), "a.yaml": config_map("a", a="1")})
    upgraded = with_dead_webhook(with_version(definition(group), "v2"))
    # not stored: an API server refuses to remove a version in which objects may be stored
    for version in upgraded["spec"]["versions"]:
        version["storage"] = version["name"] == "v1"
    stage.commit({"crd.yaml": upgraded, "w.yaml": widget(group, version="v2", size=1), "b.yaml": config_map("b")})
    eventually(stage, lambda: stage.get("ConfigMap", "b"))
    eventually(stage, lambda: "conversion webhook" in json.dumps(stage.status()))
    stage.patch("ConfigMap", "a", {"data": {"a": "edited"}})
    eventually(stage, lambda: stage.live("ConfigMap", "a")["data"] == {"a": "1"})
    stage.synced(stage.revert())
    assert stage.live("Widget", "w", api=f"{group}/v1")["spec"] == {"size": 1}


def test_a_bad_definition_stops_its_own_kind_only(stage: Stage) -> None:
    group = group_of(stage)
    stage.sync({"a.yaml": config_map("a", a="1")})
    bad = with_fields(definition(group), color={"type": "colour"})
    stage.commit({"crd.yaml": bad, "w.yaml": widget(group, size=1), "b.yaml": config_map("b")})
    eventually(stage, lambda: stage.get("ConfigMap", "b"))
    stage.patch("ConfigMap", "a", {"data": {"a": "edited"}})
    eventually(stage, lambda: stage.live("ConfigMap", "a")["data"] == {"a": "1"})
    stage.synced(stage.commit({"crd.yaml": definition(group)}))
    assert stage.live("Widget", "w", api=f"{group}/v1")


def with_limit(made: Manifest, limit: int) -> Manifest:
    """Return a definition with a rule that bounds the size."""
    changed = deepcopy(made)
    spec = changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["x-kubernetes-validations"] = [{"rule": f"self.size <= {limit}", "message": f"at most {limit}"}]
    return changed


def test_a_changed_rule_judges_the_resources_of_its_commit(stage: Stage) -> None:
    group = group_of(stage)
    stage.sync({"crd.yaml": with_limit(definition(group), 1), "w.yaml": widget(group, size=1)})
    # a real server judges by the former rule for a moment after each change
    for size in (2, 3, 4):
        widgets = [widget(group, size=size), widget(group, f"new-{size}", size=size)]
        stage.synced(stage.commit({"crd.yaml": with_limit(definition(group), size), "w.yaml": widgets}))
        assert stage.status()["history"][0]["outcome"] == "Succeeded"
    stage.commit({"w.yaml": widget(group, size=9), "b.yaml": config_map("b")})
    eventually(stage, lambda: stage.get("ConfigMap", "b") and "at most 4" in json.dumps(stage.status()))


@pytest.mark.parametrize("is_corrected", [True, False], ids=["corrected by hand", "recreated"])
def test_stored_content_that_does_not_fit_stops_its_object_only(stage: Stage, is_corrected: bool) -> None:
    group = group_of(stage)
    loose = with_fields(definition(group), value={"x-kubernetes-preserve-unknown-fields": True})
    strict = with_fields(definition(group), value={"type": "string"})
    stage.sync({"crd.yaml": loose, "w.yaml": widget(group, value=[{"a": 1}])})
    before = uid_of(stage.live("Widget", "w", api=f"{group}/v1"))
    stage.commit({"crd.yaml": strict, "w.yaml": widget(group, value="x"), "b.yaml": config_map("b", a="1")})
    eventually(stage, lambda: "failed to create typed live object" in json.dumps(stage.status()))
    eventually(stage, lambda: stage.get("ConfigMap", "b"))
    if is_corrected:
        stage.patch("Widget", "w", {"spec": {"value": "by hand"}}, api=f"{group}/v1")
        commit = stage.commit({"b.yaml": config_map("b", a="2")})
    else:
        forced = widget(group, value="x")
        forced["metadata"]["annotations"] = {"gitsync.dev/force": "true"}
        commit = stage.commit({"w.yaml": forced})
    stage.synced(commit)
    live = stage.live("Widget", "w", api=f"{group}/v1")
    assert (live["spec"], uid_of(live) == before) == ({"value": "x"}, is_corrected)


def test_a_definition_with_the_names_of_another_stops_its_own_kind_only(stage: Stage) -> None:
    group = group_of(stage)
    stage.sync({"crd.yaml": definition(group), "w.yaml": widget(group, size=1), "a.yaml": config_map("a", a="1")})
    other = definition(group, "Gadget")
    other["spec"]["names"]["shortNames"] = ["widget"]
    stage.remember("CustomResourceDefinition", f"gadgets.{group}", CRDS)
    gadget = manifest(f"{group}/v1", "Gadget", "g", spec={"size": 1})
    stage.commit({"other.yaml": other, "g.yaml": gadget, "b.yaml": config_map("b")})
    eventually(stage, lambda: stage.get("ConfigMap", "b"))
    eventually(stage, lambda: "gadgets" in json.dumps(stage.status().get("conditions")))
    stage.patch("ConfigMap", "a", {"data": {"a": "edited"}})
    eventually(stage, lambda: stage.live("ConfigMap", "a")["data"] == {"a": "1"})
    # without a change of its names: a real server keeps the verdict on former ones (seen with 1.36)
    stage.synced(stage.revert())
    assert stage.get("CustomResourceDefinition", f"gadgets.{group}", namespace="", api=CRDS) is None


def test_a_stored_version_that_is_removed_is_named(stage: Stage) -> None:
    group = group_of(stage)
    stage.sync({"crd.yaml": definition(group), "w.yaml": widget(group, size=1)})
    latter = with_version(definition(group), "v2")
    del latter["spec"]["versions"][1]
    stage.commit({"crd.yaml": latter, "b.yaml": config_map("b")})
    eventually(stage, lambda: "storedVersions" in json.dumps(stage.status()))
    eventually(stage, lambda: stage.get("ConfigMap", "b"))
    stage.synced(stage.revert())


def test_fields_that_were_set_at_a_removed_version_hold_nothing_up(stage: Stage) -> None:
    group = group_of(stage)
    both = with_version(definition(group), "v2")
    for version in both["spec"]["versions"]:
        version["storage"] = version["name"] == "v2"
    stage.sync({"crd.yaml": both, "w.yaml": widget(group, version="v1", size=1)})
    labels = {"metadata": {"labels": {"owner": "bob"}}}
    stage.patch("Widget", "w", labels, api=f"{group}/v1", manager="their-operator")
    latter = {**both, "spec": {**both["spec"], "versions": both["spec"]["versions"][:1]}}
    stage.synced(stage.commit({"crd.yaml": latter, "w.yaml": widget(group, version="v2", size=2)}))
    live = stage.live("Widget", "w", api=f"{group}/v2")
    assert (live["spec"], live["metadata"]["labels"]["owner"]) == ({"size": 2}, "bob")


def test_resources_with_finalizers_are_deleted_before_their_operator(stage: Stage) -> None:
    group = group_of(stage)
    held = widget(group, size=1)
    held["metadata"]["finalizers"] = ["example.com/clean-up"]
    stage.sync({"crd.yaml": definition(group), "w.yaml": held, "operator.yaml": deployment("operator", replicas=0)})
    stage.delete("Application", "app", namespace=stage.system, api="gitsync.dev/v1alpha1")
    terminating = lambda: at(stage.live("Widget", "w", api=f"{group}/v1"), "metadata", "deletionTimestamp")  # noqa: E731
    eventually(stage, terminating)
    eventually(stage, lambda: "Widget" in json.dumps(stage.status().get("conditions")))
    assert stage.live("Deployment", "operator", api="apps/v1")
    stage.patch("Widget", "w", {"metadata": {"finalizers": None}}, api=f"{group}/v1", manager="operator")
    eventually(stage, lambda: stage.get("Deployment", "operator", api="apps/v1") is None)
    eventually(stage, lambda: stage.get("CustomResourceDefinition", f"widgets.{group}", namespace="", api=CRDS) is None)
