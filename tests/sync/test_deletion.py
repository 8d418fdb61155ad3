"""The deletion of an Application on fakes of its ports: hooks, objects and finalizers, one after the other."""

from __future__ import annotations

from typing import Any

import pytest

from gitsync.errors import ClusterUnavailable, RecordUnavailable, Rejected
from gitsync.objects.application import parse_application
from gitsync.objects.change import Review
from gitsync.objects.keys import FINALIZER, POST_DELETE, PRE_DELETE
from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.objects.options import HookPhase
from gitsync.objects.phase import Phase
from gitsync.objects.ref import ObjectRef
from gitsync.objects.user import User
from gitsync.sync.deletion import phases_of, wanted_finalizers
from gitsync.sync.status.build import build_status
from gitsync.sync.status.report import Report
from tests.fakes.engine import config_map, data_of, job
from tests.fakes.pipeline import CONTROLLER_NAMESPACE, DEFINITION, DEFINITION_REF, PipelineEngine, synced

COMPLETE = {"conditions": [{"type": "Complete", "status": "True"}], "succeeded": 1}
FAILED = {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}], "failed": 1}


def deleted(*manifests: Manifest, **spec: Any) -> PipelineEngine:
    """Return an engine whose Application has applied a commit and is being deleted."""
    engine = synced(config_map("a", x="1"), *manifests, **spec)
    engine.mark_deleted()
    return engine


def delete(engine: PipelineEngine) -> tuple[bool, Report]:
    """Reconcile the deletion once and write the status; return whether it is complete."""
    report = engine.report()
    is_complete = engine.deletion.reconcile(report, engine.cache)
    if not is_complete:
        status = build_status(report)
        engine.cluster.put({**engine.application, "status": status})
    return is_complete, report


def end_job(engine: PipelineEngine, name: str, status: dict[str, Any]) -> None:
    """End a Job as its controller would."""
    ref = ObjectRef("batch", "Job", "prod", name)
    engine.cluster.put({**engine.cluster.objects[ref], "status": status})


def test_objects_are_deleted_before_the_finalizer_is_removed() -> None:
    engine = deleted()
    engine.cluster.finalized.add("a")
    is_complete, report = delete(engine)
    assert not is_complete
    assert report.outcome.phase is Phase.DELETING
    assert engine.finalizers == [FINALIZER], "the object is still there"
    del engine.cluster.objects[ObjectRef("", "ConfigMap", "prod", "a")]
    assert delete(engine)[0]
    assert engine.finalizers == []


@pytest.mark.parametrize("sync", [{"prune": False}, {"preserveResourcesOnDeletion": True}])
def test_objects_that_are_to_stay_are_not_deleted(sync: dict[str, Any]) -> None:
    engine = synced()
    engine.edit(sync=sync)
    engine.mark_deleted()
    assert delete(engine)[0]
    assert data_of(engine, "a") == {"x": "1"}
    assert engine.finalizers == []


def test_objects_stay_where_the_definition_is_removed() -> None:
    engine = deleted()
    gone = {**DEFINITION, "metadata": {**metadata_of(DEFINITION), "deletionTimestamp": "2026-11-20T10:00:00Z"}}
    engine.cluster.put(gone)
    assert delete(engine)[0]
    assert data_of(engine, "a") == {"x": "1"}
    assert engine.finalizers == []


def test_objects_stay_where_the_namespace_of_the_controller_is_removed() -> None:
    engine = deleted()
    metadata = {"name": CONTROLLER_NAMESPACE, "deletionTimestamp": "2026-11-20T10:00:00Z"}
    engine.cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    assert delete(engine)[0]
    assert data_of(engine, "a") == {"x": "1"}


def test_a_definition_that_may_not_be_read_stops_no_deletion(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = deleted()
    read = engine.cluster.read

    def refuse(ref: ObjectRef, version: str) -> Manifest | None:
        if ref == DEFINITION_REF:
            raise Rejected("forbidden", code=403)
        return read(ref, version)

    monkeypatch.setattr(engine.cluster, "read", refuse)
    assert delete(engine)[0]
    assert data_of(engine, "a") is None


def test_an_application_that_applied_itself_does_not_wait_for_itself() -> None:
    engine = deleted()
    own = {"id": "gitsync.dev/Application/gitsync/shop", "version": "v1alpha1", "uid": "uid-1"}
    status = {**engine.status, "inventory": [*engine.status["inventory"], own]}
    engine.cluster.put({**engine.application, "status": status})
    assert delete(engine)[0]
    assert engine.cluster.writes.count(("delete", "shop")) == 0
    assert engine.finalizers == []


def test_a_deletion_waits_for_its_approval() -> None:
    engine = synced()
    engine.edit(risk={"approval": "Moderate"})
    engine.mark_deleted()
    is_complete, report = delete(engine)
    assert (is_complete, report.outcome.phase) == (False, Phase.AWAITING_APPROVAL)
    assert data_of(engine, "a") == {"x": "1"}
    engine.records.reviewed = Review(User("ada"), approves=True)
    assert delete(engine)[0]
    assert data_of(engine, "a") is None


def test_a_delete_that_failed_is_tried_again() -> None:
    engine = deleted()
    engine.cluster.failures["a"] += [Rejected("not today", code=403)]
    is_complete, report = delete(engine)
    assert (is_complete, report.outcome.phase) == (False, Phase.FAILED)
    assert "not today" in report.outcome.message
    assert delete(engine)[0]


def test_what_cannot_be_observed_keeps_the_finalizer() -> None:
    engine = deleted()
    engine.live.error = ClusterUnavailable("not listed")
    with pytest.raises(ClusterUnavailable):
        delete(engine)
    assert engine.finalizers == [FINALIZER]


def test_an_operation_whose_record_is_missing_ends_first() -> None:
    engine = deleted()
    engine.records.save_error = RecordUnavailable("database is locked")
    with pytest.raises(RecordUnavailable):
        delete(engine)
    assert data_of(engine, "a") is None
    assert engine.finalizers == [FINALIZER], "the history would lack the deletion"
    engine.records.save_error = None
    assert delete(engine)[0]
    assert [sync.trigger for sync in engine.records.syncs].count("delete") == 1


def test_hooks_run_around_the_deletion_in_order() -> None:
    engine = deleted(job("before", hook="PreDelete"), job("after", hook="PostDelete"))
    assert engine.finalizers == [PRE_DELETE, FINALIZER, POST_DELETE]
    is_complete, report = delete(engine)
    assert (is_complete, report.outcome.phase) == (False, Phase.DELETING)
    assert engine.written() == [("apply", "before")]

    end_job(engine, "before", COMPLETE)
    assert not delete(engine)[0]
    assert engine.finalizers == [POST_DELETE]
    writes = engine.written()
    assert writes.index(("delete", "a")) < writes.index(("apply", "after"))

    end_job(engine, "after", COMPLETE)
    assert delete(engine)[0]
    assert engine.finalizers == []


def test_a_failed_hook_keeps_the_objects_and_is_retried_later() -> None:
    engine = deleted(job("before", hook="PreDelete"))
    delete(engine)
    end_job(engine, "before", FAILED)
    engine.written()
    is_complete, report = delete(engine)
    assert (is_complete, report.outcome.phase) == (False, Phase.FAILED)
    assert data_of(engine, "a") == {"x": "1"}
    assert report.requeue_after is not None
    assert not delete(engine)[0]
    assert engine.written() == [], "not before its backoff"

    engine.clock.seconds += report.requeue_after
    delete(engine)
    assert ("apply", "before") in engine.written()


def test_a_hook_that_succeeded_is_not_run_again_by_another_process() -> None:
    engine = deleted(job("before", hook="PreDelete"))
    delete(engine)
    end_job(engine, "before", COMPLETE)
    engine.records.save_error = RecordUnavailable("database is locked")
    with pytest.raises(RecordUnavailable):
        delete(engine)
    engine.records.save_error = None
    engine.written()
    engine.restart()
    assert delete(engine)[0]
    assert ("apply", "before") not in engine.written()


def test_a_step_whose_finalizer_a_user_removed_is_left_out() -> None:
    engine = deleted(job("before", hook="PreDelete"))
    live = engine.application
    engine.cluster.put({**live, "metadata": {**metadata_of(live), "finalizers": [FINALIZER]}})
    assert delete(engine)[0]
    assert ("apply", "before") not in engine.written()
    assert data_of(engine, "a") is None


def test_an_application_that_applied_nothing_runs_no_hook() -> None:
    engine = PipelineEngine()
    live = engine.application
    engine.cluster.put({**live, "metadata": {**metadata_of(live), "finalizers": [PRE_DELETE, FINALIZER]}})
    engine.mark_deleted()
    assert delete(engine)[0]
    assert engine.written() == []


def test_a_commit_without_the_hook_that_its_finalizer_names_goes_on() -> None:
    engine = deleted()
    live = engine.application
    engine.cluster.put({**live, "metadata": {**metadata_of(live), "finalizers": [PRE_DELETE, FINALIZER]}})
    assert delete(engine)[0]
    assert engine.finalizers == []


def test_a_hook_whose_namespace_is_deleted_by_then_is_left_out() -> None:
    namespace: Manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "prod"}}
    engine = PipelineEngine(destination={"namespace": "prod", "allowClusterScoped": True})
    engine.records.reviewed = Review(User("ada"), approves=True)
    engine.source.commit("c1", namespace, config_map("a", x="1"), job("after", hook="PostDelete"))
    engine.run_until("Synced")
    engine.mark_deleted()
    for _ in range(3):
        is_complete, _ = delete(engine)
    assert is_complete
    assert ("apply", "after") not in engine.written()


@pytest.mark.parametrize(
    ("sync", "phases", "finalizers"),
    [
        ({}, set(), {FINALIZER}),
        ({}, {HookPhase.PRE_DELETE, HookPhase.SYNC}, {FINALIZER, PRE_DELETE}),
        ({}, {HookPhase.POST_DELETE}, {FINALIZER, POST_DELETE}),
        ({"prune": False}, {HookPhase.PRE_DELETE}, set()),
        ({"preserveResourcesOnDeletion": True}, {HookPhase.POST_DELETE}, set()),
    ],
)
def test_each_thing_to_do_at_the_deletion_has_a_finalizer(
    sync: dict[str, Any], phases: set[HookPhase], finalizers: set[str]
) -> None:
    app = parse_application(PipelineEngine(sync=sync).application)
    assert wanted_finalizers(app, phases) == finalizers


def test_the_phases_of_hooks_are_read_from_the_finalizers() -> None:
    manifest = {"metadata": {"finalizers": [POST_DELETE, FINALIZER, "example.com/other"]}}
    assert phases_of(manifest) == {HookPhase.POST_DELETE}
    assert phases_of({"metadata": {}}) == frozenset()
