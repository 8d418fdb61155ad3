"""
Health of the kinds of the Argo projects.

Source: argoproj/argo-rollouts 1.10, pkg/apis/rollouts/v1alpha1 (types.go, analysis_types.go: phases and conditions) and
utils/rollout/rolloututil.go (when they count); argoproj/argo-cd, resource_customizations/argoproj.io.
"""

from __future__ import annotations

import re

from gitsync.health.batch import workflow
from gitsync.health.fields import conditions, items, message, number, spec_of, status_of, text
from gitsync.health.rules import Rule, degraded, healthy, progressing, suspended, unknown
from gitsync.objects.health import Health, HealthStatus
from gitsync.objects.manifest import Manifest, annotations_of, at
from gitsync.objects.ref import GroupKind


def analysis_run(live: Manifest) -> HealthStatus:
    """Judge an AnalysisRun by its phase."""
    phase, detail = text(live, "status", "phase"), text(live, "status", "message")
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
    for each in conditions(live):
        if each.get("status") == "True":
            if each.get("type") in ("SpecError", "SubmissionError"):
                return degraded(message(each))
            if each.get("type") == "Completed":
                return healthy(message(each))
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
    for each in conditions(live):
        failed = each.get("type") == "Progressing" and each.get("reason") in _FAILURES
        if failed or each.get("type") == "InvalidSpec":
            return degraded(message(each))
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
    updated, wanted = number(status, "updatedReplicas"), number(live, "spec", "replicas", default=1)
    if updated < wanted:
        return progressing("Waiting for roll out to finish: More replicas need to be updated")
    if number(status, "availableReplicas") < updated:
        return progressing("Waiting for roll out to finish: updated replicas are still becoming available")
    return None


def _strategy(live: Manifest) -> HealthStatus | None:
    status, current = status_of(live), text(live, "status", "currentPodHash")
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


RULES: dict[GroupKind, Rule] = {
    GroupKind("argoproj.io", "AnalysisRun"): analysis_run,
    GroupKind("argoproj.io", "CronWorkflow"): cron_workflow,
    GroupKind("argoproj.io", "Experiment"): experiment,
    GroupKind("argoproj.io", "Rollout"): rollout,
    GroupKind("argoproj.io", "Workflow"): workflow,
}
