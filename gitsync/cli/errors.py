"""Guard: how a command ends. Every failure is one line on standard error, and an exit code that scripts can use."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import NoReturn, ParamSpec

from gitsync.cli.output import Exit
from gitsync.errors import GitsyncError, TransientError, one_line

P = ParamSpec("P")


def exit_on_error(command: Callable[P, Exit]) -> Callable[P, NoReturn]:
    """
    Return the command as one that leaves with its exit code and never shows a traceback.

    With GITSYNC_DEBUG set, what nobody expected is raised as it is.
    """

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> NoReturn:
        raise SystemExit(int(_code(lambda: command(*args, **kwargs))))

    return run


def _code(command: Callable[[], Exit]) -> Exit:
    try:
        code = command()
        sys.stdout.flush()
    except GitsyncError as error:
        return print_error(error)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter complains when it ends
        return Exit.OK
    except OSError as error:
        if error.filename is None:
            return _unexpected(error)
        return _say(one_line(f"{error.filename}: {error.strerror}"), Exit.INVALID)
    except Exception as error:
        return _unexpected(error)
    return code


def print_error(error: GitsyncError) -> Exit:
    """Print an error as one line, and return the exit code that it stands for."""
    return _say(str(error), Exit.UNAVAILABLE if isinstance(error, TransientError) else Exit.INVALID)


def _unexpected(error: Exception) -> Exit:
    if os.environ.get("GITSYNC_DEBUG"):
        raise error
    told = one_line(f"{type(error).__name__}: {error}", 500)
    return _say(f"unexpected {told}; set GITSYNC_DEBUG=1 to see where", Exit.INTERNAL)


def _say(text: str, code: Exit) -> Exit:
    print(f"gitsync: {text}", file=sys.stderr)
    return code
