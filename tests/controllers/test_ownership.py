"""What a change of the division between replicas and a push cost a controller: reconciles and notifications."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from gitsync.controllers.application import ApplicationController
from gitsync.controllers.base import Workers
from gitsync.errors import ClusterUnavailable, GitsyncError
from gitsync.objects.keys import GIT_CHANGED, GIT_PUSHED, HINT_MANAGER, PUSH_MANAGER
from gitsync.objects.manifest import Manifest
from gitsync.objects.record import Push
from gitsync.ports import ApiResource, Ports
from gitsync.runtime.clock import SystemClock
from gitsync.runtime.workqueue import WorkQueue
from gitsync.state.state import EngineState
from gitsync.sync.pipeline import ReconcileResult
from tests.waiting import until

NAMES = tuple(f"app-{number}" for number in range(20))
KEYS = tuple(f"gitsync/{name}" for name in NAMES)


class Share:
    """The Applications of this replica; all others are one other replica's."""

    may_write = True

    def __init__(self) -> None:
        self.ours = set(KEYS)

    def owns(self, key: str) -> bool:
        return key in self.ours

    def owner_of(self, key: str) -> str:
        return "us" if key in self.ours else "them"

    @contextmanager
    def claim(self, key: str) -> Iterator[bool]:
        yield key in self.ours


class Cluster:
    """A cluster with the Applications; it records what is applied to them."""

    def __init__(self) -> None:
        self.applied: list[str] = []
        self.annotations: list[tuple[str, str]] = []
        self.watch_error: GitsyncError | None = None

    def resource(self, group: str, version: str, kind: str) -> ApiResource:
        return ApiResource(group, version, kind, "applications", True)

    def apply(self, manifest: Manifest, *, manager: str) -> Manifest:
        (annotation,) = manifest["metadata"]["annotations"]
        self.annotations.append((annotation, manager))
        self.applied.append(manifest["metadata"]["name"])
        return manifest

    def follow(self, *_: object) -> None:
        if self.watch_error is not None:
            raise self.watch_error

    def get(self, resource: ApiResource, namespace: str, name: str) -> Manifest:
        source = {"repoURL": "https://git.example.com/shop.git", "path": name}
        return {"metadata": {"namespace": namespace, "name": name, "uid": name}, "spec": {"source": source}}

    def all(self, resource: ApiResource) -> tuple[Manifest, ...]:
        return tuple(self.get(resource, "gitsync", name) for name in NAMES)

    def unresolved_owners(self) -> tuple[()]:
        return ()


class Engine:
    """The pipeline and the watcher of a controller: they record which Applications are reconciled."""

    def __init__(self) -> None:
        self.synced: list[str] = []
        self.relayed: list[str] = []
        self.polled: list[str] = []

    def sync(self, manifest: Manifest) -> ReconcileResult:
        self.synced.append(manifest["metadata"]["name"])
        return ReconcileResult()

    def relay(self, manifest: Manifest) -> None:
        self.relayed.append(manifest["metadata"]["name"])

    def poll_now(self, keys: Iterable[str], push: Push | None = None) -> frozenset[str]:
        """Poll an Application of the pipeline, by its uid, or those of the watcher, which watches none."""
        if isinstance(keys, str):
            self.polled.append(keys)
        return frozenset(keys)

    def start(self, enqueue: object) -> None: ...

    def stop(self) -> None: ...


class World:
    """A controller whose Applications were all reconciled once."""

    def __init__(self) -> None:
        self.share, self.cluster, self.engine = Share(), Cluster(), Engine()
        engine, cluster = self.engine, self.cluster
        ports: Any = Ports(cluster, cluster, cluster, SystemClock())  # type: ignore[arg-type]
        queue: WorkQueue[str] = WorkQueue()
        self.controller = ApplicationController(
            engine,  # type: ignore[arg-type]
            engine,  # type: ignore[arg-type]
            EngineState.empty(queue.add),
            queue,
            Workers(ports, cluster, self.share),  # type: ignore[arg-type]
        )
        self.controller.start()
        self.controller.enqueue_all()
        until(lambda: sorted(self.engine.synced) == sorted(NAMES))
        self.engine.synced.clear()


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.controller.stop()


def test_a_denied_watch_of_the_own_kind_is_a_problem(world: World) -> None:
    assert world.controller.problem == ""
    world.cluster.watch_error = ClusterUnavailable("applications may be out of date: forbidden")
    assert world.controller.problem == "applications may be out of date: forbidden"


def test_a_controller_that_has_not_started_has_listed_nothing() -> None:
    ports: Any = Ports(Cluster(), Cluster(), Cluster(), SystemClock())  # type: ignore[arg-type]
    queue: WorkQueue[str] = WorkQueue()
    nothing: Any = None
    controller = ApplicationController(nothing, nothing, EngineState.empty(queue.add), queue, Workers(ports, nothing))
    assert controller.problem == "Application has not been listed yet"


def test_a_changed_division_reconciles_only_what_moved(world: World) -> None:
    world.share.ours -= set(KEYS[:5])
    world.controller.enqueue_moved()
    until(lambda: sorted(world.engine.relayed) == sorted(NAMES[:5]))
    world.share.ours |= {KEYS[0]}
    world.controller.enqueue_moved()
    until(lambda: world.engine.synced == [NAMES[0]])
    world.controller.enqueue_moved()
    world.controller.enqueue_all()  # what the call before had enqueued comes first
    until(lambda: len(world.engine.synced) == 1 + 16)
    assert sorted(world.engine.synced) == sorted([NAMES[0], NAMES[0], *NAMES[5:]])


def test_a_push_is_passed_on_for_one_application_of_the_branch(world: World) -> None:
    world.share.ours = set(KEYS[:5])
    world.controller.enqueue_moved()
    until(lambda: len(world.engine.relayed) == 15)
    world.controller.repository_changed(lambda url: True)
    until(lambda: len(world.cluster.applied) == 1)
    world.controller.repository_changed(lambda url: True)
    until(lambda: len(world.cluster.applied) == 2)
    assert len(set(world.cluster.applied)) == 1
    assert set(world.cluster.annotations) == {(GIT_PUSHED, PUSH_MANAGER)}


def test_a_push_for_an_application_that_becomes_ours_is_not_lost(world: World) -> None:
    world.share.ours = set(KEYS[1:])
    world.controller.enqueue_moved()
    until(lambda: world.engine.relayed == [NAMES[0]])
    world.controller.poll_now([KEYS[0]])
    until(lambda: len(world.cluster.applied) == 1)
    world.controller.poll_now([KEYS[0]])  # it waits, since one was sent just now
    world.share.ours |= {KEYS[0]}
    until(lambda: NAMES[0] in world.engine.polled)
    assert len(world.cluster.applied) == 1


def test_a_peer_that_a_prune_waits_for_is_asked_to_report_its_commit(world: World) -> None:
    """Also where a push is passed on to it at the same time."""
    world.share.ours = set(KEYS[1:])
    world.controller.enqueue_moved()
    until(lambda: world.engine.relayed == [NAMES[0]])
    world.controller.poll_now([KEYS[0]])
    world.controller.repository_changed(lambda url: True)
    until(lambda: world.cluster.annotations)
    assert (GIT_CHANGED, HINT_MANAGER) in world.cluster.annotations
