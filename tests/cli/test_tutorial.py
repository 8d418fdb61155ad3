"""The tutorial as it is printed: every command of its pages for a laptop, in one shell, on a running demo."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest

from gitsync.cli.output import Exit
from tests.browser.conftest import CHROMIUM
from tests.browser.heights import heights, largest
from tests.cli.conftest import Done, line, running
from tests.links import follow
from tests.waiting import until

_DOCS = Path(__file__).parents[2] / "docs"
TUTORIAL = (_DOCS / "tutorial.md").read_text(encoding="utf-8")
TOUR = (_DOCS / "tour.md").read_text(encoding="utf-8")
README = (_DOCS.parent / "README.md").read_text(encoding="utf-8").partition("## Try it")[2].partition("\n## ")[0]
_STEPS = {
    int(number): text
    for number, text in re.findall(r"^## (\d)\. [^\n]*\n(.*?)(?=^## |\Z)", TUTORIAL, re.MULTILINE | re.DOTALL)
}
_CODE = re.compile(r"^```\n(.*?)^```|`((?:gitsync|git|kubectl|curl) [^`]*)`", re.MULTILINE | re.DOTALL)
START = "export KUBECONFIG=$PWD/.gitsync/kubeconfig GITSYNC_DATA=$PWD/.gitsync PATH=$PWD/.venv/bin:$PATH"
"""What the tutorial tells a second terminal."""
LIMIT = 900.0
"""Seconds that a loaded machine may take until processes of agents run."""
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
def demo(tmp_path: Path) -> Iterator[str]:
    """Run the demo as `make run` does, in a folder of its own; return the steps that it prints."""
    if shutil.which("kubectl") is None or shutil.which("curl") is None:
        pytest.skip("needs kubectl and curl")
    with running("demo", "--port", "0", "--data", tmp_path / ".gitsync") as (_, log):
        line(log, "Ctrl-C stops everything")
        yield log.read_text().partition("Things to try")[2].partition("Ctrl-C stops")[0]


@pytest.fixture
def terminal(tmp_path: Path, demo: str) -> Iterator[Terminal]:
    """A shell in the folder where `make run` was called, as a second terminal beside it."""
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "gitsync").write_text(f'#!/bin/sh\nexec {sys.executable} -m gitsync "$@"\n')
    (programs / "gitsync").chmod(0o755)
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("GITSYNC_", "KUBE"))}
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
    outputs: list[str] = []

    def is_reported() -> bool:
        outputs.append(terminal(command).out)
        return is_expected(outputs[-1])

    until(is_reported, LIMIT, lambda: outputs[-1])


def check_pages(folder: Path, state: str) -> None:
    """
    Follow every link of every page of the demo as it is now: each leads to a page, and none is a long document.

    Only lists may be over 2,000 px on a laptop.
    """
    data = folder / ".gitsync"
    url = (data / "dashboard.url").read_text(encoding="utf-8").strip()
    token = (data / "dashboard.token").read_text(encoding="utf-8").strip()
    sizes: dict[str, int] = {}

    def get(path: str) -> tuple[int, str]:
        request = Request(f"{url}{quote(path, safe='/?&=%+:,')}", headers={"Authorization": f"Bearer {token}"})
        try:
            with urlopen(request, timeout=120) as answer:
                text = answer.read().decode()
                sizes[path] = len(text)
                return answer.status, text
        except HTTPError as error:
            return error.code, ""

    followed = follow(get)
    assert len(followed.pages) > 300
    assert followed.failures == {}, state
    if CHROMIUM is None:
        return
    measured = heights(url, token, largest(sizes))
    assert {path: height for path, height in measured.items() if height > 2000} == {}, state


@pytest.mark.timeout(3600)
def test_every_command_of_the_tutorial_does_what_it_says(terminal: Terminal, tmp_path: Path) -> None:
    start, *status = [command for command in commands(1) if command != "make run"]
    assert start == START
    assert terminal(start).code == Exit.OK
    for command in status:
        reports(terminal, command, lambda out: len(re.findall(r"support-\w+ .*Synced +Healthy", out)) == 4)
    for command in commands(2):
        done = terminal(command)
        assert done.code == Exit.OK, (command, done)
    reports(terminal, commands(2)[-1], lambda out: "Update triage in dev" in out)
    scale, drift, suspend, resume = commands(3)
    for command in (scale, drift, suspend):
        done = terminal(command)
        assert done.code in REPORTED, (command, done)
    check_pages(tmp_path, "while an Application is suspended")
    assert terminal(resume).code == Exit.OK
    revert, rollback, pull = commands(4)
    assert terminal(revert).code == Exit.OK
    reports(terminal, commands(2)[-1], lambda out: 'Revert "Update triage in dev"' in out)
    for command in (rollback, pull):
        assert terminal(command).code == Exit.OK, command
    *stop, plan, approve, reject = commands(5)
    for command in stop:
        assert terminal(command).code == Exit.OK, command
    reports(terminal, plan, lambda out: "stops" in out and "Dangerous" in out)
    check_pages(tmp_path, "while a plan is held")
    reports(terminal, reject, lambda out: "rejected" in out)
    assert approve == "gitsync approve support-prod"
    (back,) = commands(6)
    assert back == "git revert"
    for command in (*commands(7), *commands_of(TOUR)):
        done = terminal(command)
        assert done.code == Exit.OK, (command, done)


def printed(demo: str) -> dict[str, list[str]]:
    """Return the commands of each step that the demo prints, by the first word of its title."""
    parts = re.findall(r"^# \d\. (\w+)[^\n]*\n(.*?)(?=^# |\Z)", demo, re.MULTILINE | re.DOTALL)
    return {word: text.split("\n") for word, text in parts}


def answered(terminal: Terminal, command: str) -> str:
    """Run a printed command and return its output; one that waits is repeated where its own limit was too short."""
    outputs: list[str] = []

    def is_answered() -> bool:
        done = terminal(command)
        assert done.code == Exit.OK, (command, done)
        outputs.append(done.out)
        return "not yet: " not in done.out

    until(is_answered, LIMIT, lambda: outputs[-1])
    return outputs[-1]


@pytest.mark.timeout(3600)
def test_every_step_of_the_readme_does_what_it_says(terminal: Terminal, demo: str, tmp_path: Path) -> None:
    steps = printed(demo)
    # who edits and reverts has an editor
    assert terminal(f"{START} KUBE_EDITOR=\"sed -i 's/replicas: 1/replicas: 4/'\" GIT_EDITOR=true").code == Exit.OK

    def run(word: str) -> list[str]:
        """Run the commands of a step as they are printed; return what each one printed."""
        return [answered(terminal, command) for command in steps[word] if command]

    run("Commit")
    reports(terminal, "gitsync history support-dev", lambda out: "Release triage 2.2.0 to dev" in out)
    run("Change")
    replicas = (
        "kubectl --kubeconfig $KUBECONFIG -n support-dev get deployment dev-billing -o jsonpath='{.spec.replicas}'"
    )
    reports(terminal, "gitsync changes app:support-dev", lambda out: "kubectl changed .spec.replicas" in out)
    reports(terminal, replicas, lambda out: out.strip() == "1")
    _, edit, question, history, revert = commands_of(README)
    assert terminal(f"cd - && {edit}").code == Exit.OK
    reports(terminal, "gitsync changes app:support-dev", lambda out: "kubectl-edit changed .spec.replicas" in out)
    reports(terminal, replicas, lambda out: out.strip() == "1")
    if "Ask" in steps:  # where what the agents need is installed
        question = question.replace("URL", re.findall(r"--proxy (\S+)", demo)[0])
        reports(terminal, question, lambda out: "Queue: billing" in out)
        # an output for each line: ask, cd, edit, push, wait for the answer, for the revision, edit, push, wait, ask
        first, _, _, _, apology, serving, _, _, failed, answer = run("Ask")
        assert "Queue: billing" in first
        assert "apologize" not in first
        assert "apologize" in apology
        assert "Apologize" in serving
        assert "Failed 3/4: no promise" in failed
        assert "Failed 3/4: no promise" in answered(terminal, history)
        assert "apologize" in answer
        assert "refund" not in answer
        assert "apologize" in answered(terminal, question)
        run("Undo")
        reports(terminal, "gitsync history support-agents", lambda out: 'Revert "Promise a refund"' in out)
    run("Break")
    reports(terminal, "gitsync objects app:support-dev health:Degraded", lambda out: "CrashLoopBackOff" in out)
    check_pages(tmp_path, "after a failed evaluation, a revert and a crash")
    assert terminal(revert).code == Exit.OK
    reports(terminal, "gitsync objects app:support-dev health:Degraded", lambda out: "CrashLoopBackOff" not in out)
