"""Leases: which of their changes are of interest."""

from __future__ import annotations

from gitsync.objects.manifest import Manifest, at, metadata_of
from gitsync.objects.ref import GroupKind, ref_of

_LEASE = GroupKind("coordination.k8s.io", "Lease")
_EACH_TIME = ("resourceVersion", "managedFields")


def is_renewal(before: Manifest | None, after: Manifest | None) -> bool:
    """Whether a Lease was only renewed by the one that holds it, as each leader does every few seconds."""
    if before is None or after is None or ref_of(after).of != _LEASE:
        return False
    return _kept(before) == _kept(after)


def _kept(lease: Manifest) -> tuple[object, ...]:
    metadata = {name: value for name, value in metadata_of(lease).items() if name not in _EACH_TIME}
    return (at(lease, "spec", "holderIdentity"), metadata)
