"""Pointer files of Git LFS: text in Git that refers to a file on another server."""

from __future__ import annotations

from gitsync.errors import InvalidInput

_POINTERS = (b"version https://git-lfs.github.com/spec/", b"version https://hawser.github.com/spec/")
"""Source: git-lfs, docs/spec.md; ``hawser`` is the name before its first release."""


def reject_pointer(content: bytes, path: str) -> None:
    """Raise InvalidInput when the content of a file is a Git LFS pointer: applied, it would replace the real data."""
    if content.startswith(_POINTERS):
        raise InvalidInput(
            "the file is a Git LFS pointer, and Git LFS is not supported",
            location=path,
            hint="commit the file itself: git lfs untrack, then git add --renormalize",
        )
