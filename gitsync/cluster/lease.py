"""Leases of the cluster, one for each replica."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any

from gitsync.cluster.client import Client, segment
from gitsync.errors import Conflict, Rejected
from gitsync.objects.manifest import Manifest, annotations_of, at, resource_version_of
from gitsync.runtime.membership import MemberLease, MemberSet

_LABEL = "gitsync.dev/member"
_VIEW = "gitsync.dev/members"


class LeaseMemberStore:
    """``coordination.k8s.io/v1`` Leases of one namespace as a MemberStore."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{segment(namespace)}/leases"

    def all(self) -> tuple[MemberLease, ...]:
        """Return the leases as they are now."""
        answer = self._client.get(self._path, {"labelSelector": _LABEL})
        return tuple(_lease(item) for item in answer.get("items") or ())

    def put(self, known: MemberLease | None, holder: str, view: MemberSet, seconds: float) -> MemberLease:
        """Write a member's lease if it is still the known one."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")  # the API server wants microseconds
        metadata: dict[str, Any] = {
            "name": _name(holder),
            "namespace": self._namespace,
            "labels": {_LABEL: "true"},
            "annotations": {_VIEW: ",".join(view)},
        }
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata,
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": max(int(seconds), 1), "renewTime": now},
        }
        if known is None:  # a POST: of two replicas that start at once, the API server lets one create it
            return _lease(self._client.send("POST", self._path, body))
        metadata["resourceVersion"] = known.renewal
        try:
            return _lease(self._client.send("PUT", self._of(holder), body))
        except Rejected as error:
            if error.code == 403:
                raise
            # 404 for a PUT of a lease that another replica removed: it took this one for gone
            raise Conflict(f"the lease is gone: {error.message}") from error

    def remove(self, known: MemberLease) -> None:
        """Remove a lease that is still the known one."""
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"resourceVersion": known.renewal}}
        try:
            self._client.send("DELETE", self._of(known.holder), options)
        except Conflict:
            return  # it is renewed
        except Rejected as error:
            if error.code != 404:
                raise

    def _of(self, holder: str) -> str:
        return f"{self._path}/{segment(_name(holder))}"


def _name(holder: str) -> str:
    return f"gitsync-member-{hashlib.sha256(holder.encode()).hexdigest()[:12]}"


def _lease(answer: Manifest) -> MemberLease:
    holder = str(at(answer, "spec", "holderIdentity", default=""))
    view = annotations_of(answer).get(_VIEW, "")
    return MemberLease(holder, resource_version_of(answer), tuple(view.split(",")) if view else ())
