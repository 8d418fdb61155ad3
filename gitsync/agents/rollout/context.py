"""
What a strategy decides from: spec, state and observation of one Agent; and what it decides.

Checks that ended without a result are repeated some times, and then wait for a user.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gitsync.agents.expansion.expand import Layout
from gitsync.agents.expansion.pods import grace_period
from gitsync.agents.model.agent import AgentSpec
from gitsync.agents.rollout.observed import CheckResult, Observed, Workload
from gitsync.agents.rollout.state import Placement, RolloutState, Track

_ABSENT = Workload("")
_CRASH_PATIENCE = 60.0
"""Seconds that Pods of a new revision may crash: the kubelet's fourth start is at about 70 seconds (10, 20, 40)."""
_DEFAULT_GRACE = 30
"""Seconds that the API server gives a Pod to end (``terminationGracePeriodSeconds``)."""


@dataclass(frozen=True, slots=True)
class Rollout:
    """
    The next state of a rollout, the workloads, and how far it is.

    ``weight`` is the percentage of the requests that the new revision gets. ``stalled`` is why it makes no progress
    until something changes, ``requeue_after`` the seconds until time does.
    """

    state: RolloutState
    layout: Layout
    weight: int = 100
    stalled: str = ""
    waiting: str = ""
    requeue_after: float | None = None


@dataclass(frozen=True, slots=True)
class RolloutContext:
    """One Agent in one reconcile: what its spec wants, what a rollout remembers, and what is observed."""

    spec: AgentSpec
    state: RolloutState
    observed: Observed

    def at(self, state: RolloutState) -> RolloutContext:
        """Return the same Agent in another state of its rollout."""
        return replace(self, state=state)

    @property
    def has_checks(self) -> bool:
        """Whether a revision is checked or evaluated before it gets requests."""
        return bool((self.spec.lifecycle and self.spec.lifecycle.validate_) or self.spec.evaluation)

    @property
    def is_blue_green(self) -> bool:
        """Whether the spec wants two sides."""
        return self.spec.update.type == "BlueGreen"

    @property
    def home(self) -> Track:
        """The track on which a first revision runs."""
        return Track.BLUE if self.is_blue_green else Track.STABLE

    @property
    def replicas(self) -> int | None:
        """The replicas to apply, None where an autoscaler decides on them."""
        return None if self.observed.is_autoscaled else self.observed.wanted

    @property
    def seconds_left(self) -> float:
        """The seconds until the deadline of the step."""
        since = (self.observed.now - (self.state.step_at or self.observed.now)).total_seconds()
        return self.spec.update.progress_deadline_seconds - since

    @property
    def late(self) -> str:
        """That the deadline of the step has passed, empty before."""
        seconds = self.spec.update.progress_deadline_seconds
        return f"no progress for {seconds} seconds" if self.seconds_left <= 0 else ""

    @property
    def grace_seconds(self) -> int:
        """The seconds that a Pod has to end."""
        drain = self.spec.lifecycle.drain if self.spec.lifecycle else None
        return grace_period(drain) or _DEFAULT_GRACE

    def given_up(self, track: Track) -> str:
        """Return why a new revision on a track is given up: its deadline passed, or its Pods crash; empty before."""
        workload = self.workload(track)
        # Pods of the old revision may crash on the same track, which says nothing about the new one.
        is_own = workload.revision == self.state.goal
        has_tried = self.spec.update.progress_deadline_seconds - self.seconds_left >= _CRASH_PATIENCE
        return self.late or (workload.crash if is_own and has_tried else "")

    def next_look(self, track: Track) -> float:
        """Return the seconds until ``given_up`` may answer differently."""
        patience = _CRASH_PATIENCE - (self.spec.update.progress_deadline_seconds - self.seconds_left)
        return patience if self.workload(track).crash and 0 < patience < self.seconds_left else self.seconds_left

    @property
    def failure(self) -> str:
        """Why the revision of the spec does not run, empty where it may."""
        target = self.observed.target
        return f"{target} failed: {self.state.message}" if self.state.failed == target else ""

    @property
    def verdict(self) -> CheckResult:
        """The result of the checks, as ``onValidationFailure`` takes it."""
        if self.observed.checks is not CheckResult.FAILED:
            return self.observed.checks
        # Without a lifecycle only an evaluation can have failed, and the default of the field applies.
        policy = self.spec.lifecycle.on_validation_failure if self.spec.lifecycle else "Rollback"
        # Hold is like checks that run: the revision waits, and the serving one stays.
        return {"Ignore": CheckResult.PASSED, "Hold": CheckResult.RUNNING}.get(policy, CheckResult.FAILED)

    @property
    def failed_checks(self) -> str:
        """What a held revision shows of its checks, empty where they did not fail."""
        is_failed = self.observed.checks is CheckResult.FAILED
        return f"checks failed: {self.observed.checks_message}" if is_failed else ""

    @property
    def running_checks(self) -> str:
        """What checks that have not ended wait for, with what keeps their Pods from starting."""
        is_running = self.observed.checks is CheckResult.RUNNING
        problem = self.observed.checks_message if is_running else ""
        return f"checks to end: {problem}" if problem else "checks to end"

    def workload(self, track: Track) -> Workload:
        """Return the live workload of a track, one without replicas where there is none."""
        return self.observed.workloads.get(track, _ABSENT)

    def serving(self, track: Track, revision: str) -> Placement:
        """Return a placement with all replicas of a revision."""
        return Placement(track, revision, self.replicas)

    def current(self) -> list[Placement]:
        """Return the placement that serves, none before the first revision."""
        return [self.serving(self.state.home, self.state.current)] if self.state.current else []

    def missing_replicas(self, track: Track) -> str:
        """Return what a workload waits for."""
        return f"{self.observed.wanted} replicas to be ready, {self.workload(track).ready} are"

    def layout(self, placements: Iterable[Placement], preview: Track | None = None, checked: str = "") -> Layout:
        """Return the layout of some placements, with the Service on the track that serves."""
        return Layout(
            placements=tuple(placements),
            active=active_track(self.spec, self.state.home),
            preview=preview,
            checked=checked,
            autoscaled=self.state.home,
            attempt=self.state.attempt,
        )


def active_track(spec: AgentSpec, home: Track) -> Track | None:
    """Return the only track that the Service selects, None where it selects all that serve."""
    canary = spec.update.canary
    # A route names Services by track: one that selected both would divide the requests a second time.
    is_routed = canary is not None and canary.traffic == "GatewayAPI"
    is_side = spec.update.type == "BlueGreen" and home is not Track.STABLE
    return home if is_routed or is_side else None


MOST_ATTEMPTS: Final = 4
"""Repetitions of inconclusive checks."""

_FIRST_DELAY = 30.0
"""Seconds before the first repetition; each further one waits twice as long, so that all of them take 8 minutes."""


def repeat_checks(context: RolloutContext, layout: Layout, placements: Sequence[Placement]) -> Rollout:
    """
    Wait for the next attempt, or for a user once there were enough; the serving revision stays.

    What could not be judged is neither rolled back nor let through: an outage of a model justifies neither.
    """
    state = context.state
    observed = context.observed
    message = f"checks are inconclusive: {observed.checks_message}"
    if state.attempt >= MOST_ATTEMPTS:
        held = f"{message}; after {state.attempt + 1} attempts it waits for gitsync agent retry"
        return Rollout(state=state, layout=replace(layout, placements=tuple(placements)), weight=0, stalled=held)
    # Kept in the state: the delay continues after a restart.
    ready_at = state.ready_at or observed.now
    waited = (observed.now - ready_at).total_seconds()
    seconds = _FIRST_DELAY * 2**state.attempt - waited
    if seconds <= 0:
        # The Job of the next attempt has another hash, so the observation of this one does not count for it.
        again = replace(state, attempt=state.attempt + 1, ready_at=None, step_at=observed.now)
        return Rollout(
            state=again, layout=replace(layout, attempt=again.attempt), weight=0, waiting="checks to be repeated"
        )
    waiting = replace(state, ready_at=ready_at)
    return Rollout(state=waiting, layout=layout, weight=0, waiting=f"another attempt: {message}", requeue_after=seconds)
