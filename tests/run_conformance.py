"""Run conformance suites through the real code: ``python -m tests.run_conformance DIR``; see ``make conformance``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.conformance_expectations import judged

SUITES = {
    "kustomize": "tests.render.kustomize_cases",
    "kustomize-5.8": "tests.render.kustomize_cases",
    "health": "tests.health.health_cases",
    "kstatus": "tests.health.kstatus_cases",
    "diff": "tests.plan.diff_cases",
    "ssa": "tests.merge.ssa_cases",
    "apiserver": "tests.sandbox.apiserver_cases",
    "badinput": "tests.badinput.badinput_cases",
}
"""The runner of each suite: a module with ``run(folder)``, which returns an outcome for each case."""

FURTHER = {
    "kustomize": (
        "kustomize-bytes",
        lambda runner, folder, outcomes: [(item.name, item.identical) for item in outcomes],
    ),
    "kustomize-5.8": (
        "kustomize-5.8-bytes",
        lambda runner, folder, outcomes: [(item.name, item.identical) for item in outcomes],
    ),
    "health": ("health-messages", lambda runner, folder, outcomes: map(_verdict, runner.run_messages(folder))),
    "diff": ("diff-paths", lambda runner, folder, outcomes: map(_verdict, runner.run_paths(folder))),
}
"""What some suites judge beside their main question, in a line of its own."""


def lines(suite: str, outcomes: Iterable[tuple[str, bool]]) -> Iterator[str]:
    """Return the line of a suite, then what failed, indented, and the expected differences with their reasons."""
    results = list(judged(suite, outcomes))
    failed = [(name, reason) for name, is_expected, reason in results if not is_expected]
    differs = [(name, reason) for name, is_expected, reason in results if is_expected and reason]
    passed = len(results) - len(failed) - len(differs)
    yield f"{suite}: {passed} passed, {len(failed)} failed" + (
        f", {len(differs)} differ as expected" if differs else ""
    )
    yield from (f"  {name}" + (f": {reason}" if reason else "") for name, reason in failed)
    yield from (f"- {name}: {reason}" for name, reason in differs)


def _verdict(outcome: Any) -> tuple[str, bool]:
    """Return name and success of an outcome: an object that says ``passed``, or a name and what is wrong."""
    if isinstance(outcome, tuple):
        name, problem = outcome
        return name, not problem
    return outcome.name, outcome.passed


def run_suite(folder: Path) -> Iterator[str]:
    """Run the suite that the folder is named after and yield what to print."""
    runner = importlib.import_module(SUITES[folder.name])
    outcomes = list(runner.run(folder))
    yield from lines(folder.name, map(_verdict, outcomes))
    if folder.name in FURTHER:
        name, judge = FURTHER[folder.name]
        yield from lines(name, judge(runner, folder, outcomes))


def main(arguments: Sequence[str]) -> int:
    """Run one suite's folder, or every known suite in a folder; 0 when all passed, 2 when there is none."""
    folder = Path(arguments[0]).resolve()
    folders = [folder] if folder.name in SUITES else [folder / name for name in SUITES if (folder / name).is_dir()]
    if not folders:
        print(
            f"no suite in {arguments[0]}: name a folder called {', '.join(SUITES)}, or one that holds such",
            file=sys.stderr,
        )
        return 2
    failed = False
    for suite in folders:
        for line in run_suite(suite):
            print(line, flush=True)
            failed = failed or line.startswith("  ")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
