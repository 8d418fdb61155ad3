"""Count the git processes of this process and its children, and find those that still run."""

from __future__ import annotations

import contextlib
import shutil
from collections import Counter
from pathlib import Path

_PROGRAM = """#!/bin/sh
[ "$1" = --git-dir ] && command=$3 || command=$1
true 2>/dev/null >{calls}/$$.$command
exec {git} "$@"
"""


def processes_with(text: str) -> dict[int, str]:
    """Return the programs, by process id, whose command line or environment contains a text."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if text.encode() in (process / "cmdline").read_bytes() + (process / "environ").read_bytes():
                found[int(process.name)] = (process / "comm").read_text().strip()
    return found


class GitProcesses:
    """
    The git processes that were started with ``folder`` first on PATH.

    That git leaves an empty file per call. A render process may write no file where the kernel has Landlock, so that
    those which it starts are not counted there.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self._calls = folder / "programs", folder / "calls"
        for made in (self.folder, self._calls):
            made.mkdir(parents=True)
        program = self.folder / "git"
        program.write_text(_PROGRAM.format(calls=self._calls, git=shutil.which("git")))
        program.chmod(0o755)

    def counts(self) -> Counter[str]:
        """Return how many processes were started, by git command."""
        return Counter(call.name.partition(".")[2] for call in self._calls.iterdir())

    def running(self) -> list[int]:
        """Return the ids of those that run now; an id may belong to another process by now."""
        ids = (int(call.name.partition(".")[0]) for call in self._calls.iterdir())
        return [pid for pid in ids if Path(f"/proc/{pid}").exists()]

    def forget(self) -> None:
        """Count from zero."""
        for call in self._calls.iterdir():
            call.unlink()
