"""
Ranges of semantic versions as revisions: ``>=1.2 <2``, ``~1.4``, ``^1.2``, ``1.x`` name the highest tag inside them.

Source: semver.org, version 2.0.0. A range needs an operator or a wildcard: a plain ``1.2.3`` is the name of a tag.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_NUMBER = r"(?:0|[1-9]\d{0,8})"
_TAG = re.compile(rf"v?({_NUMBER})\.({_NUMBER})(?:\.({_NUMBER}))?(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?", re.ASCII)
_PART = rf"(?:{_NUMBER}|[xX*])"
_COMPARATOR = re.compile(
    rf"(>=|<=|!=|>|<|=|~|\^)?\s*v?({_PART})(?:\.({_PART}))?(?:\.({_PART}))?(?:-([0-9A-Za-z.-]+))?", re.ASCII
)
_GAPS = re.compile(r"[\s,]+")
_LONGEST = 256

Numbers = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Version:
    """A version as the parts that order it; build metadata does not."""

    numbers: Numbers
    prerelease: str = ""

    @property
    def rank(self) -> tuple[object, ...]:
        """What versions are compared by: a pre-release comes before its release, numbers before words."""
        parts = self.prerelease.split(".") if self.prerelease else []
        words = tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts)
        return (self.numbers, not parts, words)


@dataclass(frozen=True, slots=True)
class Span:
    """Versions from ``low`` (included) to ``high`` (excluded, None: no end); with ``negated`` all others."""

    low: Version
    high: Version | None
    negated: bool = False

    def holds(self, version: Version) -> bool:
        """Return whether a version is in the range."""
        inside = self.low.rank <= version.rank and (self.high is None or version.rank < self.high.rank)
        return inside is not self.negated


@dataclass(frozen=True, slots=True)
class Range:
    """Alternatives, each a list of spans that must all hold; pre-releases only where the range names one."""

    alternatives: tuple[tuple[Span, ...], ...]
    takes_prereleases: bool

    def highest(self, tags: Iterable[str]) -> str | None:
        """Return the tag of the highest version inside the range, None when there is none."""
        versions = {tag: version for tag in tags if (version := parse_version(tag)) is not None}
        inside = [tag for tag, version in versions.items() if self.holds(version)]
        return max(inside, key=lambda tag: (versions[tag].rank, tag), default=None)

    def holds(self, version: Version) -> bool:
        """Return whether a version is in the range."""
        if version.prerelease and not self.takes_prereleases:
            return False
        return any(all(span.holds(version) for span in spans) for spans in self.alternatives)


def parse_version(tag: str) -> Version | None:
    """Return the version that a tag names, with or without ``v``; None when it names none."""
    match = _TAG.fullmatch(tag)
    if match is None:
        return None
    major, minor, patch, prerelease = match.groups()
    return Version((int(major), int(minor), int(patch or 0)), prerelease or "")


def parse_range(text: str) -> Range | None:
    """Return the range that a revision is, None when it is none."""
    if len(text) > _LONGEST or not re.search(r"[<>=~^*]|\.[xX](?:[\s,|.]|$)", text):
        return None
    alternatives = []
    for part in text.split("||"):
        spans = _spans(part.strip(" ,"))
        if not spans:
            return None
        alternatives.append(spans)
    return Range(tuple(alternatives), bool(re.search(r"\d-", text)))


def _spans(text: str) -> tuple[Span, ...]:
    """Return the spans of one alternative, none when something in it is not understood."""
    spans, at = [], 0
    while at < len(text):
        match = _COMPARATOR.match(text, at)
        if match is None:
            return ()
        spans.append(_span(*match.groups()))
        gap = _GAPS.match(text, match.end())
        if gap is None and match.end() != len(text):
            return ()
        at = gap.end() if gap else match.end()
    return tuple(spans)


def _span(operator: str | None, *parts: str | None) -> Span:
    """Return the range of one comparator; a missing part, or a wildcard, matches all its values."""
    *numbers, prerelease = parts
    known = []
    for number in numbers:
        if number is None or not number.isdecimal():
            break
        known.append(int(number))
    low = Version(_filled(known), prerelease or "")
    above = _above(known, len(known)) if len(known) < 3 else _just_above(low)
    match operator:
        case ">=":
            return Span(low, None)
        case ">":
            return Span(above, None) if above else Span(low, low)
        case "<":
            return Span(_FIRST, low)
        case "<=":
            return Span(_FIRST, above)
        case "~":
            return Span(low, _above(known, min(len(known), 2)))
        case "^":
            return Span(low, _above(known, next((i + 1 for i, n in enumerate(known) if n), len(known))))
        case _:
            return Span(low, above, negated=operator == "!=")


# before every version that a range can mean
_FIRST = Version((0, 0, 0), "0")


def _filled(known: list[int]) -> Numbers:
    major, minor, patch = (*known, 0, 0, 0)[:3]
    return major, minor, patch


def _above(known: list[int], count: int) -> Version | None:
    """Return the first version after all that share the leading ``count`` numbers; None when all do."""
    if not count:
        return None
    # its pre-releases belong to the next version already
    return Version(_filled([*known[: count - 1], known[count - 1] + 1]), "0")


def _just_above(version: Version) -> Version:
    """Return a version between this one and all that come after it."""
    if version.prerelease:
        return Version(version.numbers, f"{version.prerelease}.0")
    major, minor, patch = version.numbers
    return Version((major, minor, patch + 1), "0")
