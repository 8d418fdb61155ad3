"""Texts side by side: line numbers of both sides, changed words marked, equal lines folded. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gitsync.server.formatting import visible

_CONTEXT = 3
# SequenceMatcher takes quadratic time in the worst case
_LARGEST = 2000
"""Lines of both sides that are still compared."""
MOST_ROWS = 110
"""Rows of one text, and of all texts of a page."""
_FOLDED = 20
"""Equal lines that a fold holds; the rest is counted."""
_LONGEST_LINE = 2000
_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_LEAST_ALIKE = 0.3
"""Lines that are less alike are marked as a whole."""


@dataclass(frozen=True, slots=True)
class LinePart:
    """A part of a line; ``is_changed`` where the other side has other words."""

    text: str
    is_changed: bool = False


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line of one side, with its number."""

    number: int
    parts: tuple[LinePart, ...]


@dataclass(frozen=True, slots=True)
class TextRow:
    """One row: a line of each side, None where a side has none; or ``fold``, equal lines that are hidden at first."""

    before: DiffLine | None = None
    after: DiffLine | None = None
    fold: tuple[TextRow, ...] = ()
    hidden: int = 0

    @property
    def is_equal(self) -> bool:
        """Whether both sides have this line."""
        return self.before is not None and self.after is not None and self.before.parts == self.after.parts


def text_diff(old_text: Any, new_text: Any, most: int = MOST_ROWS) -> tuple[TextRow, ...]:
    """
    Return the rows of two texts that differ; empty for a text of one line, and for other values.

    At most ``most`` rows are returned, and then one that counts the rest.
    """
    old, new = (side.splitlines() if isinstance(side, str) else [] for side in (old_text, new_text))
    if max(len(old), len(new)) < 2:
        return ()
    if len(old) + len(new) > _LARGEST:
        note = f"{len(old)} lines before, {len(new)} lines after: too many to compare here"
        return (TextRow(after=DiffLine(0, (LinePart(note),))),)
    rows = tuple(_rows([visible(line) for line in old], [visible(line) for line in new], min(_FOLDED, most)))
    return rows if len(rows) <= most else (*rows[:most], TextRow(hidden=len(rows) - most))


def _rows(old: Sequence[str], new: Sequence[str], folded: int) -> Iterator[TextRow]:
    # autojunk would ignore lines that are frequent in 200 or more, such as empty ones and braces
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    blocks = matcher.get_opcodes()
    for number, (tag, start, end, from_, to) in enumerate(blocks):
        if tag != "equal":
            yield from _changed(old[start:end], new[from_:to], start + 1, from_ + 1)
            continue
        lines = [
            TextRow(_whole(text, start + 1 + i), _whole(text, from_ + 1 + i)) for i, text in enumerate(old[start:end])
        ]
        head = _CONTEXT if number else 0
        tail = _CONTEXT if number < len(blocks) - 1 else 0
        # a fold of one line would save no space
        if len(lines) <= head + tail + 1:
            yield from lines
            continue
        yield from lines[:head]
        middle = lines[head : len(lines) - tail]
        yield TextRow(fold=tuple(middle[:folded]), hidden=len(middle))
        yield from lines[len(lines) - tail :]


def _changed(old: Sequence[str], new: Sequence[str], first_old: int, first_new: int) -> Iterator[TextRow]:
    """Yield the rows of a changed block: its lines in pairs, as long as both sides have some."""
    for index in range(max(len(old), len(new))):
        old_line = old[index] if index < len(old) else None
        new_line = new[index] if index < len(new) else None
        if old_line is not None and new_line is not None:
            old_parts, new_parts = _words(old_line, new_line)
            yield TextRow(DiffLine(first_old + index, old_parts), DiffLine(first_new + index, new_parts))
        elif old_line is not None:
            yield TextRow(before=_whole(old_line, first_old + index))
        elif new_line is not None:
            yield TextRow(after=_whole(new_line, first_new + index))


def _words(old_line: str, new_line: str) -> tuple[tuple[LinePart, ...], tuple[LinePart, ...]]:
    """Return the parts of two lines, with the words marked that differ."""
    old = _WORD.findall(old_line)
    new = _WORD.findall(new_line)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    # the length first: ratio() of a long line takes quadratic time
    if max(len(old_line), len(new_line)) > _LONGEST_LINE or matcher.ratio() < _LEAST_ALIKE:
        return (LinePart(old_line, True),), (LinePart(new_line, True),)
    old_parts = []
    new_parts = []
    for tag, start, end, from_, to in matcher.get_opcodes():
        old_parts.append(LinePart("".join(old[start:end]), tag != "equal"))
        new_parts.append(LinePart("".join(new[from_:to]), tag != "equal"))
    return tuple(part for part in old_parts if part.text), tuple(part for part in new_parts if part.text)


def _whole(text: str, number: int) -> DiffLine:
    return DiffLine(number, (LinePart(text),))
