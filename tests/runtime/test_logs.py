"""Logs are JSON lines without a terminal, and hostile text cannot forge a line."""

from __future__ import annotations

import io
import json
import logging
import signal
from collections.abc import Iterator

import pytest

from gitsync.runtime.logs import configure, toggle_debug_on_signal

log = logging.getLogger("gitsync.test")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger("gitsync")
    handlers, propagate, level = root.handlers, root.propagate, root.level
    yield
    root.handlers, root.propagate = handlers, propagate
    root.setLevel(level)


def test_a_signal_changes_the_level_and_restores_it() -> None:
    stream = io.StringIO()
    configure(stream)
    earlier = signal.getsignal(signal.SIGUSR1)
    toggle_debug_on_signal()
    try:
        log.debug("first")
        signal.raise_signal(signal.SIGUSR1)
        log.debug("second")
        signal.raise_signal(signal.SIGUSR1)
        log.debug("third")
    finally:
        signal.signal(signal.SIGUSR1, earlier)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(line["event"], line.get("to")) for line in lines] == [
        ("the level of the log changed", "debug"),
        ("second", None),
        ("the level of the log changed", "info"),
    ]


def test_a_line_has_its_fields() -> None:
    stream = io.StringIO()
    configure(stream)
    log.info("create %s", "Succeeded", extra={"application": "a/b", "revision": "1f", "ref": "/ConfigMap/a/c"})
    line = json.loads(stream.getvalue())
    assert line["event"] == "create Succeeded"
    assert (line["application"], line["revision"], line["ref"]) == ("a/b", "1f", "/ConfigMap/a/c")
    assert (line["level"], line["logger"]) == ("info", "gitsync.test")


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()], ids=["file", "terminal"])
def test_control_characters_are_escaped(stream: io.StringIO) -> None:
    configure(stream)
    log.warning("commit %s", "\x1b[2J\nfake line\u202e", extra={"ref": "a\rb"})
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert text.rstrip("\n").isprintable()


def test_a_traceback_is_kept_with_its_lines() -> None:
    stream = io.StringIO()
    configure(stream)
    try:
        raise ValueError("bad \x1b[2J text")
    except ValueError:
        log.exception("failed")
    exception = json.loads(stream.getvalue())["exception"]
    assert "\n" in exception
    assert "\x1b" not in exception


def test_the_level_may_be_another_one() -> None:
    stream = io.StringIO()
    configure(stream, "debug")
    logging.getLogger("gitsync.x").debug("seen")
    configure(stream, "error")
    logging.getLogger("gitsync.x").warning("not seen")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["seen"]
