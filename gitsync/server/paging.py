"""Pages of long lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar
from urllib.parse import urlencode

T = TypeVar("T")


def page_of(items: Sequence[T], start: int, size: int) -> tuple[Sequence[T], int]:
    """Return one page of items and the index of the next page, 0 at the end."""
    following = start + size
    return items[start:following], following if following < len(items) else 0


def list_url(path: str, q: str = "", **parameters: str) -> str:
    """Return the URL of a list with a filter and other parameters; empty ones are left out."""
    members = {name: text for name, text in {"q": q, **parameters}.items() if text}
    return f"{path}?{urlencode(members)}" if members else path
