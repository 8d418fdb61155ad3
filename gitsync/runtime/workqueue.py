"""
A queue of keys for level-based controllers.

It promises:

- a key that waits is there once, however often it is added;
- a key is never with two workers at once: added while it is worked on, it comes out again after ``done``;
- the keys of one group come out in the order in which they were added, and groups take turns: the many keys of one
  delay a key of another by one of them, and not by all;
- urgent keys come first; after four of them in a row another one comes out, so no key starves;
- a key added with a delay comes out when it is due; of several delays the shortest counts, and handing the key
  out forgets the delay, since the work answers for everything known by then;
- a key added for a part of its work only is handed out for that part unless it was added for all of it meanwhile;
  this forgets no delay of the whole work;
- failures are counted per key, and one key's delay never holds up another;
- of one group of keys no more than its fair share are with workers at once; its turns are skipped until ``done``.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from random import random
from typing import Generic, TypeAlias, TypeVar

K = TypeVar("K", bound=Hashable)
# A key, and whether it becomes ready for all of its work
_Timer: TypeAlias = tuple[K, bool]

# urgent keys that may come out while another one waits
_URGENT_IN_A_ROW = 4


@dataclass(frozen=True, slots=True)
class FairShare(Generic[K]):
    """Groups of keys, by ``group_of``, take turns; of each at most ``workers`` keys are with workers at once."""

    group_of: Callable[[K], Hashable]
    workers: int

    @classmethod
    def of_all(cls, workers: int, group_of: Callable[[K], Hashable]) -> FairShare[K]:
        """Return the share of a queue with this many workers, of which a quarter is left for other groups."""
        return cls(group_of, workers - workers // 4)


class _Turns(Generic[K]):
    """Keys that wait: groups take turns, and of one group the key that was added first is taken first."""

    def __init__(self) -> None:
        # by group, the one whose turn it is first
        self._keys: OrderedDict[Hashable, deque[K]] = OrderedDict()

    def append(self, group: Hashable, key: K) -> None:
        """Add a key behind those of its group."""
        self._keys.setdefault(group, deque()).append(key)

    def take(self, may_work: Callable[[Hashable], bool]) -> K | None:
        """Remove and return the next key of the first group that may work; None where there is none."""
        # the skipped groups have their share of workers, so that they are never many
        for group, keys in self._keys.items():
            if may_work(group):
                key = keys.popleft()
                self._keys.move_to_end(group)
                if not keys:
                    del self._keys[group]
                return key
        return None


class WorkQueue(Generic[K]):
    """Hand out keys to workers; see the module for what it promises. Every method may be called from any thread."""

    def __init__(
        self,
        backoff: Backoff | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        random: Callable[[], float] = random,
        on_hand_out: Callable[[float], None] = lambda waited: None,
        fair_share: FairShare[K] | None = None,
    ) -> None:
        self._backoff = backoff or Backoff()
        self._monotonic = monotonic
        self._random = random
        # called with the seconds that a key was ready before it was handed out
        self._on_hand_out = on_hand_out
        # None: all keys are of one group, which is not limited
        self._fair_share = fair_share
        self._working_of: Counter[Hashable] = Counter()
        self._changed = threading.Condition()
        self._ready: _Turns[K] = _Turns()
        # keys that come first; a key may be in both, and is handed out once
        self._urgent: _Turns[K] = _Turns()
        self._urgent_in_a_row = 0
        # the keys that are ready, and since when
        self._waiting: dict[K, float] = {}
        self._working: set[K] = set()
        # keys that were added while they are worked on, and whether they are urgent
        self._again: dict[K, bool] = {}
        # keys that are handed out next for all of their work
        self._whole: set[K] = set()
        # keys that are worked on in part
        self._partial: set[K] = set()
        self._due: dict[_Timer[K], float] = {}
        self._heap: list[tuple[float, int, _Timer[K]]] = []
        self._sequence = 0
        self._failures: dict[K, int] = {}
        self._closed = False

    def __len__(self) -> int:
        """Return how many keys are ready to be worked on."""
        with self._changed:
            return len(self._waiting) + len(self._again)

    def add(self, key: K, *, urgent: bool = False) -> None:
        """Make the key ready now; an urgent one comes out before those that are not."""
        with self._changed:
            self._whole.add(key)
            self._make_ready(key, urgent=urgent)

    def add_after(self, key: K, seconds: float) -> None:
        """Make the key ready after ``seconds``, or earlier if it was scheduled earlier."""
        with self._changed:
            if key not in self._waiting or key not in self._whole:
                self._schedule((key, True), seconds)

    def add_part_after(self, key: K, seconds: float) -> None:
        """Make the key ready for a part of its work after ``seconds``; the caller keeps which part."""
        with self._changed:
            if key not in self._waiting:
                self._schedule((key, False), seconds)

    def is_partial(self, key: K) -> bool:
        """Whether a key was handed out for a part of its work only."""
        with self._changed:
            return key in self._partial

    def retry(self, key: K, longest: float = float("inf")) -> float:
        """Count a failure, make the key ready after its backoff, ``longest`` at most, and return that delay."""
        with self._changed:
            self._failures[key] = self._failures.get(key, 0) + 1
            delay = min(self._backoff.delay(self._failures[key], self._random()), longest)
        self.add_after(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """Forget the failures of a key."""
        with self._changed:
            self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """Return how many times in a row the key failed."""
        with self._changed:
            return self._failures.get(key, 0)

    def get(self, timeout: float | None = None) -> K | None:
        """Return the next key, waiting for one; None when the queue is closed or ``timeout`` seconds have passed."""
        give_up = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while not self._closed:
                next_due = self._take_due()
                while (key := self._next()) is not None:
                    if key in self._waiting:  # else it was handed out from the other queue
                        return self._hand_out(key)
                remaining = None if give_up is None else give_up - time.monotonic()
                if remaining is not None and remaining <= 0:
                    return None
                waits = [wait for wait in (remaining, next_due) if wait is not None]
                self._changed.wait(min(waits) if waits else None)
            return None

    def done(self, key: K) -> None:
        """Record that the work on a key has ended; it comes out again if it was added meanwhile."""
        with self._changed:
            self._working.discard(key)
            self._partial.discard(key)
            group = self._group_of(key)
            is_skipped = not self._may_work(group)
            self._working_of -= Counter({group: 1})
            if key in self._again:
                self._make_ready(key, urgent=self._again.pop(key))
            if is_skipped:  # another worker may wait although the group has keys
                self._changed.notify()

    def close(self) -> None:
        """Hand out nothing more; workers that wait get None."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _schedule(self, timer: _Timer[K], seconds: float) -> None:
        due = self._monotonic() + max(seconds, 0.0)
        if due < self._due.get(timer, float("inf")):
            self._due[timer] = due
            self._sequence += 1
            # the number keeps keys of one moment in order, and keys themselves from being compared
            heapq.heappush(self._heap, (due, self._sequence, timer))
            self._changed.notify()

    def _make_ready(self, key: K, *, urgent: bool = False) -> None:
        if key in self._working:  # never with two workers at once: it comes out again after ``done``
            self._again[key] = urgent or self._again.get(key, False)
            return
        if urgent:
            self._urgent.append(self._group_of(key), key)
        elif key not in self._waiting:
            self._ready.append(self._group_of(key), key)
        if key not in self._waiting:
            self._waiting[key] = self._monotonic()
            self._changed.notify()

    def _group_of(self, key: K) -> Hashable:
        return self._fair_share.group_of(key) if self._fair_share is not None else None

    def _may_work(self, group: Hashable) -> bool:
        """Whether a group has a worker left."""
        return self._fair_share is None or self._working_of[group] < self._fair_share.workers

    def _hand_out(self, key: K) -> K:
        self._on_hand_out(self._monotonic() - self._waiting.pop(key))
        self._working.add(key)
        self._working_of[self._group_of(key)] += 1
        self._due.pop((key, False), None)
        if key in self._whole:
            self._whole.discard(key)
            self._due.pop((key, True), None)
        else:
            self._partial.add(key)
        return key

    def _next(self) -> K | None:
        """Take a key of a group that has a worker left, urgent ones first; None where there is none."""
        if self._urgent_in_a_row < _URGENT_IN_A_ROW:
            key = self._urgent.take(self._may_work)
            if key is not None:
                self._urgent_in_a_row += 1
                return key
        self._urgent_in_a_row = 0
        key = self._ready.take(self._may_work)
        return key if key is not None else self._urgent.take(self._may_work)

    def _take_due(self) -> float | None:
        """Make keys ready that are due; return the seconds until the next one is."""
        now = self._monotonic()
        while self._heap:
            due, _, (key, is_whole) = self._heap[0]
            if self._due.get((key, is_whole)) != due:  # forgotten, or superseded by an earlier time
                heapq.heappop(self._heap)
            elif due <= now:
                heapq.heappop(self._heap)
                del self._due[key, is_whole]
                if is_whole:
                    self._whole.add(key)
                self._make_ready(key)
            else:
                return due - now
        return None


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays in seconds: ``initial``, then ``factor`` times more after each failure, up to ``max``, plus jitter."""

    initial: float = 0.5
    factor: float = 2.0
    max: float = 60.0
    jitter: float = 0.2

    def delay(self, failures: int, random: float) -> float:
        """
        Return the wait in seconds after ``failures`` failures in a row (1 or more); ``random`` lies in [0, 1).

        The jitter only shortens a delay, so ``max`` holds.
        """
        # the exponent is bounded: a float power of a large number of failures would overflow
        grown = self.initial * self.factor ** min(max(failures, 1) - 1, 64)
        return min(grown, self.max) * (1 - self.jitter * random)
