"""What runs pods, and the pods themselves."""

from __future__ import annotations

import pytest

from gitsync.health.assess import assess
from gitsync.objects.health import Health
from tests.health.factories import live, pod, said, waiting

DEPLOYMENT, STATEFUL = "apps/v1/Deployment", "apps/v1/StatefulSet"
DAEMON, REPLICAS = "apps/v1/DaemonSet", "apps/v1/ReplicaSet"
ROLLING = {"replicas": 3, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}}

CASES = [
    (live(DEPLOYMENT, {"paused": True}, {}), Health.SUSPENDED, "paused"),
    (live(DEPLOYMENT, {"replicas": 2}, {"observedGeneration": 1}, generation=2), Health.PROGRESSING, "generation"),
    (
        live(DEPLOYMENT, {}, said("Progressing=False:ProgressDeadlineExceeded")),
        Health.DEGRADED,
        'Deployment "x" exceeded its progress deadline',
    ),
    (live(DEPLOYMENT, {"replicas": 3}, {"updatedReplicas": 1}), Health.PROGRESSING, "1 out of 3 new replicas"),
    (
        live(DEPLOYMENT, {"replicas": 2}, {"updatedReplicas": 2, "replicas": 3}),
        Health.PROGRESSING,
        "1 old replicas are pending termination",
    ),
    (
        live(DEPLOYMENT, {"replicas": 2}, {"updatedReplicas": 2, "replicas": 2, "availableReplicas": 1}),
        Health.PROGRESSING,
        "1 of 2 updated replicas are available",
    ),
    (
        live(DEPLOYMENT, {"replicas": 2}, {"updatedReplicas": 2, "replicas": 2, "availableReplicas": 2}),
        Health.HEALTHY,
        "",
    ),
    (live(DEPLOYMENT, {"replicas": 0}, {}), Health.HEALTHY, ""),
    (live(STATEFUL, {"replicas": 1}, {}), Health.PROGRESSING, "to be observed"),
    (live(STATEFUL, {"replicas": 3}, {"observedGeneration": 1, "readyReplicas": 1}), Health.PROGRESSING, "2 pods"),
    (
        live(STATEFUL, ROLLING, {"observedGeneration": 1, "readyReplicas": 3, "updatedReplicas": 1}),
        Health.PROGRESSING,
        "1 out of 2 new pods",
    ),
    (
        live(STATEFUL, ROLLING, {"observedGeneration": 1, "readyReplicas": 3, "updatedReplicas": 2}),
        Health.HEALTHY,
        "partitioned roll out complete: 2",
    ),
    (
        live(
            STATEFUL,
            {"replicas": 1, "updateStrategy": {"type": "OnDelete"}},
            {"observedGeneration": 1, "readyReplicas": 1},
        ),
        Health.HEALTHY,
        "1 ready pods",
    ),
    (
        live(STATEFUL, {}, {"observedGeneration": 1, "updateRevision": "b", "currentRevision": "a"}),
        Health.PROGRESSING,
        "revision b",
    ),
    (
        live(STATEFUL, {}, {"observedGeneration": 1, "updateRevision": "a", "currentRevision": "a"}),
        Health.HEALTHY,
        "revision a",
    ),
    (live(DAEMON, {}, {"observedGeneration": 1}, generation=2), Health.PROGRESSING, "generation"),
    (
        live(DAEMON, {"updateStrategy": {"type": "OnDelete"}}, {"desiredNumberScheduled": 2}),
        Health.HEALTHY,
        "0 out of 2",
    ),
    (live(DAEMON, {}, {"desiredNumberScheduled": 2, "updatedNumberScheduled": 1}), Health.PROGRESSING, "1 out of 2"),
    (
        live(DAEMON, {}, {"desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 1}),
        Health.PROGRESSING,
        "1 of 2 updated pods",
    ),
    (
        live(DAEMON, {}, {"desiredNumberScheduled": 1, "updatedNumberScheduled": 1, "numberAvailable": 1}),
        Health.HEALTHY,
        "",
    ),
    (live(REPLICAS, {}, {"observedGeneration": 1}, generation=2), Health.PROGRESSING, "generation"),
    (live(REPLICAS, {}, said("ReplicaFailure=True:FailedCreate:quota")), Health.DEGRADED, "quota"),
    (live(REPLICAS, {"replicas": 2}, {"availableReplicas": 1}), Health.PROGRESSING, "1 out of 2"),
    (live(REPLICAS, {"replicas": 2}, {"availableReplicas": 2}), Health.HEALTHY, ""),
]


@pytest.mark.parametrize(("found", "health", "message"), CASES)
def test_a_workload_is_judged_by_its_counts(found, health, message):
    result = assess(found)
    assert result.health is health
    assert message in result.message


def ended(**how):
    return {"name": "web", "state": {"terminated": how}}


PODS = [
    (pod(phase="Pending", message="pulling"), Health.PROGRESSING, "pulling"),
    (pod(phase="Succeeded"), Health.HEALTHY, ""),
    (pod(**said("Ready=True")), Health.HEALTHY, ""),
    (pod(**said("Ready=False")), Health.PROGRESSING, ""),
    (pod(containerStatuses=[{"lastState": {"terminated": {"exitCode": 1}}}]), Health.DEGRADED, ""),
    (pod(containerStatuses=[waiting("CrashLoopBackOff")]), Health.DEGRADED, "why CrashLoopBackOff"),
    (pod(containerStatuses=[waiting("ErrImagePull"), waiting("CreateContainerError")]), Health.DEGRADED, ", why"),
    (pod(containerStatuses=[waiting("ContainerCreating")]), Health.PROGRESSING, ""),
    (pod(phase="Failed", message="evicted"), Health.DEGRADED, "evicted"),
    (pod(phase="Failed", containerStatuses=[ended(message="out of luck")]), Health.DEGRADED, "out of luck"),
    (pod(phase="Failed", containerStatuses=[ended(reason="OOMKilled")]), Health.DEGRADED, "OOMKilled"),
    (pod(phase="Failed", initContainerStatuses=[ended(exitCode=3)]), Health.DEGRADED, "failed with exit code 3"),
    (pod(phase="Failed", containerStatuses=[ended(exitCode=0)]), Health.DEGRADED, ""),
    (pod(phase="Odd"), Health.UNKNOWN, ""),
    (live("Pod", {"restartPolicy": "Never"}, {"phase": "Running"}), Health.PROGRESSING, ""),
    (
        live(
            "Pod", {"restartPolicy": "Never"}, {"phase": "Pending", "containerStatuses": [waiting("ImagePullBackOff")]}
        ),
        Health.PROGRESSING,
        "",
    ),
    (pod(phase="Running", containerStatuses="broken"), Health.PROGRESSING, ""),
]


@pytest.mark.parametrize(("found", "health", "message"), PODS)
def test_a_pod_is_judged_by_its_phase_and_containers(found, health, message):
    result = assess(found)
    assert result.health is health
    assert message in result.message


OWNER = live(DEPLOYMENT, {"replicas": 2}, {"updatedReplicas": 2, "replicas": 2}, uid="d")
SET = live(REPLICAS, {}, {}, uid="rs", ownerReferences=[{"uid": "d"}])


@pytest.mark.parametrize(
    ("failing", "reason"),
    [
        (
            pod(owner="rs", containerStatuses=[waiting("CrashLoopBackOff", exitCode=1)]),
            "CrashLoopBackOff (exit code 1)",
        ),
        (
            pod(owner="rs", containerStatuses=[waiting("CrashLoopBackOff", reason="OOMKilled", exitCode=137)]),
            "CrashLoopBackOff (OOMKilled)",
        ),
        (
            pod(owner="rs", phase="Pending", containerStatuses=[waiting("ImagePullBackOff", "web:typo")]),
            "ImagePullBackOff (image web:typo)",
        ),
        (pod(owner="rs", containerStatuses=[waiting("InvalidImageName", "A B")]), "InvalidImageName (image A B)"),
        (
            pod(owner="rs", containerStatuses=[waiting("CreateContainerConfigError")]),
            "CreateContainerConfigError (why CreateContainerConfigError)",
        ),
        (
            pod(owner="rs", phase="Pending", **said("PodScheduled=False:Unschedulable:0/3 nodes")),
            "cannot be scheduled (0/3 nodes)",
        ),
        (pod(owner="rs", phase="Failed", message="evicted"), "evicted"),
        (
            pod(owner="rs", phase="Failed", containerStatuses=[ended(exitCode=2)]),
            'container "web" failed with exit code 2',
        ),
        (pod(owner="rs", phase="Failed"), "failed"),
    ],
)
def test_a_workload_that_waits_takes_its_reason_from_its_pods(failing, reason):
    result = assess(OWNER, related=[SET, failing])
    assert result.health is Health.DEGRADED
    assert result.message == f"pod web-1: {reason}"


def test_several_failing_pods_are_counted():
    pods = [pod(f"web-{i}", "rs", containerStatuses=[waiting("CrashLoopBackOff")]) for i in range(3)]
    assert assess(OWNER, related=[SET, *pods]).message.endswith(" and 2 more")


@pytest.mark.parametrize(
    "related",
    [
        [],
        [SET, pod(owner="rs", phase="Pending")],
        [SET, pod(owner="another", containerStatuses=[waiting("CrashLoopBackOff")])],
        [pod(containerStatuses=[waiting("CrashLoopBackOff")])],
    ],
    ids=["no pods", "a pod that starts", "another owner's pod", "a pod without owner"],
)
def test_pods_that_say_nothing_change_nothing(related):
    assert assess(OWNER, related=related).health is Health.PROGRESSING


def test_a_pod_on_its_way_out_says_nothing():
    leaving = pod(owner="rs", containerStatuses=[waiting("CrashLoopBackOff")])
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert assess(OWNER, related=[SET, leaving]).health is Health.PROGRESSING


def test_a_healthy_workload_stays_healthy():
    healthy = live(DEPLOYMENT, {"replicas": 0}, {}, uid="d")
    assert assess(healthy, related=[SET, pod(owner="rs", phase="Failed")]).health is Health.HEALTHY


@pytest.mark.parametrize(
    ("annotations", "health"),
    [
        ({"argocd.argoproj.io/ignore-restart-policy": "true"}, Health.DEGRADED),
        ({"argocd.argoproj.io/ignore-restart-policy": "false"}, Health.PROGRESSING),
        ({"argocd.argoproj.io/ignore-restart-policy": "true", "gitsync.dev/hook": "PreSync"}, Health.PROGRESSING),
    ],
)
def test_a_pod_that_ends_can_be_judged_as_one_that_lasts(annotations, health):
    status = {"phase": "Running", "containerStatuses": [waiting("ImagePullBackOff")]}
    assert assess(live("Pod", {"restartPolicy": "Never"}, status, annotations=annotations)).health is health
