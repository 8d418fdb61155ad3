"""The place of a field in a file, as errors name it: ``file:line``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from gitsync.errors import InvalidInput
from gitsync.render.yaml.reader import locations


def place(file: str, text: bytes, path: Sequence[str | int], document: int = 0) -> str:
    """Return ``file:line`` of a path in a document, or of what is nearest around it."""
    lines = _lines(text, document)
    parts = tuple(path)
    line = lines.get(parts) or next(
        (lines[parts[:end]] for end in range(len(parts) - 1, -1, -1) if parts[:end] in lines), 0
    )
    return f"{file}:{line}" if line else file


@lru_cache(maxsize=64)
def _lines(text: bytes, document: int) -> dict[tuple[str | int, ...], int]:
    """Return the lines of all fields; a file of thousands of entries is asked for each of them."""
    try:
        return locations(text, document)
    except (InvalidInput, IndexError):
        return {}
