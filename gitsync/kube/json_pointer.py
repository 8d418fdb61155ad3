"""JSON Pointer (RFC 6901): names as parts of a pointer, and back."""

from __future__ import annotations


def escape(name: str) -> str:
    """Return a name as one part of a pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def unescape(part: str) -> str:
    """Return the name that one part of a pointer encodes."""
    return part.replace("~1", "/").replace("~0", "~")


def parts(pointer: str) -> tuple[str, ...]:
    """Return the names in a pointer; the empty pointer has none."""
    return tuple(map(unescape, pointer.split("/")[1:]))
