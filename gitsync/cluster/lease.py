"""What replicas share of the cluster: a lease for each, and a fence that lets only one of them write."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from gitsync.cluster.client import Client, segment
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.errors import Conflict, Rejected
from gitsync.objects.change import Change
from gitsync.objects.manifest import Manifest, annotations_of, at, resource_version_of
from gitsync.objects.ref import ObjectRef
from gitsync.runtime.membership import MemberLease, MemberSet, Shard

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


class FencedCluster(KubernetesCluster):
    """
    The same as Kubernetes, but a write raises Conflict unless the shard may write right before it.

    A request that had left before a pause may still arrive late: every write of ours can stand that, by naming a uid
    or a version, or by saying what Git declares.
    """

    def __init__(self, client: Client, shard: Shard) -> None:
        super().__init__(client)
        self._shard = shard

    def create(self, manifest: Manifest, *, manager: str, user: str = "") -> Manifest:
        """Create the object unless one of its name exists."""
        self._check()
        return super().create(manifest, manager=manager, user=user)

    def apply(
        self, manifest: Manifest, *, manager: str, force: bool = True, dry_run: bool = False, user: str = ""
    ) -> Manifest:
        """Apply server-side; a dry run does not count as a write."""
        if not dry_run:
            self._check()
        return super().apply(manifest, manager=manager, force=force, dry_run=dry_run, user=user)

    def set_managed_fields(
        self, live: Manifest, managed_fields: Sequence[Mapping[str, Any]], *, manager: str, user: str = ""
    ) -> Manifest:
        """Transfer field ownership."""
        self._check()
        return super().set_managed_fields(live, managed_fields, manager=manager, user=user)

    def remove_fields(self, live: Manifest, pointers: Sequence[str], *, manager: str, user: str = "") -> Manifest:
        """Remove fields of the object."""
        self._check()
        return super().remove_fields(live, pointers, manager=manager, user=user)

    def release(self, released: Change, *, manager: str, user: str = "") -> Manifest:
        """Remove our marks and our ownership of fields."""
        self._check()
        return super().release(released, manager=manager, user=user)

    def delete(
        self,
        ref: ObjectRef,
        version: str,
        *,
        uid: str,
        user: str = "",
        foreground: bool = False,
        dry_run: bool = False,
    ) -> Manifest | None:
        """Delete the object if it still has this uid."""
        if not dry_run:
            self._check()
        return super().delete(ref, version, uid=uid, user=user, foreground=foreground, dry_run=dry_run)

    def replace(self, manifest: Manifest, *, manager: str, subresource: str = "") -> Manifest:
        """Write the object, or one subresource of it."""
        self._check()
        return super().replace(manifest, manager=manager, subresource=subresource)

    def _check(self) -> None:
        if not self._shard.may_write:
            raise Conflict("this replica could not renew its Lease", hint="nothing is written until it can")
