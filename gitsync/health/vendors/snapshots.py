"""Health of volume snapshots."""

from __future__ import annotations

from gitsync.health.fields import text
from gitsync.health.rules import Rule, degraded, healthy, progressing
from gitsync.objects.health import HealthStatus
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import GroupKind


def volume_snapshot(live: Manifest) -> HealthStatus:
    """Judge a VolumeSnapshot or its content."""
    if at(live, "status", "readyToUse") is True:
        return healthy("Ready to use")
    if at(live, "status", "error") is not None:
        return degraded(text(live, "status", "error", "message"))
    return progressing("Waiting for status")


RULES: dict[GroupKind, Rule] = {
    GroupKind("snapshot.storage.k8s.io", "VolumeSnapshot"): volume_snapshot,
    GroupKind("snapshot.storage.k8s.io", "VolumeSnapshotContent"): volume_snapshot,
}
