"""The status says what a reconcile found, and is equal to the one before when nothing changed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gitsync.errors import ClusterUnavailable, InvalidInput, RecordUnavailable, SourceDenied
from gitsync.objects.change import Action
from gitsync.objects.health import Health, HealthStatus
from gitsync.objects.phase import Phase
from gitsync.objects.record import Commit, Outcome, SyncRecord
from gitsync.sync.status.build import build_status
from gitsync.sync.status.outcome import PhaseOutcome
from gitsync.sync.status.report import FailureReason
from tests.sync.factories import NOW, A, run


def condition(status: dict[str, Any], kind: str) -> dict[str, Any]:
    return next(item for item in status["conditions"] if item["type"] == kind)


def test_a_synced_application_is_ready() -> None:
    status = build_status(run())
    assert (status["sync"], status["health"], status["observedGeneration"]) == ("Synced", "Healthy", 3)
    assert condition(status, "Ready")["status"] == "True"
    assert condition(status, "Stalled")["status"] == "False"
    assert status["revision"]["message"] == "first"


def test_the_same_found_again_later_gives_an_equal_status() -> None:
    first = build_status(run())
    assert build_status(run(first, NOW + timedelta(hours=1))) == first


def test_a_condition_keeps_the_time_of_its_last_change() -> None:
    first = build_status(run())
    later = run(first, NOW + timedelta(hours=1), Action.CREATE)
    later.outcome = PhaseOutcome(Phase.FAILED, "ApplyFailed")
    status = build_status(later)
    assert condition(status, "Ready")["lastTransitionTime"] == "2026-11-20T11:00:00Z"
    assert condition(status, "Rendered")["lastTransitionTime"] == "2026-11-20T10:00:00Z"
    assert status["resources"]["missing"] == 1


def test_a_deletion_that_goes_on_is_reconciling() -> None:
    going = run()
    going.outcome = PhaseOutcome(Phase.DELETING, message="waits for hook Job shop/before to finish")
    found = condition(build_status(going), "Reconciling")
    assert (found["status"], found["message"]) == ("True", "waits for hook Job shop/before to finish")


def test_what_cannot_be_observed_says_since_when() -> None:
    blind = run()
    blind.planned = blind.observation = None
    blind.stage = FailureReason.OBSERVE
    blind.fail(ClusterUnavailable("away"))
    assert "lastObserved" not in build_status(blind)
    blind.last_observed = NOW - timedelta(minutes=5)
    status = build_status(blind)
    assert status["lastObserved"] == "2026-11-20T09:55:00Z"
    # after a restart that observes nothing either, the time stays
    blind.manifest["status"] = status
    blind.last_observed = NOW
    assert build_status(blind)["lastObserved"] == "2026-11-20T09:55:00Z"
    assert "lastObserved" not in build_status(run(status))


@pytest.mark.parametrize("stage", [FailureReason.SOURCE, FailureReason.RENDER, FailureReason.APPLY])
def test_an_outage_of_the_cluster_is_named_in_every_stage(stage: FailureReason) -> None:
    first = build_status(run())
    blind = run(first)
    blind.planned = blind.observation = blind.commit = blind.rendered = None
    blind.stage = stage
    blind.fail(ClusterUnavailable("GET /api/v1/secrets was not answered"))
    status = build_status(blind)
    assert condition(status, "SourceReady") == condition(first, "SourceReady")
    assert condition(status, "Rendered") == condition(first, "Rendered")
    ready = condition(status, "Ready")
    assert (ready["status"], ready["reason"]) == ("Unknown", "ClusterUnavailable")
    assert (status["phase"], status["sync"]) == ("Observing", "Unknown")


def test_an_outage_of_the_database_is_named() -> None:
    failed = run()
    failed.stage = FailureReason.APPLY
    failed.fail(RecordUnavailable("the history cannot be written"))
    assert condition(build_status(failed), "Ready")["reason"] == "DatabaseUnavailable"


def test_an_input_that_is_refused_is_a_conclusive_reconcile() -> None:
    refused = run()
    refused.planned = refused.observation = None
    refused.fail(InvalidInput("path is absent"))
    refused.last_observed = NOW
    assert refused.is_conclusive
    assert "lastObserved" not in build_status(refused)


def test_a_passing_failure_makes_ready_unknown_and_never_synced() -> None:
    blind = run()
    blind.planned = blind.observation = None
    blind.stage = FailureReason.OBSERVE
    blind.fail(ClusterUnavailable("away"))
    status = build_status(blind)
    assert (status["sync"], status["health"]) == ("Unknown", "Unknown")
    assert condition(status, "Ready")["status"] == "Unknown"
    assert condition(status, "Stalled")["status"] == "False"


def test_a_commit_that_cannot_be_rendered_is_out_of_sync_and_keeps_the_health() -> None:
    broken = run(build_status(run()))
    broken.planned = broken.observation = None
    broken.rendered = None
    broken.stage = FailureReason.RENDER
    broken.fail(InvalidInput("found a tab", location="shop/a.yaml:3"))
    status = build_status(broken)
    assert (status["sync"], status["health"]) == ("OutOfSync", "Healthy")
    assert condition(status, "Rendered")["message"] == "shop/a.yaml:3: found a tab"
    assert condition(status, "Stalled")["status"] == "True"


def test_the_worst_object_explains_why_an_application_is_not_ready() -> None:
    sick = run()
    assert sick.observation is not None
    crashing = HealthStatus(Health.DEGRADED, "pod a-1: CrashLoopBackOff")
    sick.observation = replace(sick.observation, health={A: crashing})
    status = build_status(sick)
    assert status["health"] == "Degraded"
    assert condition(status, "Ready")["message"] == "ConfigMap shop/a: pod a-1: CrashLoopBackOff"


def test_drift_counts_what_was_corrected_and_when_it_was_seen() -> None:
    drifted = run(action=Action.UPDATE)
    drifted.outcome = PhaseOutcome(Phase.DRIFTED, drift_objects=1)
    first = build_status(drifted)
    assert first["drift"] == {"detectedAt": "2026-11-20T10:00:00Z", "objects": 1, "correctedTotal": 0}
    healed = run(first, NOW + timedelta(minutes=1))
    healed.healed = 1
    second = build_status(healed)
    assert second["drift"] == {"detectedAt": "2026-11-20T10:01:00Z", "objects": 0, "correctedTotal": 1}
    assert build_status(run(second, NOW + timedelta(hours=1)))["drift"] == second["drift"]


def test_history_keeps_the_newest_up_to_the_limit() -> None:
    status: dict[str, Any] = {}
    for number in range(1, 5):
        made = run(status)
        made.inputs = replace(made.inputs, app=replace(made.app, history_limit=3))
        made.record = SyncRecord(
            "gitsync/shop", Commit("c"), "commit", NOW, 5, Outcome.SUCCEEDED, "Safe", "digest", id=number
        )
        status = build_status(made)
    assert [entry["id"] for entry in status["history"]] == [4, 3, 2]


def test_a_suspended_application_keeps_what_was_known() -> None:
    idle = run(build_status(run()))
    idle.planned = idle.observation = None
    idle.outcome = PhaseOutcome(Phase.SUSPENDED, message="spec.suspend is true")
    status = build_status(idle)
    assert (status["phase"], status["sync"], status["health"]) == ("Suspended", "Synced", "Healthy")


def test_a_git_server_that_does_not_answer_for_three_intervals_makes_the_state_unknown() -> None:
    status: dict[str, Any] | None = None
    found = []
    for minutes in (0, 5, 8, 9, 60):
        away = run(status, NOW + timedelta(minutes=minutes))
        away.source_error = SourceDenied("the Git server rejected the credentials")
        status = build_status(away)
        ready = condition(status, "Ready")
        found.append((status["sync"], ready["status"], condition(status, "SourceReady")["status"]))
    assert found == [("Synced", "True", "False")] * 3 + [("Unknown", "Unknown", "False")] * 2
    assert "rejected the credentials" in ready["message"]
    answered = build_status(run(status, NOW + timedelta(minutes=61)))
    assert (answered["sync"], condition(answered, "Ready")["status"]) == ("Synced", "True")


def test_what_is_known_to_differ_stays_out_of_sync_while_git_is_away() -> None:
    away = run(None, NOW, Action.UPDATE)
    away.source_error = SourceDenied("the Git server rejected the credentials")
    later = run(build_status(away), NOW + timedelta(hours=1), Action.UPDATE)
    later.source_error = away.source_error
    assert build_status(later)["sync"] == "OutOfSync"


def test_the_name_of_an_object_in_a_problem_has_no_control_characters() -> None:
    found = run(action=Action.CREATE)
    hostile = A._replace(name="x\x1b[31m\u202ey")
    found.outcome = PhaseOutcome(Phase.FAILED, problems={hostile: "is invalid"})
    assert build_status(found)["problems"] == [{"object": "ConfigMap shop/x\\x1b[31m\\u202ey", "message": "is invalid"}]


def test_messages_have_no_control_characters() -> None:
    found = run(action=Action.CREATE)
    hostile, lines = A._replace(name="x\ty"), "is\ninvalid"
    found.outcome = PhaseOutcome(Phase.FAILED, problems={hostile: lines, A: lines})
    status = build_status(found)
    assert {item["message"] for item in status["problems"]} == {"is\\ninvalid"}
    assert all(item["message"].isprintable() for item in status["conditions"])


def test_the_name_of_an_object_is_once_in_a_message() -> None:
    found = run(action=Action.CREATE)
    found.outcome = PhaseOutcome(Phase.FAILED, problems={A._replace(name="x\ty"): "ConfigMap shop/x\\ty: is invalid"})
    assert condition(build_status(found), "Ready")["message"] == "ConfigMap shop/x\\ty: is invalid"
