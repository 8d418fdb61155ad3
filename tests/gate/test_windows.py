"""Sync windows: cron, duration, time zone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gitsync.errors import InvalidInput
from gitsync.gate.windows import is_open, state
from gitsync.objects.application import Window

WEEKEND = Window(kind="Deny", schedule="0 18 * * 5", duration="62h", time_zone="Europe/Berlin")
MORNINGS = Window(kind="Allow", schedule="0 9 * * *", duration="1h")


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "opened"),
    [
        ("2026-11-20T16:59:59", False),
        ("2026-11-20T17:00:00", True),  # 18:00 in Berlin in winter
        ("2026-11-22T12:00:00", True),
        ("2026-11-23T06:59:59", True),
        ("2026-11-23T07:00:00", False),
        ("2026-06-19T16:00:00", True),  # 18:00 in Berlin in summer
        ("2026-06-19T15:59:59", False),
    ],
)
def test_a_window_is_open_from_its_time_for_its_duration(now, opened):
    assert is_open(WEEKEND, at(now)) is opened


@pytest.mark.parametrize(
    ("windows", "now", "allowed"),
    [
        ((), "2026-11-20T12:00:00", True),
        ((WEEKEND,), "2026-11-21T12:00:00", False),
        ((WEEKEND,), "2026-11-24T12:00:00", True),
        ((MORNINGS,), "2026-11-24T09:30:00", True),
        ((MORNINGS,), "2026-11-24T10:00:00", False),
        ((MORNINGS, WEEKEND), "2026-11-21T09:30:00", False),
    ],
)
def test_deny_wins_and_allow_must_be_open(windows, now, allowed):
    result = state(windows, at(now))
    assert result.allowed is allowed
    assert bool(result.reason) is not allowed


def test_a_person_passes_a_window_that_says_so():
    passable = Window(kind="Deny", schedule="0 18 * * 5", duration="62h", time_zone="Europe/Berlin", manual_sync=True)
    assert state((passable,), at("2026-11-21T12:00:00"), manual=True).allowed
    assert not state((passable,), at("2026-11-21T12:00:00")).allowed
    assert not state((WEEKEND,), at("2026-11-21T12:00:00"), manual=True).allowed


@pytest.mark.parametrize(
    ("schedule", "zone", "where"),
    [
        ("every day", "UTC", "schedule"),
        ("0 0 * * * *", "UTC", "schedule"),
        ("99 0 * * *", "UTC", "schedule"),
        ("0 0 * * *", "Mars/Olympus", "timeZone"),
        ("0 0 * * *", "../../etc/passwd", "timeZone"),
    ],
)
def test_a_window_without_a_meaning_is_refused(schedule, zone, where):
    with pytest.raises(InvalidInput, match=where):
        is_open(Window(kind="Deny", schedule=schedule, duration="1m", time_zone=zone), at("2026-11-20T12:00:00"))


@pytest.mark.parametrize("is_open_now", [True, False])
def test_an_allow_window_that_a_person_passes_counts_as_open(is_open_now: bool) -> None:
    """A manual request must not be refused where an automated sync is allowed."""
    passable = Window(
        kind="Allow", schedule="0 9 * * *" if is_open_now else "0 20 * * *", duration="1h", manual_sync=True
    )
    closed = Window(kind="Allow", schedule="0 3 * * *", duration="1h")
    now = at("2026-11-20T09:30:00")

    assert state((passable, closed), now, manual=True).allowed
    assert state((passable, closed), now).allowed is is_open_now
    assert not state((closed,), now, manual=True).allowed


@pytest.mark.parametrize("schedule", ["0 0 30 2 *", "0 0 31 4,6 *"])
def test_a_date_that_does_not_exist_is_refused(schedule: str) -> None:
    with pytest.raises(InvalidInput, match="never occurs"):
        is_open(Window(kind="Deny", schedule=schedule, duration="1h"), at("2026-11-20T12:00:00"))
