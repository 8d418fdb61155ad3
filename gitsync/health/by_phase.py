"""Kinds whose health is one phase in their status: a table of its path and the meaning of each value."""

from __future__ import annotations

from dataclasses import dataclass

from gitsync.health.fields import spec_of, text
from gitsync.health.rules import Rule, degraded, healthy, progressing, suspended
from gitsync.objects.health import HealthStatus
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import GroupKind


@dataclass(frozen=True, slots=True)
class ByPhase:
    """
    Judge by the phase at a path of the status; an unknown phase means Progressing.

    ``reason`` is the path of the message in the status, where there is one; else the phase is the message.
    """

    good: frozenset[str]
    bad: frozenset[str] = frozenset({"Failed"})
    stopped: frozenset[str] = frozenset()
    at: tuple[str, ...] = ("phase",)
    reason: tuple[str, ...] = ("message",)

    def __call__(self, live: Manifest) -> HealthStatus:
        """Judge a live object; one whose spec is paused is stopped on purpose."""
        if spec_of(live).get("paused") is True:
            return suspended(f"{live.get('kind')} is paused")
        word = text(live, "status", *self.at)
        if not word:
            return progressing(f"Waiting for {live.get('kind')}")
        detail = text(live, "status", *self.reason) or word
        if word in self.good:
            return healthy(detail)
        if word in self.bad:
            return degraded(detail)
        return suspended(detail) if word in self.stopped else progressing(detail)


def _words(line: str) -> frozenset[str]:
    return frozenset(line.split())


_ACME = ByPhase(_words("valid"), _words("invalid expired errored"), at=("state",), reason=("reason",))
_MACHINES = ByPhase(_words("Running"))
_VELERO = ByPhase(
    _words("Completed"),
    _words(
        "Failed FailedValidation FinalizingPartiallyFailed PartiallyFailed WaitingForPluginOperationsPartiallyFailed"
    ),
    reason=("failureReason",),
)

RULES: dict[GroupKind, Rule] = {
    GroupKind("acme.cert-manager.io", "Challenge"): _ACME,
    GroupKind("acme.cert-manager.io", "Order"): _ACME,
    GroupKind("cdi.kubevirt.io", "DataVolume"): ByPhase(_words("Succeeded"), stopped=_words("Paused")),
    GroupKind("cluster.x-k8s.io", "Cluster"): ByPhase(_words("Provisioned")),
    GroupKind("cluster.x-k8s.io", "Machine"): _MACHINES,
    GroupKind("cluster.x-k8s.io", "MachineDeployment"): _MACHINES,
    GroupKind("cluster.x-k8s.io", "MachinePool"): _MACHINES,
    GroupKind("flagger.app", "Canary"): ByPhase(_words("Initialized Succeeded")),
    GroupKind("kubevirt.io", "VirtualMachine"): ByPhase(
        _words("Migrating Running"),
        _words(
            "CrashLoopBackOff DataVolumeError ErrImagePull ErrorDataVolumeNotFound ErrorPvcNotFound"
            " ErrorUnschedulable ImagePullBackOff"
        ),
        _words("Paused Stopped"),
        at=("printableStatus",),
    ),
    GroupKind("operators.coreos.com", "CatalogSource"): ByPhase(
        _words("READY"), frozenset(), at=("connectionState", "lastObservedState")
    ),
    GroupKind("operators.coreos.com", "ClusterServiceVersion"): ByPhase(_words("Succeeded")),
    GroupKind("operators.coreos.com", "InstallPlan"): ByPhase(_words("Complete"), stopped=_words("RequiresApproval")),
    GroupKind("projectcontour.io", "HTTPProxy"): ByPhase(
        _words("valid"), _words("invalid orphaned"), at=("currentStatus",), reason=("description",)
    ),
    GroupKind("sparkoperator.k8s.io", "SparkApplication"): ByPhase(
        _words("COMPLETED RUNNING"),
        _words("FAILED FAILING SUBMISSION_FAILED"),
        at=("applicationState", "state"),
        reason=("applicationState", "errorMessage"),
    ),
    GroupKind("velero.io", "Backup"): _VELERO,
    GroupKind("velero.io", "BackupStorageLocation"): ByPhase(_words("Available"), _words("Unavailable")),
    GroupKind("velero.io", "Restore"): _VELERO,
    GroupKind("velero.io", "Schedule"): ByPhase(_words("Enabled"), _words("FailedValidation")),
}
