"""Owners of several replicas that write one object for the first time: one of them writes it, and the others fail."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitsync.apply.change import ApplyRequest, StepResult, apply_change
from gitsync.apply.owner_writes import OwnerWrites, WritePool, WritesByOwner
from gitsync.errors import ClusterUnavailable, Conflict, RecordUnavailable
from gitsync.objects.application import Application, Destination, GitSource
from gitsync.objects.change import Action, Change, Plan, Risk
from gitsync.objects.health import Health, HealthStatus
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.record import AuditRecord, Commit, Outcome
from gitsync.objects.ref import ObjectRef
from gitsync.plan.tracking import marked, owner_of
from gitsync.ports import Ports
from tests.fakes.ports import FakeClock, FakeCluster, FakeLive, FakePool, FakeRecords

X = ObjectRef("", "ConfigMap", "shop", "x")


@dataclass
class Shared:
    """What replicas share: the cluster and the records. ``on_call`` is called with an owner before each request."""

    cluster: FakeCluster = field(default_factory=FakeCluster)
    records: FakeRecords = field(default_factory=FakeRecords)
    on_call: Callable[[str], None] = lambda owner: None
    calls: list[str] = field(default_factory=list)
    """The methods that were called."""


class Calls:
    """A port of one owner: ``on_call`` is called before each method."""

    def __init__(self, port: Any, shared: Shared, owner: str) -> None:
        self._port = port
        self._shared = shared
        self._owner = owner

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            self._shared.on_call(self._owner)
            self._shared.calls.append(name)
            return method(*args, **kwargs)

        return call


class Replica:
    """One Application and its writes in a process of its own, which declares the object X."""

    def __init__(self, name: str, shared: Shared, is_current: Callable[[str], bool] | None = lambda key: True) -> None:
        self.app = Application(name, "gitsync", name, 1, GitSource(repo_url="https://x"), Destination(namespace="shop"))
        self.shared = shared
        self.cluster: Any = Calls(shared.cluster, shared, name)
        records: Any = Calls(shared.records, shared, name)
        self.live: Any = FakeLive(shared.cluster)
        pool = WritePool(FakePool(), lambda key: None, patience=0.0, is_current=is_current)
        self.writes = OwnerWrites(self.app.key, Ports(self.cluster, self.live, records, FakeClock()), pool)
        self.inventory: set[ObjectRef] = set()
        self.attempts = 0

    @property
    def declared(self) -> Manifest:
        metadata = {"name": "x", "namespace": "shop"}
        return marked(self.app, X, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})

    def change(self, live: Manifest | None = None) -> Change:
        action = Action.CREATE if live is None else Action.UPDATE
        return Change(X, action, desired=self.declared, live=live, reason="is declared")

    def write(self, *changes: Change) -> list[StepResult]:
        self.attempts += 1
        request = ApplyRequest(
            self.app,
            Plan(self.app.key, "c1", changes, "digest", Risk.SAFE),
            Commit("c1"),
            f"{self.app.name}-{self.attempts}",
            {change.ref: "v1" for change in changes},
            lambda entries: self.inventory.update(entries),
            lambda ref, manifest: HealthStatus(Health.HEALTHY),
        )
        return self.writes.write(
            request, changes, lambda change: apply_change(request, change, self.cluster, self.live)
        )

    def sync(self) -> None:
        """Plan and write until the object has a mark: that of another one is left to it, which declares it too."""
        for _ in range(3):
            live = self.cluster.read(X, "v1")
            if owner_of(live or {}):
                return
            if self.write(self.change(live))[0].outcome is Outcome.SUCCEEDED:
                return


def writers(shared: Shared) -> list[str]:
    """Return the names of the Applications that wrote the object, in order."""
    return [str(at(manifest, "metadata", "labels", "gitsync.dev/application")) for manifest in shared.cluster.applied]


def test_the_first_intent_writes_and_a_later_one_fails() -> None:
    shared = Shared()
    first, second = Replica("first", shared), Replica("second", shared)
    results: list[StepResult] = []

    def write_between(owner: str) -> None:
        # the first has its intent in the audit, and is about to write
        if owner == "first" and shared.records.links:
            shared.on_call = lambda owner: None
            results.extend(second.write(second.change()))

    shared.on_call = write_between
    assert first.write(first.change())[0].outcome is Outcome.SUCCEEDED
    assert writers(shared) == ["first"]
    assert results[0].message == "ConfigMap shop/x: gitsync/first writes it at this moment; it is planned again"
    assert isinstance(results[0].error, Conflict)
    # its outcome is in the audit: nothing was written, and nothing is unresolved
    assert shared.records.unresolved() == ()


def test_a_plan_from_before_the_write_of_another_fails() -> None:
    shared = Shared()
    first, second = Replica("first", shared), Replica("second", shared)
    plan = second.change()
    first.sync()
    (result,) = second.write(plan)
    assert result.message == "ConfigMap shop/x: gitsync/first has written it"
    assert writers(shared) == ["first"]


def test_an_object_without_a_mark_is_taken_over() -> None:
    shared = Shared()
    replica = Replica("first", shared)
    shared.cluster.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "shop"}})
    (result,) = replica.write(replica.change(shared.cluster.objects[X]))
    assert result.outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize("is_known", [True, False])
def test_an_object_is_taken_over_once_its_owner_is_known_to_give_it_up(is_known: bool) -> None:
    shared = Shared()
    Replica("first", shared).sync()
    asked: list[str] = []
    second = Replica("second", shared, lambda key: bool(asked.append(key)) or is_known)
    (result,) = second.write(second.change(shared.cluster.objects[X]))
    assert asked == ["gitsync/first"]
    assert result.outcome is (Outcome.SUCCEEDED if is_known else Outcome.FAILED)
    assert writers(shared) == (["first", "second"] if is_known else ["first"])
    if not is_known:
        assert result.message == "ConfigMap shop/x: it is not known yet whether gitsync/first still declares it"


def test_an_object_of_its_own_is_written_without_a_question() -> None:
    shared = Shared()
    replica = Replica("first", shared, lambda key: pytest.fail(key))
    replica.sync()
    shared.calls.clear()
    (result,) = replica.write(replica.change(shared.cluster.objects[X]))
    assert result.outcome is Outcome.SUCCEEDED
    assert shared.calls == ["audit", "apply", "resource", "audit"]


def test_one_process_alone_asks_nothing() -> None:
    shared = Shared()
    replica = Replica("first", shared, None)
    assert replica.write(replica.change())[0].outcome is Outcome.SUCCEEDED
    assert shared.calls == ["audit", "apply", "resource", "audit"]


def test_a_read_without_an_answer_writes_nothing() -> None:
    shared = Shared()
    replica = Replica("first", shared)

    def read(ref: ObjectRef, version: str) -> Manifest | None:
        raise ClusterUnavailable("no answer")

    shared.cluster.read = read  # type: ignore[method-assign]
    (result,) = replica.write(replica.change())
    assert (result.outcome, result.message) == (Outcome.FAILED, "no answer")
    assert writers(shared) == []


def test_a_prune_and_children_of_agents_are_no_first_writes() -> None:
    shared = Shared()
    Replica("first", shared).sync()
    second = Replica("second", shared, lambda key: pytest.fail(key))
    live = shared.cluster.objects[X]
    (pruned,) = second.write(replace(second.change(live), action=Action.PRUNE, desired=None))
    assert pruned.outcome is Outcome.SUCCEEDED
    second.app = replace(second.app, owns_by_reference=True)
    (result,) = second.write(second.change())
    assert result.outcome is Outcome.SUCCEEDED


class Baton:
    """Lets one of several threads run at a time, from one request to the next."""

    def __init__(self) -> None:
        self._paused = threading.Semaphore(0)
        self._go: dict[str, threading.Semaphore] = {}
        self._running: set[str] = set()

    def pause(self, name: str) -> None:
        """Wait for the next turn of a thread."""
        self._paused.release()
        self._go[name].acquire()

    def run(self, bodies: dict[str, Callable[[], None]], turns: Iterable[str]) -> None:
        """Run each body in a thread of its own, in these turns, and then to the end."""
        threads = []
        for name, body in bodies.items():
            self._go[name] = threading.Semaphore(0)
            self._running.add(name)
            threads.append(threading.Thread(target=self._body, args=(name, body), daemon=True))
            threads[-1].start()
            self._paused.acquire()
        for name in turns:
            self._turn(name)
        while self._running:
            self._turn(min(self._running))
        for thread in threads:
            thread.join()

    def _body(self, name: str, body: Callable[[], None]) -> None:
        self.pause(name)
        try:
            body()
        finally:
            self._running.discard(name)
            self._paused.release()

    def _turn(self, name: str) -> None:
        if name in self._running:
            self._go[name].release()
            self._paused.acquire()


@settings(max_examples=int(os.environ.get("GITSYNC_CLAIM_EXAMPLES", "40")), deadline=None)
@given(st.lists(st.sampled_from("abc"), max_size=40), st.sampled_from([2, 3]))
def test_in_whatever_order_replicas_write_one_of_them_does(turns: list[str], count: int) -> None:
    shared = Shared()
    baton = Baton()
    replicas = {name: Replica(name, shared) for name in "abc"[:count]}
    shared.on_call = baton.pause
    baton.run({name: replica.sync for name, replica in replicas.items()}, turns)
    assert len(set(writers(shared))) <= 1, "two Applications wrote one object"
    shared.on_call = lambda owner: None
    # the next reconcile of each: one that failed is tried again
    for replica in replicas.values():
        replica.sync()
    assert len(writers(shared)) == 1
    assert shared.records.unresolved() == ()


class CountedRecords(FakeRecords):
    """Records that count the queries for unresolved writes, by owner."""

    def __init__(self) -> None:
        super().__init__()
        self.queries: list[str] = []

    def unresolved(self, application: str = "") -> tuple[AuditRecord, ...]:
        self.queries.append(application)
        return super().unresolved(application)


def intended(owner: str) -> AuditRecord:
    return AuditRecord(owner, "create", X.path, Outcome.INTENDED, FakeClock().now(), "sync-1")


def writes_by_owner(records: FakeRecords, *, is_only_writer: bool) -> WritesByOwner:
    cluster = FakeCluster()
    ports = Ports(cluster, FakeLive(cluster), records, FakeClock())
    return WritesByOwner(ports, WritePool(FakePool(), lambda key: None, is_only_writer=is_only_writer))


def resolve(writes: WritesByOwner, *owners: str) -> None:
    for owner in owners:
        writes.of(owner).resolve(Plan(owner, "c1", (), "", Risk.SAFE), {})


def test_after_a_start_one_query_tells_for_all_owners_whether_writes_are_unresolved() -> None:
    records = CountedRecords()
    records.audit([intended("gitsync/b")])
    writes = writes_by_owner(records, is_only_writer=True)
    resolve(writes, "gitsync/a", "gitsync/b", "gitsync/c", "gitsync/b")
    assert records.queries == ["", "gitsync/b"]
    assert [link.outcome for link in records.links][-1] is Outcome.FAILED
    assert all(writes.of(owner).are_resolved for owner in ("gitsync/a", "gitsync/b"))


def test_where_others_write_too_the_audit_is_read_for_each_owner() -> None:
    records = CountedRecords()
    writes = writes_by_owner(records, is_only_writer=False)
    resolve(writes, "gitsync/a", "gitsync/b")
    assert records.queries == ["gitsync/a", "gitsync/b"]


def test_the_audit_is_read_for_an_owner_that_was_forgotten() -> None:
    records = CountedRecords()
    writes = writes_by_owner(records, is_only_writer=True)
    resolve(writes, "gitsync/a")
    writes.forget("gitsync/a")
    resolve(writes, "gitsync/a")
    assert records.queries == ["", "gitsync/a"]


def test_an_audit_that_cannot_be_read_leaves_every_owner_to_its_reconcile() -> None:
    class Broken(CountedRecords):
        def unresolved(self, application: str = "") -> tuple[AuditRecord, ...]:
            raise RecordUnavailable("the disk is full")

    assert not writes_by_owner(Broken(), is_only_writer=True).of("gitsync/a").are_resolved
