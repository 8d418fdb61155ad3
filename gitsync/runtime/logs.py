"""Structured logging: JSON, or console output when stderr is a terminal."""

from __future__ import annotations

import logging
import signal
from collections.abc import MutableMapping
from typing import Any, TextIO

import structlog

from gitsync.errors import one_line

_LONGEST = 2000


def configure(stream: TextIO, level: str = "") -> None:
    """
    Send the logs of gitsync to a stream: all as JSON lines, or on a terminal, readable, what asks for attention.

    What comes from outside cannot forge a line or move a terminal's cursor: control characters are escaped. A second
    call takes the place of the first. ``level`` is the name of another level than those.
    """
    is_terminal = stream.isatty()
    renderer: Any = structlog.dev.ConsoleRenderer(colors=False) if is_terminal else structlog.processors.JSONRenderer()
    foreign: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[Any] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, structlog.processors.format_exc_info]
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=foreign, processors=[*last, _printable, renderer])
    )
    log = logging.getLogger("gitsync")
    log.handlers = [handler]
    log.propagate = False  # a program that embeds this would print each line again
    log.setLevel(level.upper() or (logging.WARNING if is_terminal else logging.INFO))


def toggle_debug_on_signal() -> None:
    """
    Let SIGUSR1 lower the level of the log to ``debug``, and the next one restore it; for the main thread.

    Without this the signal would end the process.
    """
    log = logging.getLogger("gitsync")
    level = log.level

    def toggle(*_: object) -> None:
        is_debug = log.level == logging.DEBUG
        log.setLevel(level if is_debug else logging.DEBUG)
        log.warning("the level of the log changed", extra={"to": logging.getLevelName(log.level).lower()})

    signal.signal(signal.SIGUSR1, toggle)


def _printable(_log: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Escape what is not printable, in every text; the lines of a traceback stay lines."""
    for key, value in event.items():
        if isinstance(value, str):
            # an error's text may come from a manifest, also inside a traceback
            is_traceback = key == "exception"
            event[key] = "\n".join(map(_escaped, value.split("\n"))) if is_traceback else one_line(value, _LONGEST)
    return event


def _escaped(line: str) -> str:
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in line)
