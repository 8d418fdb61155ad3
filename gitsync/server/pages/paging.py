"""Pages of long lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def page_of(items: Sequence[T], start: int, size: int) -> tuple[Sequence[T], int]:
    """Return one page of items and the index of the next page, 0 at the end."""
    following = start + size
    return items[start:following], following if following < len(items) else 0
