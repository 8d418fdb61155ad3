"""Aftermath: what the health of a newly applied commit means."""

from __future__ import annotations

from gitsync.objects.health import Health
from gitsync.sync.memory import Memory
from gitsync.sync.turn import Pin, Turn


def judge(turn: Turn, memory: Memory, now: float) -> None:
    """
    Remember a commit that became healthy as good; for one that did not, do what the application says.

    A commit has the time of ``postSync.healthTimeout`` to become healthy. ``Rollback`` goes back to the last good one
    and stays there until Git has a newer commit, or a person asks; ``Hold`` leaves everything as it is until then.
    Health that is lost once a commit was good says nothing of the commit.
    """
    goal = turn.goal.id if turn.goal else ""
    if turn.phase != "Synced" or turn.applied != goal:
        return
    if turn.overall_health in (Health.HEALTHY, Health.SUSPENDED):
        turn.good = goal
    elif turn.good != goal and turn.app.sync.on_degraded != "Ignore":
        reason = _verdict(turn, memory, now)
        if reason:
            back = turn.good if turn.app.sync.on_degraded == "Rollback" else ""
            turn.pin = Pin(back, goal, reason)
            turn.wake_in(0.0)


def _verdict(turn: Turn, memory: Memory, now: float) -> str:
    """Return why the commit is no good, empty while it may still become healthy."""
    assert turn.goal is not None
    if memory.settled[0] != turn.goal.id:
        memory.settled = (turn.goal.id, now)
    if turn.overall_health is Health.DEGRADED:
        return turn.worst()
    left = memory.settled[1] + turn.app.sync.health_timeout - now
    if left <= 0:
        return f"not healthy after {turn.app.sync.health_timeout:.0f} s: {turn.worst()}"
    turn.wake_in(left)
    return ""
