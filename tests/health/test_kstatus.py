"""The kstatus rules, judged by the conformance cases and by cases of our own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from gitsync.health import kstatus
from gitsync.health.kstatus import Status
from tests.conformance_data import suite
from tests.health.factories import live, pod, said, waiting
from tests.health.kstatus_cases import run


def test_conformance_cases_pass():
    results = run(suite("kstatus"))
    assert results
    assert [(name, problem) for name, problem in results if problem] == []


def status(found, now=None):
    result = kstatus.compute(found, now)
    return result.status, result.reason


STATEFUL, DEPLOYMENT = "apps/v1/StatefulSet", "apps/v1/Deployment"
DAEMON, REPLICAS = "apps/v1/DaemonSet", "apps/v1/ReplicaSet"
FULL = {"replicas": 1, "readyReplicas": 1, "currentReplicas": 1}
ROLLED = {"replicas": 1, "updatedReplicas": 1, "availableReplicas": 1, "readyReplicas": 1}
SCHEDULED = {"observedGeneration": 1, "desiredNumberScheduled": 1}
MORE = {"currentNumberScheduled": 1, "updatedNumberScheduled": 1}
LABELLED = {"replicas": 1, "fullyLabeledReplicas": 1, "availableReplicas": 1, "readyReplicas": 1}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (live("ConfigMap", deletionTimestamp="2026-01-01T00:00:00Z"), (Status.TERMINATING, "")),
        (live("x.dev/v1/Widget", {}, said("Reconciling=True:Busy")), (Status.IN_PROGRESS, "Busy")),
        (live("x.dev/v1/Widget", {}, said("Stalled=True:Stuck")), (Status.FAILED, "Stuck")),
        (live("x.dev/v1/Widget", {}, said("Ready=Unknown:Asking")), (Status.IN_PROGRESS, "Asking")),
        (live("x.dev/v1/Widget", {}, said("Ready=True")), (Status.CURRENT, "")),
        (live(STATEFUL, {"updateStrategy": {"type": "OnDelete"}}), (Status.CURRENT, "")),
        (live(STATEFUL, {}, {}), (Status.IN_PROGRESS, "LessReplicas")),
        (live(STATEFUL, {}, {"replicas": 1, "readyReplicas": 1}), (Status.IN_PROGRESS, "LessCurrent")),
        (live(STATEFUL, {}, {**FULL, "updateRevision": "b"}), (Status.IN_PROGRESS, "RevisionMismatch")),
        (live(STATEFUL, {}, FULL), (Status.CURRENT, "")),
        (
            live(STATEFUL, {"updateStrategy": {"rollingUpdate": {"partition": 0}}}, FULL),
            (Status.IN_PROGRESS, "PartitionRollout"),
        ),
        (live(STATEFUL, {"updateStrategy": {"rollingUpdate": {"partition": 1}}}, FULL), (Status.CURRENT, "")),
        (
            live(DEPLOYMENT, {}, said("Progressing=False:ProgressDeadlineExceeded")),
            (Status.FAILED, "ProgressDeadlineExceeded"),
        ),
        (live(DEPLOYMENT, {}, {"replicas": 1}), (Status.IN_PROGRESS, "LessUpdated")),
        (live(DEPLOYMENT, {}, {"replicas": 2, "updatedReplicas": 1}), (Status.IN_PROGRESS, "ExtraPods")),
        (live(DEPLOYMENT, {}, {"replicas": 1, "updatedReplicas": 1}), (Status.IN_PROGRESS, "LessAvailable")),
        (live(DEPLOYMENT, {}, {**ROLLED, "readyReplicas": 0}), (Status.IN_PROGRESS, "LessReady")),
        (live(DEPLOYMENT, {}, ROLLED), (Status.IN_PROGRESS, "DeploymentNotAvailable")),
        (live(REPLICAS, {}, {}), (Status.IN_PROGRESS, "LessLabelled")),
        (live(REPLICAS, {}, {**LABELLED, "replicas": 2}), (Status.IN_PROGRESS, "ExtraPods")),
        (live(REPLICAS, {}, LABELLED), (Status.CURRENT, "")),
        (live(DAEMON, {}, {}), (Status.IN_PROGRESS, "NoGeneration")),
        (live(DAEMON, {}, {"observedGeneration": 1}, generation=1), (Status.IN_PROGRESS, "NoDesiredNumber")),
        (live(DAEMON, {}, SCHEDULED, generation=1), (Status.IN_PROGRESS, "LessCurrent")),
        (
            live(DAEMON, {}, {**SCHEDULED, "currentNumberScheduled": 1}, generation=1),
            (Status.IN_PROGRESS, "LessUpdated"),
        ),
        (live(DAEMON, {}, {**SCHEDULED, **MORE}, generation=1), (Status.IN_PROGRESS, "LessAvailable")),
        (pod(phase="Failed"), (Status.CURRENT, "")),
        (pod(**said("Ready=True")), (Status.CURRENT, "")),
        (pod(containerStatuses=[waiting("CrashLoopBackOff")]), (Status.FAILED, "ContainerCrashLooping")),
        (pod(phase="Pending"), (Status.IN_PROGRESS, "PodPending")),
        (pod(phase="Odd"), (Status.UNKNOWN, "")),
        (live("PersistentVolumeClaim", {}, {"phase": "Lost"}), (Status.IN_PROGRESS, "NotBound")),
        (live("batch/v1/Job", {}, {}), (Status.IN_PROGRESS, "JobNotStarted")),
        (live("batch/v1/Job", {}, said("FailureTarget=True")), (Status.IN_PROGRESS, "JobNotStarted")),
        (live("batch/v1/Job", {}, {"startTime": "2026-01-01T00:00:00Z"}), (Status.CURRENT, "")),
        (live("batch/v1/Job", {}, said("Complete=False", "Failed=True")), (Status.FAILED, "JobFailed")),
        (live("policy/v1/PodDisruptionBudget", {}, {}), (Status.CURRENT, "")),
        (
            live("apiextensions.k8s.io/v1/CustomResourceDefinition", {}, said("Established=False:Other")),
            (Status.FAILED, "Other"),
        ),
    ],
)
def test_an_object_has_the_status_that_its_signs_say(found, expected):
    assert status(found) == expected


def test_a_young_pod_is_given_time_to_be_scheduled():
    found = pod(phase="Pending", **said("PodScheduled=False:Unschedulable"))
    found["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    created = datetime(2026, 1, 1, tzinfo=UTC)
    assert status(found, created + timedelta(seconds=14))[0] is Status.IN_PROGRESS
    assert status(found, created + timedelta(seconds=16))[0] is Status.FAILED
    assert status(found)[0] is Status.FAILED
