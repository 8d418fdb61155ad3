"""Garbage is collected among new objects, by time."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator

import pytest

from gitsync.runtime.garbage import GarbageCollection
from tests.waiting import until


class Node:
    """An object that refers to itself."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def collections() -> Iterator[list[int]]:
    """The generations that were collected."""
    found: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "stop":
            found.append(info["generation"])

    gc.callbacks.append(note)
    yield found
    gc.callbacks.remove(note)


def make_objects() -> None:
    """Make as many as Python examines by itself, at the age at which it leaves them alone."""
    assert [[] for _ in range(20_000)]


def test_new_garbage_is_collected_and_the_rest_left_alone() -> None:
    gc.unfreeze()  # the modules of a test run
    collecting, before = GarbageCollection(0.01, examined=1000), gc.get_threshold()
    collecting.start()
    try:
        found = weakref.ref(Node())
        make_objects()
        until(lambda: found() is None and gc.get_freeze_count() > 1000)
        assert gc.get_threshold()[2] > 1 << 20
    finally:
        collecting.stop()
    assert (gc.get_freeze_count(), gc.get_threshold()) == (0, before)


def test_nothing_is_collected_where_no_objects_were_made(collections: list[int]) -> None:
    collecting = GarbageCollection()
    make_objects()
    collecting.collect()
    collections.clear()
    collecting.collect()
    assert 2 not in collections
    gc.unfreeze()


def test_garbage_that_a_collection_met_alive_is_collected_by_the_next() -> None:
    collecting = GarbageCollection()
    make_objects()
    collecting.collect()  # the first one freezes what the start made
    kept = [Node()]
    make_objects()
    collecting.collect()
    node = weakref.ref(kept.pop())
    make_objects()
    collecting.collect()
    assert node() is None
    gc.unfreeze()


def test_frozen_garbage_is_collected_once_frozen_objects_have_grown_by_half() -> None:
    collecting, kept = GarbageCollection(examined=0), [Node()]
    make_objects()
    collecting.collect()
    node = weakref.ref(kept.pop())
    make_objects()
    collecting.collect()
    assert node() is not None, "it was frozen"
    ballast = [[] for _ in range(gc.get_freeze_count() * 3 // 4)]  # type: list[list[int]]
    for _ in range(2):  # one freezes the new objects, the other one finds that there are many
        make_objects()
        collecting.collect()
    assert node() is None
    assert ballast
    gc.unfreeze()


def test_frozen_objects_stay_unexamined_while_they_do_not_grow(collections: list[int]) -> None:
    collecting = GarbageCollection(examined=0)
    make_objects()
    collecting.collect()
    frozen = gc.get_freeze_count()
    for _ in range(5):
        make_objects()
        collecting.collect()
    assert gc.get_freeze_count() < frozen * 1.1
    gc.unfreeze()


def test_what_was_made_before_the_start_is_not_examined() -> None:
    gc.unfreeze()  # the modules of a test run
    gc.collect()
    collecting, node = GarbageCollection(), weakref.ref(Node())
    collecting.start()
    make_objects()
    collecting.collect()
    assert node() is not None
    collecting.stop()
    gc.collect()
    assert node() is None


def test_what_others_froze_before_the_start_stays_frozen() -> None:
    kept = [Node()]
    gc.freeze()
    node = weakref.ref(kept.pop())
    collecting = GarbageCollection()
    collecting.start()
    make_objects()
    collecting.collect()
    collecting.stop()
    gc.collect()
    assert node() is not None
    gc.unfreeze()
    gc.collect()
    assert node() is None


def test_values_that_other_threads_complete_are_left_alone() -> None:
    collecting, ended, errors = GarbageCollection(), threading.Event(), list[Exception]()

    def complete() -> None:
        while not ended.is_set():
            try:
                tuple(number for number in range(2000))
            except SystemError as error:
                errors.append(error)

    threads = [threading.Thread(target=complete) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(30):
        make_objects()
        collecting.collect()
    ended.set()
    for thread in threads:
        thread.join()
    gc.unfreeze()
    assert errors == []


_FREED = """
import ctypes, sys, threading
from pathlib import Path
from gitsync.runtime.garbage import return_memory, share_memory
if sys.argv[1] == "shared":
    share_memory()
c = ctypes.CDLL(None)
c.malloc.restype = ctypes.c_void_p
c.free.argtypes = [ctypes.c_void_p]
c.free(c.malloc(ctypes.c_size_t(24 << 20)))  # from now on, blocks up to this size would come from an arena
kept = []
together = threading.Barrier(8)  # a thread that has ended leaves its memory to the next one
def work():
    together.wait()
    blocks = [c.malloc(ctypes.c_size_t(1 << 20)) for _ in range(8)]
    for block in blocks:
        ctypes.memset(block, 1, 1 << 20)
    kept.append(c.malloc(ctypes.c_size_t(100)))
    for block in blocks:
        c.free(block)
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print([line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS")][0])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs the GNU C library, whose malloc it measures")
def test_freed_blocks_of_threads_go_back_to_the_system() -> None:
    """Also while small blocks behind them are in use."""

    def resident(how: str) -> int:
        done = subprocess.run([sys.executable, "-c", _FREED, how], check=True, capture_output=True, text=True)
        return int(done.stdout) >> 10

    assert resident("shared") < resident("alone") - 16


def test_frozen_objects_are_counted_only_when_some_are_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    collecting = GarbageCollection()
    make_objects()
    collecting.collect()
    counts: list[int] = []

    def count() -> int:
        counts.append(0)
        return 0

    monkeypatch.setattr(gc, "get_freeze_count", count)
    for _ in range(3):
        make_objects()
        collecting.collect()
    monkeypatch.undo()
    assert not counts
    gc.unfreeze()
