"""
Members: replicas that divide keys between them, by one stored lease each.

Each key belongs to one member of a set, by rendezvous hashing: when a member comes or goes, only its keys move. The
set that a member goes by is published in its lease, and it works on a key only while

- its lease was renewed lately, by its own monotonic clock;
- the key is its own by the set that it has published, and by the one that it is about to publish;
- the key belongs to no other member by the set which that one has published, read after ours was.

So a member publishes that it gives up a key after its work on the key has ended, and that it takes one before it
starts. Of two members that take a key at the same time, at least one sees the other. The keys of a silent member are
taken over only after its lease stayed unchanged for longer than that member can assume to hold it. Clocks may differ.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from random import random
from typing import Protocol

from gitsync.errors import Conflict, GitsyncError

_log = logging.getLogger(__name__)

MemberSet = tuple[str, ...]
"""The members that one member goes by, sorted; the empty one claims nothing."""
# how long a lease counts after its renewal, and how often it is renewed, in parts of its duration
_DEADLINE = 2 / 3
_PERIOD = 2 / 15


@dataclass(frozen=True, slots=True)
class MemberLease:
    """The lease of one member: a text that changes with every renewal, and what it goes by."""

    holder: str
    renewal: str
    published_members: MemberSet


class MemberStore(Protocol):
    """Keep one lease for each member, with compare and set."""

    def all(self) -> tuple[MemberLease, ...]:
        """Return the leases as they are now."""
        ...

    def put(self, known: MemberLease | None, holder: str, view: MemberSet, seconds: float) -> MemberLease:
        """Write a member's lease if it is still the known one; raise Conflict otherwise."""
        ...

    def remove(self, known: MemberLease) -> None:
        """Remove a lease that is still the known one; a changed or absent lease is ignored."""
        ...


class Membership:
    """
    Take part, and decide which keys are ours; see the module for what it promises.

    A process that was paused past the deadline finds ``may_write`` False, and holds nothing again before all work
    from before has ended. ``on_change`` is called when the division may have changed.
    """

    def __init__(
        self,
        store: MemberStore,
        identity: str,
        *,
        duration: float = 15.0,
        monotonic: Callable[[], float] = time.monotonic,
        random: Callable[[], float] = random,
    ) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self._store = store
        self._identity = identity
        self._duration = duration
        self._monotonic = monotonic
        self._random = random
        self._lock = threading.Lock()
        self._mine: MemberLease | None = None
        self._renewed = float("-inf")
        self._views: tuple[MemberSet, ...] = ((),)
        self._others: tuple[MemberLease, ...] = ()
        self._at_work: Counter[str] = Counter()
        # of each other member, the text of its last renewal and when it was read first
        self._renewals: dict[str, tuple[str, float]] = {}
        self._reported_state: object = None
        self._was_refused = False
        """Whether a claim failed since our lease was not renewed; a later renewal may leave no trace of that."""
        self._problem = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="members", daemon=True)

    @property
    def may_write(self) -> bool:
        """Whether our lease was renewed lately enough."""
        return self._monotonic() - self._renewed < self._duration * _DEADLINE

    @property
    def problem(self) -> str:
        """Why nothing may be written now, empty where it may."""
        return "" if self.may_write else self._problem or "our Lease is not renewed yet"

    def owns(self, key: str) -> bool:
        """Whether a key is ours now."""
        with self._lock:
            return self._holds(key)

    def owner_of(self, key: str) -> str:
        """Return the member that a key belongs to by the set that we go by; it may have changed since."""
        with self._lock:
            return owner(self._views[-1], key)

    @contextmanager
    def claim(self, key: str) -> Iterator[bool]:
        """Hold a key while working on it; yields False if another replica owns it."""
        with self._lock:
            is_ours = self._holds(key)
            if is_ours:
                self._at_work[key] += 1
            self._was_refused = self._was_refused or not self.may_write
        try:
            yield is_ours
        finally:
            if is_ours:
                with self._lock:
                    self._at_work -= Counter({key: 1})

    def start(self) -> None:
        """Start taking part."""
        self._thread.start()

    def stop(self) -> None:
        """Leave, so that the others need not wait; all work has ended before."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(self._duration)
        mine = self._mine
        self._mine = None
        self._release()
        if mine is not None:
            try:
                self._store.remove(mine)
            except GitsyncError as error:
                _log.info("lease not removed: %s", error)

    def step(self) -> bool:
        """Take part once: renew, and go by who is there now. True asks to be called again at once."""
        is_moving = False
        problem = ""
        try:
            is_moving = self._step()
        except Conflict as error:
            self._release()
            problem = f"lost our Lease: {error}"
        except GitsyncError as error:
            problem = f"cannot renew our Lease: {error}"
        if problem != self._problem:
            _log.log(logging.WARNING if problem else logging.INFO, problem or "our Lease is renewed again")
        self._problem = problem
        self._notify()
        return is_moving

    def _step(self) -> bool:
        began = self._monotonic()  # before the requests: others may count our lease from any moment after this
        if not self.may_write:
            self._release()
            if self._at_work:  # begun before a pause: it must find that it may not write, and end
                return False
        leases = self._store.all()
        was_held = self._mine is not None
        self._mine = next((lease for lease in leases if lease.holder == self._identity), None)
        if was_held and self._mine is None:
            raise Conflict("another replica took this one for gone")
        live = self._live_leases(leases, began)
        published = self._mine.published_members if self._mine is not None else ()
        wanted = tuple(sorted({self._identity, *(lease.holder for lease in live)}))
        with self._lock:
            if wanted == published:
                self._views = (published,)
                self._others = live
            elif self._views != ((),):  # one that holds nothing publishes first, and takes keys at the next step
                self._views = (published, wanted)
            # keys at work that would move: what they are about to write must not meet their next owner's writes
            is_busy = any(owner(wanted, key) != self._identity for key in self._at_work)
        view = published if is_busy else wanted
        self._mine = self._store.put(self._mine, self._identity, view, self._duration)
        self._renewed = began
        return view != published

    def _live_leases(self, leases: Iterable[MemberLease], now: float) -> tuple[MemberLease, ...]:
        """Return the leases of the others that are still renewed, and remove those that are not any more."""
        others = [lease for lease in leases if lease.holder != self._identity]
        renewals = self._renewals
        self._renewals = {}
        live = []
        for lease in others:
            renewal, since = renewals.get(lease.holder, ("", now))
            # by our clock since we saw the last change: the clock of the other replica may be wrong
            unchanged_since = since if renewal == lease.renewal else now
            self._renewals[lease.holder] = (lease.renewal, unchanged_since)
            if now - unchanged_since < self._duration:
                live.append(lease)
            else:
                self._store.remove(lease)
        return tuple(live)

    def _release(self) -> None:
        """Hold nothing."""
        with self._lock:
            self._renewed = float("-inf")
            self._views = ((),)
            self._others = ()

    def _holds(self, key: str) -> bool:
        return (
            self.may_write
            and all(owner(view, key) == self._identity for view in self._views)
            and all(owner(other.published_members, key) != other.holder for other in self._others)
        )

    def _notify(self) -> None:
        others = tuple((other.holder, other.published_members) for other in self._others)
        state = (self._views, others, self.may_write)
        # a renewal that began in time and ended late: nothing changed, but keys were refused meanwhile
        was_refused = self.may_write and self._was_refused
        if was_refused:
            self._was_refused = False
        if state != self._reported_state or was_refused:
            self._reported_state = state
            self.on_change()

    def _run(self) -> None:
        while not self._stop.is_set():
            is_moving = False
            try:
                is_moving = self.step()
            except Exception:  # a defect in one step must not end the later ones; what is held ends by the deadline
                _log.exception("taking part failed, and is tried again")
            if not is_moving:
                # with jitter, or replicas that started together would send their requests together for ever
                self._stop.wait(self._duration * _PERIOD * (1 - 0.2 * self._random()))


def owner(view: MemberSet, key: str) -> str:
    """Return the member that a key belongs to, empty when there is none."""
    return max(view, key=lambda member: hashlib.sha256(f"{member}\0{key}".encode()).digest(), default="")


# between the name of a group and that of a process in the holder of its lease
_MARK = "_process_"


def holder_in(group: str, process: str) -> str:
    """Return the holder of the lease of a process; its name is unique also among processes that have ended."""
    return f"{group}{_MARK}{process}"


class GroupLeases:
    """The leases of the processes of a group (``is_inside``), or all others; what is written is not restricted."""

    def __init__(self, store: MemberStore, group: str, *, is_inside: bool) -> None:
        self._store = store
        self._prefix = holder_in(group, "")
        self._is_inside = is_inside

    def all(self) -> tuple[MemberLease, ...]:
        """Return the leases as they are now."""
        leases = self._store.all()
        return tuple(lease for lease in leases if lease.holder.startswith(self._prefix) is self._is_inside)

    def put(self, known: MemberLease | None, holder: str, view: MemberSet, seconds: float) -> MemberLease:
        """Write a member's lease if it is still the known one."""
        return self._store.put(known, holder, view, seconds)

    def remove(self, known: MemberLease) -> None:
        """Remove a lease that is still the known one."""
        self._store.remove(known)


class Shard(Protocol):
    """Which keys this replica works on."""

    @property
    def may_write(self) -> bool:
        """Whether anything may be written by this replica now."""
        ...

    def owns(self, key: str) -> bool:
        """Whether a key is ours now."""
        ...

    def owner_of(self, key: str) -> str:
        """Return the replica that a key belongs to by what is known here; it may have changed since."""
        ...

    def claim(self, key: str) -> AbstractContextManager[bool]:
        """Hold a key while working on it; yields False if another replica owns it."""
        ...


class SingleReplica:
    """The shard of the only replica: everything."""

    @property
    def may_write(self) -> bool:
        """Return True: no other replica could write at the same time."""
        return True

    def owns(self, key: str) -> bool:
        """Return True for every key."""
        return True

    def owner_of(self, key: str) -> str:
        """Return the same for every key."""
        return ""

    @contextmanager
    def claim(self, key: str) -> Iterator[bool]:
        """Yield True for every key."""
        yield True
