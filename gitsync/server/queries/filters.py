"""
The filter of lists, one syntax for pages, API and command line, and their pages. Pure.

``kind:Deployment sync:OutOfSync -ns:dev since:18h word``: members with the same name are alternatives, others all have
to match; ``-`` excludes; ``*`` matches any text; what has no name is searched in the row. Case does not matter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar
from urllib.parse import urlencode

from gitsync.objects.patterns import matches

T = TypeVar("T")

NAMES: Final = (
    *("app", "ns", "kind", "name", "state", "sync", "health", "risk", "by", "is", "commit", "since", "until"),
    *("model", "phase", "set"),
)
"""Every name of a member; a list accepts some of them."""
_TIMES: Final = ("since", "until")
_LONGEST = 300
_TOKEN = re.compile(r'(-?)(?:([a-z]+):)?(?:"([^"]*)"|(\S+))')
_DURATION = re.compile(r"(\d{1,6})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True, slots=True)
class FilterTerm:
    """One member of a filter, such as ``-kind:Pod``."""

    name: str
    value: str
    is_excluded: bool = False

    def __str__(self) -> str:
        # in quotes, as the parser reads it
        value = f'"{self.value}"' if re.search(r"\s", self.value) else self.value
        return f"{'-' if self.is_excluded else ''}{self.name}:{value}"


@dataclass(frozen=True, slots=True)
class Filter:
    """A parsed filter; ``problem`` says why it cannot be used, empty otherwise."""

    members: tuple[FilterTerm, ...] = ()
    words: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    problem: str = ""

    def __str__(self) -> str:
        return " ".join([*map(str, self.members), *self.words])

    def has(self, name: str, value: str) -> bool:
        """Tell whether the filter has this member."""
        return FilterTerm(name, value) in self.members

    @property
    def application(self) -> str:
        """The one application, as ``namespace/name``, that the filter is about; empty where it is about more."""
        names = [member.value for member in self.members if member.name == "app" and not member.is_excluded]
        return names[0] if len(names) == 1 and "/" in names[0] and "*" not in names[0] else ""

    def exact(self, name: str) -> frozenset[str]:
        """Return the values of which a member has to have one, in lower case; empty where it may have others."""
        values = frozenset(item.value.lower() for item in self.members if item.name == name and not item.is_excluded)
        return frozenset() if any("*" in value for value in values) else values

    def toggled(self, name: str, value: str) -> str:
        """Return the text of this filter with a member added, or removed where it has it."""
        member = FilterTerm(name, value)
        kept = [str(item) for item in self.members if item != member]
        return " ".join([*kept, *([] if self.has(name, value) else [str(member)]), *self.words])

    def without(self, name: str) -> Filter:
        """Return this filter without the members of a name."""
        return Filter(tuple(item for item in self.members if item.name != name), self.words, self.since, self.until)

    def matcher(
        self, read: Mapping[str, Callable[[T], Iterable[str]]], text: Callable[[T], str]
    ) -> Callable[[T], bool]:
        """Return the test of rows; ``read`` has the values of a row by name, words are searched in its ``text``."""
        # by a lookup and whether it is excluded: all values of a member are tested at once
        wanted: dict[tuple[str, bool], list[str]] = {}
        for member in self.members:
            if member.name not in _TIMES:
                wanted.setdefault((member.name, member.is_excluded), []).append(member.value.lower())
        tests = [(read[name], _values_test(values), is_excluded) for (name, is_excluded), values in wanted.items()]
        words = [word.lower() for word in self.words]

        # loops instead of any(): a list of 10,000 rows makes a generator for each
        def matches(row: T) -> bool:
            for values_of, is_wanted, is_excluded in tests:
                for value in values_of(row):
                    if is_wanted(value.lower()):
                        if is_excluded:
                            return False
                        break
                else:
                    if not is_excluded:
                        return False
            if words:
                searched = text(row).lower()
                for word in words:
                    if word not in searched:
                        return False
            return True

        return matches

    def is_in_time(self, time: datetime | None) -> bool:
        """Tell whether a time is between ``since`` and ``until``."""
        if time is None:
            # what has no time is in no period
            return self.since is None and self.until is None
        return (self.since is None or time >= self.since) and (self.until is None or time < self.until)


def parse_query(text: str, names: Iterable[str], now: datetime) -> Filter:
    """Return the filter that a text describes, with the members that a list accepts."""
    accepted = tuple(names)
    members = []
    words = []
    problems = []
    for sign, name, quoted, plain in _TOKEN.findall(text[:_LONGEST]):
        value = quoted or plain
        if name not in NAMES:  # also an image with a tag, or a URL
            words.append(f"{sign}{name}:{value}" if name else f"{sign}{value}")
        elif name not in accepted:
            problems.append(f"{name}: is not a filter of this list; it has {', '.join(accepted)}")
        elif value:
            members.append(FilterTerm(name, value, bool(sign)))
    times = {member.name: parse_moment(member.value, now) for member in members if member.name in _TIMES}
    problems += [
        f"{name}: is not a time; write 30m, 18h, 7d, or 2026-03-01" for name, time in times.items() if time is None
    ]
    return Filter(
        tuple(dict.fromkeys(members)), tuple(words), times.get("since"), times.get("until"), "; ".join(problems)
    )


def parse_moment(text: str, now: datetime) -> datetime | None:
    """Return the time that a text names: a duration before now, a date, or RFC 3339; None when it is not valid."""
    duration = _DURATION.fullmatch(text)
    try:
        if duration:
            return now - timedelta(**{_UNITS[duration[2]]: int(duration[1])})
        moment = datetime.fromisoformat(text)
    # OverflowError: a duration that begins before the year 1
    except (ValueError, OverflowError):
        return None
    # an aware time: Python does not compare it with one without an offset
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _values_test(wanted: Iterable[str]) -> Callable[[str], bool]:
    """Return the test whether a value is one of these, or has one of these patterns; all are in lower case."""
    patterns = [text for text in wanted if "*" in text]
    exact = frozenset(wanted) - frozenset(patterns)
    if not patterns:
        return exact.__contains__
    return lambda value: value in exact or any(matches(value, pattern) for pattern in patterns)


def page_of(items: Sequence[T], start: int, size: int) -> tuple[Sequence[T], int]:
    """Return one page of items and the index of the next page, 0 at the end."""
    following = start + size
    return items[start:following], following if following < len(items) else 0


def list_url(path: str, q: str = "", **parameters: str) -> str:
    """Return the URL of a list with a filter and other parameters; empty ones are left out."""
    members = {name: text for name, text in {"q": q, **parameters}.items() if text}
    return f"{path}?{urlencode(members)}" if members else path
