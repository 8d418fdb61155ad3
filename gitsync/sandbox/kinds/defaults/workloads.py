"""Defaults of the kinds that run pods."""

from __future__ import annotations

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.kinds.defaults.pods import default_template

# extensions/v1beta1 had a field templateGeneration; the annotation has kept it since.
TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
# math.MaxInt32: with a limit for each index the limit of the Job must not be reached first.
_LIMIT_PER_INDEX = 2147483647


def default_deployment(obj: Manifest) -> None:
    """Fill in a Deployment."""
    spec = obj["spec"]
    spec.setdefault("replicas", 1)
    strategy = spec.setdefault("strategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    default_template(spec["template"])


def default_replica_set(obj: Manifest) -> None:
    """Fill in a ReplicaSet."""
    spec = obj["spec"]
    spec.setdefault("replicas", 1)
    default_template(spec["template"])


def default_replication_controller(obj: Manifest) -> None:
    """Fill in a ReplicationController: selector and labels come from its template."""
    spec = obj["spec"]
    spec.setdefault("replicas", 1)
    template = spec.get("template")
    if template is None:
        return
    default_template(template)
    labels = template.get("metadata", {}).get("labels")
    if labels:
        # A ReplicationController is older than label selectors: its selector is a plain map.
        spec.setdefault("selector", dict(labels))
        if not obj["metadata"].get("labels"):
            obj["metadata"] = {**obj["metadata"], "labels": dict(labels)}


def default_daemon_set(obj: Manifest) -> None:
    """
    Fill in a DaemonSet; its templates are counted in an annotation.

    The real server keeps the count in a field of the internal type and writes what it decoded back as annotation, so
    a body without one is a change to 0, which its writer owns (pkg/apis/apps/v1: the conversions of DaemonSet).
    """
    spec = obj["spec"]
    annotations = obj["metadata"].get("annotations") or {}
    if TEMPLATE_GENERATION not in annotations:
        obj["metadata"] = {**obj["metadata"], "annotations": {**annotations, TEMPLATE_GENERATION: "0"}}
    strategy = spec.setdefault("updateStrategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)
    default_template(spec["template"])


def default_stateful_set(obj: Manifest) -> None:
    """Fill in a StatefulSet and the claims in it."""
    spec = obj["spec"]
    spec.setdefault("replicas", 1)
    spec.setdefault("serviceName", "")
    spec.setdefault("podManagementPolicy", "OrderedReady")
    strategy = spec.setdefault("updateStrategy", {})
    # Only a defaulted type gets a partition; one that is given does not (SetDefaults_StatefulSet).
    if "type" not in strategy:
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
    elif strategy["type"] == "RollingUpdate" and "rollingUpdate" in strategy:
        strategy["rollingUpdate"].setdefault("partition", 0)
    spec.setdefault("revisionHistoryLimit", 10)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    retention.setdefault("whenDeleted", "Retain")
    retention.setdefault("whenScaled", "Retain")
    for claim in spec.get("volumeClaimTemplates", ()):
        # The decoder sets both on embedded claims, so they are in every stored StatefulSet.
        claim["apiVersion"] = "v1"
        claim["kind"] = "PersistentVolumeClaim"
        claim["spec"].setdefault("volumeMode", "Filesystem")
        # Defaulting runs on the claims in the template as on claims.
        claim["status"].setdefault("phase", "Pending")
    default_template(spec["template"])


def default_job(obj: Manifest) -> None:
    """Fill in a Job; without labels of its own it shares those of its template, the very same map."""
    spec = obj["spec"]
    labels = (spec["template"].get("metadata") or {}).get("labels")
    if labels and not obj["metadata"].get("labels"):
        # One map in two places, as in Go: labels that the server adds to the template later appear in the Job, too.
        obj["metadata"] = {**obj["metadata"], "labels": labels}
    # A Job with parallelism alone is a work queue, which has no number of completions.
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _LIMIT_PER_INDEX if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    if "podReplacementPolicy" not in spec:
        # With a failure policy a pod must have failed for good before it is replaced.
        spec["podReplacementPolicy"] = "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed"
    for rule in spec.get("podFailurePolicy", {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            # SetDefaults_PodFailurePolicyOnPodConditionsPattern.
            if not pattern.get("status"):
                pattern["status"] = "True"
    default_template(spec["template"])


def default_cron_job(obj: Manifest) -> None:
    """Fill in a CronJob; its Job template gets the defaults of pods, none of a Job's."""
    spec = obj["spec"]
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    # A Job that the controller creates from it gets the rest of the defaults then.
    default_template(spec["jobTemplate"]["spec"]["template"])


def default_pod_template(obj: Manifest) -> None:
    """Fill in a PodTemplate."""
    default_template(obj["template"])
