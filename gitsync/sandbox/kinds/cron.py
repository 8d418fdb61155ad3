"""Parser of CronJob schedules, with the error messages of the API server."""

from __future__ import annotations

from zoneinfo import ZoneInfo

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
# github.com/robfig/cron/v3, the parser of the API server, has the days 0 to 6: 7 is not Sunday there.
_FIELDS: tuple[tuple[int, int, dict[str, int]], ...] = (  # least and greatest value, names
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    (0, 6, {name: number for number, name in enumerate(_DAYS)}),
)
# @reboot, which other crons know, is not among them.
_DESCRIPTORS = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})


def schedule_problem(schedule: str) -> str:
    """Return what is wrong with a schedule, empty when nothing is."""
    if schedule.startswith("@"):
        return _descriptor_problem(schedule)
    parts = schedule.split()
    if len(parts) != len(_FIELDS):
        return f"expected exactly 5 fields, found {len(parts)}: [{' '.join(parts)}]"
    for part, (least, most, names) in zip(parts, _FIELDS, strict=True):
        # Empty parts of a list are skipped by the Go parser (strings.FieldsFunc), so "1,,2" is valid.
        for expression in part.split(","):
            problem = _range_problem(expression, least, most, names) if expression else ""
            if problem:
                return problem
    return ""


def _descriptor_problem(schedule: str) -> str:
    if schedule in _DESCRIPTORS:
        return ""
    if schedule.startswith("@every "):
        duration = schedule[len("@every ") :]
        # Go's duration in the forms people write; a full parser would reject no schedule that occurs.
        if duration and duration[-1] in "smh" and duration[0].isdecimal():
            return ""
        return f'failed to parse duration {schedule}: time: invalid duration "{duration}"'
    return f"unrecognized descriptor: {schedule}"


def _range_problem(expression: str, least: int, most: int, names: dict[str, int]) -> str:
    bounds, *steps = expression.split("/")
    ends = bounds.split("-")
    if len(steps) > 1:
        return f"too many slashes: {expression}"
    # A question mark means any value here, as an asterisk does.
    if ends[0] in ("*", "?"):
        start = least
        end = most
    else:
        if len(ends) > 2:
            return f"too many hyphens: {expression}"
        numbers = [_number(text, names) for text in ends]
        for number in numbers:
            if isinstance(number, str):
                return number
        start = int(numbers[0])
        # "5/10" counts from 5 to the end of the range, "5" is 5 alone.
        end = int(numbers[-1]) if len(ends) == 2 else (most if steps else start)
    step = _number(steps[0], {}) if steps else 1
    if isinstance(step, str):
        return step
    if start < least:
        return f"beginning of range ({start}) below minimum ({least}): {expression}"
    if end > most:
        return f"end of range ({end}) above maximum ({most}): {expression}"
    if start > end:
        return f"beginning of range ({start}) beyond end of range ({end}): {expression}"
    return "" if step else f"step of range should be a positive number: {expression}"


def _number(text: str, names: dict[str, int]) -> int | str:
    """Return the number, or what is wrong with it."""
    if text.lower() in names:
        return names[text.lower()]
    try:
        number = int(text)
    except ValueError:
        return f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax'
    return number if number >= 0 else f"negative number ({number}) not allowed: {text}"


def time_zone_problem(zone: str) -> str:
    """Return what is wrong with a time zone, empty when nothing is."""
    if not zone:
        return "timeZone must be nil or non-empty string"
    # Go would take the zone of the machine that the controller runs on.
    if zone.lower() == "local":
        return "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
    try:
        ZoneInfo(zone)
    # ZoneInfo raises KeyError for an unknown name, ValueError for one that leaves its folder, OSError for a name of a
    # folder.
    except (KeyError, ValueError, OSError):
        return f"unknown time zone {zone}"
    return ""
