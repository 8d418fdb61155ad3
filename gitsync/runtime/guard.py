"""Guarded commands: programs that end, with all their children, when the process that started them ends."""

from __future__ import annotations

from collections.abc import Sequence

_GUARD = 'exec 3<&0; { read -r _ <&3; kill -KILL 0; } >/dev/null 2>&1 & exec "$@" 3<&- </dev/null'


def guarded(command: Sequence[str]) -> list[str]:
    """
    Return a command that runs ``command`` and kills its process group when the standard input ends.

    The caller starts it in a session of its own and holds the other end of the pipe, which the system closes however
    the caller ends. A parent-death signal would not reach the children of the command, such as those of git.
    """
    return ["sh", "-c", _GUARD, "sh", *command]
