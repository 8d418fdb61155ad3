"""Advance a rollout: from state and observation to the next state and the workloads that it wants."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from gitsync.agents.model.agent import AgentSpec
from gitsync.agents.model.scaling import BlueGreen
from gitsync.agents.rollout.canary import advance_canary, keep_canary_requests
from gitsync.agents.rollout.context import Rollout, RolloutContext, repeat_checks
from gitsync.agents.rollout.observed import CheckResult, Observed
from gitsync.agents.rollout.state import Placement, RolloutStage, RolloutState, Track
from gitsync.agents.rollout.steady import fail, hold, keep_running, move


def advance(spec: AgentSpec, state: RolloutState, observed: Observed) -> Rollout:
    """
    Return the next state and the workloads that it wants.

    The serving replicas are reduced only when those that replace them are ready, so a rollout or a rollback never
    leaves the Agent without ready Pods.
    """
    context = RolloutContext(spec, _as_requested(state, observed), observed)
    return _with_past(keep_canary_requests(_advanced(context), context), context)


def _advanced(context: RolloutContext) -> Rollout:
    state = context.state
    observed = context.observed
    goal = _goal(state, observed)
    # A suspension comes first: no stage may start Pods.
    if context.spec.suspend:
        return _suspended(context, goal)
    # A rollout that has begun is not held: half of it would stay for as long as the drift does.
    if (observed.held or observed.pending) and goal not in (state.current, state.goal):
        return hold(context)
    if not state.current and not context.has_checks:
        # Nothing serves and nothing is to be checked: the first revision is the current one at once.
        state = replace(state, current=goal, home=context.home, started_at=observed.now, step_at=observed.now)
    if state.current == goal:
        return _kept(context.at(state))
    if state.failed == goal:
        # A first revision that failed, with nothing to return to: checked again only by a request or other checks.
        failed = context.at(state)
        return Rollout(state=state, layout=failed.layout(failed.current()), weight=0, stalled=failed.failure)
    if state.stage is RolloutStage.KEEP_OLD and goal == state.old and context.is_blue_green:
        # Its Pods are still beside and were good: the Service is switched back at once, without checks.
        return keep_running(context.at(replace(state.switched_back(""), failed="")))
    if state.goal != goal or state.stage in (RolloutStage.NONE, RolloutStage.KEEP_OLD, RolloutStage.PROMOTE):
        # Blue-green checks the new side itself, so it needs no preview; the first revision has no other side yet.
        is_beside = context.is_blue_green and state.last_good
        first = RolloutStage.PREVIEW if context.has_checks and not is_beside else RolloutStage.UPDATE
        state = state.begun(goal, first, observed.now)
    if state.stage is RolloutStage.PREVIEW:
        return _preview(context.at(state))
    return _update(context.at(state))


def _with_past(rollout: Rollout, context: RolloutContext) -> Rollout:
    """
    Remember the revisions that may have Pods besides those that the state names.

    A Pod that ends drains for its grace period and needs its network until then; no workload counts it any more.
    """
    state = rollout.state
    observed = context.observed
    with_pods = {workload.revision for workload in observed.workloads.values() if workload.replicas}
    remembered = {*context.state.in_use, *with_pods}
    past = tuple(sorted(remembered - {state.current, state.goal, state.last_good, state.old, ""}))
    is_settled = with_pods <= {state.current} and all(workload.is_complete for workload in observed.workloads.values())
    if not past or not is_settled or state.goal:
        return replace(rollout, state=replace(state, past=past, past_until=None))
    until = context.state.past_until or observed.now + timedelta(seconds=context.grace_seconds)
    seconds = (until - observed.now).total_seconds()
    if seconds <= 0:
        return replace(rollout, state=replace(state, past=(), past_until=None))
    delays = [delay for delay in (rollout.requeue_after, seconds) if delay is not None]
    return replace(rollout, state=replace(state, past=past, past_until=until), requeue_after=min(delays))


def _as_requested(state: RolloutState, observed: Observed) -> RolloutState:
    """Return the state after what a user requested, and without a failure of another revision."""
    # A failure is that of one revision: another spec is tried.
    if state.failed and state.failed != observed.target:
        state = replace(state, failed="", message="")
    is_requested = observed.retry.partition("@")[0] == observed.target and observed.retry != state.retried
    if state.failed == observed.target and (observed.has_new_checks or is_requested):
        state = replace(state, failed="", message="")
    if is_requested:
        # Each request is one attempt, also of a revision that an analysis, a deadline or a user gave up.
        state = replace(state, retried=observed.retry)
    if state.stage is RolloutStage.KEEP_OLD and observed.abort == observed.target == state.current:
        return state.switched_back("a user aborted it")
    # The current revision serves already, so that nothing can be aborted.
    if observed.abort == observed.target and observed.target not in (state.failed, state.current):
        state = replace(state, goal=observed.target).given_up("a user aborted it")
    return state


def _goal(state: RolloutState, observed: Observed) -> str:
    """Return the revision to run: that of the spec, or the last good one where it failed."""
    if state.failed != observed.target:
        return observed.target
    return state.last_good or state.current or observed.target


def _kept(context: RolloutContext) -> Rollout:
    """Keep the current revision, and beside it the old one after a switch of a blue-green Agent."""
    if context.state.stage is RolloutStage.KEEP_OLD and (context.is_blue_green or context.state.home is context.home):
        return _keep_old(context)
    return keep_running(context)


def _suspended(context: RolloutContext, goal: str) -> Rollout:
    """
    Keep the workload without replicas, of the revision that serves, else of the first one.

    A rollout begins again after the suspension: what was not checked does not become the current revision by it.
    """
    state = context.state
    home = state.home if state.current else context.home
    stopped = replace(state.ended(), current=state.current or goal, home=home)
    rollout = keep_running(context.at(stopped))
    return replace(rollout, state=replace(rollout.state, current=state.current))


def _preview(context: RolloutContext) -> Rollout:
    """Run one Pod of the new revision that gets no requests, and check it."""
    state = context.state
    observed = context.observed
    preview = context.workload(Track.PREVIEW)
    is_ready = preview.is_complete and preview.revision == state.goal
    # The Job stays while a Pod of the preview restarts: a second one would repeat checks that have begun.
    is_started = is_ready or observed.checks is not CheckResult.NONE
    verdict = context.verdict
    if verdict is CheckResult.PASSED:
        return _update(context.at(state.next_stage(RolloutStage.UPDATE, observed.now)))
    if verdict is CheckResult.FAILED:
        return fail(context, f"checks failed: {observed.checks_message}")
    if not is_started and (reason := context.given_up(Track.PREVIEW)):
        return fail(context, f"the preview is not ready: {reason}")
    placements = [*context.current(), Placement(Track.PREVIEW, state.goal, 1, serves=False)]
    layout = context.layout(placements, Track.PREVIEW, state.goal if is_started else "")
    if verdict is CheckResult.INCONCLUSIVE:
        return repeat_checks(context, layout, placements)
    return Rollout(
        state=state,
        layout=layout,
        weight=0,
        stalled=context.failed_checks,
        waiting=context.running_checks if is_started else "the preview to be ready",
        requeue_after=context.next_look(Track.PREVIEW),
    )


def _update(context: RolloutContext) -> Rollout:
    """Bring the new revision to the requests, as ``update.type`` wants it."""
    state = context.state
    update = context.spec.update
    # Without a good revision nothing has to be protected, so that the update need not go step by step.
    is_first = not state.current or not state.last_good
    if is_first or update.type in ("RollingUpdate", "Recreate") or context.observed.wanted == 0:
        home = state.home if state.current else context.home
        # Kubernetes replaces the Pods of the one workload; there is nothing to divide.
        updated = replace(state, current=state.goal, home=home, step_at=context.observed.now)
        return keep_running(context.at(updated))
    if update.type == "Canary" and update.canary is not None:
        return advance_canary(context, update.canary)
    return _advance_blue_green(context)


# blue-green: the new revision runs beside, is checked, and the Service is switched to it


def _advance_blue_green(context: RolloutContext) -> Rollout:
    """Run the new revision beside the serving one, check it, and switch the Service."""
    state = context.state
    observed = context.observed
    if state.home is Track.STABLE:  # it was another type of update before
        return move(context, Track.BLUE)
    side = state.home.other
    beside = context.workload(side)
    # Also the number: a side that was scaled up meanwhile must not take all requests with fewer Pods.
    is_ready = beside.is_complete and beside.revision == state.goal and beside.wanted >= observed.wanted
    # A Job that has begun stays, also when a Pod of its side is not ready for a moment.
    is_checked = context.has_checks and (is_ready or observed.checks is not CheckResult.NONE)
    placements = [context.serving(state.home, state.current), Placement(side, state.goal, observed.wanted)]
    layout = context.layout(placements, side, state.goal if is_checked else "")
    # Without checks a ready side is as good as a checked one.
    verdict = context.verdict if context.has_checks else CheckResult.PASSED
    if verdict is CheckResult.FAILED:
        return fail(context, f"checks failed: {observed.checks_message}")
    if not is_ready:
        if reason := context.given_up(side):
            return fail(context, f"{beside.ready} of {observed.wanted} replicas are ready: {reason}")
        return Rollout(
            state=state,
            layout=layout,
            weight=0,
            waiting=context.missing_replicas(side),
            requeue_after=context.next_look(side),
        )
    if verdict is CheckResult.INCONCLUSIVE:
        return repeat_checks(context, layout, placements)
    if verdict is not CheckResult.PASSED:
        waiting = context.running_checks
        return Rollout(state=state, layout=layout, weight=0, stalled=context.failed_checks, waiting=waiting)
    settings = context.spec.update.blue_green or BlueGreen()
    # The user promotes a revision by its name: a click for an earlier one must not switch this one.
    if settings.promotion == "Manual" and observed.promote != state.goal:
        return Rollout(state=state, layout=layout, weight=0, waiting=f"a user to promote {state.goal}")
    switched = replace(
        state, current=state.goal, home=side, stage=RolloutStage.KEEP_OLD, old=state.current, ready_at=observed.now
    )
    return _keep_old(context.at(switched))


def _keep_old(context: RolloutContext) -> Rollout:
    """Keep the old revision beside for some time after the switch."""
    state = context.state
    observed = context.observed
    settings = context.spec.update.blue_green or BlueGreen()
    placements = [context.serving(state.home, state.current)]
    seconds = settings.keep_old_seconds - (observed.now - (state.ready_at or observed.now)).total_seconds()
    if seconds <= 0 or not context.is_blue_green:
        ended = context.at(replace(state.ended(), last_good=state.current))
        return Rollout(state=ended.state, layout=ended.layout(placements))
    placements.append(Placement(state.home.other, state.old, observed.wanted))
    kept = context.at(replace(state, last_good=state.current))
    return Rollout(
        state=kept.state,
        layout=kept.layout(placements),
        waiting="the old revision to be removed",
        requeue_after=seconds,
    )
