"""Fence: a cluster that takes writes only while this replica may write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gitsync.cluster.client import Client
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.errors import Conflict
from gitsync.objects.change import Change
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ObjectRef
from gitsync.runtime.membership import Shard


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
    ) -> None:
        """Transfer field ownership."""
        self._check()
        super().set_managed_fields(live, managed_fields, manager=manager, user=user)

    def remove_fields(self, live: Manifest, pointers: Sequence[str], *, manager: str, user: str = "") -> Manifest:
        """Remove fields of the object."""
        self._check()
        return super().remove_fields(live, pointers, manager=manager, user=user)

    def release(self, released: Change, *, manager: str, user: str = "") -> Manifest:
        """Remove our marks and our ownership of fields."""
        self._check()
        return super().release(released, manager=manager, user=user)

    def delete(
        self, ref: ObjectRef, version: str, *, uid: str, user: str = "", foreground: bool = False
    ) -> Manifest | None:
        """Delete the object if it still has this uid."""
        self._check()
        return super().delete(ref, version, uid=uid, user=user, foreground=foreground)

    def replace(self, manifest: Manifest, *, manager: str, subresource: str = "") -> Manifest:
        """Write the object, or one subresource of it."""
        self._check()
        return super().replace(manifest, manager=manager, subresource=subresource)

    def _check(self) -> None:
        if not self._shard.may_write:
            raise Conflict("this replica could not renew its Lease", hint="nothing is written until it can")
