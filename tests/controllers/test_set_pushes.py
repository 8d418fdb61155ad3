"""A push reaches the replica that reconciles an ApplicationSet, by one notification for each branch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from gitsync.controllers.applicationsets import ApplicationSetController
from gitsync.controllers.base import Workers
from gitsync.objects.keys import API_VERSION, GIT_PUSHED, PUSH_MANAGER
from gitsync.objects.manifest import Manifest
from gitsync.operator.application_sets import SetCache
from gitsync.ports import ApiResource, Ports
from gitsync.runtime.clock import SystemClock
from tests.waiting import until

URL = "https://git.example.com/shop.git"
NAMES = tuple(f"set-{number:02}" for number in range(20))


def stored(name: str, revision: str = "main", **annotations: str) -> Manifest:
    git = {"repoURL": URL, "revision": revision, "directories": [{"path": f"{name}/*"}]}
    metadata = {"namespace": "gitsync", "name": name, "uid": name, "annotations": annotations}
    spec = {"generators": [{"git": git}]}
    return {"apiVersion": API_VERSION, "kind": "ApplicationSet", "metadata": metadata, "spec": spec}


class Share:
    """The sets of this replica; all others are one other replica's."""

    may_write = True

    def __init__(self) -> None:
        self.ours: set[str] = set()

    def owns(self, key: str) -> bool:
        return key.rpartition(":")[2] in self.ours

    def owner_of(self, key: str) -> str:
        return "us" if self.owns(key) else "them"

    @contextmanager
    def claim(self, key: str) -> Iterator[bool]:
        yield self.owns(key)


class Cluster:
    """A cluster with the sets; it records which of them are annotated."""

    def __init__(self) -> None:
        self.stored = {name: stored(name) for name in NAMES}
        self.applied: list[tuple[str, tuple[str, ...], str]] = []

    def resource(self, group: str, version: str, kind: str) -> ApiResource:
        return ApiResource(group, version, kind, "applicationsets", True)

    def apply(self, manifest: Manifest, *, manager: str) -> Manifest:
        metadata = manifest["metadata"]
        self.applied.append((metadata["name"], tuple(metadata["annotations"]), manager))
        return manifest

    def follow(self, *_: object) -> None: ...

    def get(self, resource: ApiResource, namespace: str, name: str) -> Manifest | None:
        return self.stored.get(name)

    def all(self, resource: ApiResource) -> tuple[Manifest, ...]:
        return tuple(self.stored.values())

    def unresolved_owners(self) -> tuple[()]:
        return ()

    def forget(self, owner: str) -> None: ...


class Reconciler:
    """It records which sets are reconciled and polled; ``is_watched`` is whether the watcher has their branches."""

    def __init__(self) -> None:
        self.reconciled: list[str] = []
        self.polled: list[str] = []
        self.is_watched = True

    def reconcile(self, manifest: Manifest, cache: SetCache) -> None:
        self.reconciled.append(manifest["metadata"]["name"])

    def leave(self, key: str, cache: SetCache) -> None: ...

    def poll_now(self, key: str, cache: SetCache) -> bool:
        self.polled.append(key.rpartition(":")[2])
        return not self.is_watched


class World:
    """A controller that works on the first five sets, each reconciled once."""

    def __init__(self) -> None:
        self.share, self.cluster, self.reconciler = Share(), Cluster(), Reconciler()
        self.share.ours = set(NAMES[:5])
        ports: Any = Ports(self.cluster, self.cluster, self.cluster, SystemClock())  # type: ignore[arg-type]
        self.controller = ApplicationSetController(self.reconciler, Workers(ports, self.cluster, self.share))  # type: ignore[arg-type]
        self.controller.start()
        self.controller.enqueue_all()
        until(lambda: sorted(self.reconciler.reconciled) == sorted(NAMES[:5]))
        self.reconciler.reconciled.clear()

    def push(self) -> int:
        return self.controller.repository_changed(lambda url: url == URL)


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.controller.stop()


def test_a_push_polls_ours_and_notifies_another_replica_once_for_a_branch(world: World) -> None:
    world.cluster.stored[NAMES[19]] = stored(NAMES[19], "release")
    assert world.push() == 20
    until(lambda: len(world.cluster.applied) == 2)
    assert sorted(world.reconciler.polled) == sorted(NAMES[:5])
    assert sorted(world.cluster.applied) == [(name, (GIT_PUSHED,), PUSH_MANAGER) for name in (NAMES[5], NAMES[19])]
    assert world.push() == 20
    until(lambda: len(world.cluster.applied) == 4)


def test_a_notification_polls_the_set_and_reconciles_nothing(world: World) -> None:
    for name in (NAMES[0], NAMES[7]):
        world.controller.on_object_change(stored(name), stored(name, **{GIT_PUSHED: "now"}))
    assert world.reconciler.polled == [NAMES[0]]
    assert world.controller.queue_length() == 0


def test_a_push_reconciles_a_set_whose_branch_is_not_watched(world: World) -> None:
    """Such as after an outage, in which the next poll is far away."""
    world.reconciler.is_watched = False
    world.controller.on_object_change(stored(NAMES[0]), stored(NAMES[0], **{GIT_PUSHED: "now"}))
    until(lambda: world.reconciler.reconciled == [NAMES[0]])


def test_a_push_for_a_set_that_becomes_ours_is_not_lost(world: World) -> None:
    assert world.push() == 20
    until(lambda: len(world.cluster.applied) == 1)
    assert world.push() == 20  # the next notification waits, since one was sent just now
    world.reconciler.polled.clear()
    world.share.ours = set(NAMES)
    until(lambda: NAMES[5] in world.reconciler.polled)
    assert len(world.cluster.applied) == 1
