"""
Further controller processes of ``gitsync run --processes``, and the entry of one: ``python -m`` this module.

Such a process has no dashboard. It reads its settings from the first line of its standard input, answers each further
line with its metrics and costs, and stops when that ends: however the first process ends, no other one is left.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO

import orjson
from pydantic import SecretStr

from gitsync.cli.child_process import ChildProcess, answer_until_end
from gitsync.cli.data_lock import lock_data
from gitsync.cli.errors import exit_on_error
from gitsync.cli.output import Exit
from gitsync.ports import Cost, OtherProcesses, ProcessReport, Spent
from gitsync.runtime.controller import Manager
from gitsync.runtime.logs import configure
from gitsync.server.metrics import process_text
from gitsync.settings import Settings
from gitsync.wiring import Engine, ProcessGroup, build_controller, group_name

# -P: a file gitsync.py in the current folder must not be imported instead
_COMMAND = (sys.executable, "-P", "-m", "gitsync.cli.further_processes")
_OF_THE_FIRST = {"install_crds": False, "users": None, "audit_days": 0, "audit_records": 0}
"""Settings without what only the first process does."""
_REPORT_SECONDS = 2.0
"""Seconds in which a process has to report."""


@contextmanager
def further_processes(settings: Settings) -> Iterator[list[ChildProcess]]:
    """Run the processes of the settings beside this one, which is one of them."""
    group = group_name(settings) if settings.processes > 1 else ""
    numbers = range(2, settings.processes + 1)
    children = [ChildProcess(f"process-{number}", _COMMAND, message(settings, group, number)) for number in numbers]
    manager = Manager([*children])
    manager.start()
    try:
        yield children
    finally:
        manager.stop()


def message(settings: Settings, group: str, number: int) -> bytes:
    """Return the settings of a process, without the secrets that only the dashboard uses, and its group."""
    secrets = {name for name in Settings.model_fields if isinstance(getattr(settings, name), SecretStr)}
    own = {
        # each process locks a data folder of its own; the database is shared
        "data": str(settings.data / "processes" / str(number)),
        "database": settings.database_url,
        # the processes share the cores of one machine
        "render_workers": max(settings.render_workers // settings.processes, 1),
    }
    kept = settings.model_dump(mode="json", exclude=secrets)
    return orjson.dumps({"settings": kept | _OF_THE_FIRST | own, "group": group, "data": str(settings.data)})


@exit_on_error
def main() -> Exit:
    """Run the controller that the first line describes until the input ends."""
    configure(sys.stderr)
    answers = _own_output()
    message = orjson.loads(sys.stdin.buffer.readline())
    settings = Settings(**message["settings"])
    configure(sys.stderr, settings.log_level)
    with lock_data(settings.data):
        controller = build_controller(settings, group=ProcessGroup(message["group"], Path(message["data"])))
        try:
            controller.start()
            answer_until_end(sys.stdin.buffer, answers, partial(report_of, controller))
        finally:
            controller.stop()
    return Exit.OK


def _own_output() -> IO[bytes]:
    """Return the standard output for answers alone: whatever else is printed goes to the log."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a print of a library would be taken for an answer
    return answers


def report_of(engine: Engine) -> bytes:
    """Return what this process measured."""
    costs = {view.key: engine.view.cost(view.key) for view in engine.view.applications()}
    return orjson.dumps(
        {
            "metrics": process_text(engine, has_applications=engine.is_replica),
            "costs": {key: _to_json(cost) for key, cost in costs.items() if cost != Cost()},
        }
    )


def reports_of(children: Iterable[ChildProcess]) -> OtherProcesses:
    """Return what asks these processes for their reports."""
    return lambda: tuple(_report(child) for child in children)


def _report(child: ChildProcess) -> ProcessReport:
    number = child.name.rpartition("-")[2]
    answer = child.ask(_REPORT_SECONDS)
    if answer is None:
        return ProcessReport(number, is_up=False)
    report = orjson.loads(answer)
    return ProcessReport(number, report["metrics"], {key: _of_json(cost) for key, cost in report["costs"].items()})


def _to_json(cost: Cost) -> dict[str, object]:
    stages = {name: list(spent) for name, spent in cost.stages.items()}
    return {"full": cost.full, "partial": cost.partial, "requests": cost.requests, "stages": stages}


def _of_json(members: dict[str, object]) -> Cost:
    cost = Cost(**members)  # type: ignore[arg-type]
    return Cost(cost.full, cost.partial, cost.requests, {name: Spent(*spent) for name, spent in cost.stages.items()})


if __name__ == "__main__":
    main()
