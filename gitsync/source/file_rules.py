"""Rules for a file that a tree may read: the limit of its size, and no pointer of Git LFS."""

from __future__ import annotations

import os
from typing import Final

from gitsync.errors import InvalidInput

FILE_MIB: Final = 16
"""The default, in MiB: bundles of CustomResourceDefinitions have several MiB, and a cluster takes 3 MiB per object."""
MAX_FILE_MIB: Final = 64
_VARIABLE: Final = "GITSYNC_FILE_MIB"


def file_limit() -> int:
    """Return the largest file, in bytes, that a command may read, as the environment sets it."""
    text = os.environ.get(_VARIABLE, str(FILE_MIB))
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= MAX_FILE_MIB:
        raise InvalidInput(
            f"{text!r} is not a number of MiB", location=_VARIABLE, hint=f"write a number from 1 to {MAX_FILE_MIB}"
        )
    return int(text) << 20


# Source: git-lfs, docs/spec.md; ``hawser`` is the name before its first release
_POINTERS = (b"version https://git-lfs.github.com/spec/", b"version https://hawser.github.com/spec/")


def reject_pointer(content: bytes, path: str) -> None:
    """Raise InvalidInput when the content of a file is a Git LFS pointer: applied, it would replace the real data."""
    if content.startswith(_POINTERS):
        raise InvalidInput(
            "the file is a Git LFS pointer, and Git LFS is not supported",
            location=path,
            hint="commit the file itself: git lfs untrack, then git add --renormalize",
        )
