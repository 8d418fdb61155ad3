"""Sync windows: the times in which an Application may or may not sync."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from croniter import CroniterBadDateError, croniter

from gitsync.errors import InvalidInput
from gitsync.objects.application import Window


@dataclass(frozen=True, slots=True)
class WindowState:
    """Whether a sync may run now, and why not."""

    allowed: bool
    reason: str = ""


def is_open(window: Window, now: datetime) -> bool:
    """
    Whether a window is open now: its schedule last fired less than its duration ago, in its own time zone.

    Raise InvalidInput when schedule or time zone is not valid.
    """
    check(window)
    local = now.astimezone(ZoneInfo(window.time_zone))
    # croniter returns the time strictly before the given one, so a window opens in its first second
    started = croniter(window.schedule, local + timedelta(seconds=1)).get_prev(datetime)
    return bool((now - started).total_seconds() < window.duration)


def check(window: Window) -> None:
    """Raise InvalidInput when the schedule or the time zone of a window is not valid."""
    # croniter also accepts six fields, with seconds, and names such as @daily.
    if len(window.schedule.split()) != 5 or not croniter.is_valid(window.schedule):
        raise InvalidInput(
            f"{window.schedule!r} is not a valid cron expression",
            location="spec.sync.windows.schedule",
            hint='write minute, hour, day, month, weekday: "0 18 * * 5"',
        )
    try:
        croniter(window.schedule, datetime(2000, 1, 1, tzinfo=UTC)).get_next()
    except CroniterBadDateError:  # such as 30 February
        raise InvalidInput(
            f"{window.schedule!r} never occurs", location="spec.sync.windows.schedule", hint="choose a date that exists"
        ) from None
    try:
        ZoneInfo(window.time_zone)
    # ValueError: an absolute path or one with "..". OSError: a folder of zones, such as "Europe".
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidInput(
            f"{window.time_zone!r} is not a known time zone",
            location="spec.sync.windows.timeZone",
            hint='write "Europe/Berlin"',
        ) from None


def state(windows: Iterable[Window], now: datetime, *, manual: bool = False) -> WindowState:
    """
    Return whether a sync may run now.

    An open Deny window stops it. Where there are Allow windows, one must be open. A manually requested sync passes
    windows with ``manualSync``, as if each were a Deny window that is closed or an Allow window that is open.
    """
    windows = tuple(windows)
    passing = [window for window in windows if not (manual and window.manual_sync)]
    # Deny first: it wins over an Allow window that is open at the same time.
    for window in passing:
        if window.kind == "Deny" and is_open(window, now):
            return WindowState(False, f"a Deny window is open ({window.schedule} {window.time_zone})")
    allows = [window for window in windows if window.kind == "Allow"]
    if allows and not any(window not in passing or is_open(window, now) for window in allows):
        return WindowState(False, "no Allow window is open")
    return WindowState(True)
