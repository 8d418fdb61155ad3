"""What changed inside one value that differs as a whole, such as an atomic list: for people to read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from deepdiff import DeepDiff

from gitsync.objects.change import ABSENT

_LIMIT = 40
_ADDED = ("dictionary_item_added", "iterable_item_added", "attribute_added")
_REMOVED = ("dictionary_item_removed", "iterable_item_removed", "attribute_removed")


@dataclass(frozen=True, slots=True)
class InnerChange:
    """One place inside a value: its path below the value, and both sides; ABSENT where a side has nothing there."""

    path: str
    live: Any
    desired: Any


def inner_changes(live: Any, desired: Any) -> tuple[InnerChange, ...]:
    """
    Return where two containers differ inside, at most 40 places; empty unless both are mappings or both lists.

    Items of lists are matched by likeness, so one that was put in front does not show all others as changed.
    """
    if not (isinstance(live, dict) and isinstance(desired, dict)) and not (
        isinstance(live, list) and isinstance(desired, list)
    ):
        return ()
    return tuple(sorted(_changes(live, desired), key=lambda change: change.path))[:_LIMIT]


def _changes(live: Any, desired: Any) -> Iterator[InnerChange]:
    found = DeepDiff(live, desired, view="tree", threshold_to_diff_deeper=0)
    for kind, levels in found.items():
        for level in levels:
            yield InnerChange(
                path=_path(level.path(output_format="list")),
                live=ABSENT if kind in _ADDED else level.t1,
                desired=ABSENT if kind in _REMOVED else level.t2,
            )


def _path(parts: list[Any]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
