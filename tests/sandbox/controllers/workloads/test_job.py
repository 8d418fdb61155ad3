"""Jobs: completion, failure, deadlines, suspension, indexes, clean-up."""

from __future__ import annotations

import pytest

from gitsync.objects.manifest import Manifest, at
from tests.sandbox.controllers.cluster import World, conditions, job

COMPLETE = [("SuccessCriteriaMet", "True", "CompletionsReached"), ("Complete", "True", "CompletionsReached")]


def status(world: World) -> Manifest:
    return dict(world.get("batch", "Job", "task")["status"])


def test_a_job_completes_and_counts_its_pod_once(world: World) -> None:
    seen = world.statuses("Job", lambda: world.create(job()))
    first, last = seen[1], seen[-1]
    assert {key: first[key] for key in first if key != "startTime"} == {
        "active": 1,
        "terminating": 0,
        "uncountedTerminatedPods": {},
        "ready": 0,
    }
    met = next(each for each in seen if each.get("conditions"))
    assert conditions(met) == COMPLETE[:1]
    assert len(met["uncountedTerminatedPods"]["succeeded"]) == 1
    assert "succeeded" not in met
    assert conditions(last) == COMPLETE
    assert last["succeeded"] == 1
    assert last["uncountedTerminatedPods"] == {}
    assert last["completionTime"]
    (pod,) = world.pods()
    assert pod["status"]["phase"] == "Succeeded"
    assert "finalizers" not in pod["metadata"]


def test_a_job_whose_pod_a_quota_refuses_has_started(world: World) -> None:
    metadata = {"name": "none", "namespace": "shop"}
    world.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": {"pods": "0"}}})
    world.advance(1)
    world.create(job())
    world.advance(1)
    assert world.pods() == []
    assert status(world)["startTime"]
    assert not status(world).get("active")


def test_completions_run_as_parallel_as_allowed(world: World) -> None:
    seen = world.statuses("Job", lambda: world.create(job(completions=5, parallelism=2)), 10)
    assert max(each.get("active", 0) for each in seen) == 2
    assert seen[-1]["succeeded"] == 5
    assert conditions(seen[-1]) == COMPLETE


def test_a_failing_job_ends_at_its_limit(world: World) -> None:
    seen = world.statuses("Job", lambda: world.create(job("task:fail", backoffLimit=2)), 60)
    assert conditions(seen[-1]) == [
        ("FailureTarget", "True", "BackoffLimitExceeded"),
        ("Failed", "True", "BackoffLimitExceeded"),
    ]
    assert seen[-1]["failed"] == 3
    target = next(each for each in seen if conditions(each))
    assert conditions(target) == [("FailureTarget", "True", "BackoffLimitExceeded")]
    assert all(at(pod, "status", "phase") == "Failed" for pod in world.pods())


def test_restarts_count_as_failures_where_containers_restart(world: World) -> None:
    world.create(job("task:fail", restart="OnFailure", backoffLimit=1))
    world.advance(5)
    assert conditions(status(world))[-1] == ("Failed", "True", "BackoffLimitExceeded")


def test_a_job_past_its_deadline_fails_and_its_pods_are_stopped(world: World) -> None:
    world.create(job("task:forever", activeDeadlineSeconds=2))
    world.advance(1)
    assert status(world)["ready"] == 1
    world.advance(3)
    assert conditions(status(world)) == [
        ("FailureTarget", "True", "DeadlineExceeded"),
        ("Failed", "True", "DeadlineExceeded"),
    ]
    assert status(world)["failed"] == 1
    assert status(world)["terminating"] == 0


def test_a_suspended_job_has_no_pods_until_it_goes_on(world: World) -> None:
    world.create(job("task:forever", suspend=True))
    world.advance(1)
    assert conditions(status(world)) == [("Suspended", "True", "JobSuspended")]
    assert "startTime" not in status(world)
    assert world.pods() == []
    world.patch("batch", "Job", "task", {"spec": {"suspend": False}})
    world.advance(1)
    assert conditions(status(world)) == [("Suspended", "False", "JobResumed")]
    assert status(world)["active"] == 1
    world.patch("batch", "Job", "task", {"spec": {"suspend": True}})
    world.advance(1)
    assert world.pods() == []


def test_an_indexed_job_runs_each_index_once(world: World) -> None:
    world.create(job(completions=4, parallelism=2, completionMode="Indexed"))
    world.advance(5)
    assert status(world)["completedIndexes"] == "0-3"
    annotation = "batch.kubernetes.io/job-completion-index"
    assert sorted(pod["metadata"]["annotations"][annotation] for pod in world.pods()) == ["0", "1", "2", "3"]
    assert all(pod["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX" for pod in world.pods())


@pytest.mark.parametrize(("completions", "written"), [(1, "0"), (2, "0,1"), (3, "0-2")])
def test_completed_indexes_have_a_hyphen_from_three_on(world: World, completions: int, written: str) -> None:
    world.create(job(completions=completions, parallelism=completions, completionMode="Indexed"))
    world.advance(5)
    assert status(world)["completedIndexes"] == written


def test_a_finished_job_goes_when_its_time_to_live_is_over(world: World) -> None:
    world.create(job(ttlSecondsAfterFinished=10))
    world.advance(5)
    assert not world.absent("batch", "Job", "task")
    world.advance(10)
    assert world.absent("batch", "Job", "task")
    assert world.pods() == []


def test_deleting_a_running_job_takes_its_pods(world: World) -> None:
    world.create(job("task:forever"))
    world.advance(1)
    assert len(world.pods()) == 1
    world.delete("batch", "Job", "task", propagation="Background")
    world.advance(2)
    assert world.pods() == []


def test_orphaned_pods_stay_without_finalizer(world: World) -> None:
    world.create(job("task:forever"))
    world.advance(1)
    world.delete("batch", "Job", "task", propagation="Orphan")
    world.advance(1)
    (pod,) = world.pods()
    assert "finalizers" not in pod["metadata"]
    assert "ownerReferences" not in pod["metadata"]


def test_a_pod_that_never_found_a_node_does_not_hold_up_its_job(world: World) -> None:
    manifest = job(activeDeadlineSeconds=2)
    manifest["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100000"}}
    world.create(manifest)
    world.advance(5)
    assert conditions(status(world))[-1] == ("Failed", "True", "DeadlineExceeded")
    assert world.pods() == []


def test_nothing_is_written_while_nothing_changes(world: World) -> None:
    world.create(job())
    world.create(job("task:forever", name="long"))
    world.advance(5)
    before = world.writes
    world.advance(600)
    assert world.writes == before
