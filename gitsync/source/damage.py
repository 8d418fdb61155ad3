"""Failures of git that have their cause on this machine: a damaged mirror, or a disk that cannot be written."""

from __future__ import annotations

import re
from pathlib import Path

from gitsync.errors import SourceUnavailable
from gitsync.source.git import GitFailed, environment, run

_BROKEN = (
    *("corrupt", "bad object", "missing blob", "missing tree", "not a valid object", "inflate", "garbage"),
    *(
        "unable to read",
        "unable to parse",
        "unable to unpack",
        "loose object",
        "packfile the mirror",
        "mismatched algorithms",
        "unresolved delta",  # against a file that was left out
    ),
)
# what fsck prints of missing files: some were left out on purpose, a damaged one is found when it is read
_WITHOUT_FILES = re.compile(r"missing blob |broken link from +tree |\s+to +blob |notice: ")
_FULL = ("No space left on device", "Disk quota exceeded", "Read-only file system")


class Damaged(SourceUnavailable):
    """The mirror is damaged and has to be rebuilt."""

    def __init__(
        self, message: str = "the mirror is damaged", *, location: str = "", hint: str = "it is rebuilt automatically"
    ) -> None:
        super().__init__(message, location=location, hint=hint)


def unusable(reason: str) -> SourceUnavailable:
    """Return the error of a mirror that cannot be written."""
    return SourceUnavailable(
        f"the mirror of the repository cannot be written: {reason}",
        hint="free space in the data folder of the controller (GITSYNC_DATA), or enlarge its volume",
    )


def disk_failure(text: str) -> SourceUnavailable | None:
    """Return the error of a disk that cannot be written, which neither the server nor a rebuild can fix."""
    full = next((reason for reason in _FULL if any(reason in line for line in _local_lines(text))), None)
    return unusable(full) if full else None


def local_failure(git_dir: Path, text: str, seconds: float) -> SourceUnavailable | None:
    """Return the error where the disk or the mirror is why git failed, None where the server is."""
    failure = disk_failure(text)
    if failure is None and (_is_damaged(text) or not _is_intact(git_dir, seconds)):
        return Damaged()
    return failure


def _local_lines(text: str) -> list[str]:
    """Return the lines that git wrote itself; what the server prints says nothing of the mirror."""
    return [line for line in text.splitlines() if not line.startswith("remote:")]


def _is_damaged(text: str) -> bool:
    return any(word in line for line in _local_lines(text) for word in _BROKEN)


def _is_intact(git_dir: Path, seconds: float) -> bool:
    """Return whether git can use a mirror: its configuration, its refs, and the commits and folders that they reach."""
    arguments = ("fsck", "--connectivity-only", "--no-dangling", "--no-progress")
    try:
        run(git_dir, *arguments, env=environment(()), timeout=seconds)
    except GitFailed as error:
        return bool(error.printed) and all(_WITHOUT_FILES.match(line) for line in error.printed.splitlines())
    return True
