"""Garbage is collected among new objects, by time."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from gitsync.runtime.garbage import GarbageCollection
from tests.waiting import until

HOUR = 3600.0


class Node:
    """An object that refers to itself."""

    def __init__(self) -> None:
        self.itself = self


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


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
    collecting, before = GarbageCollection(0.01), gc.get_threshold()
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


def test_frozen_garbage_is_collected_after_an_hour() -> None:
    clock = Clock()
    collecting, kept = GarbageCollection(clock=clock), [Node()]
    make_objects()
    collecting.collect()
    found = weakref.ref(kept.pop())
    make_objects()
    collecting.collect()
    assert found() is not None
    clock.now = HOUR
    make_objects()
    collecting.collect()
    assert found() is None
    gc.unfreeze()
