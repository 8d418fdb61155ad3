"""Patterns of names, as users write them: ``*``, ``?`` and ``[...]``."""

from __future__ import annotations

import re
from fnmatch import translate
from functools import lru_cache


def matches(text: str, pattern: str) -> bool:
    """Return whether a pattern matches a whole text, case-sensitively, in time that is linear in its length."""
    return _compiled(pattern).match(text) is not None


@lru_cache(maxsize=256)  # fnmatch keeps 32,768, and authors write patterns
def _compiled(pattern: str) -> re.Pattern[str]:
    # ``translate`` writes each ``*`` but the last as an atomic group, which never backtracks.
    return re.compile(translate(_with_closed_brackets(pattern)))


def _with_closed_brackets(pattern: str) -> str:
    """Return the pattern with brackets that nothing closes escaped: for each, ``fnmatch`` searches the whole rest."""
    start = 0
    while (opened := pattern.find("[", start)) >= 0:
        first = opened + 2 if pattern.startswith("!", opened + 1) else opened + 1
        closed = pattern.find("]", first + 1)  # the first member may be a "]"
        if closed < 0:
            return pattern[:opened] + pattern[opened:].replace("[", "[[]")
        start = closed + 1
    return pattern
