"""Jobs that a TTL deletes once they finished: each runs once for what Git declares, and is not missing then."""

from __future__ import annotations

from gitsync.objects.manifest import Manifest
from tests.contract.manifests import config_map, job, with_wave
from tests.contract.stage import Stage, eventually

JOB = "batch/v1"


def temporary(name: str, seconds: int = 0, image: str = "tool:1") -> Manifest:
    made = job(name, image=image)
    made["spec"]["ttlSecondsAfterFinished"] = seconds
    return made


def creations(stage: Stage, name: str) -> int:
    """Return how often the Job was created."""
    assert stage.engine is not None
    records = stage.engine.records.audit_records(f"{stage.system}/app", action="create", outcome="Succeeded")
    return sum(1 for record in records if record.resource.endswith(f"/{name}"))


def is_gone(stage: Stage, name: str) -> bool:
    return stage.get("Job", name, api=JOB) is None


def test_a_job_without_time_to_live_runs_once_and_later_waves_follow(stage: Stage) -> None:
    stage.sync({"job.yaml": temporary("once"), "later.yaml": with_wave(1, config_map("later", a="1"))})
    eventually(stage, lambda: is_gone(stage, "once"))
    eventually(stage, lambda: stage.status()["health"] == "Healthy" and stage.status()["sync"] == "Synced")
    assert stage.plan_writes() == []
    assert creations(stage, "once") == 1

    stage.stop()
    stage.start()
    stage.synced(stage.commit({"later.yaml": with_wave(1, config_map("later", a="2"))}))
    assert (is_gone(stage, "once"), creations(stage, "once")) == (True, 1)

    stage.synced(stage.commit({"job.yaml": temporary("once", image="tool:2")}))
    eventually(stage, lambda: creations(stage, "once") == 2 and is_gone(stage, "once"))
    stage.synced(stage.commit({"job.yaml": temporary("once")}))
    eventually(stage, lambda: creations(stage, "once") == 3 and is_gone(stage, "once"))
    stage.synced(stage.commit({"job.yaml": None}))
    assert not [entry for entry in stage.status()["inventory"] if entry["id"].endswith("/once")]


def test_a_failed_job_that_is_gone_stays_degraded_and_does_not_run_again(stage: Stage) -> None:
    stage.sync({"job.yaml": temporary("bad", image="tool:fail")})
    eventually(stage, lambda: is_gone(stage, "bad") and stage.status()["health"] == "Degraded")
    stage.synced(stage.commit({"other.yaml": config_map("other", a="1")}))
    assert "failed, and deleted by its TTL" in str(stage.status()["conditions"])
    assert (is_gone(stage, "bad"), creations(stage, "bad")) == (True, 1)


def test_a_job_that_is_deleted_before_its_time_is_created_again(stage: Stage) -> None:
    stage.sync({"job.yaml": temporary("kept", seconds=3600)})
    eventually(stage, lambda: stage.live("Job", "kept", api=JOB).get("status", {}).get("succeeded") == 1)
    eventually(stage, lambda: stage.status()["health"] == "Healthy")
    first = stage.live("Job", "kept", api=JOB)["metadata"]["uid"]
    stage.client.send("DELETE", stage.path("Job", "kept", api=JOB), {"propagationPolicy": "Background"})
    eventually(
        stage, lambda: (stage.get("Job", "kept", api=JOB) or {"metadata": {}})["metadata"].get("uid", first) != first
    )
