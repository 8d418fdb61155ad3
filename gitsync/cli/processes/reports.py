"""Reports of controller processes: what one measured, as a line of JSON."""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from gitsync.cli.processes.child_process import ChildProcess
from gitsync.ports import Cost, OtherProcesses, ProcessReport, Spent
from gitsync.server.metrics.processes import process_text
from gitsync.wiring import Engine

_SECONDS = 2.0
"""Seconds in which a process has to report."""


def report_of(engine: Engine) -> bytes:
    """Return what this process measured."""
    costs = {view.key: engine.view.cost(view.key) for view in engine.view.applications()}
    return orjson.dumps(
        {
            "metrics": process_text(engine.view, engine.requests.queue_length),
            "costs": {key: _to_json(cost) for key, cost in costs.items() if cost != Cost()},
        }
    )


def reports_of(children: Iterable[ChildProcess]) -> OtherProcesses:
    """Return what asks these processes for their reports."""
    return lambda: tuple(_report(child) for child in children)


def _report(child: ChildProcess) -> ProcessReport:
    number, answer = child.name.rpartition("-")[2], child.ask(_SECONDS)
    if answer is None:
        return ProcessReport(number, is_up=False)
    found = orjson.loads(answer)
    return ProcessReport(number, found["metrics"], {key: _of_json(cost) for key, cost in found["costs"].items()})


def _to_json(cost: Cost) -> dict[str, object]:
    stages = {name: list(spent) for name, spent in cost.stages.items()}
    return {"full": cost.full, "partial": cost.partial, "requests": cost.requests, "stages": stages}


def _of_json(given: dict[str, object]) -> Cost:
    found = Cost(**given)  # type: ignore[arg-type]
    return Cost(found.full, found.partial, found.requests, {name: Spent(*one) for name, one in found.stages.items()})
