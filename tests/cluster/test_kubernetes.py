"""
Objects are read, applied, deleted and replaced over HTTP, and refusals say what to do.

Events and logs of objects are read from the API server when they are opened.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gitsync.cluster.client import Client, Connection
from gitsync.cluster.kubernetes import ApiObjectDetails, KubernetesCluster
from gitsync.crds import application_crd
from gitsync.errors import AlreadyExists, ClusterUnavailable, Conflict, GitsyncError, InvalidInput, Rejected
from gitsync.objects.manifest import uid_of
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.ports import LogRequest
from gitsync.sandbox.faults import FaultKind, InjectedFault
from gitsync.sandbox.server import Sandbox
from tests.cluster.factories import config_map
from tests.waiting import until

A = ObjectRef("", "ConfigMap", "default", "a")


def test_an_applied_object_can_be_read_and_is_ours(cluster: KubernetesCluster) -> None:
    applied = cluster.apply(config_map(x="1"), manager="gitsync")
    found = cluster.read(A, "v1")
    assert found is not None
    assert found["data"] == {"x": "1"}
    assert uid_of(found) == uid_of(applied)
    assert [(entry["manager"], entry["operation"]) for entry in found["metadata"]["managedFields"]] == [
        ("gitsync", "Apply")
    ]


def test_a_create_changes_nothing_that_exists(cluster: KubernetesCluster) -> None:
    created = cluster.create(config_map(x="1"), manager="gitsync")
    with pytest.raises(AlreadyExists, match=r"ConfigMap default/a: .*already exists"):
        cluster.create(config_map(x="2"), manager="gitsync")
    assert cluster.read(A, "v1") == created


def test_a_dry_run_answers_and_stores_nothing(cluster: KubernetesCluster) -> None:
    assert cluster.apply(config_map(x="1"), manager="gitsync", dry_run=True)["data"] == {"x": "1"}
    assert cluster.read(A, "v1") is None


def test_an_absent_object_is_none(cluster: KubernetesCluster) -> None:
    assert cluster.read(A, "v1") is None


def test_without_force_another_managers_field_is_a_conflict(cluster: KubernetesCluster) -> None:
    cluster.apply(config_map(x="1"), manager="another")
    with pytest.raises(Conflict, match=r"\.data\.x"):
        cluster.apply(config_map(x="2"), manager="gitsync", force=False)
    assert cluster.apply(config_map(x="2"), manager="gitsync")["data"] == {"x": "2"}


def test_deleting_names_the_uid_and_a_second_time_is_no_error(cluster: KubernetesCluster) -> None:
    applied = cluster.apply(config_map(x="1"), manager="gitsync")
    with pytest.raises(Conflict, match="UID"):
        cluster.delete(A, "v1", uid="another-uid")
    cluster.delete(A, "v1", uid=uid_of(applied))
    assert cluster.read(A, "v1") is None
    cluster.delete(A, "v1", uid=uid_of(applied))


def test_replacing_needs_the_newest_version(cluster: KubernetesCluster) -> None:
    first = cluster.apply(config_map(x="1"), manager="gitsync")
    cluster.apply(config_map(x="2"), manager="gitsync")
    with pytest.raises(Conflict):
        cluster.replace({**first, "data": {"x": "3"}}, manager="gitsync")


def test_a_field_that_no_schema_has_is_refused_for_good(cluster: KubernetesCluster) -> None:
    with pytest.raises(Rejected, match=r"ConfigMap default/a: .*\.foo: field not declared in schema"):
        cluster.apply({**config_map(), "foo": 1}, manager="gitsync")


def test_an_absent_namespace_is_refused_with_the_cure(cluster: KubernetesCluster) -> None:
    with pytest.raises(Rejected, match="declare the Namespace in Git"):
        cluster.apply({**config_map(), "metadata": {"name": "a", "namespace": "nowhere"}}, manager="gitsync")


def test_a_kind_that_is_not_served_is_found_once_its_definition_is_there(cluster: KubernetesCluster) -> None:
    manifest = {
        "apiVersion": "gitsync.dev/v1alpha1",
        "kind": "Application",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {"source": {"repoURL": "https://git.example.com/a.git"}},
    }
    with pytest.raises(InvalidInput, match="does not serve Application"):
        cluster.apply(manifest, manager="gitsync")
    cluster.apply(application_crd(), manager="gitsync")
    while cluster.resource("gitsync.dev", "v1alpha1", "Application") is None:
        cluster.definitions_changed()
    stored = cluster.apply(manifest, manager="gitsync")
    assert stored["spec"]["sync" if "sync" in stored["spec"] else "source"]
    of = ("gitsync.dev", "v1alpha1", "Application")
    until(lambda: cluster.schemas([of[:2]]).for_kind(*of) is not None)  # published a moment after the kind is served


def test_schemas_are_read_once(cluster: KubernetesCluster, client: Client) -> None:
    first = cluster.schemas([("apps", "v1"), ("", "v1")])
    assert first.for_kind("apps", "v1", "Deployment") is not None
    assert first.for_kind("", "v1", "ConfigMap") is not None
    assert cluster.schemas([("", "v1")]) is first


def test_a_definition_that_was_removed_leaves_the_other_schemas(cluster: KubernetesCluster) -> None:
    """The index may list a group version whose document is gone: an Application of ConfigMaps must not stop for it."""
    cluster.apply(application_crd(), manager="gitsync")
    while cluster.resource("gitsync.dev", "v1alpha1", "Application") is None:
        cluster.definitions_changed()
    cluster.schemas([("", "v1")])  # reads the index
    ref = ObjectRef("apiextensions.k8s.io", "CustomResourceDefinition", "", "applications.gitsync.dev")
    stored = cluster.read(ref, "v1")
    assert stored is not None
    cluster.delete(ref, "v1", uid=uid_of(stored))
    while cluster.read(ref, "v1") is not None:
        pass
    found = cluster.schemas([("", "v1"), ("gitsync.dev", "v1alpha1")])
    assert found.for_kind("", "v1", "ConfigMap") is not None
    assert found.for_kind("gitsync.dev", "v1alpha1", "Application") is None


def test_writes_can_be_made_as_a_service_account_which_has_its_own_rights(cluster: KubernetesCluster) -> None:
    with pytest.raises(Rejected, match=r"add the rule .*verbs: \[create, delete, get, patch\]") as refusal:
        cluster.apply(config_map(x="1"), manager="gitsync", user="system:serviceaccount:default:powerless")
    assert refusal.value.code == 403


def test_a_read_as_a_service_account_without_rights_says_which_it_lacks(cluster: KubernetesCluster) -> None:
    with pytest.raises(Rejected, match=r"add the rule .*configmaps.*verbs: \[get, list, watch\]") as refusal:
        cluster.read(ref_of(config_map(x="1")), "v1", user="system:serviceaccount:default:powerless")
    assert refusal.value.code == 403


def test_an_api_server_that_is_not_there_is_unavailable(server: Sandbox, client: Client) -> None:
    server.stop()
    with pytest.raises(ClusterUnavailable, match="was not answered"):
        client.get("/version")


def test_a_server_that_asks_for_patience_says_for_how_long(server: Sandbox, cluster: KubernetesCluster) -> None:
    server.inject(InjectedFault(FaultKind.THROTTLE, verb="patch", seconds=7, count=1))
    with pytest.raises(ClusterUnavailable) as refusal:
        cluster.apply(config_map(x="1"), manager="gitsync")
    assert refusal.value.retry_after == 7


def test_a_rotated_token_is_read_again_once(server: Sandbox, tmp_path: Path) -> None:
    path = server.kubeconfig(tmp_path / "rotated")
    good = path.read_text()
    path.write_text(good.replace(server.token, "an-old-token"))
    client = Client(Connection(str(path)))
    with pytest.raises(ClusterUnavailable, match="credentials"):
        client.get("/api/v1/namespaces")
    path.write_text(good)
    assert client.get("/api/v1/namespaces")["kind"] == "NamespaceList"
    client.close()


def test_no_kubeconfig_is_said_plainly(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="kubeconfig"):
        Client(Connection(str(tmp_path / "absent")))


def test_events_are_those_of_the_object_and_logs_those_of_the_container(tmp_path: Path) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"containers": [{"name": "app", "image": "app:1"}, {"name": "proxy", "image": "proxy:1"}]},
    }
    with Sandbox() as sandbox:
        client = Client(Connection(str(sandbox.kubeconfig(tmp_path / "kubeconfig"))))
        details, cluster = ApiObjectDetails(client), KubernetesCluster(client)
        cluster.apply(pod, manager="test")
        ref = ObjectRef("", "Pod", "default", "web")
        until(lambda: any(event.reason == "Started" for event in details.events(ref)))
        events = details.events(ref)
        assert all(event.last and event.message and event.type for event in events)
        assert [event.last for event in events] == sorted((event.last for event in events), reverse=True)
        assert details.events(ObjectRef("", "Pod", "default", "other")) == ()
        assert details.events(ObjectRef("", "Namespace", "", "default")) == ()

        until(lambda: (cluster.read(ref, "v1") or {})["status"].get("phase") == "Running")
        assert isinstance(details.logs(LogRequest("default", "web", "proxy", lines=1)), str)
        assert len(details.logs(LogRequest("default", "web", "app", lines=1)).splitlines()) <= 1
        timed = details.logs(LogRequest("default", "web", "app", has_times=True)).splitlines()
        assert timed
        assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ", line) for line in timed)
        assert "app:1 starts in pod default/web" in timed[0]
        with pytest.raises(GitsyncError, match="previous terminated container"):
            details.logs(LogRequest("default", "web", "app", is_previous=True))
        with pytest.raises(GitsyncError, match="not found"):
            details.logs(LogRequest("default", "gone", "app"))
        client.close()
