"""Faults: a build ends at the first thing that is wrong, or notes it and goes on where all of it is wanted."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

from gitsync.errors import InvalidInput


class MultipleErrors(InvalidInput):
    """Several things are wrong in one file; the line is that of the first, ``all`` holds each."""

    def __init__(self, faults: Sequence[InvalidInput]) -> None:
        first = faults[0]
        super().__init__(first.message, location=first.location, object=first.object, hint=first.hint)
        self.all = tuple(faults)


def raise_all(faults: Sequence[InvalidInput]) -> None:
    """Raise what was found, if anything."""
    if faults:
        raise faults[0] if len(faults) == 1 else MultipleErrors(faults)


class ErrorCollector:
    """
    Surround a part of a build that can be refused without the parts beside it.

    Given a list, what is refused is added to it; without one, it is raised as ever.
    """

    def __init__(self, found: list[InvalidInput] | None = None) -> None:
        self.found = found

    def __enter__(self) -> None:
        """Begin the part."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """End the part, and say whether to go on."""
        if self.found is None or not isinstance(error, InvalidInput):
            return False
        self.found += error.all if isinstance(error, MultipleErrors) else (error,)
        return True
