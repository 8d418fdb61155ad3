"""The status says what a look found, and is equal to the one before when nothing changed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from gitsync.errors import ClusterUnavailable, InvalidInput
from gitsync.merge.schema import Schemas
from gitsync.objects.change import Action, Change, Plan, Risk
from gitsync.objects.health import Health, HealthStatus
from gitsync.objects.manifest import Manifest
from gitsync.objects.record import Commit, Outcome, SyncRecord
from gitsync.objects.ref import ObjectRef
from gitsync.sync.observe import Observation
from gitsync.sync.reconcile import Stage, Turn
from gitsync.sync.status.build import status_of

NOW = datetime(2026, 11, 20, 10, tzinfo=UTC)
A = ObjectRef("", "ConfigMap", "shop", "a")


def turn(status: dict[str, Any] | None = None, now: datetime = NOW, action: Action = Action.NOTHING) -> Turn:
    manifest: Manifest = {"metadata": {"name": "shop", "namespace": "gitsync", "generation": 3, "uid": "u"}}
    if status is not None:
        manifest["status"] = status
    made = Turn.of(manifest, now)
    made.commit = made.goal = Commit("c" * 40, "Ada", message="first\n\nbody")
    made.rendered = 1
    made.observation = Observation({A: {}}, {}, {A: "v1"}, Schemas({}))
    made.plan = Plan("gitsync/shop", "c" * 40, (Change(A, action),), "0123456789abcdef", Risk.SAFE)
    made.health = {A: HealthStatus(Health.HEALTHY)}
    made.phase, made.applied = "Synced", "c" * 40
    return made


def condition(status: dict[str, Any], kind: str) -> dict[str, Any]:
    return next(item for item in status["conditions"] if item["type"] == kind)


def test_a_synced_application_is_ready() -> None:
    status = status_of(turn())
    assert (status["sync"], status["health"], status["observedGeneration"]) == ("Synced", "Healthy", 3)
    assert condition(status, "Ready")["status"] == "True"
    assert condition(status, "Stalled")["status"] == "False"
    assert status["revision"]["message"] == "first"


def test_the_same_found_again_later_gives_an_equal_status() -> None:
    first = status_of(turn())
    assert status_of(turn(first, NOW + timedelta(hours=1))) == first


def test_a_condition_keeps_the_time_of_its_last_change() -> None:
    first = status_of(turn())
    later = turn(first, NOW + timedelta(hours=1), Action.CREATE)
    later.phase, later.reason = "Failed", "ApplyFailed"
    status = status_of(later)
    assert condition(status, "Ready")["lastTransitionTime"] == "2026-11-20T11:00:00Z"
    assert condition(status, "Rendered")["lastTransitionTime"] == "2026-11-20T10:00:00Z"
    assert status["resources"]["missing"] == 1


def test_a_deletion_that_goes_on_is_reconciling() -> None:
    going = turn()
    going.phase, going.message = "Deleting", "waits for hook Job shop/before to finish"
    found = condition(status_of(going), "Reconciling")
    assert (found["status"], found["message"]) == ("True", "waits for hook Job shop/before to finish")


def test_a_passing_failure_makes_ready_unknown_and_never_synced() -> None:
    blind = turn()
    blind.plan = blind.observation = None
    blind.stage = Stage.OBSERVE
    blind.fail(ClusterUnavailable("away"))
    status = status_of(blind)
    assert (status["sync"], status["health"]) == ("Unknown", "Unknown")
    assert condition(status, "Ready")["status"] == "Unknown"
    assert condition(status, "Stalled")["status"] == "False"


def test_a_commit_that_cannot_be_rendered_is_out_of_sync_and_keeps_the_health() -> None:
    broken = turn(status_of(turn()))
    broken.plan = broken.observation = None
    broken.rendered = None
    broken.stage = Stage.RENDER
    broken.fail(InvalidInput("found a tab", where="shop/a.yaml:3"))
    status = status_of(broken)
    assert (status["sync"], status["health"]) == ("OutOfSync", "Healthy")
    assert condition(status, "Rendered")["message"] == "shop/a.yaml:3: found a tab"
    assert condition(status, "Stalled")["status"] == "True"


def test_the_worst_object_explains_why_an_application_is_not_ready() -> None:
    sick = turn()
    sick.health = {A: HealthStatus(Health.DEGRADED, "pod a-1: CrashLoopBackOff")}
    status = status_of(sick)
    assert status["health"] == "Degraded"
    assert condition(status, "Ready")["message"] == "ConfigMap shop/a: pod a-1: CrashLoopBackOff"


def test_drift_counts_what_was_corrected_and_when_it_was_seen() -> None:
    drifted = turn(action=Action.UPDATE)
    drifted.drift_objects = 1
    first = status_of(drifted)
    assert first["drift"] == {"detectedAt": "2026-11-20T10:00:00Z", "objects": 1, "correctedTotal": 0}
    healed = turn(first, NOW + timedelta(minutes=1))
    healed.corrected = 1
    second = status_of(healed)
    assert second["drift"] == {"detectedAt": "2026-11-20T10:01:00Z", "objects": 0, "correctedTotal": 1}
    assert status_of(turn(second, NOW + timedelta(hours=1)))["drift"] == second["drift"]


def test_history_keeps_the_newest_up_to_the_limit() -> None:
    status: dict[str, Any] = {}
    for number in range(1, 5):
        made = turn(status)
        made.app = replace(made.app, history_limit=3)
        made.record = SyncRecord(
            "gitsync/shop", Commit("c"), "commit", NOW, 5, Outcome.SUCCEEDED, "Safe", "digest", id=number
        )
        status = status_of(made)
    assert [entry["id"] for entry in status["history"]] == [4, 3, 2]


def test_a_suspended_application_keeps_what_was_known() -> None:
    idle = turn(status_of(turn()))
    idle.plan = idle.observation = None
    idle.suspend()
    status = status_of(idle)
    assert (status["phase"], status["sync"], status["health"]) == ("Suspended", "Synced", "Healthy")
