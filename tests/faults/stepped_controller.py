"""An engine whose turns are taken by hand, between edges that can be struck."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

from gitsync.cluster.cache import InformerCache
from gitsync.ports import Renderer
from gitsync.record.database import Database
from gitsync.record.records import SqlRecords
from gitsync.source.repositories import Repositories
from gitsync.wiring import Adapters, build_engine
from tests.faults.injector import EDGES, Line, Struck
from tests.faults.watch_faults import Noticing
from tests.flow.environment import World


class Ticking:
    """A clock that goes on only when it is told to, so that no delay takes time."""

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
    return SqlRecords(Database(f"sqlite:///{world.folder / 'data' / 'history.db'}"))


class Engine:
    """Everything of a controller that a crash takes away; what lasts are the cluster, the data folder and Git."""

    def __init__(self, world: World, renderer: Renderer, clock: Ticking, line: Line) -> None:
        data = world.folder / "data"
        data.mkdir(exist_ok=True)
        self.line = line
        self.records = records_of(world)
        self.live = InformerCache(Noticing(world.client, line))  # type: ignore[arg-type]
        self._pool = ThreadPoolExecutor(4)

        def behind(edge: str, inner: Any) -> Any:
            return Struck(edge, inner, line, EDGES[edge])

        self.applications, self.state = build_engine(
            Adapters(
                behind("api", world.cluster),
                self.live,
                behind("database", self.records),
                behind("git", Repositories(data / "mirrors", schemes=("file",))),
                renderer,
                clock,
                self._pool,
            ),
            workers=0,
        )
        self.live.subscribe(self.applications.on_object_change, self.applications.enqueue_all)
        self.applications.start()

    def stop(self) -> None:
        self._pool.shutdown()
        self.live.stop()
        self.records.close()
