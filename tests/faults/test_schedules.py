"""
Whichever call of a sync fails, the end is the same: see docs/fault-schedules.md.

A run without faults lists the calls to the API server, the database and Git, and the watch events. Each call is then
failed in each way that its edge can fail; each event is lost, duplicated, or followed by an older one. The suite runs
a sample of these schedules, ``make faults`` all of them, and also repeats a failure three times in a row.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitsync.gate.policy import Policy, Require, RequiredApprovers
from gitsync.objects.signers import Signer
from gitsync.ports import Renderer
from gitsync.sandbox.server import Sandbox
from gitsync.workers.pool import RenderPool
from tests.faults.injector import READS, Call
from tests.faults.runner import ScheduleRunner, failures_of
from tests.faults.scenarios import SCENARIOS, Scenario
from tests.flow.environment import World
from tests.git_repository import ssh_key

ALL = os.environ.get("GITSYNC_FAULTS") == "all"
TIMES = (1, 3) if ALL else (1,)
PARTS = 4 if ALL else 1
"""Parts into which the schedules of a scenario are divided, to run in parallel."""
EVERY = 1 if ALL else 13
"""The schedules of which one runs; prime to the number of failures of an edge, so that each failure has its turn."""
SPEED = 40.0
Schedule = tuple[Call, str, int]
"""The call that fails, how, and how many times in a row."""


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


def policies(world: World, scenario: Scenario) -> tuple[Policy, ...]:
    """Return the operator's policies; where commits are signed, make the key that signs them."""
    if not scenario.is_signed:
        return ()
    if shutil.which("ssh-keygen") is None:
        pytest.skip("ssh-keygen, which signs the commits, is not installed")
    key = ssh_key(world.folder, "key")
    world.repo.sign_with(key)
    signer = Signer(keys=(key.with_suffix(".pub").read_text(),), tags=True)
    return (Policy(require=(Require(signers=(signer,), approvers=RequiredApprovers(not_author=True)),)),)


def is_repeated(call: Call) -> bool:
    """Whether the calls before were the same: every reconcile makes it."""
    return call.method in READS and call.nth > 1


def in_suite(scenario: Scenario, schedules: list[Schedule]) -> list[Schedule]:
    """
    Return the schedules of which the suite runs a sample.

    They are those of the scenario's methods, or all but three of four usual ones: of events, of reads and of defects.
    """
    if scenario.methods:
        return [schedule for schedule in schedules if schedule[0].method in scenario.methods]
    usual = [
        (call, failure, times)
        for call, failure, times in schedules
        if call.edge == "watch" or call.method in READS or "defect" in failure
    ]
    return [schedule for schedule in schedules if schedule not in usual] + usual[::4]


def commits(world: World, scenario: Scenario) -> list[str]:
    """Commit the files before and after."""
    before = world.repo.commit("before", {"README": "a repository", **scenario.before})
    return [before, world.repo.commit("after", scenario.after)]


@pytest.mark.filterwarnings("ignore:(?s)Exception in thread git-.*Crashed:pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.timeout(3600 if ALL else 600)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_any_failure_at_any_call_ends_in_the_same_state(
    world: World, renderer: Renderer, scenario: Scenario, part: int
) -> None:
    required = policies(world, scenario)
    made = commits(world, scenario)
    clean = ScheduleRunner(world, renderer, scenario, "clean", made)
    clean.policies = required
    calls = sorted(call for call in set(clean.calls(clean.run())) if not is_repeated(call))
    clean.check("clean", is_crash=True)
    clean.clean_up()
    schedules = [(call, failure, times) for times in TIMES for call in calls for failure in failures_of(call)]
    if not ALL:
        schedules = in_suite(scenario, schedules)
        assert len(schedules) >= scenario.least, "a call was renamed, or is not made any more"
    sample = schedules[::EVERY][part::PARTS]
    struck = 0
    for number, (call, failure, times) in enumerate(sample):
        case = ScheduleRunner(world, renderer, scenario, f"case-{number}", made)
        case.policies = required
        what = f"{failure} at {call.edge} {call.method} {call.target} {call.nth}, {times} times"
        injector = case.run(call, failure, times)
        case.check(what, is_crash=failure.startswith("crash"))
        case.clean_up()
        struck += injector.has_struck
    assert struck >= scenario.least // PARTS // EVERY, f"{struck} of {len(sample)} schedules"
    print(f"{struck} of {len(sample)} schedules struck")


def test_there_are_enough_schedules() -> None:
    assert sum(scenario.least for scenario in SCENARIOS) >= 600
