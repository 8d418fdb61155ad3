"""The write pipeline over HTTP: what every kind shares."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sandbox.http_client import Client

DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "d"},
    "spec": {
        "selector": {"matchLabels": {"app": "d"}},
        "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}},
    },
}


def deployments(api: Client) -> str:
    return api.namespace().replace("/api/v1", "/apis/apps/v1").replace("configmaps", "deployments")


def test_a_create_has_its_identity_and_its_owner(api: Client) -> None:
    made = api.create(api.namespace(), "c", {"a": "1"})
    meta = made["metadata"]
    assert meta["uid"]
    assert meta["creationTimestamp"].endswith("Z")
    assert meta["managedFields"][0]["manager"] == "tests"
    assert "generation" not in meta


def test_a_generated_name_keeps_its_base(api: Client) -> None:
    path = api.namespace()
    names = {api.ask("POST", path, {"metadata": {"generateName": "g-"}}).json["metadata"]["name"] for _ in range(5)}
    assert len(names) == 5
    assert all(name.startswith("g-") and len(name) == 7 for name in names)


def test_a_name_is_taken_once(api: Client) -> None:
    path = api.namespace()
    api.create(path, "c")
    answer = api.ask("POST", path, {"metadata": {"name": "c"}})
    assert (answer.status, answer.json["reason"]) == (409, "AlreadyExists")


def test_nothing_is_created_in_a_namespace_that_is_not_there(api: Client) -> None:
    path = "/api/v1/namespaces/absent/configmaps"
    assert api.ask("POST", path, {"metadata": {"name": "c"}}).json["message"] == 'namespaces "absent" not found'
    assert api.get(path).json["items"] == []


def test_a_stale_update_is_a_conflict_and_an_unconditional_one_is_not(api: Client) -> None:
    path = api.namespace()
    first = api.create(path, "c", {"a": "1"})
    api.merge(f"{path}/c", {"data": {"a": "2"}})
    assert api.ask("PUT", f"{path}/c", first).json["reason"] == "Conflict"
    unconditional = {"metadata": {"name": "c"}, "data": {"a": "3"}}
    assert api.ask("PUT", f"{path}/c", unconditional).json["data"] == {"a": "3"}


def test_an_update_for_another_uid_is_a_conflict(api: Client) -> None:
    path = api.namespace()
    api.create(path, "c")
    answer = api.ask("PUT", f"{path}/c", {"metadata": {"name": "c", "uid": "other"}})
    assert (answer.status, answer.json["reason"]) == (409, "Conflict")


def test_generation_counts_the_spec_and_nothing_else(api: Client) -> None:
    path = deployments(api)
    assert api.ask("POST", path, DEPLOYMENT).json["metadata"]["generation"] == 1
    assert api.merge(f"{path}/d", {"metadata": {"labels": {"a": "b"}}}).json["metadata"]["generation"] == 1
    assert api.merge(f"{path}/d", {"spec": {"replicas": 3}}).json["metadata"]["generation"] == 2
    assert api.merge(f"{path}/d/status", {"status": {"replicas": 3}}).json["metadata"]["generation"] == 2
    assert api.merge(f"{path}/d/scale", {"spec": {"replicas": 4}}).json["spec"] == {"replicas": 4}
    assert api.get(f"{path}/d").json["metadata"]["generation"] == 3


def test_status_and_spec_are_written_apart(api: Client) -> None:
    path = deployments(api)
    api.ask("POST", path, {**DEPLOYMENT, "status": {"replicas": 9}})
    assert api.get(f"{path}/d").json["status"] == {}
    api.merge(f"{path}/d/status", {"spec": {"replicas": 7}, "status": {"replicas": 1}})
    found = api.get(f"{path}/d").json
    assert (found["spec"]["replicas"], found["status"]) == (1, {"replicas": 1})
    api.merge(f"{path}/d", {"status": {"replicas": 5}})
    assert api.get(f"{path}/d").json["status"] == {"replicas": 1}


def test_a_dry_run_answers_and_stores_nothing(api: Client) -> None:
    path = api.namespace()
    tried = api.ask("POST", f"{path}?dryRun=All", {"metadata": {"name": "c"}})
    assert tried.status == 201
    assert "resourceVersion" not in tried.json["metadata"]
    assert api.get(f"{path}/c").status == 404
    api.create(path, "c", {"a": "1"})
    assert api.apply(f"{path}/c", config(a="2"), query="&dryRun=All&force=true").json["data"] == {"a": "2"}
    api.ask("DELETE", f"{path}/c?dryRun=All")
    assert api.get(f"{path}/c").json["data"] == {"a": "1"}


def config(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}


def test_an_identical_apply_writes_nothing(api: Client) -> None:
    path = api.namespace()
    first = api.apply(f"{path}/c", config(a="1"))
    again = api.apply(f"{path}/c", config(a="1"))
    assert (first.status, again.status) == (201, 200)
    assert first.json == again.json


def test_an_apply_whose_fields_the_kind_drops_writes_nothing(fresh: Client) -> None:
    path = deployments(fresh)
    first = fresh.apply(f"{path}/d", DEPLOYMENT).json
    fresh.sandbox.advance(60)
    again = fresh.apply(f"{path}/d", {**DEPLOYMENT, "status": {"replicas": 7}}).json
    assert again["metadata"] == first["metadata"]


def test_an_apply_whose_fields_are_normalized_writes_nothing(fresh: Client) -> None:
    path = fresh.namespace().replace("configmaps", "secrets")
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "1"}}
    first = fresh.apply(f"{path}/s", secret).json
    fresh.sandbox.advance(60)
    assert fresh.apply(f"{path}/s", secret).json["metadata"] == first["metadata"]


def test_apply_conflicts_name_the_manager_and_the_field(api: Client) -> None:
    path = api.namespace()
    api.apply(f"{path}/c", config(a="1", b="1"), "one")
    answer = api.apply(f"{path}/c", config(a="2", b="2"), "two")
    assert answer.status == 409
    assert answer.json["message"] == 'Apply failed with 2 conflicts: conflicts with "one":\n- .data.a\n- .data.b'
    assert [cause["field"] for cause in answer.json["details"]["causes"]] == [".data.a", ".data.b"]
    assert api.apply(f"{path}/c", config(a="2"), "two", "&force=true").json["data"] == {"a": "2", "b": "1"}


def test_apply_needs_a_manager_and_the_right_object(api: Client) -> None:
    path = api.namespace()
    assert api.ask("PATCH", f"{path}/c", config(), Content_Type="application/apply-patch+yaml").status == 422
    assert api.apply(f"{path}/other", config()).status == 400
    assert api.apply(f"{path}/c", {**config(), "kind": "Secret"}).status == 400
    assert api.apply(f"{path}/c", {**config(), "metadata": {"name": "c", "managedFields": []}}).status == 400
    assert api.apply(f"{path}/c", {**config(), "spec": {}}).status == 500


@pytest.mark.parametrize(
    ("level", "status", "warned"), [("Strict", 400, False), ("Warn", 201, True), ("Ignore", 201, False)]
)
def test_unknown_and_duplicate_fields_by_level(api: Client, level: str, status: int, warned: bool) -> None:
    body = b'{"metadata":{"name":"c"},"data":{"a":"1","a":"2"},"colour":"red"}'
    answer = api.ask("POST", f"{api.namespace()}?fieldValidation={level}", body)
    assert answer.status == status
    assert ("Warning" in answer.headers) is warned
    if warned:
        assert answer.headers["Warning"] == ('299 - "duplicate field \\"data.a\\"", 299 - "unknown field \\"colour\\""')


def test_the_wrong_kind_is_refused(api: Client) -> None:
    path = api.namespace()
    assert api.ask("POST", path, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "c"}}).status == 400
    api.create(path, "c")
    answer = api.merge(f"{path}/c", {"kind": "Secret"})
    assert (answer.status, answer.json["details"]["causes"][0]["field"]) == (422, "patch")


def test_finalizers_hold_an_object_until_the_last_is_gone(api: Client) -> None:
    path = api.namespace()
    api.create(path, "c", finalizers=["example.com/hold"])
    first = api.ask("DELETE", f"{path}/c").json
    assert first["metadata"]["deletionTimestamp"]
    assert api.ask("DELETE", f"{path}/c").json == first
    assert api.ask("POST", path, {"metadata": {"name": "c"}}).json["message"].startswith("object is being deleted")
    more = {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}
    assert api.merge(f"{path}/c", more).status == 422
    assert api.merge(f"{path}/c", {"metadata": {"finalizers": None}}).status == 200
    assert api.get(f"{path}/c").status == 404


@pytest.mark.parametrize(
    ("options", "finalizer"),
    [({"propagationPolicy": "Foreground"}, "foregroundDeletion"), ({"orphanDependents": True}, "orphan")],
)
def test_a_propagation_policy_becomes_a_finalizer(api: Client, options: dict[str, Any], finalizer: str) -> None:
    path = api.namespace()
    api.create(path, "c")
    answer = api.ask("DELETE", f"{path}/c", {"kind": "DeleteOptions", "apiVersion": "v1", **options})
    assert answer.json["metadata"]["finalizers"] == [finalizer]


def test_a_delete_with_the_wrong_precondition_is_a_conflict(api: Client) -> None:
    path = api.namespace()
    made = api.create(path, "c")
    wrong = {"preconditions": {"uid": "other"}}
    assert api.ask("DELETE", f"{path}/c", wrong).json["reason"] == "Conflict"
    right = {"preconditions": {"uid": made["metadata"]["uid"]}}
    assert api.ask("DELETE", f"{path}/c", right).json["details"]["uid"] == made["metadata"]["uid"]


def test_a_collection_is_deleted_by_selector(api: Client) -> None:
    path = api.namespace()
    api.create(path, "a", labels={"go": "yes"})
    api.create(path, "b")
    assert api.ask("DELETE", f"{path}?labelSelector=go").names == ["a"]
    assert api.get(path).names == ["b"]


def test_an_autoscaler_is_read_in_both_versions(api: Client) -> None:
    base = api.namespace().replace("/api/v1", "").replace("configmaps", "horizontalpodautoscalers")
    one, two = f"/apis/autoscaling/v1{base}", f"/apis/autoscaling/v2{base}"
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    spec = {"scaleTargetRef": target, "maxReplicas": 4, "targetCPUUtilizationPercentage": 60}
    assert api.ask("POST", one, {"metadata": {"name": "h"}, "spec": spec}).status == 201
    metric = api.get(f"{two}/h").json["spec"]["metrics"][0]
    assert metric["resource"] == {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}
    memory = {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 50}}
    api.merge(f"{two}/h", {"spec": {"metrics": [metric, {"type": "Resource", "resource": memory}]}})
    old = api.get(f"{one}/h").json
    assert old["spec"]["targetCPUUtilizationPercentage"] == 60
    assert "memory" in old["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/metrics"]


def test_events_are_the_same_in_both_groups(api: Client) -> None:
    core = api.namespace().replace("configmaps", "events")
    new = core.replace("/api/v1", "/apis/events.k8s.io/v1")
    namespace = core.split("/")[4]
    about = {"kind": "Pod", "name": "p", "namespace": namespace}
    event = {"metadata": {"name": "e"}, "involvedObject": about, "reason": "R", "message": "M", "type": "Normal"}
    assert api.ask("POST", core, event).status == 201
    found = api.get(f"{new}/e").json
    assert (found["note"], found["regarding"]["name"]) == ("M", "p")
    assert api.get(f"{new}?fieldSelector=regarding.name=p").names == ["e"]


def test_times_are_equal_however_they_are_spelled(api: Client) -> None:
    path = api.namespace()
    made = api.create(path, "c", {"a": "1"})
    meta = {**made["metadata"], "creationTimestamp": made["metadata"]["creationTimestamp"].replace("Z", "+00:00")}
    meta["managedFields"] = [{**entry, "time": entry["time"].replace("Z", "+00:00")} for entry in meta["managedFields"]]
    assert api.ask("PUT", f"{path}/c", {**made, "metadata": meta}).json == made
    other = {**made, "metadata": {**made["metadata"], "creationTimestamp": "2020-01-01T00:00:00Z"}}
    assert api.ask("PUT", f"{path}/c", other).status == 422


def test_a_warning_cannot_break_out_of_its_header(api: Client) -> None:
    path = api.namespace()
    hostile = {"metadata": {"name": "c"}, "x\r\nSet-Cookie: a=b\r\n\r\n": 1}
    answer = api.ask("POST", path, hostile)
    assert answer.status == 201
    assert "Set-Cookie" not in answer.headers
    assert answer.json["metadata"]["name"] == "c"
    many = {"metadata": {"name": "d"}, **{f"{'y' * 200}{number}": 1 for number in range(2000)}}
    assert len(api.ask("POST", path, many).headers["Warning"]) < 5000


def test_a_json_patch_has_so_many_operations_at_most(api: Client) -> None:
    path = api.namespace()
    api.create(path, "c")
    operations = [{"op": "test", "path": "/kind", "value": "ConfigMap"}] * 10_001
    answer = api.ask("PATCH", f"{path}/c", operations, Content_Type="application/json-patch+json")
    assert answer.status == 413


def test_a_field_manager_is_printable(api: Client) -> None:
    assert api.ask("POST", f"{api.namespace()}?fieldManager=a%0Ab", {"metadata": {"name": "c"}}).status == 422


def test_a_pod_on_a_node_gets_time_to_stop_which_may_only_shrink(api: Client) -> None:
    namespace = api.namespace().split("/")[4]
    base = f"/api/v1/namespaces/{namespace}"
    api.ask("POST", f"{base}/serviceaccounts", {"metadata": {"name": "default"}})
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i:1"}]}
    assert api.ask("POST", f"{base}/pods", {"metadata": {"name": "p"}, "spec": spec}).status == 201
    first = api.ask("DELETE", f"{base}/pods/p").json["metadata"]
    assert (first["deletionGracePeriodSeconds"], first["generation"]) == (30, 2)
    assert api.ask("DELETE", f"{base}/pods/p?gracePeriodSeconds=60").json["metadata"] == first
    shorter = api.ask("DELETE", f"{base}/pods/p", {"gracePeriodSeconds": 10}).json["metadata"]
    assert shorter["deletionGracePeriodSeconds"] == 10
    assert shorter["deletionTimestamp"] < first["deletionTimestamp"]
    assert api.ask("DELETE", f"{base}/pods/p").json["metadata"] == shorter
    assert api.ask("DELETE", f"{base}/pods/p?gracePeriodSeconds=0").status == 200
    assert api.get(f"{base}/pods/p").status == 404
    del spec["nodeName"]
    api.ask("POST", f"{base}/pods", {"metadata": {"name": "q"}, "spec": spec})
    gone = api.ask("DELETE", f"{base}/pods/q").json["metadata"]
    assert (gone["deletionGracePeriodSeconds"], gone["generation"]) == (0, 2)
    assert api.get(f"{base}/pods/q").status == 404
