"""Advance a rollout: from state and observation to the next state and the workloads that it wants."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gitsync.agents.expansion.expand import Layout
from gitsync.agents.model.agent import AgentSpec
from gitsync.agents.model.scaling import BlueGreen, Canary
from gitsync.agents.rollout.observed import CheckResult, Observed, Workload
from gitsync.agents.rollout.state import RolloutState, Stage
from gitsync.agents.rollout.tracks import Placement, Track

_ABSENT = Workload("")
_NOT_SERVED = (
    "the cluster does not serve HTTPRoute of gateway.networking.k8s.io/v1; set update.canary.traffic: ReplicaRatio"
)
_DISCOVERY = 60.0
"""Seconds until it is tried again whether the cluster serves a kind."""


@dataclass(frozen=True, slots=True)
class Rollout:
    """
    The next state of a rollout, the workloads, and how far it is.

    ``stalled`` is why it makes no progress until something changes, ``requeue_after`` the seconds until time does.
    """

    state: RolloutState
    layout: Layout
    weight: int = 100
    stalled: str = ""
    waiting: str = ""
    requeue_after: float | None = None


def advance(spec: AgentSpec, state: RolloutState, seen: Observed) -> Rollout:
    """
    Return the next state and the workloads that it wants.

    The serving replicas are reduced only when those that replace them are ready, so a rollout or a rollback never
    leaves the Agent without ready Pods.
    """
    return _routed(_advanced(spec, state, seen), seen)


def _advanced(spec: AgentSpec, state: RolloutState, seen: Observed) -> Rollout:
    state = _before(spec, state, seen)
    goal = _goal(spec, state, seen)
    if spec.suspend:
        return _suspended(spec, state, goal, seen)
    if not state.current and not _has_checks(spec):
        state = replace(state, current=goal, home=_home(spec), started_at=seen.now, step_at=seen.now)
    if state.current == goal:
        return _steady(spec, state, seen)
    if state.goal != goal or state.stage in (Stage.NONE, Stage.KEEP_OLD, Stage.PROMOTE):
        is_beside = _is_blue_green(spec) and state.last_good  # where it is checked; the first one has no side
        first = Stage.PREVIEW if _has_checks(spec) and not is_beside else Stage.UPDATE
        state = state.begun(goal, first, seen.now)
    if state.stage is Stage.PREVIEW:
        return _preview(spec, state, seen)
    return _update(spec, state, seen)


def _suspended(spec: AgentSpec, state: RolloutState, goal: str, seen: Observed) -> Rollout:
    """
    Keep the workload without replicas, of the revision that serves, else of the first one.

    A rollout begins again after the suspension: what was not checked does not become the current revision by it.
    """
    home = state.home if state.current else _home(spec)
    found = _steady(spec, replace(state.ended(), current=state.current or goal, home=home), seen)
    return replace(found, state=replace(found.state, current=state.current))


def _routed(found: Rollout, seen: Observed) -> Rollout:
    """
    Keep the requests of a canary while the serving Pods become its revision, and then the canary until it gets none.

    A route is changed before its Pods go, since a gateway follows it with a delay.
    """
    live = seen.workloads.get(Track.CANARY)
    layout = found.layout
    state = found.state
    if live is None or not seen.route.canary_weight:
        return found
    canary = next((one for one in layout.placements if one.track is Track.CANARY), None)
    if canary is None:
        kept = Placement(Track.CANARY, live.revision, live.wanted)
        return replace(found, layout=replace(layout, placements=(*layout.placements, kept)))
    is_successor = canary.revision == state.current and state.stage is Stage.PROMOTE
    return replace(found, layout=replace(layout, canary_weight=seen.route.canary_weight)) if is_successor else found


def _before(spec: AgentSpec, state: RolloutState, seen: Observed) -> RolloutState:
    """Return the state after what a user requested, and without a failure of another revision."""
    if state.failed and state.failed != seen.target:
        state = replace(state, failed="", message="")
    if seen.abort == seen.target and state.failed != seen.target and state.current != seen.target:
        state = replace(state, goal=seen.target).given_up("a user aborted it")
    return state


def _goal(spec: AgentSpec, state: RolloutState, seen: Observed) -> str:
    """Return the revision to run: that of the spec, or the last good one where it failed."""
    if state.failed != seen.target:
        return seen.target
    good = state.last_good or state.current
    return good if good and good != seen.target else seen.target


def _steady(spec: AgentSpec, state: RolloutState, seen: Observed) -> Rollout:
    """Keep the current revision running, and finish what a rollout left."""
    home = _home(spec)
    at_home = seen.workloads.get(state.home, _ABSENT)
    if home is not state.home and not (_is_blue_green(spec) and state.home in (Track.BLUE, Track.GREEN)):
        return _move(state, home, seen)
    is_complete = at_home.is_complete and at_home.revision == state.current and at_home.wanted >= seen.wanted
    placements = [_serving(state.home, state.current, seen)]
    if state.stage is Stage.KEEP_OLD:
        return _keep_old(spec, state, seen)
    canary = seen.workloads.get(Track.CANARY)
    if canary is not None and not is_complete and canary.replicas:
        placements.append(Placement(Track.CANARY, canary.revision, canary.wanted))
    if is_complete:
        is_good = state.current != state.failed and seen.wanted > 0
        state = replace(state.ended(), last_good=state.current if is_good else state.last_good, step_at=None)
        return Rollout(state, _layout(spec, state, placements), stalled=_failure(state, seen))
    return _incomplete(spec, state, seen, placements, at_home)


def _incomplete(
    spec: AgentSpec, state: RolloutState, seen: Observed, placements: list[Placement], at_home: Workload
) -> Rollout:
    """Wait for the replicas of the current revision, at most for the deadline."""
    if state.current == state.last_good:  # Pods of a good revision may fail at any time; that is not a rollout
        return Rollout(
            state.ended(),
            _layout(spec, state, placements),
            stalled=_failure(state, seen),
            waiting=_count(at_home, seen),
        )
    if state.step_at is None:
        state = replace(state, step_at=seen.now, started_at=seen.now)
    late = _late(spec, state, seen) or (at_home.problem if at_home.revision == state.current else "")
    if not late:
        rest = _left(spec, state, seen)
        return Rollout(state, _layout(spec, state, placements), waiting=_count(at_home, seen), requeue_after=rest)
    if spec.update.auto_rollback and state.last_good:
        back = replace(state, goal=state.current).given_up(late)
        return _steady(spec, replace(back, current=state.last_good), seen)
    return Rollout(state, _layout(spec, state, placements), stalled=late)


def _move(state: RolloutState, home: Track, seen: Observed) -> Rollout:
    """Move the current revision to the workload that another ``update.type`` has, and only then leave the old one."""
    there = seen.workloads.get(home, _ABSENT)
    placements = (_serving(state.home, state.current, seen), _serving(home, state.current, seen))
    if there.is_complete and there.revision == state.current:
        state = replace(state, home=home)
    return Rollout(state, Layout(placements, autoscaled=state.home), waiting=f"the {home.value} workload to be ready")


def _preview(spec: AgentSpec, state: RolloutState, seen: Observed) -> Rollout:
    """Run one Pod of the new revision that gets no requests, and check it."""
    placements = _current(state, seen)
    placements.append(Placement(Track.PREVIEW, state.goal, 1, serves=False))
    preview = seen.workloads.get(Track.PREVIEW, _ABSENT)
    is_ready = preview.is_complete and preview.revision == state.goal
    is_started = is_ready or seen.checks is not CheckResult.NONE
    layout = _layout(spec, state, placements, Track.PREVIEW, state.goal if is_started else "")
    verdict = _verdict(spec, seen)
    if verdict is CheckResult.PASSED:
        return _update(spec, state.next_stage(Stage.UPDATE, seen.now), seen)
    if verdict is CheckResult.FAILED:
        return _fail(spec, state, seen, f"checks failed: {seen.checks_message}")
    late = _late(spec, state, seen) if not is_started else ""
    if late:
        return _fail(spec, state, seen, f"the preview is not ready: {late}")
    stalled = f"checks failed: {seen.checks_message}" if seen.checks is CheckResult.FAILED else ""
    waiting = "checks to end" if is_started else "the preview to be ready"
    return Rollout(state, layout, 0, stalled, waiting, _left(spec, state, seen))


def _update(spec: AgentSpec, state: RolloutState, seen: Observed) -> Rollout:
    """Bring the new revision to the requests, as ``update.type`` says."""
    update = spec.update
    is_first = not state.current or not state.last_good
    if is_first or update.type in ("RollingUpdate", "Recreate") or seen.wanted == 0:
        home = _home(spec) if not state.current else state.home
        return _steady(spec, replace(state, current=state.goal, home=home, step_at=seen.now), seen)
    if update.type == "Canary" and update.canary is not None:
        return _canary(spec, update.canary, state, seen)
    return _blue_green(spec, update.blue_green or BlueGreen(), state, seen)


def _canary(spec: AgentSpec, canary: Canary, state: RolloutState, seen: Observed) -> Rollout:
    """Give the new revision the share of the step; after the last one it is the current revision."""
    if seen.analysis.exceeded:
        return _fail(spec, state, seen, f"analysis: {seen.analysis.exceeded}")
    if state.step >= len(canary.steps) or canary.steps[state.step].weight == 100 or seen.promote == state.goal:
        return _steady(spec, replace(state, current=state.goal, stage=Stage.PROMOTE, step_at=seen.now), seen)
    step = canary.steps[state.step]
    if not seen.route.is_served:
        layout = _layout(spec, state, _current(state, seen))
        return Rollout(state, layout, 0, stalled=_NOT_SERVED, requeue_after=_DISCOVERY)
    is_ready = _ready_canaries(state, seen) >= _share(step.weight, seen)
    waiting = _missing(canary, state, seen)
    if not waiting and state.ready_at is None:
        state = replace(state, ready_at=seen.now)
    layout = _canary_layout(spec, canary, state, seen, is_ready=is_ready)
    if state.ready_at is not None:
        left = step.pause_seconds - (seen.now - state.ready_at).total_seconds()
        if left <= 0 and not seen.analysis.is_pending:
            return _canary(spec, canary, state.next_step(seen.now), seen)
        waiting = f"a pause; {seen.analysis.unmeasured}".removesuffix("; ") if left > 0 else "the analysis"
        return Rollout(state, layout, step.weight, waiting=waiting, requeue_after=left if left > 0 else None)
    if late := _late(spec, state, seen):
        return _fail(spec, state, seen, f"{late}, waiting for {waiting}")
    return Rollout(state, layout, step.weight, waiting=waiting, requeue_after=_left(spec, state, seen))


def _missing(canary: Canary, state: RolloutState, seen: Observed) -> str:
    """Return what the step waits for: Pods, then a gateway or mesh that has its weights."""
    weight = canary.steps[state.step].weight
    count = _share(weight, seen)
    ready = _ready_canaries(state, seen)
    if ready < count:
        return f"{count} canary replicas to be ready, {ready} are"
    if canary.traffic == "GatewayAPI" and (seen.route.problem or seen.route.canary_weight != weight):
        return f"the HTTPRoute to divide the requests: {seen.route.problem}".removesuffix(": ")
    return ""


def _canary_layout(spec: AgentSpec, canary: Canary, state: RolloutState, seen: Observed, *, is_ready: bool) -> Layout:
    """Return the workloads of the step; weights of a route let the serving replicas stay as many as they are."""
    weight = canary.steps[state.step].weight
    is_routed = canary.traffic == "GatewayAPI"
    placements = _canary_placements(state, seen, _share(weight, seen), is_ready=is_ready and not is_routed)
    if not is_ready and state.ready_at is None:
        weight = canary.steps[state.step - 1].weight if state.step else 0
    return replace(_layout(spec, state, placements), canary_weight=weight if is_routed else 0)


def _canary_placements(state: RolloutState, seen: Observed, count: int, *, is_ready: bool) -> list[Placement]:
    if seen.is_stateful:
        return [Placement(Track.STABLE, state.goal, _replicas(seen), partition=max(seen.wanted - count, 0))]
    left = max(seen.wanted - count, 1) if is_ready else seen.wanted
    stable = None if seen.is_autoscaled else left
    return [Placement(state.home, state.current, stable), Placement(Track.CANARY, state.goal, count)]


def _ready_canaries(state: RolloutState, seen: Observed) -> int:
    """Return how many ready Pods have the new revision."""
    if not seen.is_stateful:
        found = seen.workloads.get(Track.CANARY, _ABSENT)
        return found.ready if found.revision == state.goal and found.updated == found.replicas else 0
    found = seen.workloads.get(Track.STABLE, _ABSENT)
    is_all_ready = found.ready >= found.wanted
    return found.updated if found.revision == state.goal and is_all_ready else 0


def _blue_green(spec: AgentSpec, settings: BlueGreen, state: RolloutState, seen: Observed) -> Rollout:
    """Run the new revision beside, check it, and switch the Service."""
    if state.home is Track.STABLE:
        return _move(state, Track.BLUE, seen)
    side = state.home.other
    beside = seen.workloads.get(side, _ABSENT)
    is_ready = beside.is_complete and beside.revision == state.goal and beside.wanted >= seen.wanted
    placements = [_serving(state.home, state.current, seen), Placement(side, state.goal, seen.wanted)]
    checks = state.goal if _has_checks(spec) and (is_ready or seen.checks is not CheckResult.NONE) else ""
    layout = _layout(spec, state, placements, side, checks)
    verdict = _verdict(spec, seen) if _has_checks(spec) else CheckResult.PASSED
    if verdict is CheckResult.FAILED:
        return _fail(spec, state, seen, f"checks failed: {seen.checks_message}")
    if not is_ready:
        late = _late(spec, state, seen)
        if late:
            return _fail(spec, state, seen, f"{beside.ready} of {seen.wanted} replicas are ready: {late}")
        return Rollout(state, layout, 0, waiting=_count(beside, seen), requeue_after=_left(spec, state, seen))
    if verdict is not CheckResult.PASSED:
        stalled = f"checks failed: {seen.checks_message}" if seen.checks is CheckResult.FAILED else ""
        return Rollout(state, layout, 0, stalled, "checks to end")
    if settings.promotion == "Manual" and seen.promote != state.goal:
        return Rollout(state, layout, 0, waiting=f"a user to promote {state.goal}")
    switched = replace(state, current=state.goal, home=side, stage=Stage.KEEP_OLD, old=state.current, ready_at=seen.now)
    return _steady(spec, switched, seen)


def _keep_old(spec: AgentSpec, state: RolloutState, seen: Observed) -> Rollout:
    """Keep the old revision beside for some time after the switch."""
    settings = spec.update.blue_green or BlueGreen()
    placements = [_serving(state.home, state.current, seen)]
    left = settings.keep_old_seconds - (seen.now - (state.ready_at or seen.now)).total_seconds()
    if left <= 0 or not _is_blue_green(spec):
        ended = replace(state.ended(), last_good=state.current)
        return Rollout(ended, _layout(spec, ended, placements))
    placements.append(Placement(state.home.other, state.old, seen.wanted))
    kept = replace(state, last_good=state.current)
    return Rollout(kept, _layout(spec, kept, placements), waiting="the old revision to be removed", requeue_after=left)


def _fail(spec: AgentSpec, state: RolloutState, seen: Observed, message: str) -> Rollout:
    """Return to the revision that serves, or hold the new one where the spec does not want that."""
    if spec.update.auto_rollback and state.current:
        return _steady(spec, state.given_up(message), seen)
    placements = _current(state, seen)
    return Rollout(replace(state, message=message), _layout(spec, state, placements), 0, stalled=message)


def _verdict(spec: AgentSpec, seen: Observed) -> CheckResult:
    """Return the result of the checks, as ``onValidationFailure`` takes it."""
    policy = spec.lifecycle.on_validation_failure if spec.lifecycle else "Rollback"
    if seen.checks is not CheckResult.FAILED:
        return seen.checks
    return {"Ignore": CheckResult.PASSED, "Hold": CheckResult.RUNNING}.get(policy, CheckResult.FAILED)


def _failure(state: RolloutState, seen: Observed) -> str:
    """Return why the revision of the spec does not run."""
    return f"{seen.target} failed: {state.message}" if state.failed == seen.target else ""


def _layout(
    spec: AgentSpec, state: RolloutState, placements: list[Placement], preview: Track | None = None, checked: str = ""
) -> Layout:
    active = active_track(spec, state.home)
    return Layout(tuple(placements), active, preview, checked, state.home)


def active_track(spec: AgentSpec, home: Track) -> Track | None:
    """Return the only track that the Service selects, None where it selects all that serve."""
    canary = spec.update.canary
    is_routed = canary is not None and canary.traffic == "GatewayAPI"
    return home if is_routed or (_is_blue_green(spec) and home is not Track.STABLE) else None


def _current(state: RolloutState, seen: Observed) -> list[Placement]:
    return [_serving(state.home, state.current, seen)] if state.current else []


def _serving(track: Track, revision: str, seen: Observed) -> Placement:
    return Placement(track, revision, _replicas(seen))


def _replicas(seen: Observed) -> int | None:
    return None if seen.is_autoscaled else seen.wanted


def _share(weight: int, seen: Observed) -> int:
    """Return the number of canary replicas for a percentage of the requests, at least one."""
    return max(1, round(seen.wanted * weight / 100))


def _home(spec: AgentSpec) -> Track:
    return Track.BLUE if _is_blue_green(spec) else Track.STABLE


def _is_blue_green(spec: AgentSpec) -> bool:
    return spec.update.type == "BlueGreen"


def _has_checks(spec: AgentSpec) -> bool:
    return bool((spec.lifecycle and spec.lifecycle.validate_) or spec.evaluation)


def _late(spec: AgentSpec, state: RolloutState, seen: Observed) -> str:
    """Return that the deadline has passed, empty before."""
    seconds = spec.update.progress_deadline_seconds
    return f"no progress for {seconds} seconds" if _left(spec, state, seen) <= 0 else ""


def _left(spec: AgentSpec, state: RolloutState, seen: Observed) -> float:
    """Return the seconds until the deadline of the step."""
    since = (seen.now - (state.step_at or seen.now)).total_seconds()
    return spec.update.progress_deadline_seconds - since


def _count(found: Workload, seen: Observed) -> str:
    return f"{seen.wanted} replicas to be ready, {found.ready} are"
