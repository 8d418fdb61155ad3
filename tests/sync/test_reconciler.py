"""One reconcile on fakes of the ports: what is written, what is waited for, and what the report says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gitsync.errors import ClusterUnavailable, InvalidInput, RecordUnavailable, Rejected
from gitsync.gate.policy import Policy, Require
from gitsync.gate.policy_files import PolicySet
from gitsync.kube.times import timestamp
from gitsync.objects.change import Review
from gitsync.objects.manifest import Manifest, uid_of
from gitsync.objects.phase import Phase
from gitsync.objects.record import Outcome
from gitsync.objects.ref import ObjectRef
from gitsync.objects.user import User
from gitsync.state.declarations import Reach
from gitsync.sync.input import RepairRequest
from gitsync.sync.status.report import Report
from tests.fakes.engine import KEY, URL, Engine, config_map, data_of, edited, job

WIDGETS: Manifest = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Widget", "plural": "widgets"},
        "versions": [{"name": "v1", "served": True, "storage": True}],
    },
}
WIDGET: Manifest = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
WEB: Manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {}}
STUCK = {
    "conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": ""}]
}
ESTABLISHED = {"conditions": [{"type": "Established", "status": "True"}]}


def cluster_scoped() -> Engine:
    """Return an engine whose plans are approved: each definition needs it."""
    engine = Engine(destination={"namespace": "prod", "allowClusterScoped": True})
    engine.records.reviewed = Review(User("ada"), approves=True)
    return engine


def test_a_commit_is_applied_and_recorded() -> None:
    engine = Engine()
    report = engine.sync("c1", config_map("a", x="1"))
    assert report.outcome.phase is Phase.SYNCED
    assert engine.written() == [("apply", "a")]
    assert [*engine.records.outcomes()] == [("Intended", "a"), ("Succeeded", "a")]
    assert [(sync.trigger, sync.outcome) for sync in engine.records.syncs] == [("commit", Outcome.SUCCEEDED)]
    assert engine.state.declarations.declared_elsewhere("gitsync/other", [ObjectRef("", "ConfigMap", "prod", "a")]) == {
        ObjectRef("", "ConfigMap", "prod", "a"): KEY
    }


def test_a_second_reconcile_writes_nothing() -> None:
    engine = Engine()
    engine.sync("c1", config_map("a", x="1"))
    engine.written()
    engine.reconcile()
    assert engine.cluster.writes == []


def test_an_object_that_left_git_is_pruned_last() -> None:
    engine = Engine()
    engine.sync("c1", config_map("a", x="1"), config_map("b", x="1"))
    engine.written()
    engine.sync("c2", config_map("a", x="2"))
    assert engine.written() == [("apply", "a"), ("delete", "b")]


def test_nothing_is_pruned_while_an_apply_fails() -> None:
    engine = Engine()
    engine.sync("c1", config_map("a", x="1"), config_map("b", x="1"))
    engine.cluster.failures["a"].append(Rejected("not today", code=403))
    engine.written()
    engine.declare("c2", config_map("a", x="2"))
    report = engine.reconcile()
    assert report.outcome.phase is Phase.FAILED
    assert engine.written() == [("apply", "a")]


def test_a_failed_sync_is_retried_after_its_backoff() -> None:
    engine = Engine()
    engine.cluster.failures["a"].append(Rejected("not today", code=403))
    engine.declare("c1", config_map("a", x="1"))
    first = engine.reconcile()
    assert first.requeue_after is not None
    engine.written()
    engine.reconcile()
    assert engine.written() == []
    engine.clock.seconds += first.requeue_after
    assert engine.reconcile().outcome.phase is Phase.SYNCED
    assert [sync.trigger for sync in engine.records.syncs] == ["commit", "retry"]


@pytest.mark.parametrize("is_requested", [False, True])
def test_without_automation_only_a_request_syncs(is_requested: bool) -> None:
    engine = Engine(sync={"automated": False})
    engine.cache.requested_by = "ada" if is_requested else ""
    report = engine.sync("c1", config_map("a", x="1"))
    assert (data_of(engine, "a") is not None) is is_requested
    assert report.outcome.phase is (Phase.SYNCED if is_requested else Phase.PENDING)
    assert engine.cache.requested_by == ""  # carried out


@pytest.mark.parametrize(
    ("review", "phase"),
    [
        (None, Phase.AWAITING_APPROVAL),
        (Review(User("ada"), approves=True), Phase.SYNCED),
        (Review(User("ada"), approves=False, reason="no"), Phase.REJECTED),
    ],
)
def test_a_plan_of_a_class_that_needs_approval_waits_for_it(review: Review | None, phase: Phase) -> None:
    engine = Engine(risk={"approval": "Moderate", "maxDeletes": 0})
    engine.sync("c1", config_map("a", x="1"), config_map("b", x="1"))
    engine.records.reviewed = review
    report = engine.sync("c2", config_map("a", x="1"))
    assert report.outcome.phase is phase
    assert (data_of(engine, "b") is None) is (phase is Phase.SYNCED)
    approvers = {sync.approver for sync in engine.records.syncs}
    assert ("ada" in approvers) is (phase is Phase.SYNCED)


def test_an_object_of_a_namespace_that_may_not_be_used_is_refused() -> None:
    engine = Engine()  # cluster-scoped objects are not allowed
    report = engine.sync("c1", config_map("a", x="1"), WIDGETS)
    assert (report.outcome.phase, report.outcome.reason) == (Phase.FAILED, "Refused")
    assert engine.written() == []


def test_a_sync_waits_for_its_dependency() -> None:
    engine = Engine(dependsOn=[{"name": "database"}])
    report = engine.sync("c1", config_map("a", x="1"))
    assert "gitsync/database" in report.outcome.message
    assert engine.written() == []


def test_a_rejected_definition_holds_back_only_its_own_objects() -> None:
    engine = cluster_scoped()
    engine.cluster.failures["widgets.example.com"] += [Rejected("conflicting names", code=422)] * 9
    engine.declare("c1", config_map("unrelated", v="1"), WIDGETS, WIDGET)
    report = engine.reconcile()
    assert report.outcome.phase is Phase.FAILED
    assert data_of(engine, "unrelated") == {"v": "1"}
    assert report.outcome.problems[ObjectRef("example.com", "Widget", "prod", "w")].startswith("not tried")


def test_a_definition_that_is_not_established_holds_back_only_its_own_objects() -> None:
    engine = cluster_scoped()
    engine.declare("c1", config_map("unrelated", v="1"), WIDGETS, WIDGET)
    report = engine.reconcile()
    assert report.outcome.phase is Phase.EXECUTING
    assert report.outcome.message == "waits for CustomResourceDefinition widgets.example.com to be established"
    assert data_of(engine, "unrelated") == {"v": "1"}

    definition = ObjectRef("apiextensions.k8s.io", "CustomResourceDefinition", "", "widgets.example.com")
    engine.cluster.put({**engine.cluster.objects[definition], "status": ESTABLISHED})
    assert engine.reconcile().outcome.phase is Phase.SYNCED
    assert [name for verb, name in engine.written() if verb == "apply"] == ["widgets.example.com", "unrelated", "w"]


def with_color(definition: Manifest) -> Manifest:
    """Return a definition whose kind has ``spec.color``."""
    spec = {"type": "object", "properties": {"color": {"type": "string"}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    versions = [{**version, "schema": schema} for version in definition["spec"]["versions"]]
    return {**definition, "spec": {**definition["spec"], "versions": versions}}


def defined() -> Engine:
    """Return an engine that has applied a definition and an object of its kind."""
    engine = cluster_scoped()
    engine.declare("c1", WIDGETS, WIDGET)
    engine.reconcile()
    definition = ObjectRef("apiextensions.k8s.io", "CustomResourceDefinition", "", "widgets.example.com")
    engine.cluster.put({**engine.cluster.objects[definition], "status": ESTABLISHED})
    assert engine.reconcile().outcome.phase is Phase.SYNCED
    engine.written()
    return engine


def test_objects_fit_the_definition_of_their_commit() -> None:
    engine = defined()
    report = engine.sync("c2", with_color(WIDGETS), {**WIDGET, "spec": {"color": "red"}})
    assert report.outcome.phase is Phase.SYNCED
    assert engine.written() == [("apply", "widgets.example.com"), ("apply", "w")]
    engine.declare("c3", with_color(WIDGETS), {**WIDGET, "spec": {"colour": "red"}})
    target = replace(engine.target(), locate=lambda manifest, field: "w.yaml:6")
    with pytest.raises(InvalidInput, match=r"w\.yaml:6.*\.spec\.colour: field not declared in schema"):
        engine.evaluator.plan_for(Report(engine.application, engine.inputs()), engine.cache, target)


def test_objects_wait_until_their_changed_definition_is_in_effect() -> None:
    engine = defined()
    engine.declare("c2", with_color(WIDGETS), {**WIDGET, "spec": {"color": "red"}})
    report = engine.reconcile()
    assert report.outcome.message == "waits for CustomResourceDefinition widgets.example.com to be in effect"
    assert engine.written() == [("apply", "widgets.example.com")]


def in_effect_since(engine: Engine, seconds: float) -> None:
    """Have the definition say that its spec was changed some seconds ago."""
    ref = ObjectRef("apiextensions.k8s.io", "CustomResourceDefinition", "", "widgets.example.com")
    changed = engine.cluster.objects[ref]
    times = [{"time": timestamp(engine.clock.now().timestamp() - seconds)}, {"subresource": "status", "time": None}]
    engine.cluster.put({**changed, "metadata": {**changed["metadata"], "managedFields": times}})


UNKNOWN_FIELD = Rejected("failed to create typed patch object: .spec.color: field not declared in schema", code=500)


def test_objects_that_a_former_definition_refuses_are_tried_again() -> None:
    engine = defined()
    engine.declare("c2", with_color(WIDGETS), {**WIDGET, "spec": {"color": "red"}}, config_map("a", x="1"))
    engine.reconcile()
    in_effect_since(engine, 3)
    engine.cluster.failures["w"].append(UNKNOWN_FIELD)
    report = engine.reconcile()
    assert report.outcome.message == "waits for CustomResourceDefinition widgets.example.com to be in effect"
    assert report.requeue_after == 2
    # what does not depend on it is not held back
    assert data_of(engine, "a") == {"x": "1"}
    assert engine.reconcile().outcome.phase is Phase.SYNCED
    assert [sync.outcome for sync in engine.records.syncs] == [Outcome.SUCCEEDED, Outcome.SUCCEEDED]


@pytest.mark.parametrize(
    ("seconds", "refusal"),
    [
        pytest.param(60, UNKNOWN_FIELD, id="in effect"),
        pytest.param(3, Rejected("failed to create typed live object: .spec.color", code=500), id="stored before"),
    ],
)
def test_what_the_changed_definition_refuses_has_failed(seconds: float, refusal: Rejected) -> None:
    engine = defined()
    engine.declare("c2", with_color(WIDGETS), {**WIDGET, "spec": {"color": "red"}})
    engine.reconcile()
    in_effect_since(engine, seconds)
    engine.cluster.failures["w"].append(refusal)
    assert engine.reconcile().outcome.phase is Phase.FAILED


def test_a_refusal_by_a_former_definition_is_not_final() -> None:
    engine = defined()
    in_effect_since(engine, 3)
    engine.cluster.failures["dry-run w"].append(UNKNOWN_FIELD)
    engine.declare("c2", WIDGETS, {**WIDGET, "spec": {"color": "red"}})
    engine.reconcile()
    assert engine.written() == [("apply", "w")]
    assert engine.reconcile().outcome.phase is Phase.SYNCED


def test_a_prune_waits_until_its_changed_definition_is_in_effect() -> None:
    engine = defined()
    engine.declare("c2", with_color(WIDGETS))
    engine.reconcile()
    assert engine.written() == [("apply", "widgets.example.com")]
    engine.reconcile()
    assert engine.written() == [("delete", "w")]


def test_no_dry_run_judges_objects_by_the_former_definition() -> None:
    engine = defined()
    engine.cluster.failures["dry-run w"].append(Rejected(".spec.color: field not declared in schema", code=500))
    engine.declare("c2", with_color(WIDGETS), {**WIDGET, "spec": {"color": "red"}})
    engine.evaluator.plan_for(Report(engine.application, engine.inputs()), engine.cache, engine.target())
    assert len(engine.cluster.failures["dry-run w"]) == 1


def test_an_object_of_another_served_version_is_updated() -> None:
    engine = defined()
    uid = uid_of(engine.cluster.objects[ObjectRef("example.com", "Widget", "prod", "w")])
    both = {**WIDGETS["spec"]["versions"][0], "name": "v2", "storage": False}
    newer = {**WIDGETS, "spec": {**WIDGETS["spec"], "versions": [*WIDGETS["spec"]["versions"], both]}}
    engine.declare("c2", newer, {**WIDGET, "apiVersion": "example.com/v2"})
    report = Report(engine.application, engine.inputs())
    planned = engine.evaluator.plan_for(report, engine.cache, engine.target())
    widget = next(change for change in planned.plan.changes if change.ref.kind == "Widget")
    assert (uid_of(widget.live or {}), planned.observation.versions[widget.ref]) == (uid, "v1")


def test_fields_at_a_removed_version_are_moved_before_an_apply() -> None:
    engine = defined()
    ref = ObjectRef("example.com", "Widget", "prod", "w")
    live = engine.cluster.objects[ref]
    owned = {"manager": "their-operator", "operation": "Update", "apiVersion": "example.com/v0", "fieldsV1": {}}
    engine.cluster.put({**live, "metadata": {**live["metadata"], "managedFields": [owned]}})
    refusal = Rejected("request to convert CR to an invalid group/version: example.com/v0", code=500)
    engine.cluster.failures["w"].append(refusal)
    report = engine.sync("c2", WIDGETS, {**WIDGET, "spec": {"size": 2}})
    assert report.outcome.phase is Phase.SYNCED
    assert [verb for verb, name in engine.written() if name == "w"] == ["apply", "transfer", "apply"]


def test_a_refused_prune_is_tried_again_after_later_commits() -> None:
    engine = Engine()
    engine.records.reviewed = Review(User("ada"), approves=True)
    engine.sync("c1", config_map("a", x="1"), config_map("old", x="1"))
    engine.cluster.failures["old"] += [Rejected("denied by ValidatingAdmissionPolicy p", code=403)] * 2
    for commit in ("c2", "c3"):
        engine.declare(commit, config_map("a", x=commit))
        assert engine.reconcile().outcome.message == "ConfigMap prod/old: denied by ValidatingAdmissionPolicy p"
    engine.restart()
    assert engine.reconcile().outcome.phase is Phase.SYNCED
    assert (data_of(engine, "a"), data_of(engine, "old")) == ({"x": "c3"}, None)


def test_nothing_is_pruned_while_objects_wait_for_their_definition() -> None:
    engine = cluster_scoped()
    engine.sync("c1", config_map("old", v="1"))
    engine.declare("c2", WIDGETS, WIDGET)
    engine.reconcile()
    assert data_of(engine, "old") == {"v": "1"}


def test_a_later_wave_waits_for_a_definition_of_an_earlier_one() -> None:
    engine = cluster_scoped()
    late = config_map("late", {"gitsync.dev/sync-wave": "1"}, v="1")
    engine.declare("c1", WIDGETS, WIDGET, late)
    engine.reconcile()
    assert data_of(engine, "late") is None


def test_a_hook_runs_once_before_the_sync() -> None:
    engine = Engine()
    engine.declare("c1", config_map("a", x="1"), job("migrate", hook="PreSync"))
    report = engine.reconcile()
    assert report.outcome.message == "waits for hook Job prod/migrate to finish"
    assert engine.written() == [("apply", "migrate")]
    engine.restart()
    engine.reconcile()
    assert engine.written() == []  # the annotation of the live hook names the sync that started it

    hook = ObjectRef("batch", "Job", "prod", "migrate")
    complete = {"conditions": [{"type": "Complete", "status": "True"}], "succeeded": 1}
    engine.cluster.put({**engine.cluster.objects[hook], "status": complete})
    assert engine.reconcile().outcome.phase is Phase.SYNCED
    assert engine.written() == [("apply", "a")]


@pytest.mark.parametrize("annotation", [{"helm.sh/hook": "test"}, {"gitsync.dev/reconcile": "false"}])
def test_an_object_that_is_left_out_delays_neither_health_nor_hooks(annotation: dict[str, str]) -> None:
    engine = Engine()
    left_out = config_map("left-out", annotation)
    engine.sync("c1", config_map("a", x="1"), left_out, job("check", hook="PostSync"))
    hook = ObjectRef("batch", "Job", "prod", "check")
    complete = {"conditions": [{"type": "Complete", "status": "True"}]}
    engine.cluster.put({**engine.cluster.objects[hook], "status": complete})
    report = engine.reconcile()
    assert report.outcome.phase is Phase.SYNCED
    assert engine.status["health"] == "Healthy"
    assert data_of(engine, "left-out") is None


def test_an_object_that_is_left_out_counts_where_it_exists() -> None:
    engine = Engine()
    failing = {**WEB, "metadata": {"name": "web", "annotations": {"gitsync.dev/reconcile": "false"}}}
    engine.cluster.put(
        {**failing, "metadata": {**failing["metadata"], "namespace": "prod", "uid": "u"}, "status": STUCK}
    )
    engine.sync("c1", failing)
    assert engine.status["health"] == "Degraded"


def test_a_failed_hook_fails_the_sync() -> None:
    engine = Engine()
    engine.declare("c1", config_map("a", x="1"), job("migrate", hook="PreSync"))
    engine.reconcile()
    hook = ObjectRef("batch", "Job", "prod", "migrate")
    failed = {"conditions": [{"type": "Failed", "status": "True", "message": "exit code 1"}], "failed": 1}
    engine.cluster.put({**engine.cluster.objects[hook], "status": failed})
    report = engine.reconcile()
    assert report.outcome.phase is Phase.FAILED
    assert "Job prod/migrate" in report.outcome.message
    assert data_of(engine, "a") is None


@pytest.mark.parametrize(
    ("condition", "is_ours", "phase"),
    [
        pytest.param("Complete", True, Phase.SYNCED, id="complete"),
        pytest.param("Failed", True, Phase.FAILED, id="failed"),
        pytest.param("Complete", False, Phase.FAILED, id="another of its name"),
    ],
)
def test_a_hook_that_its_ttl_deleted_ended_as_it_was_last(condition: str, is_ours: bool, phase: Phase) -> None:
    engine = Engine()
    engine.declare("c1", config_map("a", x="1"), job("migrate", hook="PreSync"))
    engine.reconcile()
    ref = ObjectRef("batch", "Job", "prod", "migrate")
    hook = engine.cluster.objects.pop(ref)
    ended = "2026-11-20T10:00:00Z"
    status = {"conditions": [{"type": condition, "status": "True", "lastTransitionTime": ended}]}
    uid = hook["metadata"]["uid"] if is_ours else "another"
    metadata = {**hook["metadata"], "uid": uid, "deletionTimestamp": ended}
    spec = {**hook["spec"], "ttlSecondsAfterFinished": 0}
    engine.live.finished[ref] = {**hook, "metadata": metadata, "spec": spec, "status": status}
    engine.reconcile()
    assert engine.status["phase"] == phase
    assert (ObjectRef("", "ConfigMap", "prod", "a") in engine.cluster.objects) is (phase is Phase.SYNCED)


def test_a_sync_that_waits_too_long_fails() -> None:
    engine = Engine(sync={"postSync": {"healthTimeout": "60s"}})
    engine.declare("c1", config_map("a", x="1"), job("migrate", hook="PreSync"))
    engine.reconcile()
    engine.clock.seconds += 61.0
    report = engine.reconcile()
    assert (report.outcome.phase, report.outcome.message) == (
        Phase.FAILED,
        "waited 60 s for hook Job prod/migrate to finish",
    )


def test_a_newer_commit_ends_a_waiting_sync() -> None:
    engine = Engine()
    engine.declare("c1", config_map("a", x="1"), job("migrate", hook="PreSync"))
    engine.reconcile()
    report = engine.sync("c2", config_map("a", x="2"))
    assert report.outcome.phase is Phase.SYNCED
    assert [sync.outcome for sync in engine.records.syncs] == [Outcome.SUPERSEDED, Outcome.SUCCEEDED]


def test_a_late_answer_is_taken_by_a_later_reconcile() -> None:
    engine = Engine()
    engine.pool.slow.add("a")
    engine.declare("c1", config_map("a", x="1"), config_map("b", x="1"))
    report = engine.reconcile()
    assert report.outcome.message == "waits for the API server to answer the write of ConfigMap prod/a"
    engine.reconcile()
    assert engine.written() == [("apply", "b")]  # it is not written twice
    writes = engine.writes.of(KEY)
    assert writes.is_writing(frozenset({ObjectRef("", "ConfigMap", "prod", "b")}))
    assert not writes.are_resolved

    engine.pool.answer()
    assert engine.enqueued == [KEY]
    assert engine.reconcile().outcome.phase is Phase.SYNCED
    assert writes.are_resolved
    assert [*engine.records.outcomes()].count(("Succeeded", "a")) == 1


def test_a_lost_answer_is_resolved_from_what_is_live() -> None:
    engine = Engine()
    lost = ClusterUnavailable("connection reset", retry_after=1.0)
    engine.cluster.failures["a"].append(lost)
    engine.declare("c1", config_map("a", x="1"))
    engine.reconcile()
    assert [*engine.records.outcomes()] == [("Intended", "a")]
    assert not engine.writes.of(KEY).are_resolved
    engine.reconcile()
    assert [*engine.records.outcomes()][1] == ("Failed", "a")  # it does not exist
    assert engine.writes.of(KEY).are_resolved


def test_writes_of_a_process_that_crashed_are_resolved() -> None:
    engine = Engine()
    engine.cluster.failures["a"].append(ClusterUnavailable("connection reset", retry_after=1.0))
    engine.declare("c1", config_map("a", x="1"))
    engine.reconcile()
    engine.restart()
    engine.cluster.put({**config_map("a", x="1"), "metadata": {"name": "a", "namespace": "prod"}})
    engine.reconcile()
    assert engine.records.unresolved(KEY) == ()


def test_a_suspended_application_has_its_writes_resolved() -> None:
    engine = Engine()
    engine.cluster.failures["a"].append(ClusterUnavailable("connection reset", retry_after=1.0))
    engine.declare("c1", config_map("a", x="1"))
    engine.reconcile()
    engine.restart()
    engine.edit(suspend=True)
    engine.written()
    engine.records.error = RecordUnavailable("database is locked")
    assert engine.reconcile().error is None, "what differs is reported all the same"
    engine.records.error = None
    engine.reconcile()
    assert engine.records.unresolved(KEY) == ()
    assert engine.written() == []


def test_without_an_audit_nothing_is_written() -> None:
    engine = Engine()
    engine.declare("c1", config_map("a", x="1"))
    engine.records.error = RecordUnavailable("the disk is full")
    with pytest.raises(RecordUnavailable):
        engine.reconcile()
    assert engine.written() == []
    assert not engine.writes.of(KEY).are_resolved


def test_a_record_that_could_not_be_saved_is_saved_later() -> None:
    engine = Engine()
    engine.declare("c1", job("migrate", hook="PreSync"), config_map("a", x="1"))
    engine.reconcile()
    hook = ObjectRef("batch", "Job", "prod", "migrate")
    complete = {"conditions": [{"type": "Complete", "status": "True"}], "succeeded": 1}
    engine.cluster.put({**engine.cluster.objects[hook], "status": complete})
    engine.records.save_error = RecordUnavailable("the disk is full")
    with pytest.raises(RecordUnavailable):
        engine.reconcile()
    engine.records.save_error = None
    engine.written()
    assert engine.reconcile().outcome.phase is Phase.SYNCED
    assert engine.written() == []  # neither its hook nor an object a second time
    assert len(engine.records.syncs) == 1


def test_drift_is_corrected_without_a_new_commit() -> None:
    engine = Engine()
    engine.sync("c1", config_map("a", x="1"), config_map("b", x="1"))
    edited(engine, "a", x="by hand")
    engine.written()
    report = engine.reconcile()
    assert report.drift
    assert engine.written() == [("apply", "a")]
    assert data_of(engine, "a") == {"x": "1"}


def test_what_cannot_be_observed_raises_and_writes_nothing() -> None:
    engine = Engine()
    engine.live.error = ClusterUnavailable("no list yet")
    engine.declare("c1", config_map("a", x="1"))
    with pytest.raises(ClusterUnavailable):
        engine.reconcile()
    assert engine.written() == []


@pytest.mark.parametrize(("namespace", "is_held"), [("prod", True), ("other", False)])
def test_a_prune_waits_for_a_peer_that_may_take_the_object_over(namespace: str, is_held: bool) -> None:
    engine = Engine()
    engine.sync("c1", config_map("a", x="1"), config_map("b", x="1"))
    declarations = engine.state.declarations
    declarations.register("gitsync/peer", Reach((URL, "main"), namespace, False))
    declarations.set_declared("gitsync/peer", frozenset({ObjectRef("", "ConfigMap", namespace, "p")}))
    engine.declare("c2", config_map("a", x="2"))
    report = engine.reconcile()
    assert data_of(engine, "a") == {"x": "2"}  # only the prune waits
    assert (data_of(engine, "b") is not None) is is_held
    assert report.peers == (("gitsync/peer",) if is_held else ())
    if is_held:
        assert "gitsync/peer to declare objects at commit c2" in report.outcome.message
        declarations.record_declared("gitsync/peer", (URL, "main"), "c2")
        assert engine.reconcile().outcome.phase is Phase.SYNCED
        assert data_of(engine, "b") is None


def test_an_object_that_a_peer_declares_now_is_left_to_it() -> None:
    engine = Engine()
    engine.sync("c1", config_map("a", x="1"), config_map("b", x="1"))
    engine.state.declarations.set_declared("gitsync/peer", frozenset({ObjectRef("", "ConfigMap", "prod", "b")}))
    engine.sync("c2", config_map("a", x="1"))
    assert data_of(engine, "b") == {"x": "1"}


def created(engine: Engine, key: str, second: int, *, is_new: bool = True) -> None:
    """Register an Application that deploys to the namespace of the engine's."""
    reach = Reach((URL, "main"), "prod", False, f"2026-11-20T10:00:0{second}Z", is_new)
    engine.state.declarations.register(key, reach)


def test_a_first_sync_waits_for_an_older_application() -> None:
    engine = Engine()
    created(engine, KEY, 2)
    created(engine, "gitsync/older", 1)
    created(engine, "gitsync/oldest", 0)
    created(engine, "gitsync/younger", 3)
    engine.declare("c1", config_map("a", x="1"))
    report = engine.reconcile()
    assert engine.written() == []
    assert report.outcome.phase is Phase.PENDING
    assert report.outcome.message == (
        "waiting for gitsync/older and 1 more to declare objects, which may be the same; fix or suspend one that fails"
    )
    declarations = engine.state.declarations
    declarations.set_declared("gitsync/older", frozenset({ObjectRef("", "ConfigMap", "prod", "a")}))
    assert KEY not in engine.enqueued
    declarations.settle("gitsync/oldest")
    assert KEY in engine.enqueued
    report = engine.reconcile()
    assert engine.written() == []
    assert "is left to Application gitsync/older, which declares it too" in report.outcome.message
    declarations.set_declared("gitsync/older", frozenset())
    assert engine.sync("c1", config_map("a", x="1")).outcome.phase is Phase.SYNCED


def test_after_a_start_an_object_of_another_application_waits_for_it() -> None:
    engine = Engine()
    created(engine, KEY, 1, is_new=False)
    created(engine, "gitsync/owner", 2, is_new=False)
    mark = {"gitsync.dev/tracking-id": "gitsync/owner:/ConfigMap/prod/a"}
    live = config_map("a", x="theirs")
    engine.cluster.put({**live, "metadata": {**live["metadata"], "namespace": "prod", "annotations": mark}})
    engine.declare("c1", config_map("a", x="1"), config_map("b", x="1"))
    report = engine.reconcile()
    assert engine.written() == []
    assert "waiting for gitsync/owner to declare objects" in report.outcome.message
    engine.state.declarations.set_declared("gitsync/owner", frozenset({ObjectRef("", "ConfigMap", "prod", "a")}))
    report = engine.reconcile()
    assert engine.written() == []
    assert "belongs to Application gitsync/owner, which declares it too" in report.outcome.message
    # given up: it is taken over
    engine.state.declarations.set_declared("gitsync/owner", frozenset())
    assert engine.sync("c1", config_map("a", x="1"), config_map("b", x="1")).outcome.phase is Phase.SYNCED
    assert data_of(engine, "a") == {"x": "1"}


def service(name: str, port: int) -> Manifest:
    spec = {"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def test_a_renamed_holder_of_a_node_port_is_pruned_first() -> None:
    engine = Engine()
    engine.sync("c1", service("old", 30080))
    engine.written()
    engine.sync("c2", service("new", 30080))
    assert engine.written() == [("delete", "old"), ("apply", "new")]


def test_a_new_holder_is_not_created_before_a_failed_prune() -> None:
    engine = Engine()
    engine.sync("c1", service("old", 30080))
    engine.written()
    engine.cluster.failures["old"].append(Rejected("not today", code=403))
    engine.declare("c2", service("new", 30080))
    report = engine.reconcile()
    assert engine.written() == [("delete", "old")]
    assert report.outcome.problems[ObjectRef("", "Service", "prod", "new")].startswith("not tried")


def test_a_requested_repair_writes_only_its_object() -> None:
    engine = Engine(sync={"selfHeal": False})
    engine.sync("c1", config_map("a", x="1"), config_map("b", x="1"))
    edited(engine, "a", x="by hand")
    edited(engine, "b", x="by hand")
    engine.declare("c2", config_map("a", x="1"), config_map("b", x="1"), config_map("c", x="1"))
    engine.edit(sync={"selfHeal": False, "automated": False})
    engine.written()
    engine.cache.requested_repair = RepairRequest(frozenset({ObjectRef("", "ConfigMap", "prod", "a")}), "ada")
    report = engine.reconcile()
    assert engine.written() == [("apply", "a")]
    assert data_of(engine, "a") == {"x": "1"}
    assert data_of(engine, "b") == {"x": "by hand"}
    assert (engine.records.syncs[-1].trigger, engine.records.syncs[-1].initiator) == ("manual", "ada")
    assert report.outcome.phase is Phase.PENDING
    # carried out: it is not repeated when the user edits it again
    edited(engine, "a", x="again")
    engine.written()
    engine.reconcile()
    assert engine.written() == []


@pytest.mark.parametrize("forbids", ["suspended", "read-only policy"])
def test_a_requested_repair_waits_where_nothing_may_be_written(forbids: str) -> None:
    policy = Policy(name="frozen", require=(Require.model_validate({"readOnly": True}),))
    engine = Engine(sync={"selfHeal": False})
    engine.sync("c1", config_map("a", x="1"))
    edited(engine, "a", x="by hand")
    if forbids == "suspended":
        engine.edit(suspend=True)
    else:
        engine.policies.current = PolicySet((policy,))
    engine.written()
    engine.cache.requested_repair = RepairRequest(frozenset({ObjectRef("", "ConfigMap", "prod", "a")}), "ada")
    engine.reconcile()
    assert engine.written() == []


def test_a_repair_that_self_heal_makes_by_itself_is_made_once() -> None:
    engine = Engine()
    engine.sync("c1", config_map("a", x="1"))
    edited(engine, "a", x="by hand")
    engine.written()
    engine.cache.requested_repair = RepairRequest(frozenset({ObjectRef("", "ConfigMap", "prod", "a")}), "ada")
    engine.reconcile()
    engine.reconcile()
    assert engine.written() == [("apply", "a")]
