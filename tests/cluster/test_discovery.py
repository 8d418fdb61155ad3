"""Which kinds the API server serves, and their types."""

from __future__ import annotations

from typing import Any

import pytest

from gitsync.cluster.client import Client
from gitsync.cluster.discovery import ClusterSchemas, Discovery
from gitsync.cluster.errors import failure
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.errors import ClusterUnavailable, GroupUnavailable
from gitsync.ports import ApiResource
from tests.contract.manifests import definition
from tests.waiting import until

CORE = {"metadata": {"name": ""}, "versions": [{"version": "v1", "resources": []}]}
EMPTY = {"kind": "APIGroupDiscoveryList", "items": [CORE]}


class CountingClient:
    """A client that serves no kind and counts the requests for groups."""

    def __init__(self) -> None:
        self.requests = 0

    def get(self, path: str, *, accept: str) -> dict[str, object]:
        self.requests += path == "/apis"
        return EMPTY


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_kind_that_is_never_served_costs_ever_fewer_requests() -> None:
    client, time = CountingClient(), Time()
    discovery = Discovery(client, monotonic=time)  # type: ignore[arg-type]
    for second in range(600):
        time.now = float(second)
        assert discovery.resource("example.com", "v1", "Widget") is None
        assert discovery.resource("example.com", "v1", "Gadget") is None
    assert client.requests < 40


def test_a_changed_definition_repeats_it_at_once() -> None:
    client, time = CountingClient(), Time()
    discovery = Discovery(client, monotonic=time)  # type: ignore[arg-type]
    discovery.resource("example.com", "v1", "Widget")
    discovery.resource("example.com", "v1", "Widget")
    assert client.requests == 1
    discovery.forget()
    discovery.resource("example.com", "v1", "Widget")
    assert client.requests == 2


class OldClient:
    """A server without aggregated discovery; the server of one group version answers with an error."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer

    def get(self, path: str, *, accept: str = "") -> dict[str, Any]:
        if path == "/api":
            return {"kind": "APIVersions", "versions": ["v1"]}
        if path == "/apis":
            groups = {"apps": "v1", "metrics.k8s.io": "v1beta1", "batch": "v1"}
            items = [{"name": group, "versions": [{"version": version}]} for group, version in groups.items()]
            return {"kind": "APIGroupList", "groups": items}
        if path == "/apis/metrics.k8s.io/v1beta1":
            raise failure(503, self._answer, {}, f"GET {path}")
        kind = {"/api/v1": "Secret", "/apis/apps/v1": "Deployment", "/apis/batch/v1": "Job"}[path]
        return {"resources": [{"name": f"{kind.lower()}s", "kind": kind, "namespaced": True, "verbs": ["get"]}]}


def test_an_aggregated_server_that_is_down_hides_no_other_group() -> None:
    discovery = Discovery(OldClient(b"service unavailable\n"))  # type: ignore[arg-type]
    assert [resource.kind for resource in discovery.preferred()] == ["Secret", "Deployment", "Job"]
    assert isinstance(discovery.find("metrics.k8s.io", "v1beta1", "PodMetrics"), GroupUnavailable)
    assert discovery.find("batch", "v1", "CronJob") is None


class StaleClient:
    """A server with aggregated discovery that never reached an aggregated server, and lost another one later."""

    def get(self, path: str, *, accept: str) -> dict[str, object]:
        kind = {"resource": "pods", "responseKind": {"kind": "PodMetrics"}, "scope": "Namespaced"}
        kept = {"version": "v1", "freshness": "Stale", "resources": [kind]}
        groups = {"lost.example.com": kept, "never.example.com": {"version": "v1", "freshness": "Stale"}}
        items = [{"metadata": {"name": name}, "versions": [version]} for name, version in groups.items()]
        return {"kind": "APIGroupDiscoveryList", "items": items if path == "/apis" else []}


def test_a_stale_group_version_without_kinds_is_unavailable() -> None:
    discovery = Discovery(StaleClient())  # type: ignore[arg-type]
    assert isinstance(discovery.find("lost.example.com", "v1", "PodMetrics"), ApiResource)
    assert isinstance(discovery.find("never.example.com", "v1", "Widget"), GroupUnavailable)
    assert discovery.resource("never.example.com", "v1", "Widget") is None


def test_an_outage_during_discovery_hides_nothing() -> None:
    discovery = Discovery(OldClient(b"etcdserver: request timed out"))  # type: ignore[arg-type]
    with pytest.raises(ClusterUnavailable):
        discovery.preferred()


GROUP = "openapi.example.com"


def test_a_document_that_changed_since_the_index_is_read(client: Client, cluster: KubernetesCluster) -> None:
    _define(client, cluster, "First")
    schemas = ClusterSchemas(client)
    schemas.of([("", "v1")])  # reads the index with the hashes of now
    _define(client, cluster, "Second")

    known = schemas.of([(GROUP, "v1")])

    assert all(known.for_kind(GROUP, "v1", kind) is not None for kind in ("First", "Second"))


class PublishingClient:
    """A client of a server that publishes the document of a group version on demand."""

    def __init__(self) -> None:
        self.paths: dict[str, dict[str, str]] = {"api/v1": {"serverRelativeURL": "/openapi/v3/api/v1?hash=1"}}
        self.requests = 0
        self.documents = 1

    def publish(self) -> None:
        self.documents += 1
        self.paths[f"apis/{GROUP}/v1"] = {"serverRelativeURL": f"/openapi/v3/apis/{GROUP}/v1?hash={self.documents}"}

    def get(self, path: str) -> dict[str, Any]:
        self.requests += 1
        if path == "/openapi/v3":
            return {"paths": dict(self.paths)}
        kind = [{"group": GROUP, "version": "v1", "kind": "Widget"}]
        fields = {f"field{self.documents}": {"type": "string"}}
        schema = {"type": "object", "properties": fields, "x-kubernetes-group-version-kind": kind}
        return {"components": {"schemas": {"Widget": schema} if GROUP in path else {}}}


def test_a_document_that_is_published_late_is_found() -> None:
    client, time = PublishingClient(), Time()
    schemas = ClusterSchemas(client, monotonic=time)  # type: ignore[arg-type]
    assert schemas.of([(GROUP, "v1")]).for_kind(GROUP, "v1", "Widget") is None
    client.publish()
    time.now = 1.5
    assert schemas.of([(GROUP, "v1")]).for_kind(GROUP, "v1", "Widget") is not None
    requests = client.requests
    time.now = 100.0
    schemas.of([(GROUP, "v1")])
    assert client.requests == requests


def test_a_changed_document_that_is_published_late_is_found() -> None:
    client, time = PublishingClient(), Time()
    client.publish()
    schemas = ClusterSchemas(client, monotonic=time)  # type: ignore[arg-type]

    def fields() -> frozenset[str]:
        schema = schemas.of([(GROUP, "v1")]).for_kind(GROUP, "v1", "Widget")
        assert schema is not None
        return schema.declared

    assert fields() == {"field2"}
    schemas.forget()
    assert fields() == {"field2"}, "the API server did not publish the change yet"
    client.publish()
    time.now = 1.5
    assert fields() == {"field3"}
    client.publish()
    time.now = 100.0
    requests = client.requests
    assert fields() == {"field3"}, "no definition changed"
    assert client.requests == requests


def test_a_document_that_is_never_published_costs_ever_fewer_requests() -> None:
    client, time = PublishingClient(), Time()
    schemas = ClusterSchemas(client, monotonic=time)  # type: ignore[arg-type]
    for second in range(600):
        time.now = float(second)
        assert schemas.of([(GROUP, "v1")]).for_kind(GROUP, "v1", "Widget") is None
    assert client.requests < 20


def _define(client: Client, cluster: KubernetesCluster, kind: str) -> None:
    cluster.apply(definition(GROUP, kind), manager="test", force=True)
    path = f"/openapi/v3/apis/{GROUP}/v1"
    until(lambda: f"/{kind.lower()}s" in str(client.get(path).get("paths") if _is_served(client) else ""))


def _is_served(client: Client) -> bool:
    return f"apis/{GROUP}/v1" in client.get("/openapi/v3")["paths"]


class VersionedClient:
    """A server with one aggregated group, which may be down, and a version that changes with an upgrade."""

    def __init__(self) -> None:
        self.version = "v1.36.2"
        self.versions_read = 0
        self.is_down = False

    def get(self, path: str, *, accept: str = "") -> dict[str, Any]:
        if path == "/version":
            self.versions_read += 1
            return {"gitVersion": self.version}
        kinds = [] if self.is_down else [{"responseKind": {"kind": "NodeMetrics"}, "resource": "nodes", "scope": ""}]
        metrics = {"version": "v1beta1", "freshness": "Stale" if self.is_down else "Current", "resources": kinds}
        items = [{"metadata": {"name": "metrics.k8s.io"}, "versions": [metrics]}] if path == "/apis" else [CORE]
        return {"kind": "APIGroupDiscoveryList", "items": items}


def test_charts_are_told_what_is_served() -> None:
    client, time = VersionedClient(), Time()
    discovery = Discovery(client, monotonic=time)  # type: ignore[arg-type]
    served = ("metrics.k8s.io/v1beta1", "metrics.k8s.io/v1beta1/NodeMetrics")

    assert discovery.capabilities() == ("v1.36.2", served)
    # a server that is down is not gone
    client.is_down = True
    discovery.forget()
    assert discovery.capabilities() == ("v1.36.2", served)


def test_an_upgrade_of_the_api_server_is_noticed() -> None:
    client, time = VersionedClient(), Time()
    discovery = Discovery(client, monotonic=time)  # type: ignore[arg-type]
    known = discovery.capabilities()
    client.version = "v1.37.0"

    assert discovery.capabilities() is known
    assert client.versions_read == 1
    time.now = 301.0
    assert discovery.capabilities().version == "v1.37.0"
