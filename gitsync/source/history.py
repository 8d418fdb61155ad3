"""What the history of a mirror tells of files: who wrote lines, and which commits changed a file."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import Protocol

from gitsync.errors import SourceUnavailable
from gitsync.ports import FileVersion
from gitsync.source.git import GitFailed, GitTimedOut
from gitsync.source.left_out import left_out
from gitsync.source.mirror import Mirror
from gitsync.source.object_reader import TooLarge
from gitsync.source.validation import is_commit

# how long all files of one request may take; git reads the history of each
_BLAME_SECONDS = 1.0
# what ``--porcelain`` prints above each line: the commit, and the line's number there and in the file
_LINE = re.compile(rb"^([0-9a-f]{40,64}) \d+ (\d+)(?: \d+)?$", re.MULTILINE)


# how long the history of all files of one request may take; git reads each commit until it has found enough
_LOG_SECONDS = 1.0
# versions of one file
_COMMITS = 20
# bytes of a version; larger ones are left out
_BYTES = 64 << 10
_LOG = ("log", "--follow", f"--max-count={_COMMITS}", "--raw", "--no-abbrev", "--format=%H")
# A commit, and the content of the file in it: git prints modes, ids and kind of change; a file has the mode 100644
_CHANGED = re.compile(rb"^([0-9a-f]{40,64})\n\n:\d+ 100\d{3} [0-9a-f]+ ([0-9a-f]+) [A-Z]", re.MULTILINE)


class Repository(Protocol):
    """A mirror, or the repository that a user works in."""

    def git(self, *arguments: str, timeout: float) -> bytes:
        """Run git with fixed arguments and return its output."""
        ...


def blame(repository: Repository, commit: str, places: Collection[str]) -> dict[str, str]:
    """
    Return the ids of the commits that wrote lines, by ``file:line`` as of one commit.

    Nothing is fetched. A line of a file that is not in the mirror, or whose history takes long to read, is left out.
    """
    lines = defaultdict(list)
    for place in places:
        file, _, line = place.rpartition(":")
        if file and line.isascii() and line.isdecimal():
            lines[file].append(line)
    authors: dict[str, str] = {}
    until = time.monotonic() + _BLAME_SECONDS
    for file, numbers in lines.items() if is_commit(commit) else ():
        seconds = until - time.monotonic()
        if seconds <= 0:
            break
        ranges = (option for number in numbers for option in ("-L", f"{number},{number}"))
        try:
            text = repository.git("blame", "--porcelain", *ranges, commit, "--", file, timeout=seconds)
        except (GitFailed, SourceUnavailable):
            continue  # one file without a history hides no line of the others
        authors |= {f"{file}:{line.decode()}": id.decode() for id, line in _LINE.findall(text)}
    return authors


def file_versions(mirror: Mirror, commit: str, files: Collection[str]) -> dict[str, tuple[FileVersion, ...]]:
    """
    Return the latest versions of files as of a commit, newest first, also under former names.

    Nothing is fetched. What cannot be read, or not in time, is left out.
    """
    until = time.monotonic() + _LOG_SECONDS
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
        # literal: a file may be called ``:(exclude)*``
        return mirror.git(*_LOG, commit, "--", file, env={"GIT_LITERAL_PATHSPECS": "1"}, timeout=seconds)
    except GitTimedOut as error:
        return error.printed  # newest first, so what was printed in time is what is asked for most
    except (GitFailed, SourceUnavailable):
        return b""
