"""Canary: a new revision that gets more and more of the requests."""

from __future__ import annotations

from dataclasses import replace

from gitsync.agents.expansion.expand import Layout
from gitsync.agents.model.scaling import Canary
from gitsync.agents.rollout.context import Rollout, RolloutContext
from gitsync.agents.rollout.state import Placement, RolloutStage, Track
from gitsync.agents.rollout.steady import fail, keep_running

_NOT_SERVED = (
    "the cluster does not serve HTTPRoute of gateway.networking.k8s.io/v1; set update.canary.traffic: ReplicaRatio"
)
_FOLLOWING = 5.0
"""Seconds that the proxies of a gateway or mesh may take to follow a route after it was accepted."""
_DISCOVERY = 60.0
"""Seconds between two attempts to find whether the cluster serves a kind."""


def advance_canary(context: RolloutContext, canary: Canary) -> Rollout:
    """Give the new revision the share of the step; after the last one it is the current revision."""
    state = context.state
    observed = context.observed
    if observed.analysis.exceeded:
        return fail(context, f"analysis: {observed.analysis.exceeded}")
    # A step of 100 % is the promotion: the serving Pods become the revision instead.
    is_last = state.step >= len(canary.steps) or canary.steps[state.step].weight == 100
    if is_last or observed.promote == state.goal:
        promoted = replace(state, current=state.goal, stage=RolloutStage.PROMOTE, step_at=observed.now)
        return keep_running(context.at(promoted))
    if not observed.route.is_served:
        return Rollout(
            state=state,
            layout=context.layout(context.current()),
            weight=0,
            stalled=_NOT_SERVED,
            requeue_after=_DISCOVERY,
        )
    waiting = _missing(context, canary)
    if not waiting and state.ready_at is None:
        context = context.at(replace(state, ready_at=observed.now))
    return _at_step(context, canary, waiting)


def keep_canary_requests(rollout: Rollout, context: RolloutContext) -> Rollout:
    """
    Keep the requests of a canary while the serving Pods become its revision, and then the canary until it gets none.

    A route is changed before its Pods go, since a gateway follows it with a delay.
    """
    live = context.observed.workloads.get(Track.CANARY)
    if live is None:
        return rollout
    routed_weight = context.observed.route.canary_weight
    layout = rollout.layout
    canary = next((placement for placement in layout.placements if placement.track is Track.CANARY), None)
    if canary is not None:
        is_successor = canary.revision == rollout.state.current and rollout.state.stage is RolloutStage.PROMOTE
        keeps_weight = routed_weight and is_successor
        return replace(rollout, layout=replace(layout, canary_weight=routed_weight)) if keeps_weight else rollout
    seconds = 0.0 if routed_weight else _stale_seconds(context)
    if not routed_weight and not seconds:
        return rollout
    kept = Placement(Track.CANARY, live.revision, live.wanted)
    delays = [delay for delay in (rollout.requeue_after, seconds) if delay]
    return replace(
        rollout,
        layout=replace(layout, placements=(*layout.placements, kept)),
        requeue_after=min(delays, default=rollout.requeue_after),
    )


def _stale_seconds(context: RolloutContext) -> float:
    """Return the seconds for which requests may still be divided by earlier weights."""
    route = context.observed.route
    if route.changed_at is None:
        return 0.0
    # One that is never accepted, such as without a gateway, must not keep the Pods for ever.
    wanted = context.grace_seconds if route.problem else _FOLLOWING
    return max(wanted - (context.observed.now - route.changed_at).total_seconds(), 0.0)


def _at_step(context: RolloutContext, canary: Canary, waiting: str) -> Rollout:
    """Wait for the Pods of the step, then for its pause and the analysis."""
    state = context.state
    analysis = context.observed.analysis
    step = canary.steps[state.step]
    layout = _layout(context, canary)
    if state.ready_at is None:
        track = Track.STABLE if context.observed.is_stateful else Track.CANARY
        if reason := context.given_up(track):
            return fail(context, f"{reason}, waiting for {waiting}")
        return Rollout(
            state=state, layout=layout, weight=step.weight, waiting=waiting, requeue_after=context.next_look(track)
        )
    # The pause counts from the moment when the share was reached, not from the begin of the step.
    pause = step.pause_seconds - (context.observed.now - state.ready_at).total_seconds()
    if pause > 0:
        return Rollout(
            state=state,
            layout=layout,
            weight=step.weight,
            waiting=f"a pause; {analysis.absent}".removesuffix("; "),
            requeue_after=pause,
        )
    if analysis.is_pending:
        return Rollout(state=state, layout=layout, weight=step.weight, waiting="the analysis")
    if analysis.absent:
        return _without_data(context, Rollout(state=state, layout=layout, weight=step.weight), -pause)
    return advance_canary(context.at(state.next_step(context.observed.now)), canary)


def _without_data(context: RolloutContext, at_step: Rollout, seconds: float) -> Rollout:
    """
    Wait for data of the analysis, ``seconds`` after the pause of the step; fail after as long as Pods may take.

    What is not measured is not good: a new revision that breaks its own metrics must not be promoted for that.
    """
    analysis = context.observed.analysis
    deadline = context.spec.update.progress_deadline_seconds
    if seconds < deadline:
        waiting = f"data of the analysis: {analysis.absent}"
        return replace(at_step, waiting=waiting, requeue_after=deadline - seconds)
    message = f"analysis: {analysis.absent}, for {deadline} seconds"
    if analysis.is_held:
        return replace(at_step, stalled=f"{message}; it waits for data or gitsync agent promote")
    return fail(context, message)


def _missing(context: RolloutContext, canary: Canary) -> str:
    """Return what the step waits for: Pods, then a gateway or mesh that has its weights."""
    weight = canary.steps[context.state.step].weight
    route = context.observed.route
    count = _share(context, weight)
    ready = _ready_replicas(context)
    if ready < count:
        return f"{count} canary replicas to be ready, {ready} are"
    if canary.traffic == "GatewayAPI" and (route.problem or route.canary_weight != weight):
        return f"the HTTPRoute to divide the requests: {route.problem}".removesuffix(": ")
    return ""


def _layout(context: RolloutContext, canary: Canary) -> Layout:
    """Return the workloads of the step; weights of a route let the serving replicas stay as many as they are."""
    state = context.state
    weight = canary.steps[state.step].weight
    count = _share(context, weight)
    is_ready = _ready_replicas(context) >= count
    is_routed = canary.traffic == "GatewayAPI"
    placements = _placements(context, count, is_ready=is_ready and not is_routed)
    if not is_ready and state.ready_at is None:
        # Requests follow Pods: until those of this step are ready, the share is that of the step before.
        weight = canary.steps[state.step - 1].weight if state.step else 0
    return replace(context.layout(placements), canary_weight=weight if is_routed else 0)


def _placements(context: RolloutContext, count: int, *, is_ready: bool) -> list[Placement]:
    state = context.state
    wanted = context.observed.wanted
    if context.observed.is_stateful:
        # A StatefulSet replaces the Pods with the highest ordinals, down to its partition.
        return [Placement(Track.STABLE, state.goal, context.replicas, partition=max(wanted - count, 0))]
    stable = max(wanted - count, 1) if is_ready else wanted
    return [
        Placement(state.home, state.current, None if context.observed.is_autoscaled else stable),
        Placement(Track.CANARY, state.goal, count),
    ]


def _ready_replicas(context: RolloutContext) -> int:
    """Return how many ready Pods have the new revision."""
    goal = context.state.goal
    if not context.observed.is_stateful:
        canary = context.workload(Track.CANARY)
        return canary.ready if canary.revision == goal and canary.updated == canary.replicas else 0
    stable = context.workload(Track.STABLE)
    # readyReplicas does not tell the revisions apart: only when all are ready, the updated ones are.
    is_all_ready = stable.ready >= stable.wanted
    return stable.updated if stable.revision == goal and is_all_ready else 0


def _share(context: RolloutContext, weight: int) -> int:
    """Return the number of canary replicas for a percentage of the requests, at least one."""
    # At least one: a share that rounds to none would test nothing.
    return max(1, round(context.observed.wanted * weight / 100))
