"""The pipeline on fakes of its ports: what a reconcile does with Git, the cluster, the status and its cache."""

from __future__ import annotations

import pytest

from gitsync.errors import (
    ClusterUnavailable,
    InvalidInput,
    RecordUnavailable,
    Rejected,
    SourceUnavailable,
    UnexpectedError,
)
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ObjectRef
from gitsync.state.declarations import Reach
from gitsync.sync.pipeline import ReconcileResult
from gitsync.sync.polling.branches import reads
from tests.fakes.engine import KEY, URL, config_map, data_of, edited
from tests.fakes.pipeline import UID, PipelineEngine, synced

A = ObjectRef("", "ConfigMap", "prod", "a")
BROKEN = "apiVersion: v1\nkind: [\n"
DEPLOYMENT: Manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {}}
SIGNED = {"repoURL": URL, "path": "shop", "verify": {"mode": "SignedCommits", "secretRef": {"name": "keys"}}}
KEYS: Manifest = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "keys", "namespace": "gitsync"},
    "data": {"ada": "c3NoLWVkMjU1MTkgQUFBQQ=="},
}
STUCK = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "stuck"}


def test_a_commit_goes_from_git_into_cluster_and_status() -> None:
    engine = PipelineEngine()
    engine.source.commit("c1", config_map("a", x="1"))
    result = engine.run()
    assert data_of(engine, "a") == {"x": "1"}
    assert engine.status["phase"] == "Synced"
    assert engine.status["revision"]["applied"] == "c1"
    assert engine.finalizers == ["gitsync.dev/finalizer"]
    assert result == ReconcileResult(600.0), "its branch is watched"
    assert engine.watcher.followed == {KEY: "c1"}
    assert engine.state.tracked.of(KEY) == {A}
    assert engine.state.costs.of(KEY).full == 1


def test_a_sync_without_a_change_writes_nothing() -> None:
    engine = synced()
    engine.run()
    assert engine.cluster.writes == []


def test_an_invalid_spec_is_reported_and_stops_the_watch() -> None:
    engine = synced()
    engine.edit(source={"repoURL": URL, "renderer": "Jsonnet"})
    engine.run()
    assert engine.status["phase"] == "Failed"
    assert "renderer" in engine.condition("Ready")[1]
    assert engine.watcher.followed == {}


def test_a_broken_commit_leaves_the_applied_one_enforced() -> None:
    engine = synced()
    engine.push("c2", **{"shop/a.yaml": BROKEN})
    edited(engine, "a", x="9")
    engine.run()
    assert data_of(engine, "a") == {"x": "1"}
    assert engine.condition("Rendered")[0] == "False"
    assert "a.yaml:" in engine.condition("Rendered")[1]
    assert engine.status["revision"]["applied"] == "c1"


def test_a_broken_first_commit_has_nothing_to_fall_back_to() -> None:
    engine = PipelineEngine()
    engine.source.commit("c1", **{"shop/a.yaml": BROKEN})
    engine.run()
    assert engine.status["phase"] == "Failed"
    assert "a.yaml:" in engine.condition("Rendered")[1]
    assert engine.cluster.objects.keys() & {A} == set()


def test_the_newest_error_counts_where_the_applied_commit_breaks() -> None:
    engine = synced()
    engine.source.commits["c1"] = {"shop/a.yaml": b"kind: {"}  # as with a renderer that became stricter
    engine.pipeline.forget(UID)
    engine.source.commit("c2", **{"shop/new.yaml": BROKEN})
    engine.run()
    assert "new.yaml:" in engine.condition("Rendered")[1]
    assert engine.status["revision"]["applied"] == "c1"


def test_the_applied_commit_stays_enforced_without_git() -> None:
    engine = synced()
    engine.source.error = SourceUnavailable("no answer")
    edited(engine, "a", x="9")
    engine.notify()
    result = engine.run()
    assert data_of(engine, "a") == {"x": "1"}
    assert engine.condition("SourceReady") == ("False", "no answer")
    assert result.requeue_after == pytest.approx(30.0, abs=1), "the retry of the poll"
    assert engine.watcher.followed == {}, "it polls by itself"


def test_a_url_that_is_forbidden_now_leaves_the_applied_commit() -> None:
    engine = synced()
    engine.source.check_error = InvalidInput("not allowed", location="spec.source.repoURL")
    edited(engine, "a", x="9")
    engine.run()
    assert data_of(engine, "a") == {"x": "1"}
    assert engine.condition("SourceReady")[0] == "False"


def test_an_application_that_never_had_a_commit_is_retried() -> None:
    engine = PipelineEngine()
    engine.source.error = SourceUnavailable("no answer")
    with pytest.raises(SourceUnavailable, match="no answer"):
        engine.run()
    assert engine.condition("SourceReady") == ("False", "no answer")


def test_an_error_of_the_cluster_is_raised_for_the_queue() -> None:
    engine = synced()
    engine.live.error = ClusterUnavailable("not listed")
    with pytest.raises(ClusterUnavailable, match="not listed"):
        engine.run()
    assert engine.state.tracked.of(KEY) == {A}, "their changes still enqueue it"


def test_a_defect_of_a_stage_is_in_the_status(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = synced()
    monkeypatch.setattr(engine.planner, "plan", lambda *args: 1 / 0)
    engine.push("c2", config_map("a", x="2"))
    with pytest.raises(UnexpectedError, match="ZeroDivisionError"):
        engine.run()
    assert "ZeroDivisionError" in engine.condition("Ready")[1]


def test_a_defect_while_recording_is_in_the_status(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = synced()
    monkeypatch.setattr(engine.state.views, "publish", lambda *args: 1 / 0)
    engine.push("c2", config_map("a", x="2"))
    with pytest.raises(UnexpectedError, match="ZeroDivisionError"):
        engine.run()
    assert "ZeroDivisionError" in engine.condition("Ready")[1]
    assert engine.status["inventory"], "the rest of the status stays"


def test_a_status_that_cannot_be_written_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = synced()
    engine.push("c2", config_map("a", x="2"))
    engine.cluster.failures["shop"] += [Rejected("too large", code=413)]
    with pytest.raises(ClusterUnavailable, match="too large"):
        engine.run()


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_refusal_is_audited_before_it_is_reported(is_answered: bool) -> None:
    engine = synced()
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}
    engine.push("c2", config_map("a", x="1"), namespace)  # cluster-scoped objects are not allowed
    if is_answered:
        engine.run()
        assert "Refused" in dict(engine.records.outcomes())
        return
    engine.records.error = RecordUnavailable("database is locked")
    with pytest.raises(RecordUnavailable):
        engine.run()
    assert "database is locked" in engine.condition("Ready")[1]


def test_a_suspended_application_reports_and_writes_nothing() -> None:
    engine = synced()
    edited(engine, "a", x="9")
    engine.edit(suspend=True)
    engine.run()
    assert data_of(engine, "a") == {"x": "9"}
    assert engine.status["phase"] == "Suspended"
    assert "1" in engine.condition("Ready")[1].partition("spec.suspend is true; ")[2]
    assert engine.written() == []


def test_a_suspended_application_says_why_it_cannot_be_compared() -> None:
    engine = PipelineEngine(suspend=True)
    engine.source.error = SourceUnavailable("no answer")
    result = engine.run()
    assert engine.status["phase"] == "Suspended"
    assert "it cannot be compared with Git: no answer" in engine.condition("Ready")[1]
    assert result.requeue_after == 30.0, "when the server is asked again"


def test_a_query_that_is_due_ends_the_reconcile() -> None:
    engine = PipelineEngine(waits=False)
    engine.source.commit("c1", config_map("a", x="1"))
    assert engine.run() == ReconcileResult()
    assert "phase" not in engine.status
    assert engine.watcher.asked == [KEY]
    assert engine.source.requests == []


def test_a_suspended_application_waits_for_no_query() -> None:
    engine = PipelineEngine(waits=False, suspend=True)
    engine.run()
    assert engine.status["phase"] == "Suspended"


def test_drift_is_first_seen_once_whatever_a_reconcile_can_compare() -> None:
    engine = synced(sync={"selfHeal": False})
    edited(engine, "a", x="9")
    engine.run_until("Drifted")
    engine.edit(suspend=True)
    engine.run()
    known = engine.status["drift"]
    assert known["objects"] == 1
    engine.clock.seconds += 3600
    # as after a restart, until the Git server has answered
    engine.pipeline.forget(UID)
    engine.source.error = SourceUnavailable("no answer")
    engine.run()
    assert engine.status["drift"] == known
    engine.source.error = None
    engine.notify()
    engine.run()
    assert engine.status["drift"] == known


def test_a_deleted_application_loses_its_objects_and_finalizer() -> None:
    engine = synced()
    engine.mark_deleted()
    status = engine.status
    assert engine.run() == ReconcileResult()
    assert data_of(engine, "a") is None
    assert engine.finalizers == []
    assert engine.status == status


def degraded(policy: str) -> PipelineEngine:
    """Return an engine whose second commit, ``c2``, never becomes healthy."""
    engine = synced(sync={"postSync": {"onDegraded": policy}})
    # as its controller reports it, before the first observation after the apply
    engine.cluster.put(
        {**DEPLOYMENT, "metadata": {"name": "web", "namespace": "prod"}, "status": {"conditions": [STUCK]}}
    )
    engine.push("c2", config_map("a", x="2"), DEPLOYMENT)
    engine.run()
    engine.clock.seconds += 3600
    engine.run()
    return engine


def test_a_degraded_commit_is_rolled_back_until_git_moves_on() -> None:
    engine = degraded("Rollback")
    assert engine.records.failed == ["c2"]
    engine.run()
    assert data_of(engine, "a") == {"x": "1"}
    assert (engine.status["phase"], engine.status["pinned"]["commit"]) == ("Failed", "c1")
    engine.push("c3", config_map("a", x="3"))
    engine.run()
    assert data_of(engine, "a") == {"x": "3"}
    assert "pinned" not in engine.status


def test_a_held_commit_stays_until_a_user_requests_a_sync() -> None:
    engine = degraded("Hold")
    engine.run()
    assert engine.condition("Ready")[0] == "False"
    assert engine.status["pinned"]["instead"] == "c2"
    assert data_of(engine, "a") == {"x": "2"}, "the cluster is left as it is"
    engine.pipeline.request(UID, "ada")
    engine.run()
    assert "pinned" not in engine.status


def test_changed_objects_that_are_in_sync_cost_no_reconcile(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = synced()
    # what the planner finds where managedFields say whose each field is; the fake cluster has none
    monkeypatch.setattr(
        engine.planner, "steps_alone", lambda planned, live: {item.ref: item for item in planned.plan.changes}
    )
    engine.cluster.put(engine.cluster.objects[A])
    full = engine.state.costs.of(KEY).full
    assert engine.pipeline.sync_changed(engine.application, frozenset({A})) is None
    assert engine.cluster.writes == []
    assert engine.state.costs.of(KEY).full == full
    assert engine.state.costs.of(KEY).partial == 1


def test_the_answer_to_our_own_write_is_not_planned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = synced()
    planned: list[object] = []
    monkeypatch.setattr(engine.planner, "steps_alone", lambda planned_before, live: planned.append(live))
    # the watch reports the state that the API server answered with, and that the last plan was made with
    assert engine.pipeline.sync_changed(engine.application, frozenset({A})) is None
    assert planned == []
    engine.cluster.put(engine.cluster.objects[A])
    engine.pipeline.sync_changed(engine.application, frozenset({A}))
    assert len(planned) == 1


def test_a_changed_object_that_differs_is_restored() -> None:
    engine = synced()
    edited(engine, "a", x="9")
    assert engine.pipeline.sync_changed(engine.application, frozenset({A})) is not None
    assert data_of(engine, "a") == {"x": "1"}


def test_a_changed_secret_of_the_source_syncs_the_whole() -> None:
    secret = ObjectRef("", "Secret", "gitsync", "key")
    engine = synced()
    watched = ObjectRef("gitsync.dev", "Application", "gitsync", "database")
    engine.edit(dependsOn=[{"name": "database"}])
    engine.run()
    assert watched in engine.state.tracked.of(KEY)
    assert engine.pipeline.sync_changed(engine.application, frozenset({watched, secret})) is not None


def test_an_error_of_changed_objects_is_left_to_the_whole_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = synced()

    def refuse(*args: object) -> None:
        raise ClusterUnavailable("not listed")

    monkeypatch.setattr(engine.planner, "steps_alone", refuse)
    engine.cluster.put(engine.cluster.objects[A])
    assert engine.pipeline.sync_changed(engine.application, frozenset({A})) is not None
    assert engine.status["phase"] == "Synced"


def test_objects_that_are_being_written_wait_for_the_answer() -> None:
    engine = synced()
    engine.pool.slow.add("a")
    engine.push("c2", config_map("a", x="2"))
    engine.run()
    assert engine.pipeline.sync_changed(engine.application, frozenset({A})) == ReconcileResult(10.0)
    engine.pool.answer()
    assert engine.enqueued == [KEY]
    engine.run()
    assert engine.pipeline.sync_changed(engine.application, frozenset({A})) != ReconcileResult(10.0)


def test_a_commit_that_changes_nothing_it_reads_writes_no_status() -> None:
    engine = synced()
    engine.push("c2", config_map("a", x="1"), **{"README.md": "text"})
    engine.run()
    assert engine.status["revision"]["fetched"] == "c1"
    assert engine.cluster.writes == []


def test_only_commits_that_change_what_it_reads_wake_it() -> None:
    read = synced().watcher.read[KEY]
    assert read is not None
    assert reads(read, {"shop/a.yaml"})
    assert not reads(read, {"README.md", "blog/a.yaml"})


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"dependsOn": [{"name": "database"}]}, id="its dependencies wait for the same commit"),
        pytest.param({"source": SIGNED}, id="each commit is verified"),
    ],
)
def test_every_commit_wakes_one_that_has_to_know_it(spec: Manifest) -> None:
    engine = PipelineEngine(**spec)
    engine.cluster.put(KEYS)
    engine.source.commit("c1", config_map("a", x="1"))
    engine.run()
    assert engine.watcher.read[KEY] is None


def test_another_replica_that_waits_gets_the_newest_commit() -> None:
    engine = synced()
    engine.push("c2", config_map("a", x="1"), **{"README.md": "text"})
    engine.pipeline.report_newest(UID)
    engine.run()
    assert engine.status["revision"]["fetched"] == "c2"


def test_an_application_with_dependents_reports_each_commit() -> None:
    engine = synced()
    name = ObjectRef("gitsync.dev", "Application", "gitsync", "shop")
    engine.state.tracked.track("gitsync/site", frozenset({name}))
    engine.push("c2", config_map("a", x="1"), **{"README.md": "text"})
    engine.run()
    assert engine.status["revision"]["fetched"] == "c2"


def test_a_new_dependency_is_reconciled_to_report_its_commit() -> None:
    engine = PipelineEngine(dependsOn=[{"name": "database"}])
    engine.source.commit("c1", config_map("a", x="1"))
    engine.run()
    assert engine.enqueued.count("gitsync/database") == 1
    engine.run()
    assert engine.enqueued.count("gitsync/database") == 1
    assert data_of(engine, "a") is None


def test_a_request_syncs_although_nothing_is_automated() -> None:
    engine = PipelineEngine(sync={"automated": False})
    engine.source.commit("c1", config_map("a", x="1"))
    engine.run()
    assert engine.status["phase"] == "Pending"
    engine.pipeline.request(UID, "ada")
    engine.run()
    assert engine.status["phase"] == "Synced"
    assert engine.status["history"][0]["by"] == "ada"


def test_an_application_that_fails_is_not_awaited_by_younger_ones() -> None:
    engine = PipelineEngine()
    declarations = engine.state.declarations
    for key, second in ((KEY, "0"), ("gitsync/younger", "1")):
        declarations.register(key, Reach((URL, "main"), "prod", False, f"2026-11-20T10:00:0{second}Z", is_new=True))
    a = ObjectRef("", "ConfigMap", "prod", "a")
    declarations.set_declared("gitsync/younger", frozenset({a}))
    assert declarations.awaited("gitsync/younger", {a: ""}) == {KEY}
    engine.source.error = SourceUnavailable("away")
    with pytest.raises(SourceUnavailable):
        engine.run()
    assert "gitsync/younger" in engine.enqueued
    assert declarations.awaited("gitsync/younger", {a: ""}) == frozenset()


def test_the_inventory_is_stored_with_the_commit_that_it_is_of() -> None:
    engine = synced()
    statuses: list[Manifest] = []
    replace = engine.cluster.replace

    def record(manifest: Manifest, *, manager: str, subresource: str = "") -> Manifest:
        statuses.append(manifest["status"])
        return replace(manifest, manager=manager, subresource=subresource)

    engine.cluster.replace = record  # type: ignore[method-assign]
    engine.push("c9", config_map("a", x="1"), config_map("new", x="1"))
    engine.run()
    before_the_write = statuses[0]
    assert before_the_write["phase"] == "Executing"
    assert "/ConfigMap/prod/new" in str(before_the_write["inventory"])
    assert before_the_write["revision"]["fetched"] == "c9"


def test_an_application_of_another_replica_is_shown_by_its_status() -> None:
    engine = synced()
    engine.pipeline.relay(engine.application)
    view = engine.state.views.application(KEY)
    assert view is not None
    assert view.status == engine.status
    assert engine.pipeline.cached() == 0
    assert engine.watcher.followed == {}
    other = ObjectRef("", "ConfigMap", "prod", "a")
    assert engine.state.declarations.declared_elsewhere("gitsync/site", [other]) == {other: KEY}


def test_an_invalid_application_of_another_replica_is_shown_too() -> None:
    engine = synced()
    engine.edit(source={"repoURL": URL, "renderer": "Jsonnet"})
    engine.pipeline.relay(engine.application)
    assert engine.state.views.application(KEY) is not None


def test_a_deleted_application_leaves_no_cache() -> None:
    engine = synced()
    assert engine.pipeline.cached() == 1
    engine.pipeline.forget(UID)
    assert engine.pipeline.cached() == 0
    engine.pipeline.forget(UID)  # also where there is none
