"""CronJobs: when Jobs start, which are kept, what happens while one runs."""

from __future__ import annotations

from typing import Any

from gitsync.objects.manifest import Manifest
from tests.sandbox.controllers.cluster import NAMESPACE, World, conditions, job


def cron_job(image: str = "task:1", **spec: Any) -> Manifest:
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "report", "namespace": NAMESPACE},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job(image)["spec"]}, **spec},
    }


def jobs(world: World) -> list[str]:
    return [each["metadata"]["name"] for each in world.list("batch", "Job")]


def test_a_job_starts_each_minute_and_is_followed(world: World) -> None:
    world.create(cron_job())
    world.advance(59)
    assert jobs(world) == []
    world.advance(2)
    (name,) = jobs(world)
    minute = int(name.removeprefix("report-"))
    assert minute * 60 <= world.clock.now() < minute * 60 + 60
    world.advance(5)
    status = world.get("batch", "CronJob", "report")["status"]
    assert status["lastScheduleTime"] == "2027-01-15T08:01:00Z"
    assert status["lastSuccessfulTime"]
    assert "active" not in status


def test_the_job_carries_what_the_template_says(world: World) -> None:
    given = cron_job()
    given["spec"]["jobTemplate"]["metadata"] = {"labels": {"team": "a"}, "annotations": {"note": "b"}}
    owner = world.create(given)
    world.advance(61)
    (created,) = world.list("batch", "Job")
    meta = created["metadata"]
    assert meta["labels"]["team"] == "a"
    assert meta["annotations"]["note"] == "b"
    assert meta["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"] == "2027-01-15T08:01:00Z"
    assert meta["ownerReferences"][0]["uid"] == owner["metadata"]["uid"]


def test_old_jobs_are_kept_up_to_the_limits(world: World) -> None:
    world.create(cron_job(successfulJobsHistoryLimit=2))
    world.advance(60 * 6)
    assert (
        len(
            [
                each
                for each in world.list("batch", "Job")
                if ("Complete", "True", "CompletionsReached") in conditions(each)
            ]
        )
        == 2
    )


def test_forbid_waits_for_the_one_that_runs(world: World) -> None:
    world.create(cron_job("task:forever", concurrencyPolicy="Forbid"))
    world.advance(60 * 3)
    assert len(jobs(world)) == 1


def test_replace_stops_the_one_that_runs(world: World) -> None:
    world.create(cron_job("task:forever", concurrencyPolicy="Replace"))
    world.advance(60 * 3 + 5)
    assert len(jobs(world)) == 1
    assert len(world.get("batch", "CronJob", "report")["status"]["active"]) == 1


def test_allow_lets_them_run_together(world: World) -> None:
    world.create(cron_job("task:forever"))
    world.advance(60 * 3 + 5)
    assert len(jobs(world)) == 3
    assert len(world.get("batch", "CronJob", "report")["status"]["active"]) == 3


def test_a_suspended_one_writes_nothing(world: World) -> None:
    before = world.create(cron_job(suspend=True))["metadata"]["resourceVersion"]
    world.advance(600)
    assert jobs(world) == []
    assert world.get("batch", "CronJob", "report")["metadata"]["resourceVersion"] == before


def test_an_unknown_time_zone_is_told(world: World) -> None:
    world.create(cron_job(timeZone="Europe/Berlin"))
    world.controllers.pause("cronjob")  # validation refuses the zone, so it has to vanish from the system instead
    world.advance(1)
    stored = world.store.collection("batch/cronjobs")
    for key, entry in list(stored.objects.items()):
        spec = {**entry.obj["spec"], "timeZone": "Nowhere/Land"}
        world.store.write("batch/cronjobs", key, {**entry.obj, "metadata": dict(entry.obj["metadata"]), "spec": spec})
    world.controllers.resume("cronjob")
    world.advance(120)
    assert jobs(world) == []
    assert [reason for reason, _ in world.events("CronJob")] == ["UnknownTimeZone"]


def test_the_time_zone_moves_the_schedule(world: World) -> None:
    # the clock of the test begins at 08:00 UTC, which is 09:00 in Berlin in winter
    world.create(cron_job(schedule="30 9 * * *", timeZone="Europe/Berlin"))
    world.advance(29 * 60)
    assert jobs(world) == []
    world.advance(2 * 60)
    assert len(jobs(world)) == 1
