"""The next state of a rollout, from state and observation, without a cluster."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gitsync.agents.model.agent import AgentSpec, parse_agent
from gitsync.agents.rollout.advance import advance
from gitsync.agents.rollout.context import Rollout
from gitsync.agents.rollout.observed import AnalysisResult, CheckResult, Observed, Route, Workload
from gitsync.agents.rollout.state import RolloutStage, RolloutState, Track
from tests.agents.factories import agent

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SERVES = {Track.STABLE: Workload("a-1", wanted=2, replicas=2, ready=2, updated=2, is_complete=True)}
GOOD = RolloutState(current="a-1", last_good="a-1")
CANARY = {"type": "Canary", "canary": {"steps": [{"weight": 50}, {"weight": 100}]}}
STEPS = [{"weight": 10, "pauseSeconds": 60}, {"weight": 50, "pauseSeconds": 60}, {"weight": 100}]
ROUTED = {"type": "Canary", "canary": {"steps": STEPS, "traffic": "GatewayAPI"}}
BESIDE = SERVES | {Track.CANARY: Workload("a-2", wanted=1, replicas=1, ready=1, updated=1, is_complete=True)}


def spec(**members: Any) -> AgentSpec:
    return parse_agent(agent(replicas=2, **members)).spec


def seen(**members: Any) -> Observed:
    return Observed(**{"target": "a-2", "wanted": 2, "now": NOW, "workloads": SERVES, **members})


def tracks(found: Rollout) -> dict[str, str]:
    return {one.track.value: one.revision for one in found.layout.placements}


@pytest.mark.parametrize(
    ("policy", "tracks_then", "stalled"),
    [
        ("Rollback", {"stable": "a-1"}, "a-2 failed: checks failed: no answer"),
        ("Hold", {"stable": "a-1", "preview": "a-2"}, "checks failed: no answer"),
        ("Ignore", {"stable": "a-2"}, ""),
    ],
)
def test_failed_checks_have_the_chosen_effect(policy: str, tracks_then: dict[str, str], stalled: str) -> None:
    check = {"name": "answers", "http": {"path": "/selftest"}}
    wanted = spec(lifecycle={"validate": [check], "onValidationFailure": policy})
    begun = advance(wanted, GOOD, seen())
    assert (begun.state.stage, tracks(begun)) == (RolloutStage.PREVIEW, {"stable": "a-1", "preview": "a-2"})
    found = advance(wanted, begun.state, seen(checks=CheckResult.FAILED, checks_message="no answer"))
    assert (tracks(found), found.stalled) == (tracks_then, stalled)


def test_a_held_agent_keeps_what_serves_and_begins_nothing() -> None:
    held = advance(spec(), GOOD, seen(held="contract drift"))
    assert (tracks(held), held.state, held.stalled) == ({"stable": "a-1"}, GOOD, "contract drift")
    first = advance(spec(), RolloutState(), seen(pending="the comparison", workloads={}))
    assert (tracks(first), first.state, first.waiting) == ({}, RolloutState(), "the comparison")


def test_a_rollout_that_has_begun_is_not_held() -> None:
    begun = advance(spec(update=CANARY), GOOD, seen())
    assert tracks(advance(spec(update=CANARY), begun.state, seen(held="contract drift"))) == tracks(begun)
    # Nor is the return to what was good.
    running = advance(spec(), GOOD, seen(target="a-1", held="contract drift"))
    assert (tracks(running), running.stalled) == ({"stable": "a-1"}, "")


def test_an_exceeded_limit_returns_to_the_good_revision() -> None:
    begun = advance(spec(update=CANARY), GOOD, seen())
    assert tracks(begun) == {"stable": "a-1", "canary": "a-2"}
    found = advance(spec(update=CANARY), begun.state, seen(analysis=AnalysisResult("errors is 0.2, over 0.05")))
    assert tracks(found) == {"stable": "a-1"}
    assert (found.state.failed, found.state.current) == ("a-2", "a-1")
    assert "errors is 0.2" in found.stalled


def test_a_step_does_not_end_before_its_analysis_is_known() -> None:
    begun = advance(spec(update=CANARY), GOOD, seen())
    pending = seen(workloads=BESIDE, analysis=AnalysisResult(is_pending=True))
    waits = advance(spec(update=CANARY), begun.state, pending)
    assert (tracks(waits), waits.waiting) == ({"stable": "a-1", "canary": "a-2"}, "the analysis")
    assert tracks(advance(spec(update=CANARY), waits.state, seen(workloads=BESIDE)))["stable"] == "a-2"


def at_the_end_of_a_pause(analysis: AnalysisResult, seconds: float, **update: Any) -> Rollout:
    """Return a canary that many seconds after the only pause, with this analysis."""
    measured = {"type": "Canary", "canary": {"steps": STEPS[:1]}, "progressDeadlineSeconds": 100, **update}
    begun = advance(spec(update=measured), GOOD, seen())
    ready = advance(spec(update=measured), begun.state, seen(workloads=BESIDE, analysis=analysis))
    later = NOW + timedelta(seconds=60 + seconds)
    return advance(spec(update=measured), ready.state, seen(workloads=BESIDE, now=later, analysis=analysis))


def test_a_step_without_data_waits_and_then_fails() -> None:
    absent = AnalysisResult(absent="errors has no data: NaN")
    waits = at_the_end_of_a_pause(absent, 99)
    assert (tracks(waits), waits.requeue_after) == ({"stable": "a-1", "canary": "a-2"}, 1)
    assert waits.waiting == "data of the analysis: errors has no data: NaN"
    ends = at_the_end_of_a_pause(absent, 100)
    assert (tracks(ends)["stable"], ends.state.failed) == ("a-1", "a-2")
    assert "errors has no data: NaN, for 100 seconds" in ends.stalled


def test_a_step_that_is_held_waits_for_data_or_a_user() -> None:
    absent = AnalysisResult(absent="errors has no data: NaN", is_held=True)
    held = at_the_end_of_a_pause(absent, 10_000)
    assert (tracks(held), held.state.failed) == ({"stable": "a-1", "canary": "a-2"}, "")
    assert held.stalled.endswith("for 100 seconds; it waits for data or gitsync agent promote")
    measured = {"type": "Canary", "canary": {"steps": STEPS[:1]}}
    promoted = advance(spec(update=measured), held.state, seen(workloads=BESIDE, analysis=absent, promote="a-2"))
    assert promoted.state.current == "a-2"
    with_data = advance(spec(update=measured), held.state, seen(workloads=BESIDE, now=NOW + timedelta(days=1)))
    assert with_data.state.current == "a-2"


def test_a_suspension_skips_neither_steps_nor_checks() -> None:
    begun = advance(spec(update=CANARY), GOOD, seen())
    suspended = advance(spec(update=CANARY, suspend=True), begun.state, seen(wanted=0))
    assert (tracks(suspended), suspended.state.current) == ({"stable": "a-1"}, "a-1")
    assert [one.replicas for one in suspended.layout.placements] == [0]
    assert tracks(advance(spec(update=CANARY), suspended.state, seen())) == {"stable": "a-1", "canary": "a-2"}


def test_the_first_revision_is_checked_after_a_suspension() -> None:
    wanted = {"lifecycle": {"validate": [{"name": "answers", "http": {"path": "/selftest"}}]}}
    suspended = advance(spec(suspend=True, **wanted), RolloutState(), seen(wanted=0, workloads={}))
    assert (tracks(suspended), suspended.state.current) == ({"stable": "a-2"}, "")
    found = advance(spec(**wanted), suspended.state, seen(workloads={}))
    assert (found.state.stage, tracks(found)) == (RolloutStage.PREVIEW, {"preview": "a-2"})


def test_the_first_revision_of_blue_green_is_checked_too() -> None:
    checks = {"validate": [{"name": "answers", "http": {"path": "/selftest"}}]}
    wanted = spec(update={"type": "BlueGreen"}, lifecycle=checks)
    begun = advance(wanted, RolloutState(), seen(workloads={}))
    assert (begun.state.stage, tracks(begun)) == (RolloutStage.PREVIEW, {"preview": "a-2"})
    passed = advance(wanted, begun.state, seen(workloads={}, checks=CheckResult.PASSED))
    assert (tracks(passed), passed.state.current) == ({"blue": "a-2"}, "a-2")
    beside = advance(wanted, RolloutState("a-1", "a-1", home=Track.BLUE), seen(workloads={}))
    assert tracks(beside) == {"blue": "a-1", "green": "a-2"}


def test_a_failed_update_is_held_without_automatic_rollback() -> None:
    wanted = spec(update={"type": "RollingUpdate", "autoRollback": False, "progressDeadlineSeconds": 1})
    begun = advance(wanted, GOOD, seen())
    held = advance(wanted, begun.state, seen(now=NOW + timedelta(seconds=2)))
    assert (tracks(held), held.state.failed) == ({"stable": "a-2"}, "")
    assert "no progress for 1 seconds" in held.stalled


def test_a_failed_canary_is_not_promoted_when_its_metrics_recover() -> None:
    wanted = spec(update={**CANARY, "autoRollback": False})
    begun = advance(wanted, GOOD, seen())
    failed = advance(wanted, begun.state, seen(workloads=BESIDE, analysis=AnalysisResult("errors is 1, over 0.05")))
    later = advance(wanted, failed.state, seen(now=NOW + timedelta(days=1)))
    assert (tracks(later), later.state.failed) == ({"stable": "a-1"}, "a-2")
    assert "errors is 1" in later.stalled


def test_the_first_revision_skips_the_steps() -> None:
    found = advance(spec(update=CANARY), RolloutState(), seen(workloads={}))
    assert (tracks(found), found.waiting) == ({"stable": "a-2"}, "2 replicas to be ready, 0 are")


def test_the_state_survives_the_status() -> None:
    begun = advance(spec(update=CANARY), GOOD, seen()).state
    assert RolloutState.from_status(begun.to_status(2, 50)) == begun


def test_a_route_gets_the_weight_of_a_step_once_its_pods_are_ready() -> None:
    begun = advance(spec(update=ROUTED), GOOD, seen())
    assert (tracks(begun), begun.layout.canary_weight) == ({"stable": "a-1", "canary": "a-2"}, 0)
    ready = advance(spec(update=ROUTED), begun.state, seen(workloads=BESIDE))
    assert [(one.track, one.replicas) for one in ready.layout.placements] == [(Track.STABLE, 2), (Track.CANARY, 1)]
    assert (ready.layout.canary_weight, ready.state.ready_at) == (10, None)  # the pause begins with the requests
    reached = advance(spec(update=ROUTED), ready.state, seen(workloads=BESIDE, route=Route(10)))
    assert (reached.state.ready_at, reached.requeue_after) == (NOW, 60)
    later = seen(workloads=BESIDE, route=Route(10), now=NOW + timedelta(seconds=60))
    assert advance(spec(update=ROUTED), reached.state, later).layout.canary_weight == 50


def test_a_route_that_no_gateway_accepts_ends_the_rollout_at_its_deadline() -> None:
    state = advance(spec(update=ROUTED), GOOD, seen()).state
    refused = seen(workloads=BESIDE, route=Route(10, "Parent edge: no listener"), now=NOW + timedelta(seconds=601))
    found = advance(spec(update=ROUTED), state, refused)
    assert (found.state.failed, found.layout.canary_weight) == ("a-2", 0)
    assert found.stalled.endswith("waiting for the HTTPRoute to divide the requests: Parent edge: no listener")


def test_a_canary_without_the_kind_of_its_route_does_not_begin() -> None:
    found = advance(spec(update=ROUTED), GOOD, seen(route=Route(is_served=False)))
    assert (tracks(found), found.requeue_after) == ({"stable": "a-1"}, 60)
    assert "set update.canary.traffic: ReplicaRatio" in found.stalled


def test_a_canary_keeps_its_requests_until_the_serving_pods_have_its_revision() -> None:
    state = advance(spec(update=ROUTED), GOOD, seen()).state
    promoted = seen(workloads=BESIDE, route=Route(50), promote="a-2")
    found = advance(spec(update=ROUTED), state, promoted)
    assert (tracks(found), found.layout.canary_weight) == ({"stable": "a-2", "canary": "a-2"}, 50)
    done = BESIDE | {Track.STABLE: Workload("a-2", wanted=2, replicas=2, ready=2, updated=2, is_complete=True)}
    drained = advance(spec(update=ROUTED), found.state, seen(workloads=done, route=Route(50)))
    assert (tracks(drained), drained.layout.canary_weight) == ({"stable": "a-2", "canary": "a-2"}, 0)
    assert tracks(advance(spec(update=ROUTED), drained.state, seen(workloads=done))) == {"stable": "a-2"}


@pytest.mark.parametrize(("problem", "seconds"), [("", 5), ("Waiting", 30)], ids=["accepted", "never accepted"])
def test_a_canary_stays_while_proxies_may_have_earlier_weights(problem: str, seconds: int) -> None:
    done = BESIDE | {Track.STABLE: Workload("a-2", wanted=2, replicas=2, ready=2, updated=2, is_complete=True)}
    state = RolloutState(current="a-2", last_good="a-2")
    route = Route(0, problem, changed_at=NOW)
    kept = advance(spec(update=ROUTED), state, seen(workloads=done, route=route, now=NOW + timedelta(seconds=1)))
    assert (tracks(kept), kept.requeue_after) == ({"stable": "a-2", "canary": "a-2"}, seconds - 1)
    later = seen(workloads=done, route=route, now=NOW + timedelta(seconds=seconds))
    assert tracks(advance(spec(update=ROUTED), state, later)) == {"stable": "a-2"}


def test_an_aborted_canary_loses_its_requests_before_its_pods() -> None:
    state = advance(spec(update=ROUTED), GOOD, seen()).state
    found = advance(spec(update=ROUTED), state, seen(workloads=BESIDE, route=Route(50), abort="a-2"))
    assert (tracks(found), found.layout.canary_weight) == ({"stable": "a-1", "canary": "a-2"}, 0)
    assert tracks(advance(spec(update=ROUTED), found.state, seen(workloads=BESIDE))) == {"stable": "a-1"}


CHECKED = {"lifecycle": {"validate": [{"name": "answers", "http": {"path": "/selftest"}}]}}


def test_a_failed_first_revision_is_not_checked_again() -> None:
    wanted = spec(**CHECKED)
    begun = advance(wanted, RolloutState(), seen(workloads={}))
    failed = advance(wanted, begun.state, seen(workloads={}, checks=CheckResult.FAILED, checks_message="no answer"))
    assert (failed.state.failed, failed.layout.placements) == ("a-2", ())
    again = advance(wanted, failed.state, seen(workloads={}, checks=CheckResult.FAILED, checks_message="no answer"))
    assert (again.layout.checked, again.layout.placements, again.stalled) == ("", (), failed.stalled)
    assert again.state == failed.state
    # The Job of the failed check is gone: no other one is to take its place.
    unchecked = advance(wanted, failed.state, seen(workloads={}, checks=CheckResult.NONE))
    assert (unchecked.layout, unchecked.state, unchecked.stalled) == (again.layout, failed.state, failed.stalled)


def test_a_request_tries_a_revision_once_more_whatever_failed() -> None:
    aborted = advance(spec(update=CANARY), advance(spec(update=CANARY), GOOD, seen()).state, seen(abort="a-2"))
    assert (aborted.state.failed, tracks(aborted)) == ("a-2", {"stable": "a-1"})
    again = advance(spec(update=CANARY), aborted.state, seen(retry="a-2@1"))
    assert (again.state.failed, tracks(again)) == ("", {"stable": "a-1", "canary": "a-2"})
    # The annotation stays, and is one attempt.
    failed = advance(spec(update=CANARY), again.state, seen(retry="a-2@1", abort="a-2"))
    kept = RolloutState.from_status(failed.state.to_status(2, 0))
    assert advance(spec(update=CANARY), kept, seen(retry="a-2@1")).state.failed == "a-2"
    assert advance(spec(update=CANARY), kept, seen(retry="a-2@2")).state.failed == ""
    assert advance(spec(update=CANARY), aborted.state, seen(retry="a-3@1")).state.failed == "a-2"


def test_other_checks_give_a_failed_revision_another_chance() -> None:
    wanted = spec(**CHECKED)
    failed = RolloutState(failed="a-2", message="checks failed: no answer")
    again = advance(wanted, failed, seen(workloads={}, has_new_checks=True))
    assert (tracks(again), again.state.failed) == ({"preview": "a-2"}, "")


CRASHES = Workload("a-2", wanted=1, replicas=1, updated=1, crash="pod a: CrashLoopBackOff (exit code 1)")


@pytest.mark.parametrize(("seconds", "stage"), [(30, RolloutStage.UPDATE), (61, RolloutStage.NONE)])
def test_a_crashing_canary_does_not_wait_for_its_deadline(seconds: int, stage: RolloutStage) -> None:
    begun = advance(spec(update=CANARY), GOOD, seen())
    later = NOW + timedelta(seconds=seconds)
    found = advance(spec(update=CANARY), begun.state, seen(now=later, workloads=SERVES | {Track.CANARY: CRASHES}))
    assert found.state.stage is stage
    assert ("CrashLoopBackOff" in found.stalled) is (stage is RolloutStage.NONE)


def test_a_crash_of_the_old_revision_says_nothing_about_the_new_one() -> None:
    checked = spec(**CHECKED)
    begun = advance(checked, GOOD, seen())
    # The preview that is there is the one of an earlier revision: its workload is not replaced yet.
    earlier = replace(CRASHES, revision="a-0")
    later = seen(now=NOW + timedelta(seconds=61), workloads=SERVES | {Track.PREVIEW: earlier})
    waits = advance(checked, begun.state, later)
    assert (waits.state.failed, waits.state.stage, waits.waiting) == (
        "",
        RolloutStage.PREVIEW,
        "the preview to be ready",
    )
    crashes = seen(now=NOW + timedelta(seconds=61), workloads=SERVES | {Track.PREVIEW: CRASHES})
    assert advance(checked, begun.state, crashes).state.failed == "a-2"
    canary = spec(update=CANARY)
    begun = advance(canary, GOOD, seen())
    later = seen(now=NOW + timedelta(seconds=61), workloads=SERVES | {Track.CANARY: earlier})
    assert advance(canary, begun.state, later).state.stage is RolloutStage.UPDATE


GONE = {Track.STABLE: Workload("a-2", wanted=2, replicas=2, updated=2)}


def test_replicas_that_stay_away_are_a_failure_in_time() -> None:
    good = RolloutState(current="a-2", last_good="a-2")
    begun = advance(spec(), good, seen(workloads=GONE))
    assert (begun.stalled, begun.waiting) == ("", "2 replicas to be ready, 0 are")
    late = advance(spec(), begun.state, seen(workloads=GONE, now=NOW + timedelta(seconds=601)))
    assert late.stalled == "0 of 2 replicas are ready: no progress for 600 seconds"
    complete = {Track.STABLE: Workload("a-2", wanted=2, replicas=2, ready=2, updated=2, is_complete=True)}
    assert advance(spec(), late.state, seen(workloads=complete)).state == good


def test_replicas_that_crash_are_not_in_progress() -> None:
    good = RolloutState(current="a-2", last_good="a-2")
    crashing = {Track.STABLE: Workload("a-2", wanted=2, replicas=2, updated=2, crash="pod a: OOMKilled")}
    assert advance(spec(), good, seen(workloads=crashing)).waiting == ""


KEPT = RolloutState(
    current="a-2", last_good="a-2", home=Track.GREEN, stage=RolloutStage.KEEP_OLD, old="a-1", goal="a-2", ready_at=NOW
)
SIDES = {
    Track.BLUE: Workload("a-1", wanted=2, replicas=2, ready=2, updated=2, is_complete=True),
    Track.GREEN: Workload("a-2", wanted=2, replicas=2, ready=2, updated=2, is_complete=True),
}
COLOURS = {"type": "BlueGreen", "blueGreen": {"keepOldSeconds": 3600}}


def test_blue_green_switches_back_when_git_returns_to_the_old_side() -> None:
    found = advance(spec(update=COLOURS, **CHECKED), KEPT, seen(target="a-1", workloads=SIDES))
    assert (found.state.current, found.state.home, found.layout.active) == ("a-1", Track.BLUE, Track.BLUE)
    assert found.layout.checked == ""


def test_blue_green_switches_back_when_a_user_aborts_it() -> None:
    found = advance(spec(update=COLOURS), KEPT, seen(abort="a-2", workloads=SIDES))
    assert (found.state.current, found.layout.active, found.state.failed) == ("a-1", Track.BLUE, "a-2")
    again = advance(spec(update=COLOURS), found.state, seen(abort="a-2", workloads=SIDES))
    assert (again.state.current, again.layout.active) == ("a-1", Track.BLUE)


def test_revisions_stay_in_use_until_their_pods_have_drained() -> None:
    rolling = {Track.STABLE: Workload("a-2", wanted=2, replicas=3, ready=2, updated=1)}
    begun = advance(spec(), GOOD, seen(workloads=rolling))
    assert begun.state.in_use == {"a-1", "a-2"}
    complete = {Track.STABLE: Workload("a-2", wanted=2, replicas=2, ready=2, updated=2, is_complete=True)}
    ended = advance(spec(), begun.state, seen(workloads=complete))
    assert (ended.state.in_use, ended.requeue_after) == ({"a-1", "a-2"}, 30)
    drained = advance(spec(), ended.state, seen(workloads=complete, now=NOW + timedelta(seconds=31)))
    assert (drained.state.in_use, drained.requeue_after) == ({"a-2"}, None)


def test_inconclusive_checks_are_repeated_and_then_wait_for_a_user() -> None:
    wanted = spec(**CHECKED)
    state, now = advance(wanted, GOOD, seen()).state, NOW
    unknown = {"checks": CheckResult.INCONCLUSIVE, "checks_message": "the model did not answer"}
    delays = []
    for attempt in range(1, 5):
        found = advance(wanted, state, seen(now=now, **unknown))
        delays.append(found.requeue_after)
        now += timedelta(seconds=found.requeue_after or 0)
        found = advance(wanted, found.state, seen(now=now, **unknown))
        assert (found.layout.attempt, tracks(found)["stable"]) == (attempt, "a-1")
        state = found.state
    held = advance(wanted, state, seen(now=now, **unknown))
    assert delays == [30, 60, 120, 240]
    assert (tracks(held)["stable"], held.state.failed, held.requeue_after) == ("a-1", "", None)
    assert "after 5 attempts it waits for gitsync agent retry" in held.stalled
    passed = advance(wanted, held.state, seen(now=now, checks=CheckResult.PASSED))
    assert passed.state.current == "a-2"


@pytest.mark.parametrize("policy", ["Rollback", "Hold", "Ignore"])
def test_no_policy_lets_inconclusive_checks_pass(policy: str) -> None:
    wanted = spec(lifecycle={**CHECKED["lifecycle"], "onValidationFailure": policy})
    begun = advance(wanted, GOOD, seen())
    found = advance(wanted, begun.state, seen(checks=CheckResult.INCONCLUSIVE))
    assert (found.state.current, found.state.failed) == ("a-1", "")
