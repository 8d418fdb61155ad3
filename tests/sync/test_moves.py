"""
Random moves and renames on fakes: objects change their Application, and Applications their name; none is recreated.

A root Application declares the others, as an app of apps does. Reconciles come in any order, more commits arrive before
all have reconciled, requests fail, and the process restarts.

GITSYNC_MOVES is how many commits are made, 30 by default; GITSYNC_MOVES_SEED chooses others.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

import pytest
import yaml

from gitsync.errors import ClusterUnavailable, Conflict, GitsyncError, Rejected
from gitsync.objects.change import Review
from gitsync.objects.keys import API_VERSION, APPLICATION, APPLICATION_LABEL
from gitsync.objects.manifest import Manifest, labels_of, metadata_of, uid_of
from gitsync.objects.record import AuditHead
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.objects.user import User
from gitsync.plan.tracking import owner_of
from gitsync.state.declarations import Reach
from gitsync.sync.polling.git_watcher import PUSH_DEBOUNCE
from tests.fakes.engine import URL, Engine, config_map
from tests.fakes.pipeline import PipelineEngine
from tests.fakes.ports import FakeCluster, FakeRecords

MOVES = int(os.environ.get("GITSYNC_MOVES", "30"))
SEED = int(os.environ.get("GITSYNC_MOVES_SEED", "1"))
COMMITS = 15
"""Commits of one world: a failure is found by few."""
OBJECTS = tuple(f"o{number}" for number in range(6))
PATIENCE = 60
"""Passes over all Applications until everything has to be as Git declares it."""


class ApprovedRecords(FakeRecords):
    """Records of a user who approves every plan, also one that deletes most of what an Application has."""

    def review(
        self, application: str, digest: str, now: datetime, *, sync: str = "", kept: AuditHead | None = None
    ) -> Review:
        return Review(User("ada"), approves=True)


class ApiServer(FakeCluster):
    """A cluster in which finalizers hold Applications; ``changed`` and ``gone`` are called as its watch would."""

    def __init__(self) -> None:
        super().__init__()
        self.changed: Callable[[Manifest], None] = lambda application: None
        self.gone: Callable[[Manifest], None] = lambda application: None

    def put(self, manifest: Manifest) -> Manifest:
        stored = super().put(manifest)
        if stored.get("kind") == "Application":
            metadata = metadata_of(stored)
            if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
                del self.objects[ref_of(stored)]
                self.gone(stored)
            else:
                self.changed(stored)
        return stored

    def delete(
        self, ref: ObjectRef, version: str, *, uid: str, user: str = "", foreground: bool = False
    ) -> Manifest | None:
        live = self.objects.get(ref)
        if metadata_of(live or {}).get("finalizers"):
            self.finalized.add(ref.name)
        answer = super().delete(ref, version, uid=uid, user=user, foreground=foreground)
        if live is not None and ref.of == APPLICATION and ref not in self.objects:
            self.gone(live)
        return answer


class World:
    """A repository whose commits move objects and rename Applications, and a controller that may restart."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.log: list[str] = []
        self.names = 2
        self.shares = {name: self.random.choice(["app-0", "app-1"]) for name in OBJECTS}
        self.cluster = ApiServer()
        self.records = ApprovedRecords()
        self.engine = self._start()
        self.applications = {"app-0", "app-1"}
        self.commit()

    def _start(self) -> PipelineEngine:
        """Return an engine on this cluster that remembers nothing."""
        self.cluster.changed = self.cluster.gone = lambda application: None
        stored = dict(self.cluster.objects)
        engine = PipelineEngine(history=self.records, cluster=self.cluster)
        # what the constructor put there is what the first one made
        self.cluster.objects.update(stored)

        def register(application: Manifest) -> None:
            engine.state.declarations.register(_key(application), Reach.of(application))

        def forget(application: Manifest) -> None:
            engine.pipeline.forget(uid_of(application))
            engine.state.forget(_key(application), engine.clock.now())

        self.cluster.changed, self.cluster.gone = register, forget
        for application in self.live_applications():
            register(application)
        return engine

    # --- what happens ---

    def move(self) -> None:
        """Commit objects in other Applications, some of which the commit adds, renames or removes."""
        renamed = self.random.choice([*sorted(self.applications), ""])
        if renamed:
            name = self._new_name()
            self.shares = {item: name if app == renamed else app for item, app in self.shares.items()}
            self.applications = self.applications - {renamed} | {name}
        if self.random.random() < 0.3:
            self.applications = self.applications | {self._new_name()}
        for item in self.random.sample(OBJECTS, self.random.randrange(4)):
            self.shares[item] = self.random.choice(sorted(self.applications))
        removed = self.random.choice(sorted(self.applications))
        if len(self.applications) > 3:
            self.applications = self.applications - {removed}
            remaining = sorted(self.applications)
            self.shares = {
                item: self.random.choice(remaining) if app == removed else app for item, app in self.shares.items()
            }
        self.commit()

    def _new_name(self) -> str:
        self.names += 1
        return f"app-{self.names}"

    def commit(self) -> None:
        files = {f"shop/{name}.yaml": yaml.safe_dump(_application(name)) for name in self.applications}
        files |= {f"{name}/own-{name}.yaml": yaml.safe_dump(config_map(f"own-{name}")) for name in self.applications}
        files |= {f"{app}/{item}.yaml": yaml.safe_dump(config_map(item, x="1")) for item, app in self.shares.items()}
        source = self.engine.source
        source.commit(f"{len(source.commits) + 1:040}", **files)
        self.log.append(f"commit: {self.shares}")

    def fail(self) -> None:
        """Let a request about an object or an Application fail."""
        name = self.random.choice([*OBJECTS, *sorted(self.applications), "shop"])
        error = self.random.choice([ClusterUnavailable("the API server is away"), Conflict("it was modified")])
        self.cluster.failures[name].append(error)
        self.log.append(f"fail {name}")

    def restart(self) -> None:
        former = self.engine
        self.engine = self._start()
        self.engine.source.commits = former.source.commits
        self.engine.source.head = former.source.head
        self.engine.clock.seconds = former.clock.seconds
        self.log.append("restart")

    def poll(self) -> None:
        """Have an Application ask Git at its next reconcile, as after a push."""
        application = self.random.choice(self.live_applications())
        self._poll(application)
        self.sync(application)

    def _poll(self, application: Manifest) -> None:
        self.engine.clock.seconds += PUSH_DEBOUNCE
        self.engine.state.declarations.record_newest((URL, "main"), self.engine.source.head)
        self.engine.pipeline.poll_now(uid_of(application))

    def reconcile(self) -> None:
        self.sync(self.random.choice(self.live_applications()))

    def sync(self, application: Manifest) -> None:
        live = self.cluster.objects.get(ref_of(application))
        if live is None:
            return
        self.log.append(f"sync {metadata_of(live)['name']}")
        with suppress(GitsyncError):  # of the fault, which is recorded and tried again
            self.engine.pipeline.sync(live)

    # --- what is true ---

    def live_applications(self) -> list[Manifest]:
        return [manifest for ref, manifest in sorted(self.cluster.objects.items()) if ref.of == APPLICATION]

    def owners(self) -> dict[str, str]:
        """Return the Application of each live object."""
        live = {ref.name: manifest for ref, manifest in self.cluster.objects.items() if ref.kind == "ConfigMap"}
        return {name: labels_of(live[name]).get(APPLICATION_LABEL, "") for name in OBJECTS if name in live}

    def uids(self) -> dict[str, str]:
        return {ref.name: uid_of(live) for ref, live in self.cluster.objects.items() if ref.name in OBJECTS}

    def settle(self) -> None:
        """Reconcile all Applications until the cluster is as Git declares it."""
        for _ in range(PATIENCE):
            names = {metadata_of(application)["name"] for application in self.live_applications()}
            if self.owners() == self.shares and names == self.applications | {"shop"}:
                return
            applications = self.live_applications()
            self.random.shuffle(applications)
            for application in applications:
                self._poll(application)
                self.sync(application)
            # longer than the first delays of a retry
            self.engine.clock.seconds += 31
        states = [(_key(item), (item.get("status") or {}).get("conditions")) for item in self.live_applications()]
        raise AssertionError(f"{self.owners()} instead of {self.shares}: {states}\n" + "\n".join(self.log[-60:]))


def _application(name: str) -> Manifest:
    spec = {"source": {"repoURL": URL, "path": name}, "destination": {"namespace": "prod"}}
    spec["risk"] = {"approval": "Never"}
    return {
        "apiVersion": API_VERSION,
        "kind": "Application",
        "metadata": {"name": name, "namespace": "gitsync"},
        "spec": spec,
    }


def _key(application: Manifest) -> str:
    return f"{metadata_of(application)['namespace']}/{metadata_of(application)['name']}"


@pytest.mark.parametrize("seed", range(SEED, SEED + max(MOVES // COMMITS, 1)))
def test_no_object_that_moves_is_recreated(seed: int) -> None:
    world = World(seed)
    world.settle()
    uids = world.uids()
    assert uids.keys() == set(OBJECTS)
    happenings = (world.reconcile, world.reconcile, world.poll, world.poll, world.fail, world.restart)
    for _ in range(COMMITS):
        world.move()
        for _ in range(world.random.randrange(8)):
            world.random.choice(happenings)()
        # sometimes the next commit arrives before all have declared this one
        if world.random.random() < 0.5:
            world.settle()
    world.cluster.failures.clear()
    world.settle()
    assert world.uids() == uids, "\n".join(world.log)
    assert not [write for write in world.cluster.writes if write[0] == "delete" and write[1] in OBJECTS]


def test_a_rejected_successor_has_its_predecessor_pruned_first() -> None:
    engine = Engine()
    engine.sync("c1", config_map("old", host="a.example.com"))
    engine.written()
    message = 'admission webhook denied the request: host "a.example.com" is already defined in prod/old'
    engine.cluster.failures["new"].append(Rejected(message, code=400))
    engine.declare("c2", config_map("new", host="a.example.com"))
    engine.reconcile()
    assert engine.status["phase"] == "Failed"
    engine.clock.seconds += 10
    engine.reconcile()
    assert engine.written() == [("apply", "new"), ("delete", "old"), ("apply", "new")]
    assert engine.status["phase"] == "Synced"


class Rivals:
    """Two Applications that declare one object, which the older one has."""

    def __init__(self, **sync: bool) -> None:
        self.cluster = ApiServer()
        self.engine = PipelineEngine(cluster=self.cluster)
        del self.cluster.objects[ref_of(self.engine.application)]
        self.cluster.changed, self.cluster.gone = self._register, self._forget
        shared = yaml.safe_dump(config_map("a", x="1"))
        self.engine.source.commit("c1", **{f"{name}/a.yaml": shared for name in ("older", "younger")})
        for number, name in enumerate(("older", "younger")):
            self.create(name, f"2026-11-19T10:00:0{number}Z", **sync)
        assert self.owner == "gitsync/older"

    def create(self, name: str, time: str, **sync: bool) -> None:
        application = _application(name)
        metadata = {**application["metadata"], "creationTimestamp": time}
        self.cluster.put({**application, "metadata": metadata, "spec": {**application["spec"], "sync": sync}})
        self.sync(name)

    def sync(self, name: str) -> None:
        """Reconcile an Application until nothing is left to do, or until it is gone."""
        for _ in range(3):
            application = self.find(name)
            if application is not None:
                self.engine.pipeline.sync(application)

    def delete(self, name: str) -> None:
        """Delete an Application as a user would; its finalizer keeps it."""
        application = self.find(name)
        assert application is not None
        metadata = {**application["metadata"], "deletionTimestamp": "2026-11-20T10:00:00Z"}
        self.cluster.put({**application, "metadata": metadata})

    def find(self, name: str) -> Manifest | None:
        return self.cluster.objects.get(ObjectRef(APPLICATION.group, APPLICATION.kind, "gitsync", name))

    @property
    def owner(self) -> str | None:
        """The Application that has the object, None where it does not exist."""
        live = self.cluster.objects.get(ObjectRef("", "ConfigMap", "prod", "a"))
        return owner_of(live) if live is not None else None

    def _register(self, application: Manifest) -> None:
        self.engine.state.declarations.register(_key(application), Reach.of(application))

    def _forget(self, application: Manifest) -> None:
        self.engine.state.forget(_key(application), self.engine.clock.now())


@pytest.mark.parametrize("first", ["older", "younger"])
@pytest.mark.parametrize("reconciled", ["older", "younger"])
def test_what_deleted_applications_declare_is_deleted(first: str, reconciled: str) -> None:
    rivals = Rivals()
    for name in (first, "younger" if first == "older" else "older"):
        rivals.delete(name)
    for name in (reconciled, "older", "younger"):
        rivals.sync(name)
    assert (rivals.find("older"), rivals.find("younger"), rivals.owner) == (None, None, None)


@pytest.mark.parametrize("is_watch_late", [False, True])
def test_what_a_deleted_owner_left_is_deleted_with_its_heir(is_watch_late: bool) -> None:
    rivals = Rivals()
    if is_watch_late:
        rivals.cluster.changed = lambda application: None
    rivals.delete("older")
    rivals.sync("older")
    assert (rivals.find("older"), rivals.owner) == (None, "gitsync/older"), "left to the other one"
    rivals.delete("younger")
    rivals.sync("younger")
    assert (rivals.find("younger"), rivals.owner) == (None, None)


def test_an_heir_that_lives_on_takes_over_what_was_left() -> None:
    rivals = Rivals()
    rivals.delete("older")
    rivals.sync("older")
    rivals.sync("younger")
    assert rivals.owner == "gitsync/younger"
    rivals.delete("younger")
    rivals.sync("younger")
    assert rivals.owner is None


@pytest.mark.parametrize("sync", [{"prune": False}, {"preserveResourcesOnDeletion": True}])
def test_what_an_owner_kept_at_its_deletion_stays(sync: dict[str, bool]) -> None:
    rivals = Rivals()
    older = rivals.find("older")
    assert older is not None
    rivals.cluster.put({**older, "spec": {**older["spec"], "sync": sync}})
    rivals.delete("older")
    rivals.sync("older")
    rivals.delete("younger")
    rivals.sync("younger")
    assert (rivals.find("older"), rivals.find("younger"), rivals.owner) == (None, None, "gitsync/older")


def test_an_owner_that_lives_keeps_what_others_declare() -> None:
    rivals = Rivals()
    rivals.delete("younger")
    rivals.sync("younger")
    assert (rivals.find("younger"), rivals.owner) == (None, "gitsync/older")


def test_an_owner_that_was_created_again_keeps_its_object() -> None:
    rivals = Rivals()
    rivals.delete("older")
    rivals.sync("older")
    rivals.create("older", "2026-11-20T11:00:00Z")
    rivals.delete("younger")
    rivals.sync("younger")
    rivals.sync("older")
    assert (rivals.find("younger"), rivals.owner) == (None, "gitsync/older")


def test_a_third_application_keeps_what_two_deleted_ones_left() -> None:
    rivals = Rivals()
    source = rivals.engine.source
    source.commits["c1"]["youngest/a.yaml"] = source.commits["c1"]["younger/a.yaml"]
    rivals.create("youngest", "2026-11-19T10:00:02Z")
    for name in ("older", "younger"):
        rivals.delete(name)
        rivals.sync(name)
    rivals.sync("youngest")
    assert rivals.owner == "gitsync/youngest"
    assert ("delete", "a") not in rivals.cluster.writes


def test_an_object_that_cannot_be_read_holds_no_deletion(monkeypatch: pytest.MonkeyPatch) -> None:
    rivals = Rivals()
    rivals.delete("older")
    rivals.sync("older")
    read = rivals.cluster.read

    def refuse(ref: ObjectRef, version: str) -> Manifest | None:
        if ref.name == "a":
            raise Rejected("not allowed", code=403)
        return read(ref, version)

    monkeypatch.setattr(rivals.cluster, "read", refuse)
    rivals.delete("younger")
    rivals.sync("younger")
    assert (rivals.find("younger"), rivals.owner) == (None, "gitsync/older")
