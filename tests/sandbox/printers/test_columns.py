"""Tables: the cells of kinds whose lines need thought."""

from __future__ import annotations

from typing import Any

import pytest

from gitsync.kube.openapi import resources
from gitsync.sandbox.printers import columns_of
from gitsync.sandbox.printers.cells import human_duration
from gitsync.sandbox.printers.table import Printer
from gitsync.sandbox.registry.resources import builtin_resource

RESOURCES = {(given.group, given.kind): builtin_resource(given) for given in resources() if "list" in given.verbs}
NOW = 1_700_000_000.0
CREATED = "2023-11-14T22:13:10Z"  # ten seconds before


def cells(group: str, kind: str, wide: bool = False, **members: Any) -> dict[str, Any]:
    meta = {"name": "x", "creationTimestamp": CREATED, **members.pop("metadata", {})}
    columns = columns_of(RESOURCES[group, kind])
    table = Printer(columns, NOW).table([{"kind": kind, "metadata": meta, **members}], "1", "v1", "None")
    shown = zip(columns, table["rows"][0]["cells"], strict=True)
    return {column.name: cell for column, cell in shown if wide or not column.priority}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (600, "10m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 300, "3h5m"),
        (9 * 3600 + 300, "9h"),
        (50 * 3600, "2d2h"),
        (9 * 86400, "9d"),
        (800 * 86400, "2y70d"),
        (9 * 365 * 86400, "9y"),
    ],
)
def test_durations_have_two_units_at_most(seconds: int, text: str) -> None:
    assert human_duration(seconds) == text


def pod(*statuses: dict[str, Any], **status: Any) -> dict[str, Any]:
    containers = [{"name": f"c{number}"} for number, _ in enumerate(statuses)]
    found = cells("", "Pod", spec={"containers": containers}, status={"containerStatuses": list(statuses), **status})
    return {name: found[name] for name in ("Ready", "Status", "Restarts")}


RUNNING = {"name": "c0", "ready": True, "restartCount": 0, "state": {"running": {}}}


@pytest.mark.parametrize(
    ("shown", "ready", "status", "restarts"),
    [
        (pod(RUNNING, phase="Running"), "1/1", "Running", "0"),
        (
            pod({"name": "c0", "restartCount": 0, "state": {"waiting": {"reason": "ErrImagePull"}}}, phase="Pending"),
            "0/1",
            "ErrImagePull",
            "0",
        ),
        (
            pod(
                {
                    "name": "c0",
                    "restartCount": 3,
                    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                    "lastState": {"terminated": {"finishedAt": CREATED}},
                },
                phase="Running",
            ),
            "0/1",
            "CrashLoopBackOff",
            "3 (10s ago)",
        ),
        (
            pod({"name": "c0", "state": {"terminated": {"exitCode": 3}}}, phase="Failed"),
            "0/1",
            "ExitCode:3",
            "0",
        ),
        (
            pod({"name": "c0", "state": {"terminated": {"reason": "Completed"}}}, phase="Succeeded"),
            "0/1",
            "Completed",
            "0",
        ),
        (pod(phase="Failed", reason="Evicted"), "0/0", "Evicted", "0"),
    ],
)
def test_a_pod_in_one_line(shown: dict[str, Any], ready: str, status: str, restarts: str) -> None:
    assert shown == {"Ready": ready, "Status": status, "Restarts": restarts}


def test_a_pod_that_is_going_terminates_and_one_that_begins_initializes() -> None:
    going = cells(
        "", "Pod", metadata={"deletionTimestamp": CREATED}, spec={"containers": []}, status={"phase": "Running"}
    )
    assert going["Status"] == "Terminating"
    init = {"name": "i", "state": {"running": {}}}
    spec = {"containers": [{"name": "c"}], "initContainers": [{"name": "i"}, {"name": "j"}]}
    begins = cells("", "Pod", spec=spec, status={"phase": "Pending", "initContainerStatuses": [init]})
    assert begins["Status"] == "Init:0/2"


def test_rows_of_ended_pods_say_so() -> None:
    columns = columns_of(RESOURCES["", "Pod"])
    ended = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": []}, "status": {"phase": "Succeeded"}}
    row = Printer(columns, NOW).table([ended], "1", "v1", "None")["rows"][0]
    assert (row["conditions"][0]["type"], row["conditions"][0]["reason"]) == ("Completed", "Succeeded")


@pytest.mark.parametrize(
    ("group", "kind", "members", "shown"),
    [
        (
            "",
            "Service",
            {
                "spec": {
                    "type": "LoadBalancer",
                    "clusterIP": "10.0.0.1",
                    "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}],
                }
            },
            {"Type": "LoadBalancer", "Cluster-IP": "10.0.0.1", "External-IP": "<pending>", "Port(s)": "80:30080/TCP"},
        ),
        (
            "",
            "Service",
            {"spec": {"type": "ExternalName", "externalName": "example.com"}},
            {"External-IP": "example.com", "Port(s)": "<none>", "Cluster-IP": "<none>"},
        ),
        (
            "networking.k8s.io",
            "Ingress",
            {
                "spec": {"ingressClassName": "n", "tls": [{}], "rules": [{"host": h} for h in "abcd"]},
                "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}},
            },
            {"Class": "n", "Hosts": "a,b,c + 1 more...", "Address": "1.2.3.4", "Ports": "80, 443"},
        ),
        (
            "batch",
            "Job",
            {
                "spec": {"completions": 3, "template": {"spec": {}}},
                "status": {
                    "succeeded": 3,
                    "startTime": CREATED,
                    "conditions": [{"type": "Complete", "status": "True"}],
                },
            },
            {"Status": "Complete", "Completions": "3/3", "Duration": "10s"},
        ),
        (
            "autoscaling",
            "HorizontalPodAutoscaler",
            {
                "spec": {
                    "scaleTargetRef": {"kind": "Deployment", "name": "d"},
                    "maxReplicas": 4,
                    "metrics": [
                        {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}},
                        {"type": "Resource", "resource": {"name": "memory", "target": {"averageValue": "1Gi"}}},
                        {"type": "Pods", "pods": {"target": {"averageValue": "10"}}},
                    ],
                },
                "status": {"currentMetrics": [{"resource": {"current": {"averageUtilization": 12}}}]},
            },
            {"Targets": "cpu: 12%/80%, memory: <unknown>/1Gi + 1 more...", "MinPods": "<unset>", "Replicas": 0},
        ),
        (
            "",
            "Node",
            {
                "metadata": {"labels": {"node-role.kubernetes.io/worker": ""}},
                "spec": {"unschedulable": True},
                "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1"}},
            },
            {"Status": "Ready,SchedulingDisabled", "Roles": "worker", "Version": "v1"},
        ),
        (
            "",
            "PersistentVolumeClaim",
            {
                "spec": {"volumeName": "v"},
                "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]},
            },
            {"Status": "Bound", "Capacity": "1Gi", "Access Modes": "RWO", "StorageClass": ""},
        ),
        (
            "",
            "ResourceQuota",
            {"status": {"hard": {"pods": "5", "limits.cpu": "2"}, "used": {"pods": "1"}}},
            {"Request": "pods: 1/5", "Limit": "limits.cpu: 0/2"},
        ),
        (
            "rbac.authorization.k8s.io",
            "ClusterRole",
            {},
            {"Created At": CREATED},
        ),
        (
            "apiregistration.k8s.io",
            "APIService",
            {
                "spec": {"service": {"namespace": "kueue", "name": "visibility"}},
                "status": {"conditions": [{"type": "Available", "status": "False", "reason": "MissingEndpoints"}]},
            },
            {"Service": "kueue/visibility", "Available": "False (MissingEndpoints)", "Age": "10s"},
        ),
        (
            "apiregistration.k8s.io",
            "APIService",
            {"status": {"conditions": [{"type": "Available", "status": "True", "reason": "Local"}]}},
            {"Service": "Local", "Available": "True"},
        ),
        ("apiregistration.k8s.io", "APIService", {}, {"Service": "Local", "Available": "Unknown"}),
        (
            "storage.k8s.io",
            "StorageClass",
            {"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}, "provisioner": "p"},
            {"Name": "x (default)", "ReclaimPolicy": "Delete", "AllowVolumeExpansion": False},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_lines_of_other_kinds(group: str, kind: str, members: dict[str, Any], shown: dict[str, Any]) -> None:
    found = cells(group, kind, **members)
    assert {name: found[name] for name in shown} == shown


@pytest.mark.parametrize(("group", "kind"), sorted(RESOURCES), ids=str)
def test_every_kind_prints_an_object_that_has_nothing(group: str, kind: str) -> None:
    found = cells(group, kind, wide=True, spec={}, status={})
    assert "Name" in found


def test_every_borrowed_description_is_there() -> None:
    for resource in RESOURCES.values():
        for column in columns_of(resource):
            assert " " in column.description or not column.description or column.name == "Handler"
