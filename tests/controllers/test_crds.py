"""The definitions are installed, or what is missing for that is reported at once."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gitsync import __version__
from gitsync.cluster.client import Client, Connection
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.controllers.crds import CrdInstaller
from gitsync.crds import (
    Standing,
    application_crd,
    definitions,
    lost_fields,
    standing_of,
    version_of_definition,
    version_order,
)
from gitsync.errors import Rejected
from gitsync.objects.keys import VERSION_ANNOTATION
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ref_of
from gitsync.sandbox.server import Sandbox
from tests.cluster.service_accounts import kubeconfig_of


@pytest.fixture
def administrator(tmp_path: Path) -> Iterator[tuple[KubernetesCluster, KubernetesCluster]]:
    """Two clients of one server: an administrator, and an account without a right on definitions."""
    with Sandbox(workloads=False) as server:
        clients = [Client(Connection(str(server.kubeconfig(tmp_path / "admin"))))]
        clusters = [KubernetesCluster(clients[0])]
        config = kubeconfig_of(server, clusters[0], tmp_path / "limited", ["default"])
        clients.append(Client(Connection(str(config))))
        clusters.append(KubernetesCluster(clients[1]))
        yield clusters[0], clusters[1]
        for client in clients:
            client.close()


Clusters = tuple[KubernetesCluster, KubernetesCluster]


def grant_read(cluster: KubernetesCluster) -> None:
    """Let the limited account read definitions."""
    group, name = "rbac.authorization.k8s.io", {"metadata": {"name": "limited"}}
    rule = {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": ["get"]}
    cluster.apply({"apiVersion": f"{group}/v1", "kind": "ClusterRole", **name, "rules": [rule]}, manager="m")
    subject = {"kind": "ServiceAccount", "name": "limited", "namespace": "default"}
    role = {"apiGroup": group, "kind": "ClusterRole", "name": "limited"}
    binding: dict[str, Any] = {"roleRef": role, "subjects": [subject]}
    cluster.apply({"apiVersion": f"{group}/v1", "kind": "ClusterRoleBinding", **name, **binding}, manager="m")


def test_missing_definitions_that_may_not_be_created_are_reported_at_once(administrator: Clusters) -> None:
    waits = list[float]()
    with pytest.raises(Rejected, match=r"cannot (create|patch) resource.*customresourcedefinitions.*gitsync install"):
        CrdInstaller(administrator[1], install=True, sleep=waits.append).start()
    assert not waits


def test_existing_definitions_of_this_version_are_used(
    administrator: Clusters, caplog: pytest.LogCaptureFixture
) -> None:
    admin, limited = administrator
    CrdInstaller(admin, install=True).start()
    grant_read(admin)
    with caplog.at_level(logging.WARNING, "gitsync"):
        CrdInstaller(limited, install=True).start()
    assert caplog.records == []


def test_existing_definitions_of_another_version_are_reported(
    administrator: Clusters, caplog: pytest.LogCaptureFixture
) -> None:
    admin, limited = administrator
    CrdInstaller(admin, install=True).start()
    older = copy.deepcopy(application_crd())
    spec = older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    del spec["properties"]["suspend"]
    admin.apply(older, manager="gitsync")
    grant_read(admin)
    with caplog.at_level(logging.WARNING, "gitsync"):
        CrdInstaller(limited, install=True).start()
    assert [(record.levelname, record.kind) for record in caplog.records] == [("WARNING", "Application")]  # type: ignore[attr-defined]
    assert len(definitions()) >= len(caplog.records)


def with_field(definition: Manifest, name: str) -> Manifest:
    """Return a definition with one more field in the spec."""
    newer = copy.deepcopy(definition)
    spec = newer["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"][name] = {"type": "string"}
    return newer


def of_version(definition: Manifest, version: str) -> Manifest:
    metadata = {**definition["metadata"], "annotations": {VERSION_ANNOTATION: version} if version else {}}
    return {**definition, "metadata": metadata}


@pytest.mark.parametrize("version", ["99.0.0", __version__])
def test_a_newer_definition_stays_with_its_fields(
    administrator: Clusters, caplog: pytest.LogCaptureFixture, version: str
) -> None:
    admin, _ = administrator
    CrdInstaller(admin, install=True).start()
    newer = of_version(with_field(application_crd(), "later"), version)
    admin.apply(newer, manager="gitsync")
    with caplog.at_level(logging.WARNING, "gitsync"):
        CrdInstaller(admin, install=True).start()
    live = admin.read(ref_of(newer), "v1")
    assert live is not None
    assert lost_fields(live, application_crd()) == ["spec.later"]
    assert [record.message for record in caplog.records] == ["the installed definition is newer and stays"]
    assert caplog.records[0].fields == "spec.later"  # type: ignore[attr-defined]


@pytest.mark.parametrize("version", ["", "0.1.0"])
def test_an_older_definition_is_replaced_whatever_fields_it_has(administrator: Clusters, version: str) -> None:
    admin, _ = administrator
    older = of_version(with_field(application_crd(), "dropped"), version)
    admin.apply(older, manager="gitsync")
    CrdInstaller(admin, install=True).start()
    live = admin.read(ref_of(older), "v1")
    assert live is not None
    assert standing_of(live, application_crd()) is Standing.CURRENT
    assert version_of_definition(live) == __version__


def test_a_current_definition_is_not_written(administrator: Clusters) -> None:
    admin, _ = administrator
    admin.apply(application_crd(), manager="kubectl")
    CrdInstaller(admin, install=True).start()
    live = admin.read(ref_of(application_crd()), "v1") or {}
    managers = {entry["manager"] for entry in live["metadata"]["managedFields"] if entry["operation"] == "Apply"}
    assert managers == {"kubectl"}


def test_versions_are_ordered_by_their_numbers() -> None:
    versions = ["", "0.4.0", "0.5.0.dev0", "0.5.0.dev3", "0.5.0", "0.10.0"]
    assert sorted({*versions}, key=version_order) == versions
