"""
Idioms that code, documents and templates avoid, each with what to write instead.

``python -m tests.idioms`` prints their number per package, with ``-v`` each place.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

BANNED = {
    r"look(s|ed|ing)? (again|at|for|after|on)": "observe, reconcile, read, search",
    r"(nobody|somebody|whoever|everybody)": "the actor: user, controller, replica, API server, viewer",
    r"(is|are) no (?!longer\b|more\b|less\b|deeper\b|larger\b|problem\b)[a-z]+": "is not a, is not a valid",
    r"(so many|so much|for so long)": "the number and its unit",
    r"(anew|made again)": "rebuilt, recreated, again",
    r"(is|are|was) borne": "is tolerated",
    r"told": "reported, informed, distinguished",
    r"it is said": "the actor and what it reports",
    r"stands? (for|in|at|still|alone|beside)": "means, represents, is, is stored in",
    r"(goes|went|going) on": "continues",
    r"(a|the|its|their|with|and) cure": "fix, hint",
    r"(does|do|did) without": "does not use",
    r"take it that": "assume",
    r"of (its|our|his|their) own accord": "automatically",
}
"""Pattern of whole words (any case) → what to write."""

PRIVATE_NAMES = (
    "AsMe|Aftermath|Asked|Converger|Desire|Desk|Fate|Here|Known|Line|Look|Looked|Memory|Notices|Noticing|Noting|Past|Scene"
    "|Several|Struck|Strays|Told|Turn|Wish"
)
"""Class names from before the names of the field were adopted."""

ALLOWED = {
    "is no such": "the operating system's and the shell's own message",
    "so much as": "a conjunction",
    "looking for beginning": "Go's own message for malformed JSON",
}
"""Text that may stand although it contains an idiom → the reason."""

SOURCES = (
    "gitsync/**/*.py",
    "bench/*.py",
    "tools/*.py",
    "tests/**/*.py",
    "web/**/*.html",
    "docs/**/*.md",
    "*.md",
    "Makefile",
)
SELF = ("tests/idioms.py", "tests/test_language.py")

_BANNED = re.compile(rf"\b({'|'.join(BANNED)})\b", re.IGNORECASE)
_CLASS = re.compile(rf"^\s*class ({PRIVATE_NAMES})\b")


@dataclass(frozen=True, slots=True)
class Finding:
    """One idiom in one line of a file."""

    path: str
    line: int
    idiom: str

    def __str__(self) -> str:
        instead = next(
            (text for pattern, text in BANNED.items() if re.fullmatch(pattern, self.idiom, re.IGNORECASE)), ""
        )
        return f"{self.path}:{self.line}: {self.idiom!r}" + (f"; write: {instead}" if instead else "")


@cache
def findings() -> tuple[Finding, ...]:
    """Return every idiom in code, docs and templates."""
    return tuple(_findings())


def _findings() -> Iterator[Finding]:
    for pattern in SOURCES:
        for path in sorted(ROOT.glob(pattern)):
            name = path.relative_to(ROOT).as_posix()
            if name not in SELF:
                for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                    yield from (Finding(name, number, idiom) for idiom in idioms(line))


def idioms(line: str) -> Iterator[str]:
    """Yield the idioms of one line."""
    for allowed in ALLOWED:
        line = line.replace(allowed, "")
    for match in (*_BANNED.finditer(line), *_CLASS.finditer(line)):
        if not match[1].isupper():  # a constant
            yield match[1]


def package_of(path: str) -> str:
    """Return the folder by which findings are counted: two levels deep in gitsync and tests, else one."""
    parts = path.split("/")[:-1]
    return "/".join(parts[:2]) or path


if __name__ == "__main__":
    counts = Counter(package_of(found.path) for found in findings())
    for package, count in sorted(counts.items()):
        print(f"{count:5} {package}")
    print(f"{counts.total():5} in all")
    if "-v" in sys.argv:
        print(*findings(), sep="\n")
