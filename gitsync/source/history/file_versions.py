"""The commits that changed a file, and its content in each, see git-log(1)."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator

from gitsync.errors import SourceUnavailable
from gitsync.ports import FileVersion
from gitsync.source.git import GitFailed, GitTimedOut
from gitsync.source.mirror import Mirror
from gitsync.source.objects.left_out import left_out
from gitsync.source.objects.object_reader import TooLarge
from gitsync.source.validation import is_commit

_SECONDS = 1.0
"""How long the history of all files of one request may take; git reads each commit until it has found enough."""
_COMMITS = 20
"""Versions of one file."""
_BYTES = 64 << 10
"""Bytes of a version; larger ones are left out."""
_LOG = ("log", "--follow", f"--max-count={_COMMITS}", "--raw", "--no-abbrev", "--format=%H")
_CHANGED = re.compile(rb"^([0-9a-f]{40,64})\n\n:\d+ 100\d{3} [0-9a-f]+ ([0-9a-f]+) [A-Z]", re.MULTILINE)
"""A commit, and the content of the file in it: git prints modes, ids and kind of change; a file has the mode 100644."""


def file_versions(mirror: Mirror, commit: str, files: Collection[str]) -> dict[str, tuple[FileVersion, ...]]:
    """
    Return the latest versions of files as of a commit, newest first, also under former names.

    Nothing is fetched. What cannot be read, or not in time, is left out.
    """
    until = time.monotonic() + _SECONDS
    return {file: tuple(_versions(mirror, commit, file, until)) for file in files if is_commit(commit)}


def _versions(mirror: Mirror, commit: str, file: str, until: float) -> Iterator[FileVersion]:
    absent = left_out(mirror.path)
    for id, blob in _CHANGED.findall(_log(mirror, commit, file, until - time.monotonic())):
        parsed = mirror.objects.find_commit(id.decode())
        if parsed is not None and blob.decode() not in absent:
            try:
                yield FileVersion(parsed.commit, mirror.objects.blob(blob.decode(), _BYTES))
            except (TooLarge, SourceUnavailable):
                continue


def _log(mirror: Mirror, commit: str, file: str, seconds: float) -> bytes:
    """Return what git prints of the history of a file in some time, which may be the newest part of it."""
    if seconds <= 0 or not file:
        return b""
    try:
        return mirror.git(*_LOG, commit, "--", file, env={"GIT_LITERAL_PATHSPECS": "1"}, timeout=seconds)
    except GitTimedOut as error:
        return error.printed
    except (GitFailed, SourceUnavailable):
        return b""
