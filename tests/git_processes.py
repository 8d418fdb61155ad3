"""Count the git processes of this process and its children, and find those that still run."""

from __future__ import annotations

import contextlib
import shutil
import socket
import tempfile
import threading
from collections import Counter
from pathlib import Path

_PROGRAM = """#!/bin/sh
[ "$1" = --git-dir ] && command=$3 || command=$1
(true >{calls}/$$.$command) 2>/dev/null || grep -qs gitsync.workers.server /proc/$PPID/cmdline ||
logger --socket {socket} -- "$$.$command"
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

    That git leaves an empty file per call, or a message where it may write no file. Those that a render process starts
    are not counted where the kernel has Landlock.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self._calls = folder / "programs", folder / "calls"
        for made in (self.folder, self._calls):
            made.mkdir(parents=True)
        # the path of a socket has at most 107 characters
        address = Path(tempfile.mkdtemp(prefix="git-calls-")) / "socket"
        self._messages = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._messages.bind(str(address))
        self._address = str(address)
        self._received = threading.Semaphore(0)
        threading.Thread(target=self._receive, daemon=True).start()
        program = self.folder / "git"
        program.write_text(_PROGRAM.format(calls=self._calls, git=shutil.which("git"), socket=address))
        program.chmod(0o755)

    def counts(self) -> Counter[str]:
        """Return how many processes were started, by git command."""
        return Counter(call.name.partition(".")[2] for call in self._listed())

    def running(self) -> list[int]:
        """Return the ids of those that run now; an id may belong to another process by now."""
        ids = (int(call.name.partition(".")[0]) for call in self._listed())
        return [pid for pid in ids if Path(f"/proc/{pid}").exists()]

    def forget(self) -> None:
        """Count from zero."""
        for call in self._listed():
            call.unlink()

    def _listed(self) -> list[Path]:
        # an empty message comes after all that were sent before
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"", self._address)
        self._received.acquire()
        return list(self._calls.iterdir())

    def _receive(self) -> None:
        while True:
            message = self._messages.recv(4096)
            if message:
                # after the header of syslog
                (self._calls / message.decode().rpartition(" ")[2].strip("\0\n ")).touch()
            else:
                self._received.release()
