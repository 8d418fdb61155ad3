"""How the usage of processes is measured: windows, restarts, ends, and what /proc says."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from gitsync.sandbox.processes.usage import ProcessSession, UsageMeter, read_sessions

MIB = 1024 * 1024


class Machine:
    """A clock, and what each session has used so far."""

    def __init__(self) -> None:
        self.now = 100.0
        self.readings: dict[int, tuple[float, int]] = {}
        self.times_read = 0

    def clock(self) -> float:
        return self.now

    def read(self) -> dict[int, tuple[float, int]]:
        self.times_read += 1
        return dict(self.readings)

    def meter(self) -> UsageMeter[str]:
        return UsageMeter(self.clock, self.read)


def test_the_first_window_begins_with_the_session_and_later_ones_with_the_reading_before() -> None:
    machine = Machine()
    meter = machine.meter()
    sessions = {"a": ProcessSession(7, started=90.0)}
    machine.readings[7] = (5.0, 3 * MIB)
    first = meter.measure(sessions)["a"]
    assert (first.cores, first.memory, first.window) == (0.5, 3 * MIB, 10.0)
    machine.now = 104.0
    machine.readings[7] = (6.0, 4 * MIB)
    second = meter.measure(sessions)["a"]
    assert (second.cores, second.memory, second.window) == (0.25, 4 * MIB, 4.0)


def test_a_reading_serves_all_that_ask_within_a_second() -> None:
    machine = Machine()
    meter = machine.meter()
    machine.readings[7] = (5.0, MIB)
    sessions = {"a": ProcessSession(7, started=90.0)}
    first = meter.measure(sessions)
    machine.now += 0.9
    machine.readings[7] = (9.0, MIB)
    assert meter.measure(sessions) == first
    assert machine.times_read == 1


def test_a_session_younger_than_a_second_is_left_out() -> None:
    machine = Machine()
    machine.readings[7] = (0.3, MIB)
    assert machine.meter().measure({"a": ProcessSession(7, started=99.5)}) == {}


def test_a_restarted_session_is_not_compared_with_the_one_before() -> None:
    machine = Machine()
    meter = machine.meter()
    machine.readings = {7: (50.0, MIB), 8: (1.0, MIB)}
    meter.measure({"a": ProcessSession(7, started=0.0)})
    machine.now = 110.0
    assert meter.measure({"a": ProcessSession(8, started=106.0)})["a"].cores == 0.25


def test_time_of_a_lost_child_is_not_negative_work() -> None:
    machine = Machine()
    meter = machine.meter()
    sessions = {"a": ProcessSession(7, started=90.0)}
    machine.readings[7] = (5.0, MIB)
    meter.measure(sessions)
    machine.now = 110.0
    machine.readings[7] = (2.0, MIB)
    assert meter.measure(sessions)["a"].cores == 0.0


def test_sessions_that_ended_have_no_usage() -> None:
    machine = Machine()
    meter = machine.meter()
    sessions = {"a": ProcessSession(7, started=90.0), "b": ProcessSession(8, started=90.0)}
    machine.readings = {7: (5.0, MIB), 8: (5.0, MIB)}
    assert set(meter.measure(sessions)) == {"a", "b"}
    assert set(meter.measure({"b": sessions["b"]})) == {"b"}
    machine.now = 110.0
    del machine.readings[8]
    assert meter.measure({"b": sessions["b"]}) == {}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has /proc")
def test_a_session_includes_the_processes_that_it_starts() -> None:
    inner = (
        "import time; kept = bytearray(60 * 2**20); end = time.process_time() + 0.3\n"
        "while time.process_time() < end: pass\n"
        "time.sleep(60)"
    )
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    process = subprocess.Popen([sys.executable, "-c", outer], start_new_session=True)
    try:
        deadline = time.monotonic() + 60
        cpu_seconds, memory = 0.0, 0
        while (cpu_seconds < 0.3 or memory < 60 * MIB) and time.monotonic() < deadline:
            time.sleep(0.05)
            cpu_seconds, memory = read_sessions().get(process.pid, (0.0, 0))
        assert 0.3 <= cpu_seconds < 10
        assert 60 * MIB <= memory < 500 * MIB
    finally:
        os.killpg(process.pid, 9)
        process.wait()
