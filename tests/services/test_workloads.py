"""Restarts of workloads and deletes of Pods: which objects they fit, and the one write of each."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from gitsync.cluster.client import Client, Connection
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.errors import Conflict, Rejected, WrongState
from gitsync.objects.application import Application, Destination, GitSource
from gitsync.objects.manifest import Manifest, at, metadata_of, uid_of
from gitsync.objects.ref import ObjectRef
from gitsync.sandbox.server import Sandbox
from gitsync.services.workloads import WorkloadAction, WorkloadService, action_for, check_action
from tests.fakes.ports import FakeCluster
from tests.flow.factories import deployment

APPS = "apps/v1"
WEB = ObjectRef("apps", "Deployment", "default", "web")
OWNER = {"kind": "ReplicaSet", "name": "web-1", "uid": "u", "controller": True}
AGENT = {"kind": "Agent", "name": "triage", "uid": "u", "controller": True}


def live(kind: str, *owners: dict[str, Any], **meta: Any) -> Manifest:
    version = APPS if kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet") else "v1"
    metadata = {"name": "web", "namespace": "shop", "uid": "uid-web", "ownerReferences": list(owners), **meta}
    return {"apiVersion": version, "kind": kind, "metadata": metadata}


@pytest.mark.parametrize(
    ("kind", "action"),
    [
        ("Deployment", WorkloadAction.RESTART),
        ("StatefulSet", WorkloadAction.RESTART),
        ("DaemonSet", WorkloadAction.RESTART),
        ("Pod", WorkloadAction.DELETE_POD),
        ("ReplicaSet", None),
        ("ConfigMap", None),
    ],
)
def test_a_kind_has_at_most_one_action(kind: str, action: WorkloadAction | None) -> None:
    assert action_for(live(kind)) is action


@pytest.mark.parametrize(
    ("action", "manifest", "problem"),
    [
        (WorkloadAction.RESTART, live("Deployment"), ""),
        (WorkloadAction.DELETE_POD, live("Pod", OWNER), ""),
        (WorkloadAction.RESTART, live("Pod", OWNER), "Pod shop/web: cannot be the object of restart"),
        (WorkloadAction.DELETE_POD, live("Deployment"), "Deployment shop/web: cannot be the object of delete-pod"),
        (
            WorkloadAction.DELETE_POD,
            live("Pod", {**OWNER, "controller": False}),
            "Pod shop/web: has no controller that would create it again; sync its Application",
        ),
        (
            WorkloadAction.RESTART,
            live("Deployment", AGENT),
            "Deployment shop/web: is written by Agent triage; gitsync agent restart triage",
        ),
        (
            WorkloadAction.RESTART,
            live("StatefulSet", {**OWNER, "kind": "Database"}),
            "StatefulSet shop/web: is written by Database web-1; restart Database web-1",
        ),
        (
            WorkloadAction.DELETE_POD,
            live("Pod", OWNER, deletionTimestamp="2026-03-01T12:00:00Z"),
            "Pod shop/web: is being deleted already",
        ),
    ],
)
def test_an_action_fits_an_object_that_it_helps(action: WorkloadAction, manifest: Manifest, problem: str) -> None:
    if not problem:
        check_action(action, manifest)
        return
    with pytest.raises(WrongState) as caught:
        check_action(action, manifest)
    assert str(caught.value) == problem


class Clock:
    def now(self) -> datetime:
        return datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class WatchedCluster(FakeCluster):
    """A cluster that keeps as whom it was written."""

    def __init__(self) -> None:
        super().__init__()
        self.users: list[tuple[str, str]] = []

    def apply(self, manifest: Manifest, *, manager: str, user: str = "", **options: Any) -> Manifest:
        self.users.append((manager, user))
        return super().apply(manifest, manager=manager, user=user, **options)

    def delete(self, ref: ObjectRef, version: str, *, uid: str, user: str = "", **options: Any) -> Manifest | None:
        self.users.append(("", user))
        return super().delete(ref, version, uid=uid, user=user, **options)


APP = Application(
    "shop",
    "team",
    uid="a",
    generation=1,
    source=GitSource.model_construct(repo_url=""),
    destination=Destination.model_construct(namespace="shop", service_account="deployer"),
)


def test_a_restart_sets_one_annotation_of_the_template() -> None:
    cluster = WatchedCluster()
    web = cluster.put(live("Deployment"))
    WorkloadService(cluster, Clock()).restart(APP, web)
    annotations = {"kubectl.kubernetes.io/restartedAt": "2026-03-01T12:00:00Z"}
    assert cluster.applied == [
        {
            "apiVersion": APPS,
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "shop", "uid": "uid-web"},
            "spec": {"template": {"metadata": {"annotations": annotations}}},
        }
    ]
    assert cluster.users == [("gitsync-restart", "system:serviceaccount:team:deployer")]


def test_exactly_the_pod_that_was_shown_is_deleted() -> None:
    cluster = WatchedCluster()
    cluster.put(live("Pod", OWNER))
    service = WorkloadService(cluster, Clock())
    service.delete_pod(APP, live("Pod", OWNER, uid="an-earlier-one"))
    assert list(cluster.objects) == [ObjectRef("", "Pod", "shop", "web")]
    service.delete_pod(APP, live("Pod", OWNER))
    assert cluster.objects == {}
    assert {user for _, user in cluster.users} == {"system:serviceaccount:team:deployer"}


def test_an_api_server_restarts_no_other_workload(tmp_path: Path) -> None:
    with Sandbox(workloads=False) as sandbox:
        client = Client(Connection(str(sandbox.kubeconfig(tmp_path / "kubeconfig"))))
        cluster = KubernetesCluster(client)
        service = WorkloadService(cluster, Clock())
        manifest = yaml.safe_load(deployment("web"))
        made = cluster.apply({**manifest, "metadata": {"name": "web", "namespace": "default"}}, manager="gitsync")
        service.restart(replace(APP, destination=Destination()), made)
        restarted = cluster.read(WEB, "v1")
        other = {**made, "metadata": {**metadata_of(made), "uid": "9f1c7a1e-6f0e-4b5e-9d55-0c2c9a1b7d10"}}
        # as kube-apiserver 1.36 answers
        with pytest.raises(Rejected, match=r"metadata\.uid: Invalid value: .* field is immutable"):
            service.restart(replace(APP, destination=Destination()), other)
        cluster.delete(WEB, "v1", uid=uid_of(made))
        # 409 of kube-apiserver 1.36, 422 of earlier ones and of the sandbox
        with pytest.raises((Conflict, Rejected)):
            service.restart(replace(APP, destination=Destination()), made)
        assert cluster.read(WEB, "v1") is None
        client.close()
    annotations = at(restarted, "spec", "template", "metadata", "annotations")
    assert annotations == {"kubectl.kubernetes.io/restartedAt": "2026-03-01T12:00:00Z"}
    managers = {entry["manager"] for entry in metadata_of(restarted or {})["managedFields"]}
    assert managers == {"gitsync", "gitsync-restart"}
