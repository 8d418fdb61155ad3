"""Blame: the commits that wrote lines of files, see git-blame(1)."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Collection

from gitsync.errors import SourceUnavailable
from gitsync.source.git import GitFailed
from gitsync.source.mirror import Mirror
from gitsync.source.validation import is_commit

_SECONDS = 1.0
"""How long all files of one request may take; git reads the history of each."""
_LINE = re.compile(rb"^([0-9a-f]{40,64}) \d+ (\d+)(?: \d+)?$", re.MULTILINE)
"""What ``--porcelain`` prints above each line: the commit, and the line's number there and in the file."""


def blame(mirror: Mirror, commit: str, places: Collection[str]) -> dict[str, str]:
    """
    Return the ids of the commits that wrote lines, by ``file:line`` as of one commit.

    Nothing is fetched. A line of a file that is not in the mirror, or whose history takes long to read, is left out.
    """
    lines = defaultdict(list)
    for place in places:
        file, _, line = place.rpartition(":")
        if file and line.isascii() and line.isdigit():
            lines[file].append(line)
    found: dict[str, str] = {}
    until = time.monotonic() + _SECONDS
    for file, numbers in lines.items() if is_commit(commit) else ():
        left = until - time.monotonic()
        if left <= 0:
            break
        ranges = (option for number in numbers for option in ("-L", f"{number},{number}"))
        try:
            text = mirror.git("blame", "--porcelain", *ranges, commit, "--", file, timeout=left)
        except (GitFailed, SourceUnavailable):
            continue
        found |= {f"{file}:{line.decode()}": id.decode() for id, line in _LINE.findall(text)}
    return found
