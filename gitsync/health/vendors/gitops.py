"""
Health of the kinds of GitOps tools: gitsync's own, Argo's and Flux's.

Source: argoproj/argo-rollouts 1.10, pkg/apis/rollouts/v1alpha1 (types.go, analysis_types.go: phases and conditions) and
utils/rollout/rolloututil.go (when they count); argoproj/argo-cd, resource_customizations/argoproj.io and
resource_customizations/*.toolkit.fluxcd.io.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gitsync.health.rules import (
    Rule,
    condition_of,
    conditions_of,
    degraded,
    healthy,
    items,
    message,
    number,
    progressing,
    spec_of,
    status_of,
    suspended,
    text,
    unknown,
)
from gitsync.health.workloads import workflow
from gitsync.objects.health import Health, HealthStatus
from gitsync.objects.manifest import Manifest, annotations_of, at
from gitsync.objects.ref import GroupKind

_WORDS = {health.value: health for health in Health}


def application(live: Manifest) -> HealthStatus:
    """Judge an Application by the health in its status: a string here, a mapping with a message in Argo CD."""
    health = at(live, "status", "health")
    word = health if isinstance(health, str) else text(health, "status")
    return HealthStatus(_WORDS.get(word, Health.PROGRESSING), text(health, "message") or word)


def application_set(live: Manifest) -> HealthStatus:
    """
    Judge an ApplicationSet by its conditions; one whose deletions wait for an approval is Suspended.

    The health of its Applications is their own: a set has done its work once they are as their elements say.
    """
    if number(live, "status", "observedGeneration") != number(live, "metadata", "generation"):
        return progressing("Waiting for the newest generation to be reconciled")
    conditions = conditions_of(live)
    ready = condition_of(conditions, "Ready") or {}
    stalled = condition_of(conditions, "Stalled") or {}
    if ready.get("status") == "True":
        return healthy(message(ready))
    if ready.get("reason") == "AwaitingApproval":
        return suspended(message(ready))
    return degraded(message(stalled)) if stalled.get("status") == "True" else progressing(message(ready))


def analysis_run(live: Manifest) -> HealthStatus:
    """Judge an AnalysisRun by its phase."""
    phase = text(live, "status", "phase")
    detail = text(live, "status", "message")
    if phase in ("Pending", "Running"):
        return progressing("Analysis run is running")
    if phase == "Successful":
        return healthy(detail or "Analysis run completed successfully")
    if phase == "Failed":
        return degraded(detail or "Analysis run failed")
    if phase == "Error":
        return degraded(detail or "Analysis run had an error")
    if phase == "Inconclusive":
        return unknown(detail or "Analysis run was inconclusive")
    return progressing("Waiting for analysis run to finish: status has not been reconciled.")


def experiment(live: Manifest) -> HealthStatus:
    """Judge an Experiment by its phase."""
    phase = text(live, "status", "phase")
    if phase in ("Pending", "Running"):
        return progressing(f"Experiment is {phase.lower()}")
    if phase == "Successful":
        return healthy("Experiment is successful")
    if phase == "Failed":
        return degraded("Experiment has failed")
    if phase == "Error":
        return degraded("Experiment had an error")
    if phase == "Inconclusive":
        return unknown(text(live, "status", "message") or "Experiment was inconclusive")
    return progressing("Waiting for experiment to finish: status has not been reconciled.")


def cron_workflow(live: Manifest) -> HealthStatus:
    """Judge a CronWorkflow: healthy unless a condition reports that it could not run."""
    for condition in conditions_of(live):
        if condition.get("status") == "True":
            if condition.get("type") in ("SpecError", "SubmissionError"):
                return degraded(message(condition))
            if condition.get("type") == "Completed":
                return healthy(message(condition))
    return healthy("CronWorkflow is healthy.")


def rollout(live: Manifest) -> HealthStatus:
    """Judge a Rollout: by its own phase, else as a Deployment with the steps of its strategy."""
    status = status_of(live)
    if not (_saw_newest_spec(live) and _saw_newest_workload(live)):
        return progressing("Waiting for rollout spec update to be observed")
    if status.get("controllerPause") is True and not items(status, "pauseConditions"):
        return progressing("Waiting for rollout to unpause")
    phase = text(status, "phase")
    if phase:
        return HealthStatus(_PHASES.get(phase, Health.UNKNOWN), text(status, "message"))
    for condition in conditions_of(live):
        failed = condition.get("type") == "Progressing" and condition.get("reason") in _FAILURES
        if failed or condition.get("type") == "InvalidSpec":
            return degraded(message(condition))
    if items(status, "pauseConditions") or spec_of(live).get("paused") is True:
        return suspended("Rollout is paused")
    if not text(status, "currentPodHash"):
        return progressing("Waiting for rollout to finish: status has not been reconciled.")
    return _replicas(live) or _strategy(live) or healthy()


_FAILURES = ("RolloutAborted", "ProgressDeadlineExceeded")
_PHASES = {
    "Degraded": Health.DEGRADED,
    "Healthy": Health.HEALTHY,
    "Paused": Health.SUSPENDED,
    "Progressing": Health.PROGRESSING,
}


def _saw_newest_spec(live: Manifest) -> bool:
    """Whether the newest spec was observed; before version 1.0 ``observedGeneration`` was a hash."""
    observed = at(live, "status", "observedGeneration")
    if observed is None:
        return False
    generation = number(live, "metadata", "generation")
    is_number = re.fullmatch(r"[0-9]+", str(observed), re.ASCII) is not None
    return not is_number or int(observed) >= generation


def _saw_newest_workload(live: Manifest) -> bool:
    """Whether the newest spec of the workload that a Rollout refers to was observed."""
    newest = annotations_of(live).get("rollout.argoproj.io/workload-generation")
    if spec_of(live).get("workloadRef") is None or newest is None:
        return True
    return str(at(live, "status", "workloadObservedGeneration", default="")) == newest


def _replicas(live: Manifest) -> HealthStatus | None:
    status = status_of(live)
    updated = number(status, "updatedReplicas")
    wanted = number(live, "spec", "replicas", default=1)
    if updated < wanted:
        return progressing("Waiting for roll out to finish: More replicas need to be updated")
    if number(status, "availableReplicas") < updated:
        return progressing("Waiting for roll out to finish: updated replicas are still becoming available")
    return None


def _strategy(live: Manifest) -> HealthStatus | None:
    status = status_of(live)
    current = text(live, "status", "currentPodHash")
    stable = text(status, "stableRS") or text(status, "canary", "stableRS")
    if at(live, "spec", "strategy", "blueGreen") is not None:
        if text(status, "blueGreen", "activeSelector") != current:
            return progressing("active service cutover pending")
        if stable and stable != current:
            return progressing("waiting for analysis to complete")
    elif at(live, "spec", "strategy", "canary") is not None:
        if number(status, "replicas") > number(status, "updatedReplicas"):
            return progressing("Waiting for roll out to finish: old replicas are pending termination")
        if stable != current:
            return progressing("Waiting for rollout to finish steps")
    return None


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
        ready = ""
        detail = ""
        busy = False
        stored = not self.also
        for condition in conditions_of(live):
            kind = condition.get("type")
            is_true = condition.get("status") == "True"
            if kind == "Ready":
                ready = text(condition, "status")
                detail = text(condition, "reason")
            elif kind == "Reconciling" and is_true and (not self.work or condition.get("reason") in self.work):
                busy = True
            elif kind == "ArtifactOutdated" and is_true and "ArtifactInStorage" in self.also:
                detail = f"{detail} {text(condition, 'reason')}"
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
    GroupKind("gitsync.dev", "Application"): application,
    GroupKind("gitsync.dev", "ApplicationSet"): application_set,
    GroupKind("argoproj.io", "Application"): application,
    GroupKind("argoproj.io", "AnalysisRun"): analysis_run,
    GroupKind("argoproj.io", "CronWorkflow"): cron_workflow,
    GroupKind("argoproj.io", "Experiment"): experiment,
    GroupKind("argoproj.io", "Rollout"): rollout,
    GroupKind("argoproj.io", "Workflow"): workflow,
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
