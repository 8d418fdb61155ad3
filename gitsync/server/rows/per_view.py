"""Values that are computed once for each view of an application, until the controller publishes another one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from gitsync.ports import ApplicationView

T = TypeVar("T")


class PerView(Generic[T]):
    """
    Compute a value for each view, and reuse it while the view is the same object.

    A view never changes: a reconcile publishes another one. Only the values of the views of the last call are kept, so
    those of deleted applications are not. Concurrent calls compute a value twice at worst.
    """

    def __init__(self, make: Callable[[ApplicationView], T]) -> None:
        self._make = make
        self._made: dict[str, tuple[ApplicationView, T]] = {}

    def all_of(self, views: Iterable[ApplicationView]) -> list[T]:
        """Return the values of views, which are all that there are."""
        known, made = self._made, dict[str, tuple[ApplicationView, T]]()
        for view in views:
            before = known.get(view.key)
            made[view.key] = before if before is not None and before[0] is view else (view, self._make(view))
        self._made = made
        return [value for _, value in made.values()]
