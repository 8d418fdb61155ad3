"""An object with an unconfirmed write is read before it counts as absent; an Application does not wait for itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from gitsync.cluster.client import Client, Connection
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.merge.schema import Schemas
from gitsync.objects.health import Health
from gitsync.objects.inventory import Inventory, InventoryEntry
from gitsync.objects.ref import ObjectRef
from gitsync.ports import LiveCache
from gitsync.sandbox.server import Sandbox
from gitsync.sync.observe import Observation, confirm_missing, health_of
from tests.plan.factories import application

MADE = ObjectRef("", "ConfigMap", "default", "made")
GONE = ObjectRef("", "ConfigMap", "default", "gone")
ODD = ObjectRef("example.com", "Widget", "default", "odd")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[KubernetesCluster]:
    with Sandbox(workloads=False) as sandbox:
        client = Client(Connection(str(sandbox.kubeconfig(tmp_path / "kubeconfig"))))
        made = KubernetesCluster(client)
        made.apply(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made", "namespace": "default"}},
            manager="gitsync",
        )
        yield made
        client.close()


def blind(*refs: ObjectRef) -> Observation:
    return Observation({}, {}, dict.fromkeys(refs, "v1"), Schemas({}))


def test_an_object_that_was_never_seen_is_read_anew(cluster: KubernetesCluster) -> None:
    inventory = Inventory(dict.fromkeys((MADE, GONE, ODD), InventoryEntry("v1")))
    assert list(confirm_missing(blind(MADE, GONE, ODD), inventory, cluster).live) == [MADE]


def test_an_object_that_was_seen_before_costs_no_request(cluster: KubernetesCluster) -> None:
    observation = blind(MADE)
    assert confirm_missing(observation, Inventory({MADE: InventoryEntry("v1", "uid")}), cluster) is observation


def test_an_application_that_declares_itself_does_not_wait_for_itself() -> None:
    app = application()
    health = {}
    for name in (app.name, "another"):
        manifest = {
            "apiVersion": "gitsync.dev/v1alpha1",
            "kind": "Application",
            "metadata": {"name": name, "namespace": app.namespace, "generation": 1},
            "status": {"observedGeneration": 1, "phase": "Executing", "sync": "Synced", "health": "Progressing"},
        }
        ref = ObjectRef("gitsync.dev", "Application", app.namespace, name)
        health[name] = health_of(ref, manifest, cast("LiveCache", None), app).health
    assert health == {app.name: Health.HEALTHY, "another": Health.PROGRESSING}
