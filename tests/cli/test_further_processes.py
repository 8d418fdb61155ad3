"""``gitsync run --processes 2`` divides Applications between processes, and none outlives the first one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gitsync.cli.dashboard import DashboardOptions, address_file
from gitsync.cli.further_processes import ChildProcess
from gitsync.record.database import RecordDatabase
from gitsync.record.records import SqlRecords
from gitsync.runtime.membership import owner
from gitsync.sandbox.server import Sandbox
from tests.cli.conftest import process
from tests.flow.environment import NAMESPACE, World, is_synced
from tests.flow.factories import config_map
from tests.waiting import until

NAMES = tuple(f"app{number}" for number in range(12))
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
_LEASE_SECONDS = "15"
"""As in production: a loaded machine must not lose the Lease of a process that runs."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with Sandbox(workloads=False) as sandbox:
        made = World(tmp_path, sandbox)
        made.namespace("shop")
        for name in NAMES:
            made.application(name, destination={"namespace": "shop"})
        yield made
        made.close()


@pytest.fixture
def controller(world: World) -> Iterator[subprocess.Popen[bytes]]:
    """Run the command with two processes; both end with the test."""
    command = (sys.executable, "-m", "gitsync", "run", "--processes", "2", "--port", "0", "--controller-rights")
    options = ("--kubeconfig", str(world.kubeconfig), "--data", str(world.folder / "data"))
    settings = {"GITSYNC_ALLOW_FILE_URLS": "true", "GITSYNC_LEASE_SECONDS": _LEASE_SECONDS}
    running = subprocess.Popen([*command, *options], env={**os.environ, **settings})
    yield running
    children = further(running.pid) if running.poll() is None else []
    running.kill()
    running.wait()
    for child in children:
        until(lambda child=child: not is_alive(child), 30)


def further(pid: int) -> list[int]:
    """Return the ids of the further controller processes of a process."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError):
            found += map(int, (task / "children").read_text().split())
    return [child for child in found if b"gitsync.cli.further_processes" in command_of(child)]


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def is_alive(pid: int) -> bool:
    return command_of(pid) != b""


def commit(world: World, x: str) -> str:
    return world.repo.commit(f"x is {x}", {f"{name}/a.yaml": config_map(f"{name}-a", x=x) for name in NAMES})


def are_synced(world: World, revision: str) -> bool:
    statuses = world.statuses()
    return len(statuses) == len(NAMES) and all(is_synced(status, revision) for status in statuses.values())


def members(world: World) -> dict[str, str]:
    """Return the members of the group, each with the set that it published."""
    answer = world.client.get(LEASES, {"labelSelector": "gitsync.dev/member"})
    found = {item["spec"]["holderIdentity"]: item["metadata"]["annotations"] for item in answer["items"]}
    return {name: seen["gitsync.dev/members"] for name, seen in found.items() if "_process_" in name}


def is_divided(world: World) -> bool:
    found = members(world)
    return len(found) == 2 and set(found.values()) == {",".join(sorted(found))}


@pytest.mark.timeout(300)
def test_two_processes_sync_each_object_once_and_replace_one_that_is_killed(
    world: World, controller: subprocess.Popen[bytes]
) -> None:
    until(lambda: is_divided(world), 60, lambda: members(world))
    shares = Counter(owner(tuple(sorted(members(world))), f"{NAMESPACE}/{name}") for name in NAMES)
    first = commit(world, "1")
    until(lambda: are_synced(world, first), 60, world.statuses)

    (child,) = further(controller.pid)
    os.kill(child, signal.SIGKILL)
    second = commit(world, "2")
    until(lambda: are_synced(world, second), 60, world.statuses)
    until(lambda: is_divided(world), 60, lambda: members(world))

    assert sum(shares.values()) == len(NAMES)
    assert further(controller.pid) != [child]
    check_records(world, (first, second))


def check_records(world: World, commits: tuple[str, ...]) -> None:
    """Assert that the chain holds, and that each object was written once for each commit."""
    records = SqlRecords(RecordDatabase(f"sqlite:///{world.folder / 'data' / 'history.db'}"))
    written = Counter(
        (record.application, record.commit)
        for record in records.audit_records(limit=1000)
        if record.outcome.value == "Succeeded" and record.sync
    )
    assert (records.verify(), records.unresolved()) == ((), ())
    records.close()
    assert written == {(f"{NAMESPACE}/{name}", commit): 1 for name in NAMES for commit in commits}


@pytest.mark.timeout(300)
def test_metrics_and_costs_are_those_of_all_processes(world: World, controller: subprocess.Popen[bytes]) -> None:
    until(lambda: is_divided(world), 60, lambda: members(world))
    revision = commit(world, "1")
    until(lambda: are_synced(world, revision), 60, world.statuses)
    until(lambda: samples(world, "gitsync_process_up") == {"1": 1, "2": 1}, 30)

    def steps() -> dict[str, float]:
        # one that failed, such as since the Lease could not be renewed, is repeated and counts again
        return samples(world, "gitsync_sync_steps_total", outcome="Succeeded")

    until(lambda: sum(steps().values()) == len(NAMES), describe=steps)
    assert set(steps()) == {"1", "2"}, "both have a share"
    assert set(samples(world, "gitsync_queue_length")) == {"1", "2"}
    assert samples(world, "gitsync_applications_awaiting_approval") == {"1": 0}, "all are counted once"
    costs = {item["name"]: item for item in dashboard(world, "/api/v1/costs")["items"]}
    assert set(costs) == set(NAMES)
    assert min(item["reconciles"] for item in costs.values()) >= 1
    assert min(item["apiRequests"] for item in costs.values()) >= 4
    assert {item["objects"] for item in costs.values()} == {1}

    (child,) = further(controller.pid)
    os.kill(child, signal.SIGSTOP)
    try:
        assert samples(world, "gitsync_process_up") == {"1": 1, "2": 0}
        assert set(samples(world, "gitsync_queue_length")) == {"1"}
    finally:
        os.kill(child, signal.SIGCONT)
    until(lambda: samples(world, "gitsync_process_up") == {"1": 1, "2": 1}, 30)


@pytest.mark.timeout(300)
def test_plans_of_all_processes_are_approved_at_the_dashboard_of_the_first(
    world: World, controller: subprocess.Popen[bytes]
) -> None:
    until(lambda: is_divided(world), 60, lambda: members(world))
    for name in NAMES:
        world.application(name, destination={"namespace": "shop"}, risk={"approval": "Moderate"})
    first = world.repo.commit(
        "two", {f"{name}/{part}.yaml": config_map(f"{name}-{part}") for name in NAMES for part in "ab"}
    )
    until(lambda: are_synced(world, first), 60, world.statuses)
    second = world.repo.commit("one", {f"{name}/b.yaml": None for name in NAMES})
    until(lambda: {status["phase"] for status in world.statuses().values()} == {"AwaitingApproval"}, 60, world.statuses)

    def is_approved(name: str) -> bool:
        done = process("approve", name, "--reason", "looked", "--data", world.folder / "data")
        # a busy machine may not have observed it within the time that a request waits
        assert done.code == 0 or "no plan yet" in done.err, done.err
        return done.code == 0

    for name in NAMES:
        until(lambda name=name: is_approved(name))  # type: ignore[misc]
    until(lambda: are_synced(world, second), 60, world.statuses)


def dashboard(world: World, path: str) -> Any:
    """Return what the API answers."""
    found = DashboardOptions(data=world.folder / "data").find()
    assert found is not None
    return found.get(path)


def samples(world: World, name: str, **labels: str) -> dict[str, float]:
    """Return the sum of the samples of a metric with these labels by process."""
    url = address_file(world.folder / "data").read_text()
    with urlopen(f"{url.strip()}/metrics") as answer:
        families = text_string_to_metric_families(answer.read().decode())
    found: Counter[str] = Counter()
    for sample in (sample for family in families for sample in family.samples if sample.name == name):
        if labels.items() <= sample.labels.items():
            found[sample.labels["process"]] += sample.value
    return dict(found)


@pytest.mark.timeout(300)
def test_no_process_outlives_the_first_one(world: World, controller: subprocess.Popen[bytes]) -> None:
    until(lambda: is_divided(world), 60, lambda: members(world))
    (child,) = further(controller.pid)
    controller.kill()
    until(lambda: not is_alive(child), 30)


@pytest.mark.timeout(300)
def test_the_processes_end_in_order_and_leave_no_lease(world: World, controller: subprocess.Popen[bytes]) -> None:
    until(lambda: is_divided(world), 60, lambda: members(world))
    (child,) = further(controller.pid)
    controller.send_signal(signal.SIGTERM)
    assert controller.wait(60) == 0
    assert not is_alive(child)
    assert world.client.get(LEASES, {"labelSelector": "gitsync.dev/member"})["items"] == []


def test_a_process_that_ends_is_started_again_with_its_message(tmp_path: Path) -> None:
    log = tmp_path / "log"
    script = 'read -r line; echo "$line" >> "$0"; [ "$(wc -l < "$0")" -gt 2 ] && cat'
    child = ChildProcess("test", ("sh", "-c", script, str(log)), b"settings", delay=0.01)
    child.start()
    until(lambda: log.exists() and len(log.read_text().splitlines()) == 3)
    child.stop()
    assert log.read_text() == "settings\n" * 3


def test_a_process_that_cannot_be_started_for_a_while_is_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The program is away when the process is started again."""
    program, away, log = tmp_path / "program", tmp_path / "away", tmp_path / "log"
    program.write_text(
        f"#!/bin/sh\necho started >> {log}\n[ -e {away} ] && exec cat\ncp {program} {away}\nrm {program}\n"
    )
    program.chmod(0o700)
    child = ChildProcess("test", (str(program),), b"settings", delay=0.01)
    child.start()
    until(lambda: "test cannot be started" in caplog.text)
    program.write_bytes(away.read_bytes())
    program.chmod(0o700)
    until(lambda: log.read_text() == "started\n" * 2)
    child.stop()
    assert log.read_text() == "started\n" * 2


def test_a_process_that_is_stopped_while_it_waits_for_its_next_start_stays_ended(tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = ChildProcess("test", ("sh", "-c", 'echo started >> "$0"', str(log)), b"settings", delay=60)
    child.start()
    until(lambda: log.exists() and log.read_text())  # the shell creates the file before it writes
    child.stop()
    assert log.read_text() == "started\n"


def test_a_further_process_loads_no_dashboard() -> None:
    # each Application group has such a process: FastAPI and the libraries of decryption take 15 MiB in each
    script = "import sys, gitsync.cli.further_processes; print(*sys.modules)"

    loaded = set(
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    )

    assert "gitsync.server.metrics" in loaded
    assert not loaded & {"fastapi", "starlette", "cryptography", "pyrage"}
