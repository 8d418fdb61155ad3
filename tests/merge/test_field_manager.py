"""Writes with managedFields: read before, written after, and capped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs

import orjson
import pytest

from gitsync.errors import InvalidInput
from gitsync.kube.openapi import resources
from gitsync.merge.apply import Conflicts, FieldManager, Managers, Owned
from gitsync.merge.field_manager import (
    NEVER_OWNED,
    Write,
    apply_object,
    capped,
    decode,
    encode,
    is_reset,
    update_object,
    with_managers,
)
from gitsync.merge.fieldset import FieldSet
from gitsync.merge.schema import Schema, builtin
from gitsync.objects.keys import LAST_APPLIED
from gitsync.objects.manifest import Manifest, metadata_of
from tests.conformance_data import conformance_dir


def schema_of(manifest: Manifest) -> Schema:
    group, _, version = manifest["apiVersion"].rpartition("/")
    schema = builtin().for_kind(group, version, manifest["kind"])
    assert schema is not None
    return schema


CONFIG = builtin().for_kind("", "v1", "ConfigMap")
assert CONFIG is not None


def config(data: dict[str, Any] | None = None, **metadata: Any) -> Manifest:
    out: Manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", **metadata}}
    return out if data is None else {**out, "data": data}


def applied(live: Manifest | None, body: Manifest, write: Write | str = "gitsync", *, force: bool = False) -> Manifest:
    write = Write(write, "2024-01-01T00:00:00Z") if isinstance(write, str) else write
    result = apply_object(live, body, schema_of(body), write, force=force)
    assert not isinstance(result, Conflicts)
    return result


def owned(manifest: Manifest) -> dict[str, set[str]]:
    return {
        f"{manager.name} {manager.operation}": {"/".join(e[2:] for e in path) for path in owner.fields}
        for manager, owner in decode(metadata_of(manifest).get("managedFields")).items()
    }


def stored(manifest: Manifest) -> Manifest:
    return {**manifest, "metadata": {**manifest["metadata"], "uid": "u", "resourceVersion": "1"}}


def test_an_object_that_holds_nothing_of_its_own_has_no_managers() -> None:
    account: Manifest = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a", "namespace": "n"}}
    live = stored(applied(None, account))
    assert "managedFields" not in live["metadata"]
    assert applied(live, account) is live


@pytest.mark.parametrize("member", ["labels", "annotations"])
def test_the_last_label_or_annotation_goes_without_the_rest_of_metadata(member: str) -> None:
    live = stored(applied(None, config({"a": "1"}, namespace="n", **{member: {"x": "1"}})))
    after = applied(live, config({"a": "1"}))
    left = {key: value for key, value in after["metadata"].items() if key != "managedFields"}
    assert left == {"name": "c", "namespace": "n", "uid": "u", "resourceVersion": "1"}
    assert owned(after) == {"gitsync Apply": {"data/a"}}


def test_applying_again_returns_the_very_object() -> None:
    live = stored(applied(None, config({"a": "1"}, labels={"x": "y"})))
    assert applied(live, config({"a": "1"}, labels={"x": "y"})) is live


def test_an_untracked_object_gives_all_it_holds_to_before_first_apply() -> None:
    live = stored(config({"a": "1", "b": "2"}))
    assert owned(applied(live, config({"a": "1"}))) == {
        "gitsync Apply": {"data/a"},
        "before-first-apply Update": {"data", "data/a", "data/b"},
    }
    conflicts = apply_object(live, config({"b": "3"}), CONFIG, Write("gitsync"))
    assert isinstance(conflicts, Conflicts)
    assert [(c.manager.name, c.field) for c in conflicts.conflicts] == [("before-first-apply", ".data.b")]


def test_managed_fields_may_not_be_applied_but_null_may() -> None:
    for entries in ([], [{}]):
        with pytest.raises(InvalidInput, match=r"metadata\.managedFields must be nil"):
            applied(None, config({}, managedFields=entries))
    assert applied(None, config({"a": "1"}, managedFields=None))


def client_side(data: dict[str, str]) -> Manifest:
    body = config(data)
    note = {LAST_APPLIED: json.dumps(body) + "\n"}
    return stored(update_object(None, config(data, annotations=note), CONFIG, Write("kubectl-client-side-apply", "t")))


def test_kubectl_takes_over_what_its_client_side_apply_set_and_rewrites_the_annotation() -> None:
    after = applied(client_side({"a": "1", "b": "2"}), config({"a": "3"}), "kubectl")
    assert after["data"] == {"a": "3", "b": "2"}
    assert orjson.loads(after["metadata"]["annotations"][LAST_APPLIED]) == config({"a": "3"})
    assert owned(after)["kubectl Apply"] == {"data/a"}


def test_kubectl_does_not_take_what_somebody_changed_since() -> None:
    live = client_side({"a": "1", "b": "2"})
    live = update_object(live, {**live, "data": {"a": "9", "b": "2"}}, CONFIG, Write("person", "t"))
    result = apply_object(live, config({"a": "3", "b": "4"}), CONFIG, Write("kubectl"))
    assert isinstance(result, Conflicts)
    assert [(c.manager.name, c.field) for c in result.conflicts] == [("person", ".data.a")]


@pytest.mark.parametrize("note", ["", "{", "[]", '{"apiVersion":"v2"}', '{"apiVersion":"v1","foo":1}'])
def test_an_annotation_that_tells_nothing_takes_nothing_over(note: str) -> None:
    live = client_side({"a": "1"})
    annotated = {**live["metadata"], "annotations": {LAST_APPLIED: note}}
    result = apply_object({**live, "metadata": annotated}, config({"a": "3"}), CONFIG, Write("kubectl"))
    assert isinstance(result, Conflicts)


def test_other_managers_conflict_with_client_side_apply() -> None:
    assert isinstance(apply_object(client_side({"a": "1"}), config({"a": "3"}), CONFIG, Write("other")), Conflicts)


def test_a_creator_owns_what_differs_from_the_empty_object() -> None:
    body: Manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c"}]},
    }
    created = update_object(None, body, schema_of(body), Write("kubectl-create", "t"))
    assert created["metadata"]["managedFields"][0]["fieldsV1"] == {
        "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
        "f:spec": {"f:containers": {'k:{"name":"c"}': {".": {}, "f:name": {}}}},
    }


@pytest.mark.parametrize("entries", [[], [{}]])
def test_an_empty_list_clears_ownership_and_the_object_is_not_tracked_from_then(entries: list[Any]) -> None:
    live = stored(applied(None, config({"a": "1"})))
    cleared = update_object(live, config({"a": "2"}, uid="u", managedFields=entries), CONFIG, Write("m"))
    assert "managedFields" not in cleared["metadata"]
    later = update_object(stored(cleared), config({"a": "3"}, uid="u"), CONFIG, Write("m"))
    assert "managedFields" not in later["metadata"]


@pytest.mark.parametrize("entries", [None, [{"manager": "x"}], [1], "x"])
def test_an_unreadable_list_in_a_request_is_ignored(entries: Any) -> None:
    live = stored(applied(None, config({"a": "1"})))
    after = update_object(live, config({"a": "1"}, uid="u", managedFields=entries), CONFIG, Write("m"))
    assert owned(after) == {"gitsync Apply": {"data/a"}}


def test_a_subresource_cannot_change_the_list() -> None:
    live = stored(applied(None, config({"a": "1"})))
    after = update_object(live, config({"a": "1"}, uid="u", managedFields=[]), CONFIG, Write("m", subresource="status"))
    assert owned(after) == {"gitsync Apply": {"data/a"}}


def test_an_object_that_does_not_fit_its_schema_loses_its_managers() -> None:
    live = stored(applied(None, config({"a": "1"})))
    after = update_object(live, {**live, "foo": 1}, CONFIG, Write("m"))
    assert "managedFields" not in after["metadata"]


def scaler(version: str, **spec: Any) -> Manifest:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    return {
        "apiVersion": f"autoscaling/{version}",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h"},
        "spec": {"scaleTargetRef": target, "maxReplicas": 3, **spec},
    }


def test_what_others_own_in_another_version_is_read_as_that_version_has_it() -> None:
    live = stored(applied(None, scaler("v2"), "two"))
    after = applied({**live, "apiVersion": "autoscaling/v1"}, scaler("v1"), "one")
    assert owned(after)["one Apply"] == {"spec/maxReplicas", "spec/scaleTargetRef"}
    assert "spec/scaleTargetRef/name" in owned(after)["two Apply"]


def test_managers_are_written_in_and_out() -> None:
    live = applied(None, config({"a": "1"}))
    assert with_managers(config({"a": "1"}), decode(metadata_of(live).get("managedFields"))) == live
    assert with_managers(live, {}) == config({"a": "1"})


HAS_STATUS = {(r.api_version, r.kind) for r in resources() if any(sub.name == "status" for sub in r.subresources)}


def recorded() -> Iterator[Any]:
    """Yield the applies of the recordings: live object before, body, query, subresource, answer."""
    for area in ("ssa", "defaults"):
        file = conformance_dir() / "apiserver" / f"{area}.json"
        for scenario in json.loads(file.read_text()) if file.exists() else ():
            live: dict[str, Manifest] = {}
            for number, step in enumerate(scenario["steps"]):
                path, _, query = step["path"].partition("?")
                body = step["expect"].get("body")
                if not isinstance(body, dict) or "uid" not in body.get("metadata", {}) or step["expect"].get("partial"):
                    continue
                base = path.partition("/status")[0]
                key = base if step["method"] != "POST" else f"{base}/{body['metadata']['name']}"
                media = (step.get("headers") or {}).get("Content-Type", "")
                known = builtin().for_kind(*_gvk(body)) and (key in live or step["expect"]["status"] == 201)
                if "apply-patch" in media and isinstance(step["body"], dict) and known:
                    options = {name: values[0] for name, values in parse_qs(query).items()}
                    yield pytest.param(
                        live.get(key),
                        step["body"],
                        options,
                        "status" if path != base else "",
                        body,
                        id=f"{scenario['name']}-{number}",
                    )
                if "dryRun" not in query:
                    live[key] = body


def _gvk(manifest: Manifest) -> tuple[str, str, str]:
    group, _, version = manifest.get("apiVersion", "").rpartition("/")
    return group, version, manifest.get("kind", "")


@pytest.mark.parametrize(("live", "body", "options", "subresource", "answer"), list(recorded()))
def test_ownership_is_what_a_real_api_server_answered(
    live: Manifest | None, body: Manifest, options: dict[str, str], subresource: str, answer: Manifest
) -> None:
    ignored: list[tuple[str, ...]] = []
    if subresource:
        ignored = [("f:spec",), ("f:metadata", "f:labels")]
    elif (answer["apiVersion"], answer["kind"]) in HAS_STATUS:
        ignored = [("f:status",)]
    write = Write(options["fieldManager"], "<time>", subresource, FieldSet.of(ignored))
    got = apply_object(live, body, schema_of(answer), write, force=options.get("force") == "true")
    assert not isinstance(got, Conflicts)
    assert got["metadata"].get("managedFields") == answer["metadata"].get("managedFields")


def test_last_applied_annotation_does_not_contain_itself() -> None:
    body = config({"a": "1"}, annotations={"team": "x", LAST_APPLIED: "old"})
    live = stored(applied(None, body, "kubectl"))
    recorded = orjson.loads(live["metadata"]["annotations"][LAST_APPLIED])
    assert recorded["metadata"]["annotations"] == {"team": "x"}


def test_kubectl_applying_again_returns_the_very_object() -> None:
    live = stored(applied(client_side({"a": "1"}), config({"a": "3"}), "kubectl"))
    assert applied(live, config({"a": "3"}), "kubectl") is live


def test_a_manager_of_a_version_that_is_gone_keeps_its_fields() -> None:
    live = stored(applied(None, scaler("v2"), "two"))
    live["metadata"]["managedFields"][0]["apiVersion"] = "autoscaling/v2beta1"
    assert "spec/maxReplicas" in owned(applied(live, scaler("v2"), "one"))["two Apply"]


def test_an_empty_map_is_owned_until_somebody_fills_it() -> None:
    live = stored(applied(None, config({"a": "1"}, annotations={})))
    assert owned(live)["gitsync Apply"] == {"data/a", "metadata/annotations"}
    bare = {name: value for name, value in live["metadata"].items() if name != "annotations"}
    live = {**live, "metadata": bare}  # a server keeps no empty maps
    filled = {**live, "metadata": {**bare, "annotations": {"x": "y"}}}
    after = update_object(live, filled, CONFIG, Write("controller", "t"))
    assert owned(after)["gitsync Apply"] == {"data/a"}
    assert owned(after)["controller Update"] == {"metadata/annotations", "metadata/annotations/x"}
    again = applied(after, config({"a": "1"}, annotations={}))
    assert owned(again)["gitsync Apply"] == {"data/a", "metadata/annotations"}
    assert again["metadata"]["annotations"] == {"x": "y"}


A, B = FieldSet.of([("f:a",)]), FieldSet.of([("f:b",)])


def updater(name: str, version: str = "v1") -> FieldManager:
    return FieldManager(name, "Update", "", version)


def test_entries_read_back_as_they_were_written() -> None:
    entries: list[dict[str, Any]] = [
        {
            "manager": "gitsync",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": "2024-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {"f:a": {}}},
        },
        {
            "manager": "kubelet",
            "operation": "Update",
            "apiVersion": "v1",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:status": {".": {}, "f:phase": {}}},
            "subresource": "status",
        },
    ]
    assert encode(decode(entries)) == entries
    assert [list(entry) for entry in encode(decode(entries))] == [list(entry) for entry in entries]


def test_one_applier_is_one_entry_whatever_the_version_and_an_updater_is_not() -> None:
    v1, v2 = (
        {"manager": "m", "apiVersion": version, "fieldsType": "FieldsV1", "fieldsV1": {"f:a": {}}}
        for version in ("v1", "v2")
    )
    assert len(decode([{**v1, "operation": "Apply"}, {**v2, "operation": "Apply"}])) == 1
    assert len(decode([{**v1, "operation": "Update"}, {**v2, "operation": "Update"}])) == 2


def test_entries_stand_by_operation_then_time_then_name() -> None:
    managers: Managers = {
        updater("z"): Owned(A, "v1", None),
        updater("a"): Owned(A, "v1", "2024-01-02T00:00:00Z"),
        updater("b"): Owned(A, "v1", "2024-01-01T00:00:00Z"),
        FieldManager("y", "Apply"): Owned(A, "v1", "2024-01-03T00:00:00Z"),
        FieldManager("x", "Apply", "status"): Owned(A, "v1", "2024-01-03T00:00:00Z"),
    }
    assert [entry["manager"] for entry in encode(managers)] == ["x", "y", "z", "b", "a"]


@pytest.mark.parametrize(
    "entry",
    [
        {"operation": "Patch", "fieldsType": "FieldsV1"},
        {"operation": "Apply", "fieldsType": "FieldsV2"},
        {"operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": {"x": {}}},
        {},
    ],
)
def test_refuses_what_is_no_entry(entry: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=r"metadata\.managedFields"):
        decode([entry])


def test_more_than_ten_updaters_become_one_of_ancient_changes() -> None:
    managers: Managers = {
        updater(f"m{i:02}"): Owned(FieldSet.of([(f"f:{i:02}",)]), "v1", f"2024-01-01T00:00:{i:02}Z") for i in range(12)
    }
    kept = capped(managers)
    ancient = kept[updater("ancient-changes")]
    assert set(ancient.fields) == {("f:00",), ("f:01",), ("f:02",)}
    assert ancient.time == "2024-01-01T00:00:02Z"
    assert len(kept) == 10
    again = capped({**kept, updater("new"): Owned(A, "v1", "2024-01-02T00:00:00Z")})
    assert set(again[updater("ancient-changes")].fields) >= {("f:00",), ("f:03",)}
    assert len(again) == 10


def test_the_oldest_of_one_version_are_put_together_and_appliers_never() -> None:
    managers: dict[FieldManager, Owned] = {
        updater(f"m{i:02}", f"v{i}"): Owned(A, f"v{i}", f"2024-01-01T00:00:{i:02}Z") for i in range(11)
    }
    assert len(capped(managers)) == 11, "all of other versions: none has a companion"
    appliers: Managers = {FieldManager(f"a{i}", "Apply"): Owned(A, "v1") for i in range(20)}
    assert capped(appliers) is appliers


@pytest.mark.parametrize(
    ("entries", "reset"), [([], True), ([{}], True), ([{"manager": "x"}], False), (None, False), ([{}, {}], False)]
)
def test_an_empty_list_clears_ownership(entries: Any, reset: bool) -> None:
    assert is_reset(entries) is reset


def test_what_identifies_an_object_is_never_owned_but_its_labels_may_be() -> None:
    assert ("f:metadata", "f:name") in NEVER_OWNED
    assert ("f:metadata", "f:labels") not in NEVER_OWNED


def test_an_entry_may_lack_a_name() -> None:
    entry = {"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:a": {}}}
    assert encode(decode([entry])) == [entry]


def test_ancient_changes_that_are_not_the_oldest_stay_one_entry() -> None:
    ancient = updater("ancient-changes")
    managers: dict[FieldManager, Owned] = {
        updater(f"m{i:02}"): Owned(FieldSet.of([(f"f:{i:02}",)]), "v1", f"2024-01-01T00:00:{i:02}Z") for i in range(10)
    }
    kept = capped({**managers, ancient: Owned(A, "v1", "2024-01-01T00:00:00Z"), updater("late"): Owned(B, "v1")})
    assert ancient in kept
    assert {path for owned in kept.values() for path in owned.fields} >= {("f:a",), ("f:b",), ("f:00",), ("f:09",)}
