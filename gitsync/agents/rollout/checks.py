"""Checks that ended without a result: they are repeated some times, and then wait for a user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from gitsync.agents.expansion.expand import Layout
from gitsync.agents.rollout.context import Rollout, RolloutContext
from gitsync.agents.rollout.tracks import Placement

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
