"""How much one YAML text may ask for, and what is wanted of it."""

from __future__ import annotations

from typing import Final, NamedTuple


class YamlLimits(NamedTuple):
    """How much one text may ask for: bytes, depth of nesting, and characters that its aliases expand to."""

    bytes: int = 16 << 20
    depth: int = 200
    aliases: int = 4 << 20
    duplicates: bool = False
    """Whether a key may be repeated in a mapping; the last one then counts."""
    styles: bool = False
    """Whether texts in quotes and blocks, and numbers with a spelling of their own, remember how they were written."""
    is_raw: bool = False
    """Whether values are those of the text alone; else go-yaml v3 has written and read it, as with each resource."""


LIMITS: Final = YamlLimits()
