"""How a command ends: each failure is one line on standard error, and an exit code that scripts can use."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import NoReturn, ParamSpec

from gitsync.cli.output import Exit
from gitsync.errors import GitsyncError, SourceDenied, TransientError, one_line

P = ParamSpec("P")


def exit_on_error(command: Callable[P, Exit]) -> Callable[P, NoReturn]:
    """
    Return the command as one that exits with its exit code and never prints a traceback.

    With GITSYNC_DEBUG set, unexpected exceptions are re-raised.
    """

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> NoReturn:
        raise SystemExit(int(_code(lambda: command(*args, **kwargs))))

    return run


def _code(command: Callable[[], Exit]) -> Exit:
    try:
        code = command()
        sys.stdout.flush()  # a full disk or a closed pipe shows only here, and must become an exit code
    except GitsyncError as error:
        return print_error(error)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:  # the reader, such as head, has closed the pipe
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # or the interpreter reports the error again at exit
        return Exit.OK
    except OSError as error:
        # without a file it is not a mistake of the user
        if error.filename is None:
            return _unexpected(error)
        return _print(one_line(f"{error.filename}: {error.strerror}"), Exit.INVALID)
    except Exception as error:
        return _unexpected(error)
    return code


def print_error(error: GitsyncError) -> Exit:
    """Print an error as one line, and return its exit code."""
    # a controller waits for other credentials; at a command the user has to act
    is_transient = isinstance(error, TransientError) and not isinstance(error, SourceDenied)
    return _print(str(error), Exit.UNAVAILABLE if is_transient else Exit.INVALID)


def _unexpected(error: Exception) -> Exit:
    if os.environ.get("GITSYNC_DEBUG"):
        raise error
    text = one_line(f"{type(error).__name__}: {error}", 500)
    return _print(f"unexpected {text}; set GITSYNC_DEBUG=1 to see the traceback", Exit.INTERNAL)


def _print(text: str, code: Exit) -> Exit:
    print(f"gitsync: {text}", file=sys.stderr)
    return code
