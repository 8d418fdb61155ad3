"""A plan is carried out in order, in parallel inside a batch, with an audit record around every write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gitsync.apply.change import ApplyRequest
from gitsync.apply.execute import Applier
from gitsync.apply.owner_writes import NotAnswered, OwnerWrites, WritePool, WritesByOwner
from gitsync.cluster.cache import InformerCache
from gitsync.cluster.client import Client, Connection
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.errors import AlreadyExists, Conflict, RecordUnavailable
from gitsync.health.assess import assess
from gitsync.objects.application import Application, Destination, GitSource
from gitsync.objects.change import Action, Change, Plan, Risk
from gitsync.objects.health import HealthStatus
from gitsync.objects.inventory import InventoryEntry
from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.objects.record import Commit, Outcome
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.plan.order import in_order, stage_of
from gitsync.ports import Ports
from gitsync.record.database import RecordDatabase
from gitsync.record.records import SqlRecords
from gitsync.sandbox.faults import FaultKind, InjectedFault
from gitsync.sandbox.server import Sandbox
from tests.waiting import until

APP = Application("shop", "gitsync", "uid", 1, GitSource(repo_url="https://x"), Destination(namespace="default"))


class Clock:
    """The real time."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return 0.0


class Bench:
    """An applier over a sandbox and a database of its own."""

    def __init__(self, folder: Path, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.client = Client(Connection(str(sandbox.kubeconfig(folder / "kubeconfig"))))
        self.cluster = KubernetesCluster(self.client)
        self.live = InformerCache(self.client)
        self.records = SqlRecords(RecordDatabase(f"sqlite:///{folder / 'history.db'}"))
        self.pool = ThreadPoolExecutor(4)
        self.answered: list[str] = []
        self.ports = Ports(self.cluster, self.live, self.records, Clock())
        self.writes = WritesByOwner(self.ports, WritePool(self.pool, self.answered.append, patience=60))
        self.applier = Applier(self.ports, self.writes)
        self.held: dict[ObjectRef, InventoryEntry] = {}
        resources = [self.cluster.resource("", "v1", kind) for kind in ("ConfigMap", "Namespace")]
        self.live.follow([(resource, "") for resource in resources if resource is not None], 60)

    def be_patient(self, seconds: float) -> None:
        """Wait this long for the writes of a batch; running writes stay as they are."""
        self.own._pool = WritePool(self.pool, self.answered.append, patience=seconds)

    @property
    def own(self) -> OwnerWrites:
        return self.writes.of(APP.key)

    def job(self, *changes: Change, app: Application = APP) -> ApplyRequest:
        ordered = in_order(changes)

        def health(ref: ObjectRef, manifest: Manifest) -> HealthStatus:
            return assess(manifest)

        return ApplyRequest(
            app,
            Plan(app.key, "c1", ordered, "digest", Risk.SAFE),
            Commit("c1", "Ada"),
            "sync-1",
            {change.ref: "v1" for change in ordered},
            self.hold,
            health,
        )

    def hold(self, entries: Mapping[ObjectRef, InventoryEntry]) -> None:
        self.held |= entries

    def audit(self) -> list[tuple[str, str]]:
        """Return outcome and object of each audit record, oldest first."""
        records = reversed(self.records.audit_records(limit=1000))
        return [(record.outcome.value, record.resource.rpartition("/")[2]) for record in records]

    def close(self) -> None:
        self.pool.shutdown()
        self.live.stop()
        self.client.close()
        self.records.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with Sandbox(workloads=False) as sandbox:
        made = Bench(tmp_path, sandbox)
        yield made
        made.close()


def config_map(name: str, namespace: str = "default", **data: Any) -> Manifest:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}


def create(manifest: Manifest, wave: int = 0) -> Change:
    ref = ref_of(manifest)
    return Change(ref, Action.CREATE, stage=stage_of(ref.of), wave=wave, desired=manifest, reason="is new")


def test_each_object_has_its_result_and_two_audit_records(bench: Bench) -> None:
    done = bench.applier.execute(bench.job(create(config_map("a", x="1")), create(config_map("b", x="1"))))
    assert [(r.change.ref.name, r.outcome) for r in done.results] == [
        ("a", Outcome.SUCCEEDED),
        ("b", Outcome.SUCCEEDED),
    ]
    assert bench.audit() == [("Intended", "a"), ("Intended", "b"), ("Succeeded", "a"), ("Succeeded", "b")]
    assert {ref.name for ref in bench.held} == {"a", "b"}
    assert done.results[0].live is not None
    record = bench.records.audit_records()[0]
    assert (record.author, record.commit, record.digest, record.plan_steps) == ("Ada", "c1", "digest", 2)


def test_a_written_object_shares_its_data_with_the_declared_one(bench: Bench) -> None:
    """Both are in memory while it is in sync."""
    change = create(config_map("a", key="x" * 1000))
    bench.applier.execute(bench.job(change))
    resource = bench.cluster.resource("", "v1", "ConfigMap")
    assert resource is not None
    live = bench.live.get(resource, "default", "a")
    assert live is not None
    assert change.desired is not None
    assert live["data"] is change.desired["data"]
    assert metadata_of(live)["uid"]


def test_what_a_delete_left_is_known_before_the_watch_tells(bench: Bench) -> None:
    """Otherwise the next plan would delete it once more, and ask for another approval."""
    kept = config_map("kept")
    kept["metadata"]["finalizers"] = ["example.com/hold"]
    live = [bench.cluster.apply(manifest, manager="gitsync") for manifest in (config_map("gone"), kept)]
    bench.sandbox.inject(InjectedFault(FaultKind.HALF_OPEN_WATCH, verb="watch", resource="configmaps"))
    mute = InformerCache(bench.client)
    resource = bench.cluster.resource("", "v1", "ConfigMap")
    assert resource is not None
    mute.follow([(resource, "")], 60)
    bench.applier = Applier(Ports(bench.cluster, mute, bench.records, Clock()), bench.writes)
    steps = [Change(ref_of(manifest), Action.PRUNE, live=manifest, reason="is not in Git") for manifest in live]
    done = bench.applier.execute(bench.job(*steps))
    assert {result.outcome for result in done.results} == {Outcome.SUCCEEDED}
    assert mute.get(resource, "default", "gone") is None
    left = mute.get(resource, "default", "kept")
    assert left is not None
    assert left["metadata"]["deletionTimestamp"]
    mute.stop()


def test_one_refused_object_fails_alone(bench: Bench) -> None:
    bad = config_map("b", x="1") | {"wrong": 1}
    done = bench.applier.execute(bench.job(create(config_map("a", x="1")), create(bad), create(config_map("c", x="1"))))
    assert [result.outcome for result in done.results] == [Outcome.SUCCEEDED, Outcome.FAILED, Outcome.SUCCEEDED]
    assert "wrong" in done.results[1].message
    assert ("Failed", "b") in bench.audit()


def test_what_is_in_a_namespace_that_failed_is_not_tried(bench: Bench) -> None:
    space: Manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "Not_A_Name"}}
    job = bench.job(create(space), create(config_map("a", "Not_A_Name")), create(config_map("b", x="1")))
    done = {result.change.ref.name: result for result in bench.applier.execute(job).results}
    assert done["a"].message == "not tried: Namespace Not_A_Name failed"
    assert done["b"].outcome is Outcome.SUCCEEDED
    assert ("Intended", "a") not in bench.audit()


def test_nothing_is_pruned_after_an_apply_failed(bench: Bench) -> None:
    old = bench.cluster.apply(config_map("old", x="1"), manager="gitsync")
    prune = Change(ref_of(old), Action.PRUNE, stage=11, live=old)
    done = bench.applier.execute(bench.job(create(config_map("a") | {"wrong": 1}), prune))
    assert [result.outcome for result in done.results] == [Outcome.FAILED, Outcome.FAILED]
    assert bench.cluster.read(ref_of(old), "v1") is not None


def test_a_prune_names_the_uid_that_was_seen(bench: Bench) -> None:
    old = bench.cluster.apply(config_map("old", x="1"), manager="gitsync")
    bench.cluster.delete(ref_of(old), "v1", uid=old["metadata"]["uid"])
    bench.cluster.apply(config_map("old", x="2"), manager="another")
    done = bench.applier.execute(bench.job(Change(ref_of(old), Action.PRUNE, stage=11, live=old)))
    assert done.results[0].outcome is Outcome.FAILED
    assert bench.cluster.read(ref_of(old), "v1") is not None


def test_a_later_wave_waits_for_objects_of_an_earlier_one(bench: Bench) -> None:
    pod: Manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "web:1"}]},
    }
    resource = bench.cluster.resource("", "v1", "Pod")
    assert resource is not None
    bench.live.follow([(resource, "")], 60)
    done = bench.applier.execute(bench.job(create(pod, wave=1), create(config_map("after", x="1"), wave=2)))
    assert [result.change.ref.name for result in done.results] == ["p"]
    assert "Pod default/p to be healthy" in done.waiting


def test_a_lost_reply_is_settled_by_saying_the_same_again(bench: Bench) -> None:
    bench.sandbox.inject(InjectedFault(FaultKind.LOST_REPLY, verb="patch", resource="configmaps", count=1))
    done = bench.applier.execute(bench.job(create(config_map("a", x="1"))))
    assert done.results[0].outcome is Outcome.SUCCEEDED


def test_a_create_only_step_never_changes_an_object_of_others(bench: Bench) -> None:
    others = bench.cluster.apply(config_map("a", x="theirs"), manager="ada")
    done = bench.applier.execute(replace(bench.job(create(config_map("a", x="ours"))), creates_only=True))
    assert isinstance(done.results[0].error, AlreadyExists)
    assert bench.cluster.read(ref_of(others), "v1") == others
    assert bench.sandbox.requests(verb="create", resource="configmaps") == 1
    assert bench.audit() == [("Intended", "a"), ("Failed", "a")]


def test_a_lost_reply_of_a_create_only_step_has_no_outcome_in_the_audit(bench: Bench) -> None:
    bench.sandbox.inject(InjectedFault(FaultKind.LOST_REPLY, verb="create", resource="configmaps", count=1))
    done = bench.applier.execute(replace(bench.job(create(config_map("a", x="1"))), creates_only=True))
    assert done.results[0].is_unknown
    assert [record.resource for record in bench.records.unresolved()] == ["/ConfigMap/default/a"]


@pytest.mark.parametrize("kind", [FaultKind.LOST_REPLY, FaultKind.ERROR_AFTER])
def test_a_lost_reply_after_a_transfer_of_ownership_has_no_outcome_in_the_audit(bench: Bench, kind: FaultKind) -> None:
    live = bench.cluster.apply(config_map("a", x="0"), manager="kubectl")
    entries = [{**entry, "manager": APP.field_manager} for entry in live["metadata"]["managedFields"]]
    change = replace(create(config_map("a", x="1")), action=Action.UPDATE, live=live, managed_fields=tuple(entries))
    bench.sandbox.inject(InjectedFault(kind, verb="patch", resource="configmaps", skip=1, count=1, code=500))
    done = bench.applier.execute(bench.job(change))
    assert done.results[0].is_unknown, done.results[0].message
    assert [record.resource for record in bench.records.unresolved()] == ["/ConfigMap/default/a"]


def test_a_write_whose_answer_never_comes_has_no_outcome_in_the_audit(bench: Bench) -> None:
    bench.sandbox.inject(InjectedFault(FaultKind.LOST_REPLY, verb="patch", resource="configmaps"))
    done = bench.applier.execute(bench.job(create(config_map("a", x="1"))))
    assert done.results[0].is_unknown
    assert [record.resource for record in bench.records.unresolved()] == ["/ConfigMap/default/a"]


def test_a_write_that_is_not_answered_in_time_holds_no_worker(bench: Bench) -> None:
    bench.be_patient(0.05)
    bench.sandbox.inject(InjectedFault(FaultKind.LATENCY, verb="patch", name="slow", count=1, seconds=1.5))
    slow, quick = create(config_map("slow", x="1")), create(config_map("quick", x="1"))
    assert bench.applier.execute(bench.job(slow)).waiting
    bench.be_patient(60)  # a loaded machine may need longer than 0.05 s for the next one
    assert [result.change.ref.name for result in bench.applier.execute(bench.job(quick)).results] == ["quick"]

    bench.be_patient(0.05)
    again = bench.applier.execute(bench.job(slow))
    assert again.results == ()
    assert again.waiting == "the API server to answer the write of ConfigMap default/slow"
    assert isinstance(bench.applier.write(bench.job(slow), [slow])[0].error, NotAnswered)
    assert ("Succeeded", "slow") not in bench.audit()

    until(lambda: bench.answered == [APP.key])
    (late,) = bench.own.take()
    assert late.result.outcome is Outcome.SUCCEEDED
    assert [entry for entry in bench.audit() if entry[1] == "slow"] == [("Intended", "slow"), ("Succeeded", "slow")]
    assert bench.own.running == frozenset()


def test_late_writes_reconcile_once_all_of_them_are_answered(bench: Bench) -> None:
    bench.be_patient(0.05)
    bench.sandbox.inject(InjectedFault(FaultKind.LATENCY, verb="patch", count=3, seconds=0.5))
    changes = [create(config_map(name, x="1")) for name in "abc"]
    assert bench.applier.execute(bench.job(*changes)).waiting
    refs = frozenset(change.ref for change in changes)
    assert bench.own.is_writing(refs)
    until(lambda: bench.answered)
    assert bench.answered == [APP.key]
    assert len(bench.own.take()) == len(changes)
    assert not bench.own.is_writing(refs)


def test_objects_of_a_batch_count_as_being_written_until_all_of_it_is_answered(bench: Bench) -> None:
    bench.be_patient(0.5)
    bench.sandbox.inject(InjectedFault(FaultKind.LATENCY, verb="patch", name="slow", count=1, seconds=2.0))
    slow, quick, other = (create(config_map(name, x="1")) for name in ("slow", "quick", "other"))
    assert bench.applier.execute(bench.job(slow, quick)).waiting
    assert bench.own.is_writing(frozenset({quick.ref}))  # its change is the echo of the write
    assert not bench.own.is_writing(frozenset({quick.ref, other.ref}))
    until(lambda: bench.answered)
    assert not bench.own.is_writing(frozenset({quick.ref}))


def test_conflicts_are_tried_again_but_not_for_ever(bench: Bench) -> None:
    bench.sandbox.inject(InjectedFault(FaultKind.CONFLICT, verb="patch", resource="configmaps", count=4))
    job = bench.job(create(config_map("a", x="1")))
    assert bench.applier.execute(job).results[0].outcome is Outcome.SUCCEEDED
    bench.sandbox.inject(InjectedFault(FaultKind.CONFLICT, verb="patch", resource="configmaps"))
    assert bench.applier.execute(job).results[0].outcome is Outcome.FAILED


@pytest.mark.parametrize(
    "step",
    [{"managed_fields": ()}, {"removed": ("/data/x",)}, {"action": Action.RELEASE}],
    ids=lambda step: next(iter(step)),
)
def test_a_write_to_a_version_that_is_gone_is_tried_once(bench: Bench, step: dict[str, Any]) -> None:
    old = bench.cluster.apply(config_map("a", x="1"), manager="gitsync")
    bench.cluster.apply(config_map("a", y="1"), manager="another")
    update = replace(create(config_map("a", x="2")), **{"action": Action.UPDATE, "live": old, **step})
    others = bench.sandbox.requests(verb="patch")
    assert isinstance(bench.applier.execute(bench.job(update)).results[0].error, Conflict)
    assert bench.sandbox.requests(verb="patch") == others + 1


def test_a_transfer_and_a_removal_of_fields_are_one_step(bench: Bench) -> None:
    live = bench.cluster.apply(config_map("a", x="1", rogue="1"), manager="kubectl")
    owned = [{**entry, "manager": "gitsync"} for entry in metadata_of(live)["managedFields"]]
    change = {"action": Action.UPDATE, "live": live, "managed_fields": owned, "removed": ("/data/rogue",)}
    done = bench.applier.execute(bench.job(replace(create(config_map("a", x="1")), **change)))
    assert done.results[0].outcome is Outcome.SUCCEEDED
    assert done.results[0].live is not None
    assert done.results[0].live["data"] == {"x": "1"}


def test_an_object_that_changed_meanwhile_waits_for_the_next_plan(bench: Bench) -> None:
    old = bench.cluster.apply(config_map("a", x="1"), manager="gitsync")
    bench.cluster.apply(config_map("a", y="1"), manager="another")
    update = replace(create(config_map("a", x="2")), action=Action.UPDATE, live=old, removed=("/data/x",))
    done = bench.applier.execute(replace(bench.job(update), plans_again=True))
    assert (done.results, done.is_outdated) == ((), True)
    assert done.waiting == "ConfigMap default/a to be planned again, since it changed meanwhile"


def test_an_object_that_exists_is_not_planned_again(bench: Bench) -> None:
    bench.cluster.apply(config_map("a", x="1"), manager="another")
    job = replace(bench.job(create(config_map("a", x="2"))), creates_only=True, plans_again=True)
    assert isinstance(bench.applier.execute(job).results[0].error, AlreadyExists)


def test_a_step_with_a_known_problem_is_not_tried(bench: Bench) -> None:
    change = create(config_map("a", x="1"))
    hopeless = Change(change.ref, Action.CREATE, stage=change.stage, desired=change.desired, problem="is immutable")
    done = bench.applier.execute(bench.job(hopeless))
    assert done.results[0].message == "is immutable"
    assert bench.cluster.read(change.ref, "v1") is None


def test_an_immutable_object_is_replaced_only_where_the_plan_says_so(bench: Bench) -> None:
    fixed = config_map("a", x="1") | {"immutable": True}
    before = bench.cluster.apply(fixed, manager="gitsync")
    wanted = config_map("a", x="2") | {"immutable": True}
    update = Change(ref_of(wanted), Action.UPDATE, stage=3, desired=wanted, live=before)
    assert bench.applier.execute(bench.job(update)).results[0].outcome is Outcome.FAILED
    replace = Change(ref_of(wanted), Action.REPLACE, stage=3, desired=wanted, live=before)
    done = bench.applier.execute(bench.job(replace))
    assert done.results[0].outcome is Outcome.SUCCEEDED
    after = bench.cluster.read(ref_of(wanted), "v1")
    assert after is not None
    assert after["data"] == {"x": "2"}
    assert after["metadata"]["uid"] != before["metadata"]["uid"]


def test_writes_are_made_as_the_applications_service_account(bench: Bench) -> None:
    destination = Destination(namespace="default", service_account="deployer")
    limited = Application("shop", "gitsync", "uid", 1, GitSource(repo_url="https://x"), destination)
    done = bench.applier.execute(bench.job(create(config_map("a", x="1")), app=limited))
    assert done.results[0].outcome is Outcome.FAILED
    assert 'User "system:serviceaccount:gitsync:deployer" cannot' in done.results[0].message


def test_no_secret_value_is_in_a_failure_or_in_the_audit(bench: Bench) -> None:
    secret: Manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": "default"},
        "data": {"password": "the-canary"},
    }
    done = bench.applier.execute(bench.job(create(secret)))
    assert done.results[0].outcome is Outcome.FAILED
    assert "the-canary" not in done.results[0].message
    assert "the-canary" not in repr(bench.records.audit_records())


def test_without_an_audit_nothing_is_written(bench: Bench, tmp_path: Path) -> None:
    broken = SqlRecords(RecordDatabase(f"sqlite:///{tmp_path / 'broken.db'}"))
    with broken._database.writing() as connection:
        connection.exec_driver_sql("DROP TABLE audit")
    ports = Ports(bench.cluster, bench.live, broken, Clock())
    applier = Applier(ports, WritesByOwner(ports, WritePool(bench.pool, bench.answered.append)))
    with pytest.raises(RecordUnavailable):
        applier.execute(bench.job(create(config_map("a", x="1"))))
    assert bench.cluster.read(ObjectRef("", "ConfigMap", "default", "a"), "v1") is None
    broken.close()
