"""Keep one revision running: the end of every rollout, and what a failed one returns to."""

from __future__ import annotations

from dataclasses import replace

from gitsync.agents.expansion.expand import Layout
from gitsync.agents.rollout.context import Rollout, RolloutContext
from gitsync.agents.rollout.state import Placement, Track


def keep_running(context: RolloutContext) -> Rollout:
    """Keep the current revision running, and finish what a rollout left behind."""
    home = context.home
    # A blue-green Agent stays on the side that it was switched to, whichever it is.
    is_at_home = home is context.state.home or (context.is_blue_green and context.state.home is not Track.STABLE)
    if not is_at_home:
        return move(context, home)
    state = context.state
    observed = context.observed
    workload = context.workload(state.home)
    # At least as many: an autoscaler may have wanted more a moment ago.
    is_complete = workload.is_complete and workload.revision == state.current and workload.wanted >= observed.wanted
    placements = [context.serving(state.home, state.current)]
    canary = observed.workloads.get(Track.CANARY)
    if canary is not None and not is_complete and canary.replicas:
        # Its Pods serve until the others are ready: a rollout or a rollback never has fewer ready Pods than before.
        placements.append(Placement(Track.CANARY, canary.revision, canary.wanted))
    if not is_complete:
        return _incomplete(context, placements)
    # Without replicas nothing was tried: a suspended revision does not become the good one.
    is_good = state.current != state.failed and observed.wanted > 0
    ended = replace(state.ended(), last_good=state.current if is_good else state.last_good)
    return Rollout(state=ended, layout=context.at(ended).layout(placements), stalled=context.failure)


def move(context: RolloutContext, home: Track) -> Rollout:
    """Move the current revision to the workload that another ``update.type`` has, and only then leave the old one."""
    state = context.state
    there = context.workload(home)
    placements = (context.serving(state.home, state.current), context.serving(home, state.current))
    if there.is_complete and there.revision == state.current:
        state = replace(state, home=home)
    return Rollout(
        state=state,
        # Without an active track: the Service selects the Pods of both workloads.
        layout=Layout(placements, autoscaled=state.home),
        waiting=f"the {home.value} workload to be ready",
    )


def hold(context: RolloutContext) -> Rollout:
    """Keep what serves, and begin no other revision, for a reason outside the rollout."""
    if context.state.current:
        rollout = keep_running(context)
    else:
        rollout = Rollout(state=context.state, layout=context.layout([]), weight=0)
    observed = context.observed
    # What is wrong with that which serves comes first.
    return replace(rollout, stalled=rollout.stalled or observed.held, waiting=rollout.waiting or observed.pending)


def fail(context: RolloutContext, message: str) -> Rollout:
    """Return to the revision that serves, if one does; the one that failed is not tried again by itself."""
    # Remembered also where nothing is rolled back: without its Pods the queries of a canary are within limits again.
    failed = context.at(context.state.given_up(message))
    if failed.state.current:
        return keep_running(failed)
    return Rollout(state=failed.state, layout=failed.layout([]), weight=0, stalled=failed.failure or message)


def _unavailable(context: RolloutContext, placements: list[Placement]) -> Rollout:
    """Report that replicas of the good revision are missing: for some time that is progress, then it is a failure."""
    state = context.state
    workload = context.workload(state.home)
    since = state.step_at or context.observed.now
    waiting = context.at(replace(state.ended(), step_at=since))
    missing = f"{workload.ready} of {context.observed.wanted} replicas are ready"
    problem = workload.crash or workload.problem
    is_over = not problem and waiting.late
    return Rollout(
        state=waiting.state,
        layout=waiting.layout(placements),
        stalled=context.failure or (f"{missing}: {waiting.late}" if is_over else ""),
        # What crashes is not in progress: its condition Ready tells why, and nothing says that it ends by waiting.
        waiting="" if problem else context.missing_replicas(state.home),
        requeue_after=None if problem or is_over else waiting.seconds_left,
    )


def _incomplete(context: RolloutContext, placements: list[Placement]) -> Rollout:
    """Wait for the replicas of the current revision, at most for the deadline."""
    state = context.state
    workload = context.workload(state.home)
    if state.current == state.last_good:  # Pods of a good revision may fail at any time; that is not a rollout
        return _unavailable(context, placements)
    if state.step_at is None:
        context = context.at(replace(state, step_at=context.observed.now, started_at=context.observed.now))
    late = context.late or (workload.problem if workload.revision == state.current else "")
    layout = context.layout(placements)
    if not late:
        return Rollout(
            state=context.state,
            layout=layout,
            waiting=context.missing_replicas(state.home),
            requeue_after=context.seconds_left,
        )
    # Without a good revision there is nothing to return to.
    if context.spec.update.auto_rollback and state.last_good:
        returned = replace(context.state, goal=state.current).given_up(late)
        return keep_running(context.at(replace(returned, current=state.last_good)))
    return Rollout(state=context.state, layout=layout, stalled=late)
