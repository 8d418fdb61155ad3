"""The tutorial as it is printed: every command of its pages for a laptop, in one shell, on a running demo."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gitsync.cli.output import Exit
from tests.cli.conftest import Done, line, running
from tests.waiting import until

_DOCS = Path(__file__).parents[2] / "docs"
TUTORIAL = (_DOCS / "tutorial.md").read_text(encoding="utf-8")
TOUR = (_DOCS / "tour.md").read_text(encoding="utf-8")
_STEPS = {
    int(number): text
    for number, text in re.findall(r"^## (\d)\. [^\n]*\n(.*?)(?=^## |\Z)", TUTORIAL, re.MULTILINE | re.DOTALL)
}
_CODE = re.compile(r"^```\n(.*?)^```|`((?:gitsync|git) [^`]*)`", re.MULTILINE | re.DOTALL)
REPORTED = {Exit.OK, Exit.DIFFERENT}
"""The exit codes of commands that report a state: the other ones are errors."""


def commands(step: int) -> list[str]:
    """Return the commands of a step of the tutorial."""
    return commands_of(_STEPS[step])


def commands_of(text: str) -> list[str]:
    """Return the commands of a text in its order: lines of its blocks, and those in its sentences."""
    found = _CODE.findall(text)
    return [command for block, span in found for command in (block.splitlines() or [" ".join(span.split())])]


class Terminal:
    """A shell that keeps its folder and its variables from one command to the next."""

    def __init__(self, shell: subprocess.Popen[str]) -> None:
        self._shell = shell

    def __call__(self, command: str) -> Done:
        """Run a command, and return its output and exit code."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        # the mark has a line of its own also after output without a newline
        self._shell.stdin.write(f"{command}\ncode=$?; echo; echo done: $code\n")
        self._shell.stdin.flush()
        lines = []
        for text in self._shell.stdout:
            if text.startswith("done: "):
                return Done(int(text.removeprefix("done: ")), "".join(lines), "")
            lines.append(text)
        raise AssertionError(f"the shell ended in {command}: {''.join(lines)}")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """A shell in the folder where `make run` was called, as a second terminal beside it."""
    if shutil.which("kubectl") is None:
        pytest.skip("needs kubectl")
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "gitsync").write_text(f'#!/bin/sh\nexec {sys.executable} -m gitsync "$@"\n')
    (programs / "gitsync").chmod(0o755)
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("GITSYNC_", "KUBE"))}
    arguments = ("demo", "--port", "0", "--data", tmp_path / ".gitsync")
    with running(*arguments) as (_, log):
        line(log, "dashboard ready at ")
        with subprocess.Popen(
            ["bash"],
            cwd=tmp_path,
            env={**environment, "PYTHONPATH": str(Path(__file__).parents[2])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as shell:
            yield Terminal(shell)


def reports(terminal: Terminal, command: str, is_expected: Callable[[str], bool]) -> None:
    """Repeat a command that reports until its output is the one that its page describes."""
    done = [terminal(command)]
    until(lambda: is_expected(done[-1].out) or done.append(terminal(command)), 60, lambda: done[-1])


@pytest.mark.timeout(900)
def test_every_command_of_the_tutorial_does_what_it_says(terminal: Terminal) -> None:
    start, *status = [command for command in commands(1) if command != "make run"]
    assert terminal(start).code == Exit.OK
    for command in status:
        reports(terminal, command, lambda out: len(re.findall(r"support-\w+ .*Synced +Healthy", out)) == 4)
    for command in commands(2):
        done = terminal(command)
        assert done.code == Exit.OK, (command, done)
    reports(terminal, commands(2)[-1], lambda out: "Update triage in dev" in out)
    scale, drift, suspend, resume = commands(3)
    for command in (scale, drift, suspend, resume):
        done = terminal(command)
        assert done.code in REPORTED, (command, done)
    revert, rollback, pull = commands(4)
    assert terminal(revert).code == Exit.OK
    reports(terminal, commands(2)[-1], lambda out: 'Revert "Update triage in dev"' in out)
    for command in (rollback, pull):
        assert terminal(command).code == Exit.OK, command
    *stop, plan, approve, reject = commands(5)
    for command in stop:
        assert terminal(command).code == Exit.OK, command
    reports(terminal, plan, lambda out: "stops" in out and "Dangerous" in out)
    reports(terminal, reject, lambda out: "rejected" in out)
    assert approve == "gitsync approve support-prod"
    (back,) = commands(6)
    assert back == "git revert"
    for command in (*commands(7), *commands_of(TOUR)):
        done = terminal(command)
        assert done.code == Exit.OK, (command, done)
