"""A controller whose reconciles and clock are advanced by the test, between edges that can fail."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

from gitsync.cluster.cache import InformerCache
from gitsync.gate.policy import Policy
from gitsync.gate.policy_files import PolicySet
from gitsync.ports import Renderer
from gitsync.record.database import RecordDatabase
from gitsync.record.records import SqlRecords
from gitsync.services.reviews import ReviewService
from gitsync.source.remote import Transport
from gitsync.source.repositories import Repositories
from gitsync.sync.policies import Policies
from gitsync.wiring import Adapters, build_engine
from tests.faults.injector import EDGES, FaultInjector, FaultyEdge
from tests.faults.watch_faults import FaultyWatchClient
from tests.flow.environment import World


class SteppedClock:
    """A clock that advances only by ``tick``, so delays take no time."""

    def __init__(self) -> None:
        self._began = datetime.now(UTC)
        self._seconds = 0.0

    def now(self) -> datetime:
        return self._began + timedelta(seconds=self._seconds)

    def monotonic(self) -> float:
        return self._seconds

    def tick(self) -> None:
        self._seconds += 1.0


def records_of(world: World) -> SqlRecords:
    """Open the history and audit, as a start does."""
    return SqlRecords(RecordDatabase(f"sqlite:///{world.folder / 'data' / 'history.db'}"))


class SteppedController:
    """The part of a controller that a crash destroys; the cluster, the data folder and Git survive."""

    def __init__(
        self,
        world: World,
        renderer: Renderer,
        clock: SteppedClock,
        injector: FaultInjector,
        policies: tuple[Policy, ...] = (),
    ) -> None:
        data = world.folder / "data"
        data.mkdir(exist_ok=True)
        self.injector = injector
        self.records = records_of(world)
        self.live = InformerCache(FaultyWatchClient(world.client, injector))  # type: ignore[arg-type]
        self._pool = ThreadPoolExecutor(4)
        self._repositories = Repositories(data / "mirrors", Transport(("file",)))

        def behind(edge: str, inner: Any) -> Any:
            return FaultyEdge(edge, inner, injector, EDGES[edge])

        cluster, records = behind("api", world.cluster), behind("database", self.records)
        source = behind("git", self._repositories)
        of_operator = Policies(cluster, self.live, source, PolicySet(policies))
        self.reviews = ReviewService(records, clock, of_operator.of)
        self.applications, self.state = build_engine(
            Adapters(cluster, self.live, records, source, behind("render", renderer), clock, self._pool),
            of_operator,
            workers=0,
        )
        self.live.subscribe(self.applications.on_object_change, self.applications.enqueue_all)
        self.applications.start()

    def stop(self) -> None:
        self.applications.stop()
        self._repositories.close()
        self._pool.shutdown()
        self.live.stop()
        self.records.close()
