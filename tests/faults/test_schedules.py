"""
Whichever call of a sync fails, the end is the same: see docs/fault-schedules.md.

A run without faults lists the calls to the API server, the database and Git, and the watch events. Each call is then
failed in each way that its edge can fail; each event is lost, duplicated, or followed by an older one. ``make faults``
also repeats a failure three times in a row, and covers every event.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitsync.ports import Renderer
from gitsync.sandbox.server import Sandbox
from gitsync.workers.pool import RenderPool
from tests.faults.runner import ScheduleRunner, failures_of
from tests.faults.scenarios import SCENARIOS, Scenario
from tests.flow.environment import World

ALL = os.environ.get("GITSYNC_FAULTS") == "all"
TIMES = (1, 3) if ALL else (1,)
PARTS = 4
"""Parts into which the schedules of a scenario are divided, to run in parallel."""
SPEED = 40.0


@pytest.fixture(scope="module")
def renderer() -> Iterator[Renderer]:
    pool = RenderPool(1, 30.0, 1024)
    yield pool
    pool.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with Sandbox() as sandbox:
        sandbox.set_speed(SPEED)
        made = World(tmp_path, sandbox)
        yield made
        made.close()


def commits(world: World, scenario: Scenario) -> list[str]:
    """Commit the files before and after."""
    before = world.repo.commit("before", {"README": "a repository", **scenario.before})
    return [before, world.repo.commit("after", scenario.after)]


@pytest.mark.filterwarnings("ignore:(?s)Exception in thread git-.*Crashed:pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_any_failure_at_any_call_ends_in_the_same_state(
    world: World, renderer: Renderer, scenario: Scenario, part: int
) -> None:
    made = commits(world, scenario)
    clean = ScheduleRunner(world, renderer, scenario, "clean", made)
    calls = sorted(set(clean.calls(clean.run())))
    clean.check("clean", is_crash=True)
    clean.clean_up()
    schedules = [(call, failure, times) for times in TIMES for call in calls for failure in failures_of(call)]
    events = [schedule for schedule in schedules if schedule[0].edge == "watch"]
    if not ALL:
        schedules = [schedule for schedule in schedules if schedule[0].edge != "watch"] + events[::4]
    struck = 0
    for number, (call, failure, times) in enumerate(schedules[part::PARTS]):
        case = ScheduleRunner(world, renderer, scenario, f"case-{number}", made)
        what = f"{failure} at {call.edge} {call.method} {call.target} {call.nth}, {times} times"
        injector = case.run(call, failure, times)
        case.check(what, is_crash=failure.startswith("crash"))
        case.clean_up()
        struck += injector.has_struck
    assert struck >= scenario.least // PARTS, f"{struck} of {len(schedules)} schedules"
    print(f"{struck} of {len(schedules[part::PARTS])} schedules struck")


def test_there_are_enough_schedules() -> None:
    assert sum(scenario.least for scenario in SCENARIOS) >= 600
