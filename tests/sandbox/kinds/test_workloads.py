from __future__ import annotations

from typing import Any

import pytest

from gitsync.sandbox.kinds import strategy_for
from gitsync.sandbox.kinds.jobs import schedule_problem, time_zone_problem
from tests.sandbox.kinds.factories import created, field_messages, job, of, pod_spec, refused, workload
from tests.sandbox.kinds.recordings import Allocator

MISMATCH = "`selector` does not match template `labels`"


@pytest.mark.parametrize(
    ("manifest", "causes"),
    [
        (
            workload("Deployment", selector=None),
            [
                ("spec.selector", "Required value"),
                ("spec.template.metadata.labels", f'Invalid value: {{"app":"x"}}: {MISMATCH}'),
            ],
        ),
        (
            workload("Deployment", selector={"matchLabels": {"app": "z"}}),
            [("spec.template.metadata.labels", f'Invalid value: {{"app":"x"}}: {MISMATCH}')],
        ),
        (
            workload("Deployment", selector={}),
            [("spec.selector", "Invalid value: {}: empty selector is invalid for deployment")],
        ),
        (
            workload("Deployment", replicas=-1),
            [("spec.replicas", "Invalid value: -1: must be greater than or equal to 0")],
        ),
        (
            workload("Deployment", strategy={"type": "Sometimes"}),
            [
                (
                    "spec.strategy",
                    'Unsupported value: {"Type":"Sometimes","RollingUpdate":null}: '
                    'supported values: "Recreate", "RollingUpdate"',
                )
            ],
        ),
        (
            workload("Deployment", strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}),
            [("spec.strategy.rollingUpdate.maxUnavailable", 'Invalid value: "0%": may not be 0 when `maxSurge` is 0')],
        ),
        (
            workload("Deployment", minReadySeconds=10, progressDeadlineSeconds=10),
            [("spec.progressDeadlineSeconds", "Invalid value: 10: must be greater than minReadySeconds")],
        ),
        (
            workload("StatefulSet", updateStrategy={"type": "Later"}),
            [
                (
                    "spec.updateStrategy",
                    'Invalid value: {"Type":"Later","RollingUpdate":null}: must be \'RollingUpdate\' or \'OnDelete\'',
                )
            ],
        ),
        (
            workload("DaemonSet", updateStrategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}),
            [
                (
                    "spec.updateStrategy.rollingUpdate.maxSurge",
                    "Invalid value: 1: may not be set when maxUnavailable is non-zero",
                )
            ],
        ),
        (job(completions=-1), [("spec.completions", "Invalid value: -1: must be greater than or equal to 0")]),
        (job(completionMode="Indexed"), []),
        (
            job(completionMode="Indexed", parallelism=2),
            [("spec.completions", "Required value: when completion mode is Indexed")],
        ),
        (
            of("batch/v1", "Job", spec={"template": {"spec": pod_spec()}}),
            [("spec.template.spec.restartPolicy", 'Required value: valid values: "OnFailure", "Never"')],
        ),
    ],
)
def test_a_workload_is_checked(manifest: dict[str, Any], causes: list[tuple[str, str]]) -> None:
    assert refused(manifest) == causes


def test_claims_of_a_stateful_set_can_be_mounted() -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    spec = pod_spec(volumeMounts=[{"name": "data", "mountPath": "/d"}])
    assert refused(workload("StatefulSet", spec, volumeClaimTemplates=[claim])) == []
    assert refused(workload("StatefulSet", spec)) == [
        ("spec.template.spec.containers[0].volumeMounts[0].name", 'Not found: "data"')
    ]


def test_counts_in_a_status_must_fit() -> None:
    strategy = strategy_for("apps", "v1", "Deployment")
    old = created(workload("Deployment"))
    new = {**old, "status": {"replicas": 1, "readyReplicas": 2, "availableReplicas": 3}}
    assert field_messages(strategy.validate(new, old, "status")) == [
        ("status.readyReplicas", "Invalid value: 2: cannot be greater than status.replicas"),
        ("status.availableReplicas", "Invalid value: 3: cannot be greater than status.replicas"),
        ("status.availableReplicas", "Invalid value: 3: cannot be greater than readyReplicas"),
    ]


@pytest.mark.parametrize(
    ("schedule", "problem"),
    [
        ("*/5 * * * *", ""),
        ("0 0 1 jan sun", ""),
        ("@daily", ""),
        ("@every 5m", ""),
        ("1-5,10-20/2 * * * 1-5", ""),
        ("every day", "expected exactly 5 fields, found 2: [every day]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-3 * * * *", "beginning of range (5) beyond end of range (3): 5-3"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
        ("@never", "unrecognized descriptor: @never"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
    ],
)
def test_schedules_are_read_as_cron_does(schedule: str, problem: str) -> None:
    assert schedule_problem(schedule) == problem


@pytest.mark.parametrize(
    ("zone", "problem"),
    [
        ("Europe/Berlin", ""),
        ("UTC", ""),
        ("Mars/Base", "unknown time zone Mars/Base"),
        ("local", "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"),
        ("", "timeZone must be nil or non-empty string"),
    ],
)
def test_time_zones_must_exist(zone: str, problem: str) -> None:
    assert time_zone_problem(zone) == problem


def test_a_job_shares_the_labels_of_its_template_when_it_has_none() -> None:
    spec = {"template": {"metadata": {"labels": {"app": "j"}}, "spec": {**pod_spec(), "restartPolicy": "Never"}}}
    bare = created(of("batch/v1", "Job", spec=spec))
    assert bare["metadata"]["labels"] == bare["spec"]["template"]["metadata"]["labels"]
    assert bare["metadata"]["labels"]["job-name"] == "x"
    named = of("batch/v1", "Job", spec=spec)
    named["metadata"]["labels"] = {"mine": "1"}
    assert created(named)["metadata"]["labels"] == {"mine": "1"}


def test_a_daemon_set_counts_its_templates() -> None:
    strategy = strategy_for("apps", "v1", "DaemonSet")
    old = created(workload("DaemonSet"))
    changed = created(workload("DaemonSet", pod_spec(image="nginx:2")))
    new = strategy.prepare(changed, old, "", Allocator())
    assert new["metadata"]["annotations"] == {"deprecated.daemonset.template.generation": "2"}
    assert strategy.prepare(old, old, "", Allocator()) == old
