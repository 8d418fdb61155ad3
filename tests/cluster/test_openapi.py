from __future__ import annotations

from gitsync.cluster.client import Client
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.cluster.openapi import ClusterSchemas
from tests.contract.manifests import definition
from tests.waiting import until

GROUP = "openapi.example.com"


def test_a_document_that_changed_since_the_index_is_read(client: Client, cluster: KubernetesCluster) -> None:
    _define(client, cluster, "First")
    schemas = ClusterSchemas(client)
    schemas.of([("", "v1")])  # reads the index with the hashes of now
    _define(client, cluster, "Second")

    known = schemas.of([(GROUP, "v1")])

    assert all(known.for_kind(GROUP, "v1", kind) is not None for kind in ("First", "Second"))


def _define(client: Client, cluster: KubernetesCluster, kind: str) -> None:
    cluster.apply(definition(GROUP, kind), manager="test", force=True)
    path = f"/openapi/v3/apis/{GROUP}/v1"
    until(lambda: f"/{kind.lower()}s" in str(client.get(path).get("paths") if _is_served(client) else ""))


def _is_served(client: Client) -> bool:
    return f"apis/{GROUP}/v1" in client.get("/openapi/v3")["paths"]
