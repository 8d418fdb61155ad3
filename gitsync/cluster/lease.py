"""Leases of the cluster, for the election of a leader."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from gitsync.cluster.client import Client, segment
from gitsync.errors import Conflict, Rejected
from gitsync.objects.manifest import at, resource_version_of
from gitsync.runtime.leader import Lease


class ClusterLease:
    """One ``coordination.k8s.io/v1`` Lease as a LeaseStore."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{segment(namespace)}/leases"
        self._path = f"{self._collection}/{segment(name)}"

    def read(self) -> Lease | None:
        """Return the lease as it is now."""
        try:
            return _lease(self._client.get(self._path))
        except Rejected as error:
            if error.code == 404:
                return None
            raise

    def take(self, seen: Lease | None, holder: str, seconds: float) -> Lease:
        """Write the holder if the lease is still as it was seen."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")  # the API server wants microseconds
        body: dict[str, Any] = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": max(int(seconds), 1), "renewTime": now},
        }
        if seen is None:
            return _lease(self._client.send("POST", self._collection, body))
        body["metadata"]["resourceVersion"] = seen.renewal
        return _lease(self._client.send("PUT", self._path, body))

    def release(self, seen: Lease) -> None:
        """Give the lease up, if it is still ours."""
        try:
            self.take(seen, "", 1)
        except Conflict:
            return  # somebody else has it already


def _lease(answer: dict[str, Any]) -> Lease:
    return Lease(str(at(answer, "spec", "holderIdentity", default="")), resource_version_of(answer))
