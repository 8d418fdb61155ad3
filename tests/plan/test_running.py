"""What Pods run otherwise than declared: images, configuration, containers of users."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from gitsync.objects.application import IgnoreRule
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ObjectRef
from gitsync.plan.running import (
    RESTARTED_AT,
    ContentVersion,
    Execution,
    RunningKind,
    changed_at,
    content_digest,
    mounted_of,
    references_of,
    running_findings,
)

OLD, NEW = (f"sha256:{letter * 64}" for letter in "ab")
SETTINGS = ObjectRef("", "ConfigMap", "shop", "settings")
READS = {"containers": [{"name": "web", "image": "web:1", "envFrom": [{"configMapRef": {"name": "settings"}}]}]}


def workload(image: str = "web:1", kind: str = "Deployment", **status: Any) -> Manifest:
    spec = {"template": {"spec": {"containers": [{"name": "web", "image": image}]}}}
    metadata = {"name": "web", "namespace": "shop", "generation": 2}
    done = {"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec, "status": done | status}


def pod(name: str = "web-1", image_id: str = "", started: str = "10:00", **members: Any) -> Manifest:
    spec = members.pop("spec", {"containers": [{"name": "web", "image": "web:1"}]})
    state = {"running": {"startedAt": f"2026-11-20T{started}:00Z"}}
    container = {"name": "web", "imageID": image_id, "state": state}
    metadata = {"name": name, "namespace": "shop", "uid": f"uid-{name}", **members}
    status = {"phase": "Running", "startTime": f"2026-11-20T{started}:00Z", "containerStatuses": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def version(digest: str, time: str) -> ContentVersion:
    return ContentVersion(digest, datetime.fromisoformat(f"2026-11-20T{time}:00Z"))


def found(live: Manifest, *pods: Manifest, versions: tuple[ContentVersion, ...] = (), **rule: Any) -> list[str]:
    rules = [IgnoreRule.model_validate({"kind": "Pod", **rule})] if rule else []
    findings = running_findings(live, pods, lambda ref, is_mounted: versions if ref == SETTINGS else (), rules)
    return [f"{item.kind.value} {item.pod.name}" for item in findings]


@pytest.mark.parametrize(
    ("declared", "ids", "different"),
    [
        pytest.param(f"web:1@{OLD}", [f"docker.io/web@{OLD}"], [], id="as declared"),
        pytest.param(f"web:1@{OLD}", [f"docker.io/web@{NEW}"], ["image web-0"], id="another digest"),
        pytest.param("web:1", [f"web@{OLD}", f"web@{OLD}"], [], id="one tag, one digest"),
        pytest.param("web:1", [f"web@{OLD}", f"web@{NEW}"], ["image web-0"], id="a moved tag"),
        pytest.param("web:1", [OLD, f"web@{NEW}"], [], id="an image that was loaded into the node"),
        pytest.param(f"web:1@{OLD}", [""], [], id="not started"),
    ],
)
def test_images_are_compared_by_their_digests(declared: str, ids: list[str], different: list[str]) -> None:
    pods = [pod(f"web-{index}", image_id, f"1{index}:00") for index, image_id in enumerate(ids)]
    assert found(workload(declared), *pods) == different


@pytest.mark.parametrize(("manager", "different"), [("kubectl-set", ["image web-1"]), ("rewriting-webhook", [])])
def test_an_image_that_a_user_set_in_a_pod_is_one(manager: str, different: list[str]) -> None:
    fields = {"f:spec": {"f:containers": {'k:{"name":"web"}': {"f:image": {}}}}}
    edited = pod(managedFields=[{"manager": manager, "fieldsV1": fields}])
    edited["spec"] = {"containers": [{"name": "web", "image": "evil:1"}]}
    assert found(workload(), edited) == different


def test_pods_that_end_or_leave_do_not_count() -> None:
    leaving = pod(image_id=f"web@{NEW}", deletionTimestamp="2026-11-20T10:00:00Z")
    ended = pod("web-2", f"web@{NEW}")
    ended["status"]["phase"] = "Succeeded"
    assert found(workload(f"web@{OLD}"), leaving, ended) == []


def test_an_ephemeral_container_marks_a_pod_with_who_added_it() -> None:
    entry = {"manager": "kubectl-debug", "subresource": "ephemeralcontainers", "time": "2026-11-20T11:00:00Z"}
    debugged = pod(managedFields=[entry])
    debugged["spec"] = {**debugged["spec"], "ephemeralContainers": [{"name": "debug", "image": "busybox"}]}
    (finding,) = running_findings(workload(), [debugged], lambda ref, is_mounted: ())
    assert (finding.kind, finding.since) == (RunningKind.MODIFIED, "2026-11-20T11:00:00Z")
    assert finding.message == "has the ephemeral container debug (busybox), added by kubectl-debug"


@pytest.mark.parametrize(
    ("created", "is_modified"), [("2026-11-20T11:00:00Z", True), ("2026-11-20T11:00:01Z", False), ("", False)]
)
def test_what_a_user_ran_in_a_pod_marks_it(created: str, is_modified: bool) -> None:
    execution = Execution("ada", "exec", datetime(2026, 11, 20, 11, 0, 0, 500000, UTC))
    again = replace(execution, verb="attach")
    entered = pod("web-0", creationTimestamp=created)
    pods = [entered, pod("web-1", creationTimestamp="2026-11-20T10:00:00Z")]

    def executions_of(ref: ObjectRef) -> tuple[Execution, ...]:
        return (execution, again) if ref.name == "web-0" else ()

    findings = running_findings(workload(kind="StatefulSet"), pods, lambda ref, is_mounted: (), (), executions_of)
    expected = [("web-0", "was entered by attach and exec of ada", "2026-11-20T11:00:00Z")] if is_modified else []
    assert [(item.pod.name, item.message, item.since) for item in findings] == expected


def test_a_rule_for_pods_covers_what_they_run() -> None:
    moved = pod(image_id=f"web@{NEW}")
    live = workload(f"web@{OLD}")
    assert found(live, moved, jsonPointers=["/status/containerStatuses"]) == []
    assert found(live, moved, jsonPointers=["/status/container"]) == ["image web-1"]
    assert found(live, moved, name="web-2", jsonPointers=["/status"]) == ["image web-1"]


@pytest.mark.parametrize(
    ("versions", "different"),
    [
        pytest.param([("a", "09:00")], [], id="older than the Pod"),
        pytest.param([("a", "10:00")], [], id="of the second of its start"),
        pytest.param([("a", "09:00"), ("b", "11:00")], ["stale web-1"], id="changed since"),
        pytest.param([("b", "11:00")], ["stale web-1"], id="changed before it was observed"),
        pytest.param([("a", "09:00"), ("b", "11:00"), ("a", "11:01")], [], id="changed and restored"),
        pytest.param([], [], id="not known"),
    ],
)
def test_a_pod_is_stale_once_what_it_read_changed(versions: list[tuple[str, str]], different: list[str]) -> None:
    known = tuple(version(*item) for item in versions)
    assert found(workload(), pod(spec=READS), versions=known) == different


@pytest.mark.parametrize(
    ("live", "one"),
    [
        pytest.param(workload(observedGeneration=1), pod(spec=READS), id="not observed"),
        pytest.param(workload(updatedReplicas=0), pod(spec=READS), id="old Pods of a Deployment"),
        pytest.param(
            workload(kind="StatefulSet", currentRevision="1", updateRevision="2"),
            pod(spec=READS),
            id="of a StatefulSet",
        ),
        pytest.param(workload(kind="DaemonSet", desiredNumberScheduled=1), pod(spec=READS), id="of a DaemonSet"),
        pytest.param(
            workload(), pod(spec=READS, annotations={RESTARTED_AT: "2026-11-20T11:00:00Z"}), id="restarted since"
        ),
        pytest.param(workload(kind="Job"), pod(spec=READS), id="a Job, which reads it once"),
    ],
)
def test_pods_that_are_replaced_anyway_are_not_stale(live: Manifest, one: Manifest) -> None:
    assert found(live, one, versions=(version("b", "11:00"),)) == []


def test_an_annotation_that_is_no_time_restarts_nothing() -> None:
    one = pod(spec=READS, annotations={RESTARTED_AT: "yesterday"})
    assert found(workload(), one, versions=(version("b", "11:00"),)) == ["stale web-1"]


def test_a_pod_without_a_running_container_is_not_stale() -> None:
    waiting = pod(spec=READS)
    waiting["status"]["containerStatuses"][0]["state"] = {"waiting": {"reason": "CrashLoopBackOff"}}
    assert found(workload(), waiting, versions=(version("b", "11:00"),)) == []


def test_references_are_what_containers_read() -> None:
    env = [
        {"name": "A", "valueFrom": {"secretKeyRef": {"name": "key"}}},
        {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "flags"}}},
        {"name": "C", "value": "plain"},
    ]
    sources = [{"secret": {"name": "token"}}, {"configMap": {"name": "ca"}}, {"serviceAccountToken": {}}]
    spec = {
        "imagePullSecrets": [{"name": "registry"}],
        "initContainers": [{"name": "i", "envFrom": [{"secretRef": {"name": "first"}}]}],
        "containers": [{"name": "c", "env": env, "envFrom": [{"configMapRef": {"name": "hashed-6ct58987ht"}}]}],
        "volumes": [
            {"secret": {"secretName": "tls"}},
            {"configMap": {"name": "files"}},
            {"projected": {"sources": sources}},
            {"emptyDir": {}},
        ],
    }
    names = [f"{ref.kind} {ref.name}" for ref in references_of(spec)]
    assert names == [
        *("ConfigMap ca", "ConfigMap files", "ConfigMap flags"),
        *("Secret first", "Secret key", "Secret tls", "Secret token"),
    ]


@pytest.mark.parametrize(
    ("container", "is_mounted"),
    [
        pytest.param({"volumeMounts": [{"name": "v", "mountPath": "/tls"}]}, True, id="whole"),
        pytest.param({"volumeMounts": [{"name": "v", "mountPath": "/a", "subPath": "a"}]}, False, id="by path"),
        pytest.param(
            {"volumeMounts": [{"name": "v", "mountPath": "/a", "subPathExpr": "$(A)"}]}, False, id="by expression"
        ),
        pytest.param({"envFrom": [{"secretRef": {"name": "tls"}}]}, False, id="variables too"),
    ],
)
@pytest.mark.parametrize(
    "volume", [{"secret": {"secretName": "tls"}}, {"projected": {"sources": [{"secret": {"name": "tls"}}]}}]
)
def test_what_is_in_volumes_only_is_told_apart(
    container: dict[str, Any], is_mounted: bool, volume: dict[str, Any]
) -> None:
    spec = {"containers": [{"name": "c", **container}], "volumes": [{"name": "v", **volume}]}
    assert mounted_of(spec) == (frozenset({ObjectRef("", "Secret", "", "tls")}) if is_mounted else frozenset())


def test_labels_are_no_content() -> None:
    plain = {"kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}}
    labelled = {**plain, "metadata": {"name": "a", "labels": {"x": "y"}}}
    assert content_digest(plain) == content_digest(labelled) != content_digest({**plain, "data": {"x": "2"}})


def test_a_content_changed_when_a_manager_last_wrote_some_of_it() -> None:
    entries = [
        {"manager": "a", "time": "2026-11-20T10:00:00Z", "fieldsV1": {"f:data": {}}},
        {"manager": "b", "time": "2026-11-20T11:00:00Z", "fieldsV1": {"f:metadata": {}}},
    ]
    metadata = {"creationTimestamp": "2026-11-20T09:00:00Z", "managedFields": entries}
    assert changed_at({"metadata": metadata}) == datetime(2026, 11, 20, 10, tzinfo=UTC)
    assert changed_at({"metadata": {**metadata, "managedFields": []}}) == datetime(2026, 11, 20, 9, tzinfo=UTC)
    assert changed_at({"metadata": {}}) is None
