"""Blue-green: the new revision runs beside, is checked, and the Service is switched to it."""

from __future__ import annotations

from dataclasses import replace

from gitsync.agents.model.scaling import BlueGreen
from gitsync.agents.rollout.context import Rollout, RolloutContext, repeat_checks
from gitsync.agents.rollout.observed import CheckResult
from gitsync.agents.rollout.state import Placement, RolloutStage, Track
from gitsync.agents.rollout.steady import fail, move


def advance_blue_green(context: RolloutContext) -> Rollout:
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
    return keep_old(context.at(switched))


def keep_old(context: RolloutContext) -> Rollout:
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
