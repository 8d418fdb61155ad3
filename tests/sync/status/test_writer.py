"""A status is written when it changed, over changes of the rest, and never over another controller's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gitsync.cluster.cache import InformerCache
from gitsync.cluster.client import Client, Connection
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.controllers.crds import CrdInstaller
from gitsync.errors import ClusterUnavailable, Conflict
from gitsync.objects.keys import FINALIZER, POST_DELETE, PRE_DELETE
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ObjectRef
from gitsync.sandbox.server import Sandbox
from gitsync.sync.status.writer import StatusWriter

REF = ObjectRef("gitsync.dev", "Application", "default", "shop")
MANIFEST: Manifest = {
    "apiVersion": "gitsync.dev/v1alpha1",
    "kind": "Application",
    "metadata": {"name": "shop", "namespace": "default"},
    "spec": {"source": {"repoURL": "https://git.example.com/shop.git"}},
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[KubernetesCluster, StatusWriter]]:
    with Sandbox(workloads=False) as sandbox:
        client = Client(Connection(str(sandbox.kubeconfig(tmp_path / "kubeconfig"))))
        made = KubernetesCluster(client)
        CrdInstaller(made, install=True).start()
        live = InformerCache(client)
        yield made, StatusWriter(made, live)
        live.stop()
        client.close()


def read(cluster: KubernetesCluster) -> Manifest:
    found = cluster.read(REF, "v1alpha1")
    assert found is not None
    return found


def test_an_equal_status_is_not_written(cluster: tuple[KubernetesCluster, StatusWriter]) -> None:
    kubernetes, statuses = cluster
    first = statuses.write(kubernetes.apply(MANIFEST, manager="ada"), {"phase": "Synced"})
    assert statuses.write(first, {"phase": "Synced"}) is first
    assert read(kubernetes)["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_what_is_written_and_what_is_stored_share_an_equal_status(
    cluster: tuple[KubernetesCluster, StatusWriter],
) -> None:
    kubernetes, statuses = cluster
    status = {"phase": "Synced", "conditions": []}
    written = statuses.write(kubernetes.apply(MANIFEST, manager="ada"), status)
    assert written["status"] is status
    # the definition prunes what it does not know, so that the answer differs
    other = {"phase": "Failed", "unknownMember": "x"}
    pruned = statuses.write(written, other)
    assert pruned["status"] == read(kubernetes)["status"] == {"phase": "Failed"}
    assert other == {"phase": "Failed", "unknownMember": "x"}


def test_a_spec_that_moved_on_is_not_overwritten(cluster: tuple[KubernetesCluster, StatusWriter]) -> None:
    kubernetes, statuses = cluster
    stale = kubernetes.apply(MANIFEST, manager="ada")
    kubernetes.apply({**MANIFEST, "spec": {**MANIFEST["spec"], "suspend": True}}, manager="ada")
    statuses.write(stale, {"phase": "Synced"})
    found = read(kubernetes)
    assert (found["spec"]["suspend"], found["status"]["phase"]) == (True, "Synced")


def test_another_controllers_status_is_a_conflict(cluster: tuple[KubernetesCluster, StatusWriter]) -> None:
    kubernetes, statuses = cluster
    stale = kubernetes.apply(MANIFEST, manager="ada")
    statuses.write(stale, {"phase": "Synced"})
    with pytest.raises(Conflict, match="another controller"):
        statuses.write(stale, {"phase": "Failed"})
    assert read(kubernetes)["status"]["phase"] == "Synced"


def test_a_refused_status_passes_and_is_tried_again_later(cluster: tuple[KubernetesCluster, StatusWriter]) -> None:
    kubernetes, statuses = cluster
    with pytest.raises(ClusterUnavailable, match="rejected the status update") as refusal:
        statuses.write(kubernetes.apply(MANIFEST, manager="ada"), {"phase": 7})
    assert refusal.value.retry_after == 10


def test_an_application_that_was_made_again_is_a_conflict(cluster: tuple[KubernetesCluster, StatusWriter]) -> None:
    kubernetes, statuses = cluster
    stale = kubernetes.apply(MANIFEST, manager="ada")
    kubernetes.delete(REF, "v1alpha1", uid=stale["metadata"]["uid"])
    kubernetes.apply(MANIFEST, manager="ada")
    with pytest.raises(Conflict, match="gone"):
        statuses.write(stale, {"phase": "Synced"})


def test_the_finalizer_comes_and_goes_and_others_stay(cluster: tuple[KubernetesCluster, StatusWriter]) -> None:
    kubernetes, statuses = cluster
    held = {**MANIFEST, "metadata": {**MANIFEST["metadata"], "finalizers": ["example.com/other"]}}
    ours = {PRE_DELETE, POST_DELETE, FINALIZER, "example.com/other"}
    with_ours = statuses.set_finalizers(kubernetes.apply(held, manager="ada"), ours)
    assert with_ours["metadata"]["finalizers"] == ["example.com/other", PRE_DELETE, FINALIZER, POST_DELETE]
    assert statuses.set_finalizers(with_ours, ours) is with_ours
    fewer = statuses.set_finalizers(with_ours, {FINALIZER})
    assert fewer["metadata"]["finalizers"] == ["example.com/other", FINALIZER]
    kubernetes.delete(REF, "v1alpha1", uid=fewer["metadata"]["uid"])
    going = read(kubernetes)
    assert statuses.set_finalizers(going, ours) is going, "what is on its way out gets no new ones"
    without = statuses.set_finalizers(going, ())
    assert without["metadata"]["finalizers"] == ["example.com/other"]
