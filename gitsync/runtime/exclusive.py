"""One controller for a cluster, by a lease: the second one names the holder and stops."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from gitsync.errors import Conflict, GitsyncError, InvalidInput
from gitsync.files import PUBLIC, create_file
from gitsync.runtime.membership import MemberLease, MemberStore

_log = logging.getLogger(__name__)
# how often the lease is renewed, and at the start those of others are read, in parts of its duration
_PERIOD = 1 / 5


class ExclusiveLease:
    """
    Hold a lease while this controller, which shares its cluster with no other, runs.

    A lease of another one that is renewed stops the start; one that is not renewed for its duration is removed. Clocks
    may differ. Where leases cannot be used, a warning says that nothing protects the cluster.
    """

    def __init__(
        self,
        store: MemberStore,
        identity: str,
        *,
        duration: float = 15.0,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._identity = identity
        self._duration = duration
        self._sleep = sleep
        self._monotonic = monotonic
        self._renewed: float | None = None
        """When the lease was renewed last, None where it never was."""
        self._mine: MemberLease | None = None
        self._problem = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    @property
    def problem(self) -> str:
        """Why the lease that was held may be another controller's by now, empty where it is not."""
        # without a first renewal Leases cannot be used here, and one controller alone works without them
        if self._renewed is None or self._monotonic() - self._renewed < self._duration:
            return ""
        return self._problem

    def start(self) -> None:
        """Take the lease; raise InvalidInput that names another controller which holds one."""
        try:
            self._wait_for_others()
            self.renew()
            self._reject(self._others())  # one that started at the same time
        except GitsyncError as error:
            if isinstance(error, InvalidInput):
                self._release()
                raise
            # a cluster without Leases, or without the right to them: one controller alone still works
            self._warn(error)
        self._thread.start()

    def stop(self) -> None:
        """Give the lease up."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(self._duration)
        self._release()

    def renew(self) -> None:
        """Write the lease again, whatever became of it: another controller must see that this one runs."""
        began = self._monotonic()
        try:
            self._mine = self._store.put(self._mine or self._stored(), self._identity, (), self._duration)
        except Conflict:
            self._mine = self._store.put(self._stored(), self._identity, (), self._duration)
        self._renewed = began

    def attempt(self) -> None:
        """Renew the lease, or keep why that failed as the problem."""
        try:
            self.renew()
            self._problem = ""
        except GitsyncError as error:
            self._warn(error)

    def _wait_for_others(self) -> None:
        """Return once no other controller holds a lease; remove those that are not renewed any more."""
        first = self._others()
        waited = 0.0
        while first and waited < self._duration:
            self._sleep(self._duration * _PERIOD)
            waited += self._duration * _PERIOD
            now = self._others()
            self._reject({holder: lease for holder, lease in now.items() if first.get(holder, lease) != lease})
            first = {holder: lease for holder, lease in first.items() if holder in now}  # others have ended properly
        for lease in first.values():
            self._store.remove(lease)

    def _stored(self) -> MemberLease | None:
        return next((lease for lease in self._store.all() if lease.holder == self._identity), None)

    def _others(self) -> dict[str, MemberLease]:
        return {lease.holder: lease for lease in self._store.all() if lease.holder != self._identity}

    def _reject(self, others: dict[str, MemberLease]) -> None:
        if others:
            raise InvalidInput(
                f"another controller, {min(others)}, syncs this cluster",
                hint="stop it first; replicas share a cluster with GITSYNC_REPLICAS=true and PostgreSQL",
            )

    def _release(self) -> None:
        mine = self._mine
        self._mine = None
        if mine is not None:
            try:
                self._store.remove(mine)
            except GitsyncError as error:
                _log.info("Lease not removed: %s", error)

    def _run(self) -> None:
        while not self._stop.wait(self._duration * _PERIOD):
            self.attempt()

    def _warn(self, error: GitsyncError) -> None:
        problem = f"no Lease protects this cluster from a second controller: {error}"
        if problem != self._problem:  # once, not at every renewal
            _log.warning(problem)
        self._problem = problem


def identity_in(folder: Path, host: str) -> str:
    """Return the name of the controller of a data folder, which is the same after a restart, and of no other one."""
    file = folder / "identity"
    create_file(file, uuid4().hex[:8], PUBLIC)
    return f"{host}_{file.read_text(encoding='utf-8')}"
