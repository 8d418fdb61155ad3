"""GarbageCollection: collect cyclic garbage of new objects, and return memory to the system."""

from __future__ import annotations

import ctypes
import gc
import sys
from typing import Final

from gitsync.runtime.clock import Periodic

_EVERY = 10.0
# Blocks of memory that are made between two freezes: to examine the 50,000 objects in them stops every thread for 4 ms.
_EXAMINED = 100_000
# How much more objects than after the last collection of all are frozen when all are examined again. So cycles among
# them can take half as much memory as the rest, and the cost follows what the process makes, not the time.
_GROWTH = 1.5
_DEFAULT: Final = gc.get_threshold()
# New objects that are examined together. Python's default is a tenth of it: less than one reconcile makes, so that most
# of what a collection examines is in use and dropped a moment later.
_YOUNG = 10 * _DEFAULT[0]
_NEVER = 1 << 30
_TRIM: Final = getattr(ctypes.CDLL(None), "malloc_trim", None)
_OPTION: Final = getattr(ctypes.CDLL(None), "mallopt", None)
"""None where the C library is not that of GNU."""
_ARENAS = -8
_MAPPED_SIZE = -3
"""``M_ARENA_MAX`` and ``M_MMAP_THRESHOLD`` of malloc.h, see mallopt(3)."""


def return_memory() -> None:
    """Return free memory to the system, where the C library can."""
    if _TRIM is not None:
        _TRIM(0)


def share_memory() -> None:
    """
    Have all threads allocate from one pool, and blocks of 128 KiB and more given back to the system when they are free.

    By default the C library has a pool for each of up to eight threads a processor, and each keeps what its largest
    work needed. It also keeps blocks of the size of the largest that was ever freed, up to 32 MiB.
    """
    if _OPTION is not None:
        _OPTION(_ARENAS, 1)  # threads of Python hardly ever allocate at once, since one of them runs at a time
        _OPTION(_MAPPED_SIZE, 128 << 10)  # the default; that it is set keeps it from growing


class GarbageCollection(Periodic):
    """
    Collect garbage every ten seconds in which objects were made, among those that are not frozen.

    Python's own collection of all objects stops every thread at any moment, 0.2 s with 1,000 Applications and 1.5 s
    with 5,000; it is off while this runs. Objects are frozen (see ``gc.freeze``) once many have survived a collection,
    and examined again when their number has grown by half. What others froze before the start, such as the modules of a
    test run, stays frozen after the end.
    """

    def __init__(self, every: float = _EVERY, *, examined: int = _EXAMINED) -> None:
        super().__init__("garbage", self.collect, every, at_start=False)
        self._examined = examined
        self._frozen = 0
        self._frozen_now = 0
        """At the last freeze: to count them takes 15 ms for a million, in which no other thread runs."""
        self._frozen_by_others = 0
        self._frozen_blocks = 0
        self._collections = 0

    def start(self) -> None:
        """Start the thread, turn Python's own collection of all objects off, and let threads share memory."""
        share_memory()
        gc.set_threshold(_YOUNG, _DEFAULT[1], _NEVER)
        self._frozen_by_others = gc.get_freeze_count()
        # modules and classes stay until the end: to examine them three times took a tenth of a first sync
        gc.freeze()
        # counted in, or the first collection would take them for growth and examine them all
        self._frozen = self._frozen_now = gc.get_freeze_count()
        self._frozen_blocks = sys.getallocatedblocks()
        super().start()

    def stop(self) -> None:
        """Stop the thread, and turn Python's own collection of all objects on again."""
        super().stop()
        if self._frozen and not self._frozen_by_others:  # all or nothing can be unfrozen
            gc.unfreeze()
        gc.set_threshold(*_DEFAULT)

    def collect(self) -> None:
        """Collect garbage where objects were made since the last time; see the class for the objects examined."""
        made = gc.get_stats()[0]["collections"]
        if made == self._collections:
            return
        self._collections = made
        is_of_all = self._frozen_now > self._frozen * _GROWTH
        if is_of_all:
            gc.unfreeze()
        gc.collect()
        # not gc.get_objects: its references make tuples that other threads are about to complete fail with SystemError
        blocks = sys.getallocatedblocks()
        # what a running reconcile holds now is garbage soon: frozen at each collection, it would stay for long
        if is_of_all or blocks - self._frozen_blocks > self._examined:
            gc.freeze()
            self._frozen_now = gc.get_freeze_count()
            self._frozen_blocks = blocks
        self._frozen_blocks = min(self._frozen_blocks, blocks)
        if is_of_all or not self._frozen:
            self._frozen = self._frozen_now
        return_memory()
