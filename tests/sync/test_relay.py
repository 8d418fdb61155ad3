"""A replica shows what it does not reconcile as its owner does: the same objects and, by its digest, the same plan."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from gitsync.errors import RecordUnavailable, SourceUnavailable
from gitsync.objects.change import Decision
from gitsync.objects.ref import ObjectRef
from gitsync.ports import ApplicationView
from gitsync.state.declarations import Reach
from gitsync.sync.relay import is_current
from tests.fakes.engine import KEY, config_map
from tests.fakes.pipeline import UID, PipelineEngine
from tests.review_factories import approval

RESYNC = 600.0
RETRY = 30.0
A = ObjectRef("", "ConfigMap", "prod", "a")
HELD = {"risk": {"approval": "Moderate"}}


def owned(**spec: object) -> PipelineEngine:
    """Return an engine that has synced two ConfigMaps, and shows Applications of others as a replica does."""
    engine = PipelineEngine(observes=True, **spec)
    engine.source.commit("c1", config_map("a", x="1"), config_map("b", x="1"))
    engine.run()
    return engine


def shown(engine: PipelineEngine) -> ApplicationView:
    view = engine.state.views.application(KEY)
    assert view is not None
    return view


def states(view: ApplicationView) -> dict[str, str]:
    return {resource.ref.name: str(resource.sync) for resource in view.resources}


def test_the_objects_are_those_of_the_owner() -> None:
    engine = owned()
    engine.run_until("Synced")
    of_owner = shown(engine)
    engine.state.views.remove(KEY, engine.clock.now())
    assert engine.pipeline.relay(engine.application) == RESYNC
    view = shown(engine)
    assert states(view) == states(of_owner) == {"a": "Synced", "b": "Synced"}
    assert view.status == engine.status


def test_a_plan_that_waits_has_the_digest_of_the_owner() -> None:
    engine = owned(**HELD)
    engine.run_until("Synced")
    engine.push("c2", config_map("a", x="1"))
    engine.run_until("AwaitingApproval")
    of_owner = shown(engine)
    engine.state.views.remove(KEY, engine.clock.now())
    engine.pipeline.relay(engine.application)
    view = shown(engine)
    assert view.plan is not None
    assert of_owner.plan is not None
    assert view.plan.digest == of_owner.plan.digest
    assert view.verdict is not None
    assert view.verdict.decision is Decision.HELD
    assert view.verdict == of_owner.verdict


def test_what_the_owner_has_applied_is_not_planned_any_more() -> None:
    engine = owned(**HELD)
    engine.run_until("Synced")
    engine.push("c2", config_map("a", x="2"), config_map("b", x="1"))
    engine.run_until("AwaitingApproval")
    engine.pipeline.relay(engine.application)
    # the owner has a memory of its own, and what is remembered here stays
    remembered = dict(engine.pipeline._relay._caches)
    engine.records.reviewed = approval(until=engine.clock.now() + timedelta(hours=1))
    engine.run_until("Synced")
    engine.pipeline._relay._caches |= remembered
    engine.pipeline.relay(engine.application)
    view = shown(engine)
    assert states(view) == {"a": "Synced", "b": "Synced"}
    assert view.plan is not None
    assert (view.plan.writes, view.plan.repairs) == ((), ())


def test_drift_is_shown_and_nothing_is_written() -> None:
    engine = owned()
    engine.run_until("Synced")
    edit(engine)
    stored = dict(engine.cluster.objects)
    links = len(engine.records.links)
    engine.pipeline.relay(engine.application)
    assert states(shown(engine)) == {"a": "OutOfSync", "b": "Synced"}
    assert engine.cluster.objects == stored
    assert len(engine.records.links) == links


def edit(engine: PipelineEngine) -> None:
    """Change an object as a user with kubectl does."""
    engine.cluster.put({**engine.cluster.objects[A], "data": {"x": "edited"}})


def events(engine: PipelineEngine, after: int) -> list[tuple[str, str]]:
    """Return the events about objects and syncs, without those that only say which state something has."""
    news = engine.state.views.events(after)
    return [(event.kind, event.message) for event in news if event.kind not in ("application", "resource")]


def seen_by_another(engine: PipelineEngine, view: ApplicationView) -> int:
    """Have the views of a replica that saw an Application of another one so; return its last event."""
    views = engine.state.views
    views.remove(KEY, engine.clock.now())
    views.publish_remote(view)
    return views.bounds[1]


def test_drift_is_an_event_once() -> None:
    engine = owned()
    engine.run_until("Synced")
    last = seen_by_another(engine, shown(engine))
    edit(engine)
    engine.pipeline.relay(engine.application)
    engine.pipeline.relay(engine.application)
    (event,) = events(engine, last)
    assert event[0] == "drift"
    assert '"edited"; Git declares "1"' in event[1]


def test_a_repair_has_the_events_that_its_owner_has() -> None:
    engine = owned()
    engine.run_until("Synced")
    before = shown(engine)
    last = engine.state.views.bounds[1]
    edit(engine)
    engine.run()
    of_owner = events(engine, last)
    assert [kind for kind, _ in of_owner] == ["drift", "sync", "healed"]
    last = seen_by_another(engine, before)
    engine.pipeline.relay(engine.application)
    engine.pipeline.relay(engine.application)
    assert events(engine, last) == of_owner, "also where the repair was faster than this replica"
    last = seen_by_another(engine, before)
    drifted = replace(before, status={**before.status, "sync": "OutOfSync"})
    engine.state.views.publish_remote(drifted, [(A, of_owner[0][1])])
    engine.pipeline.relay(engine.application)
    assert events(engine, last) == of_owner, "drift that was seen before its repair is one event"


def test_records_that_cannot_be_read_cost_only_their_events() -> None:
    engine = owned()
    engine.run_until("Synced")
    before = shown(engine)
    edit(engine)
    engine.run()
    engine.records.record_error = RecordUnavailable("the database is down")
    last = seen_by_another(engine, before)
    engine.pipeline.relay(engine.application)
    assert states(shown(engine)) == {"a": "Synced", "b": "Synced"}
    assert events(engine, last) == []


def test_a_change_of_an_object_has_it_shown_again() -> None:
    engine = owned()
    engine.run_until("Synced")
    engine.pipeline.relay(engine.application)
    assert KEY in engine.state.tracked.applications_for(ObjectRef("", "ConfigMap", "prod", "a"))


def test_what_cannot_be_observed_stays_as_it_was_seen_last() -> None:
    engine = owned()
    engine.run_until("Synced")
    engine.pipeline.relay(engine.application)
    engine.pipeline.forget(UID)
    engine.source.commits.clear()
    assert engine.pipeline.relay(engine.application) == RETRY
    view = shown(engine)
    assert states(view) == {"a": "Synced", "b": "Synced"}
    assert view.unobserved.startswith("gitsync-1 works on it, and this replica cannot observe it: ")


def test_a_process_observes_an_application_of_another_one_for_some_minutes_after_a_request() -> None:
    engine = PipelineEngine()
    engine.source.commit("c1", config_map("a", x="1"))
    engine.run_until("Synced")
    engine.state.views.remove(KEY, engine.clock.now())
    assert engine.pipeline.relay(engine.application) is None
    assert (shown(engine).plan, states(shown(engine))) == (None, {})
    assert engine.pipeline.observe(UID)
    assert engine.pipeline.relay(engine.application) == RESYNC
    assert states(shown(engine)) == {"a": "Synced"}
    engine.clock.seconds += RESYNC - 1
    assert not engine.pipeline.observe(UID), "it is observed already, and for longer now"
    engine.clock.seconds += RESYNC - 1
    assert engine.pipeline.relay(engine.application) == RESYNC
    engine.clock.seconds += 2
    assert engine.pipeline.relay(engine.application) is None
    assert (shown(engine).plan, states(shown(engine))) == (None, {})


def test_a_replica_observes_each_application_without_a_request() -> None:
    engine = owned()
    assert not engine.pipeline.observe(UID)


def test_git_is_not_polled_for_the_application_of_another() -> None:
    engine = owned()
    engine.run_until("Synced")
    engine.source.error = SourceUnavailable("away")
    engine.source.requests.clear()
    assert engine.pipeline.relay(engine.application) == RESYNC
    assert engine.source.requests == []


def test_a_suspended_application_holds_no_prune_of_others() -> None:
    engine = owned()
    engine.run_until("Synced")
    engine.edit(suspend=True)
    engine.pipeline.relay(engine.application)
    branch = ("https://git.example.com/shop.git", "main")
    ref = ObjectRef("", "ConfigMap", "prod", "a")
    assert engine.state.declarations.applications_behind("gitsync/other", branch, "c2", {ref}) == ()
    assert states(shown(engine)) == {"a": "Synced", "b": "Synced"}


def test_one_that_its_replica_has_not_reconciled_declares_nothing() -> None:
    engine = PipelineEngine(observes=True)
    declarations = engine.state.declarations
    reach = Reach(("https://git.example.com/shop.git", "main"), "prod", False, "2026-11-20T10:00:00Z", is_new=True)
    declarations.register(KEY, reach)
    declarations.register("gitsync/younger", replace(reach, created="2026-11-20T10:00:01Z"))
    a = ObjectRef("", "ConfigMap", "prod", "a")
    declarations.set_declared("gitsync/younger", frozenset({a}))
    engine.pipeline.relay(engine.application)
    assert declarations.awaited("gitsync/younger", {a: ""}) == {KEY}
    engine.source.commit("c1", config_map("a", x="1"))
    engine.run()
    engine.pipeline.relay(engine.application)
    assert declarations.awaited("gitsync/younger", {a: ""}) == frozenset()
    assert declarations.declared_elsewhere("gitsync/younger", [a]) == {a: KEY}


def test_what_another_replica_declares_is_known_by_its_commit() -> None:
    engine = owned()
    cluster: Any = engine.cluster
    declarations = engine.state.declarations

    def is_known(key: str = KEY, *, is_ours: bool = False) -> bool:
        return is_current(cluster, declarations, lambda key: is_ours, key)

    engine.pipeline.relay(engine.application)
    assert is_known()
    application = engine.application
    revision = {**application["status"]["revision"], "fetched": "c2"}
    engine.cluster.put({**application, "status": {**application["status"], "revision": revision}})
    assert not is_known()
    assert is_known(is_ours=True)
    assert is_known("gitsync/gone")
    declarations.leave_branch(KEY)
    assert is_known(), "one that is suspended declares what it declared last"
