"""Health of the kinds of Flux: by Ready, Reconciling and the stored artifact together."""

from __future__ import annotations

from dataclasses import dataclass

from gitsync.health.fields import conditions, spec_of, text
from gitsync.health.rules import Rule, degraded, healthy, progressing, suspended
from gitsync.objects.health import HealthStatus
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import GroupKind

_POLICY_WORK = ("NewGeneration", "AccessingRepository", "ApplyingPolicy")


@dataclass(frozen=True, slots=True)
class Flux:
    """
    Judge a Flux object.

    ``also`` are conditions of which one must be True beside Ready. ``waits_on`` is the status of Ready that, together
    with Reconciling, means work in progress; empty: never. ``work`` limits the reasons of Reconciling that count.
    """

    also: tuple[str, ...] = ()
    waits_on: str = "Unknown"
    work: tuple[str, ...] = ()

    def __call__(self, live: Manifest) -> HealthStatus:
        """Judge a live object."""
        if spec_of(live).get("suspend") is True:
            return suspended(f"{live.get('kind')} is suspended")
        if at(live, "status", "conditions") is None:
            return progressing("Status unknown")
        ready, detail, busy, stored = "", "", False, not self.also
        for each in conditions(live):
            kind, is_true = each.get("type"), each.get("status") == "True"
            if kind == "Ready":
                ready, detail = text(each, "status"), text(each, "reason")
            elif kind == "Reconciling" and is_true and (not self.work or each.get("reason") in self.work):
                busy = True
            elif kind == "ArtifactOutdated" and is_true and "ArtifactInStorage" in self.also:
                detail = f"{detail} {text(each, 'reason')}"
            elif kind in self.also and is_true:
                stored = True
        if busy and ready == self.waits_on:
            return progressing(detail)
        return healthy(detail) if ready == "True" and stored else degraded(detail)


_SOURCE = Flux(also=("ArtifactInStorage",))


def helm_repository(live: Manifest) -> HealthStatus:
    """Judge a HelmRepository; one of type ``oci`` has no status."""
    if spec_of(live).get("suspend") is not True and spec_of(live).get("type") == "oci":
        return healthy("Helm repositories of type 'oci' do not contain any information in the status.")
    return _SOURCE(live)


RULES: dict[GroupKind, Rule] = {
    GroupKind("source.toolkit.fluxcd.io", "Bucket"): _SOURCE,
    GroupKind("source.toolkit.fluxcd.io", "GitRepository"): _SOURCE,
    GroupKind("source.toolkit.fluxcd.io", "HelmChart"): _SOURCE,
    GroupKind("source.toolkit.fluxcd.io", "HelmRepository"): helm_repository,
    GroupKind("source.toolkit.fluxcd.io", "OCIRepository"): _SOURCE,
    GroupKind("kustomize.toolkit.fluxcd.io", "Kustomization"): Flux(),
    GroupKind("helm.toolkit.fluxcd.io", "HelmRelease"): Flux(also=("Released", "TestSuccess")),
    GroupKind("image.toolkit.fluxcd.io", "ImagePolicy"): Flux(waits_on="False", work=_POLICY_WORK),
    GroupKind("image.toolkit.fluxcd.io", "ImageRepository"): Flux(),
    GroupKind("image.toolkit.fluxcd.io", "ImageUpdateAutomation"): Flux(),
    GroupKind("notification.toolkit.fluxcd.io", "Receiver"): Flux(waits_on=""),
}
