"""Error collection: stop at the first error, or collect all of them."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

from gitsync.errors import InvalidInput


class MultipleErrors(InvalidInput):
    """Several errors of one file; the location is that of the first, ``all`` holds each."""

    def __init__(self, faults: Sequence[InvalidInput]) -> None:
        first = faults[0]
        super().__init__(first.message, location=first.location, object=first.object, hint=first.hint)
        self.all = tuple(faults)


def raise_all(faults: Sequence[InvalidInput]) -> None:
    """Raise the errors as one, if there are any."""
    if faults:
        raise faults[0] if len(faults) == 1 else MultipleErrors(faults)


class ErrorCollector:
    """
    Context manager around a part of a build that can fail without the parts beside it.

    Given a list, an InvalidInput is appended to it and suppressed; without one, it propagates.
    """

    def __init__(self, errors: list[InvalidInput] | None = None) -> None:
        self.collected = errors

    def __enter__(self) -> None:
        """Begin the part."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """End the part; return whether the error is suppressed."""
        if self.collected is None or not isinstance(error, InvalidInput):
            return False
        self.collected += error.all if isinstance(error, MultipleErrors) else (error,)
        return True
