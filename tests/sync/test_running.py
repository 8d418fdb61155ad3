"""Pods that run otherwise than declared, in a reconcile on fakes: reported, restarted, replaced."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from gitsync.errors import Rejected
from gitsync.objects.conditions import find_condition
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import ObjectRef
from gitsync.plan.drift_history import DRIFT_ACTION, past_fields
from gitsync.plan.running import RESTARTED_AT
from gitsync.sync.running import RUNNING
from tests.fakes.engine import Engine, config_map

WEB = ObjectRef("apps", "Deployment", "prod", "web")
POD = ObjectRef("", "Pod", "prod", "web-1")
STARTED = "2026-11-20T10:00:00Z"


VARIABLES = {"containers": [{"name": "web", "image": "web:1", "envFrom": [{"configMapRef": {"name": "settings"}}]}]}
MOUNTED = {
    "containers": [{"name": "web", "image": "web:1", "volumeMounts": [{"name": "files", "mountPath": "/etc/web"}]}],
    "volumes": [{"name": "files", "configMap": {"name": "settings"}}],
}


def deployment(reads: Manifest = VARIABLES) -> Manifest:
    spec = {"template": {"spec": deepcopy(reads)}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def started(engine: Engine, **spec: Any) -> None:
    """Let the Deployment have a Pod, as its controller would."""
    live = engine.cluster.objects[WEB]
    done = {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}
    engine.cluster.put({**live, "status": done})
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": True}
    metadata = {"name": "web-1", "namespace": "prod", "ownerReferences": [{**owner, "uid": live["metadata"]["uid"]}]}
    status = {"phase": "Running", "containerStatuses": [{"name": "web", "state": {"running": {"startedAt": STARTED}}}]}
    template = live["spec"]["template"]["spec"]
    engine.cluster.put(
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**template, **spec}, "status": status}
    )


def at_time(engine: Engine, time: str, **data: str) -> None:
    """Write the ConfigMap as a user would, at a time that its managed fields have."""
    ref = ObjectRef("", "ConfigMap", "prod", "settings")
    live = engine.cluster.objects[ref]
    entry = {"manager": "rotation", "time": time, "fieldsV1": {"f:data": {}}}
    metadata = {**live["metadata"], "managedFields": [entry]}
    engine.cluster.put({**live, "metadata": metadata, "data": data or live["data"]})


def running(*declared: Manifest, reads: Manifest = VARIABLES, **sync: Any) -> Engine:
    """Return an engine whose Deployment reads a ConfigMap that another client writes, and has a Pod."""
    engine = Engine(sync=sync)
    engine.cluster.put({**config_map("settings", x="1"), "metadata": {"name": "settings", "namespace": "prod"}})
    at_time(engine, "2026-11-20T09:00:00Z")
    engine.sync("c1", deployment(reads), *declared)
    started(engine)
    engine.reconcile()
    engine.written()
    return engine


def condition(engine: Engine) -> dict[str, Any]:
    return find_condition(engine.status, RUNNING)


def test_a_changed_configuration_is_reported_and_restarts_nothing() -> None:
    engine = running()
    assert condition(engine) == {}
    at_time(engine, "2026-11-20T11:00:00Z", x="2")
    report = engine.reconcile()
    assert condition(engine)["reason"] == "Stale"
    assert "before ConfigMap prod/settings changed at 2026-11-20T11:00:00Z" in condition(engine)["message"]
    assert [(item["pod"], item["kind"]) for item in engine.status["pods"]] == [("web-1", "stale")]
    assert [ref for ref, _ in report.drift] == [WEB]
    assert engine.reconcile().drift == ()  # an event once
    assert engine.written() == []


def test_a_change_restarts_a_workload_once_where_that_is_set() -> None:
    engine = running(restartOn=["ConfigMap"])
    at_time(engine, "2026-11-20T11:00:00Z", x="2")
    report = engine.reconcile()
    assert engine.written() == [("apply", "web")]
    annotations = at(engine.cluster.objects[WEB], "spec", "template", "metadata", "annotations")
    assert annotations == {RESTARTED_AT: "2026-11-20T11:00:00Z"}
    assert report.record is not None
    assert (report.record.trigger, report.record.steps[0].reason) == (
        "restart",
        "restarts its Pods, which started before ConfigMap prod/settings changed",
    )
    assert [*engine.records.outcomes()][-2:] == [("Intended", "web"), ("Succeeded", "web")]
    engine.reconcile()
    assert engine.written() == []


def test_mounted_files_that_a_controller_rotates_are_not_stale() -> None:
    engine = running(reads=MOUNTED)
    at_time(engine, "2026-11-20T11:00:00Z", x="2")
    engine.reconcile()
    assert condition(engine) == {}


def test_mounted_files_that_git_declares_are_stale_after_a_change() -> None:
    engine = running(config_map("settings", x="1"), reads=MOUNTED)
    at_time(engine, "2026-11-20T11:00:00Z", x="2")
    engine.sync("c2", deployment(MOUNTED), config_map("settings", x="2"))
    assert condition(engine)["reason"] == "Stale"


def test_mounted_files_restart_a_workload_where_that_is_set() -> None:
    engine = running(reads=MOUNTED, restartOn=["ConfigMap"])
    at_time(engine, "2026-11-20T11:00:00Z", x="2")
    engine.reconcile()
    assert engine.written() == [("apply", "web")]


def test_a_kind_that_is_not_named_restarts_nothing() -> None:
    engine = running(restartOn=["Secret"])
    at_time(engine, "2026-11-20T11:00:00Z", x="2")
    engine.reconcile()
    assert engine.written() == []


@pytest.mark.parametrize("hold", [{"suspend": True}, {"sync": {"restartOn": ["ConfigMap"], "selfHeal": False}}])
def test_nothing_is_restarted_where_nothing_may_be_repaired(hold: dict[str, Any]) -> None:
    engine = running(restartOn=["ConfigMap"])
    engine.edit(**hold)
    at_time(engine, "2026-11-20T11:00:00Z", x="2")
    engine.reconcile()
    assert engine.written() == []


def test_a_rejected_restart_is_tried_again_after_a_minute() -> None:
    engine = running(restartOn=["ConfigMap"])
    at_time(engine, "2026-11-20T11:00:00Z", x="2")
    engine.cluster.failures["web"].append(Rejected("not today", code=403))
    for wait in (0, 1, 60):
        engine.clock.seconds += wait
        engine.reconcile()
    assert engine.written() == [("apply", "web"), ("apply", "web")]


def test_a_write_that_leaves_the_content_is_no_change_after_a_restart() -> None:
    engine = running(restartOn=["ConfigMap"])
    at_time(engine, "2026-11-20T11:00:00Z")  # the same data
    engine.reconcile()
    assert condition(engine) == {}
    engine.restart()
    engine.reconcile()
    assert condition(engine) == {}
    assert engine.written() == []


def test_a_modified_pod_is_reported_and_replaced_where_that_is_set() -> None:
    engine = running()
    started(engine, ephemeralContainers=[{"name": "debug", "image": "busybox"}])
    engine.reconcile()
    assert condition(engine)["reason"] == "Modified"
    assert engine.written() == []
    engine.edit(sync={"modifiedPods": "Replace"})
    engine.reconcile()
    assert engine.written() == [("delete", "web-1")]
    assert POD not in engine.cluster.objects
    engine.reconcile()
    assert condition(engine) == {}
    assert "pods" not in engine.status


def test_a_pod_without_a_controller_is_not_deleted() -> None:
    engine = running(modifiedPods="Replace")
    started(engine, ephemeralContainers=[{"name": "debug", "image": "busybox"}])
    pod = engine.cluster.objects[POD]
    owners = [{**owner, "controller": False} for owner in pod["metadata"]["ownerReferences"]]
    engine.cluster.put({**pod, "metadata": {**pod["metadata"], "ownerReferences": owners}})
    engine.reconcile()
    assert engine.written() == []


def generated(content: str) -> tuple[Manifest, Manifest]:
    """Return a ConfigMap with a hash in its name, and a Deployment whose Pods read it."""
    name = f"conf-{content * 10}"
    workload = deployment()
    workload["spec"]["template"]["spec"]["containers"][0]["envFrom"][0]["configMapRef"]["name"] = name
    return config_map(name, x=content), workload


def revision(engine: Engine, replicas: int) -> None:
    """Let the first revision of the Deployment have a ReplicaSet of this size, as its controller would."""
    owner = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": "web",
        "uid": engine.cluster.objects[WEB]["metadata"]["uid"],
    }
    metadata = {"name": "web-2", "namespace": "prod", "ownerReferences": [owner]}
    spec = {"replicas": replicas, "template": generated("2")[1]["spec"]["template"]}
    engine.cluster.put({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec})


def replaced(**sync: Any) -> Engine:
    """Return an engine whose commit replaced the generated ConfigMap, which Pods of the former revision read."""
    engine = Engine(sync=sync)
    engine.sync("c1", *generated("2"))
    revision(engine, 1)
    engine.written()
    engine.sync("c2", *generated("4"))
    return engine


def test_a_generated_configuration_stays_until_the_rollout_ends() -> None:
    engine = replaced()
    assert engine.written() == [("apply", "conf-4444444444"), ("apply", "web")]
    assert engine.status["phase"] == "Synced"
    engine.reconcile()
    assert engine.written() == []
    revision(engine, 0)
    report = engine.reconcile()
    assert engine.written() == [("delete", "conf-2222222222")]
    assert report.drift == ()
    assert report.record is not None
    assert report.record.trigger == "commit"
    assert engine.status["phase"] == "Synced"


def test_a_kept_configuration_is_there_for_a_revert() -> None:
    engine = replaced(keepGenerated=1)
    revision(engine, 0)
    engine.reconcile()
    engine.written()
    engine.sync("c3", *generated("2"))
    assert engine.written() == [("apply", "web")]


def test_a_leftover_waits_for_a_request_without_automation() -> None:
    engine = replaced()
    engine.written()
    engine.edit(sync={"automated": False})
    revision(engine, 0)
    engine.reconcile()
    assert engine.written() == []
    assert engine.status["phase"] == "Pending"


def test_a_rollout_in_place_keeps_what_its_pods_may_read() -> None:
    engine = Engine()
    configuration, workload = generated("2")
    engine.sync("c1", configuration, {**workload, "kind": "StatefulSet"})
    ref = ObjectRef("apps", "StatefulSet", "prod", "web")
    status = {"observedGeneration": 1, "currentRevision": "web-1", "updateRevision": "web-2"}
    engine.cluster.put({**engine.cluster.objects[ref], "status": status})
    engine.written()
    configuration, workload = generated("4")
    engine.sync("c2", configuration, {**workload, "kind": "StatefulSet"})
    assert ("delete", "conf-2222222222") not in engine.written()
    done = {**status, "observedGeneration": 9, "currentRevision": "web-2"}
    engine.cluster.put({**engine.cluster.objects[ref], "status": done})
    engine.reconcile()
    assert engine.written() == [("delete", "conf-2222222222")]


def past(engine: Engine) -> list[tuple[str, str, str, float]]:
    """Return what Pods ran in the past: Pod, kind, how it ended, and the seconds from its detection."""
    fields = past_fields(link for link in engine.records.links if link.action == DRIFT_ACTION)
    return [(field.pod, field.path, field.by.value, (field.ended - field.detected).total_seconds()) for field in fields]


def debugged(**sync: Any) -> Engine:
    """Return an engine whose Pod has a container that a user added five seconds ago."""
    engine = running(**sync)
    started(engine, ephemeralContainers=[{"name": "debug", "image": "busybox"}])
    engine.reconcile()
    engine.clock.seconds += 5
    return engine


def test_a_pod_that_is_replaced_by_others_ends_its_finding() -> None:
    engine = debugged()
    engine.reconcile()
    assert past(engine) == []
    started(engine)
    engine.reconcile()
    engine.reconcile()
    assert past(engine) == [("web-1", "modified", "others", 5.0)]


def test_a_pod_that_a_setting_replaces_is_ended_by_self_heal() -> None:
    engine = debugged(modifiedPods="Replace")
    engine.reconcile()
    assert past(engine) == [("web-1", "modified", "self-heal", 5.0)]


def test_a_commit_that_replaces_a_pod_ends_its_finding() -> None:
    engine = debugged()
    manifest = deployment()
    manifest["metadata"]["labels"] = {"release": "2"}
    engine.sync("c2", manifest)
    started(engine)
    engine.reconcile()
    assert past(engine) == [("web-1", "modified", "sync", 5.0)]


def test_a_finding_keeps_its_detection_over_a_restart() -> None:
    engine = debugged()
    (row,) = engine.status["pods"]
    engine.restart()
    engine.reconcile()
    assert engine.status["pods"] == [row]
    started(engine)
    engine.reconcile()
    assert past(engine) == [("web-1", "modified", "others", 5.0)]
