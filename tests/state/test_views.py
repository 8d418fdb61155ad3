"""What the dashboard sees: views and events."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gitsync.merge.schema import Schemas
from gitsync.objects.change import Action, Change, Plan, Risk
from gitsync.objects.health import Health, HealthStatus
from gitsync.objects.manifest import Manifest
from gitsync.objects.phase import Phase
from gitsync.objects.record import Commit
from gitsync.objects.ref import ObjectRef
from gitsync.plan.mask import MASK
from gitsync.state.views import Views
from gitsync.sync.input import Target
from gitsync.sync.observe import Observation
from gitsync.sync.planner import Planned
from gitsync.sync.status.build import build_status
from gitsync.sync.status.outcome import PhaseOutcome
from gitsync.sync.status.report import Report
from gitsync.sync.status.view import view_of

NOW = datetime(2026, 11, 20, 10, tzinfo=UTC)
A = ObjectRef("", "ConfigMap", "shop", "a")
B = ObjectRef("", "ConfigMap", "shop", "b")
SECRET = ObjectRef("", "Secret", "shop", "s")


@pytest.fixture
def views() -> Views:
    return Views()


def manifest_of(ref: ObjectRef) -> Manifest:
    data = {"password": "aHVudGVyMg=="} if ref.kind == "Secret" else {"x": "1"}
    return {"apiVersion": "v1", "kind": ref.kind, "metadata": {"name": ref.name, "namespace": "shop"}, "data": data}


def run(*changes: Change, name: str = "shop", now: datetime = NOW) -> Report:
    made = Report.start({"metadata": {"name": name, "namespace": "gitsync", "generation": 1}}, now)
    desired = {change.ref: manifest_of(change.ref) for change in changes}
    health = {change.ref: HealthStatus(Health.HEALTHY) for change in changes}
    made.observation = Observation(desired, {}, dict.fromkeys(desired, "v1"), Schemas({}), health=health)
    plan = Plan(made.app.key, "c1", changes, "digest", Risk.SAFE)
    made.planned = Planned(made.inputs, Target(Commit("c1"), desired), made.observation, plan)
    return made


def publish(views: Views, made: Report) -> None:
    views.publish(view_of(made, build_status(made), views.application(made.app.key)))


def test_a_view_shows_what_a_turn_found(views: Views) -> None:
    publish(views, run(Change(A, Action.NOTHING), Change(B, Action.CREATE, desired=manifest_of(B))))
    view = views.application("gitsync/shop")
    assert view is not None
    assert [(resource.ref, resource.sync) for resource in view.resources] == [(A, "Synced"), (B, "Missing")]
    assert view.status["sync"] == "OutOfSync"
    assert views.applications() == (view,)


def test_the_same_again_makes_no_event_but_says_that_somebody_looked(views: Views) -> None:
    publish(views, run(Change(A, Action.NOTHING)))
    last = views.bounds[1]
    again = run(Change(A, Action.NOTHING), now=NOW + timedelta(seconds=9))
    again.manifest["status"] = build_status(run(Change(A, Action.NOTHING)))
    publish(views, again)
    views.conclude("gitsync/shop", again.now)
    assert views.bounds[1] == last
    view = views.application("gitsync/shop")
    assert view is not None
    assert view.seen == NOW + timedelta(seconds=9)


def test_events_name_what_changed_and_can_be_read_from_any_point(views: Views) -> None:
    publish(views, run(Change(A, Action.NOTHING), Change(B, Action.NOTHING)))
    seen = views.bounds[1]
    publish(views, run(Change(A, Action.CREATE, desired=manifest_of(A))))
    events = views.events(after=seen)
    assert [event.id for event in events] == list(range(seen + 1, seen + 1 + len(events)))
    assert {(event.kind, event.ref) for event in events} == {
        ("application", ""),
        ("resource", A.path),
        ("resource", B.path),
    }
    assert {event.ref: event.states for event in events if event.ref == A.path} == {A.path: ("Missing", "Healthy")}
    assert views.events(after=events[-1].id) == ()


def test_waiting_ends_with_the_next_event(views: Views) -> None:
    assert not views.wait(0, 0.01)
    timer = threading.Timer(0.05, lambda: publish(views, run(Change(A, Action.NOTHING))))
    timer.start()
    assert views.wait(0, 5)
    timer.join()


def test_no_secret_value_is_in_a_view(views: Views) -> None:
    secret = manifest_of(SECRET)
    publish(views, run(Change(SECRET, Action.UPDATE, desired=secret, live=secret)))
    view = views.application("gitsync/shop")
    assert "aHVudGVyMg==" not in repr(view)
    assert MASK in repr(view)


def test_an_application_whose_cluster_is_away_keeps_its_resources(views: Views) -> None:
    publish(views, run(Change(A, Action.NOTHING)))
    blind = Report.start({"metadata": {"name": "shop", "namespace": "gitsync", "generation": 1}}, NOW)
    publish(views, blind)
    view = views.application("gitsync/shop")
    assert view is not None
    assert [resource.ref for resource in view.resources] == [A]
    assert view.status["sync"] == "Unknown"


def test_an_attempt_that_fails_does_not_renew_the_time(views: Views) -> None:
    publish(views, run(Change(A, Action.NOTHING)))
    later = NOW + timedelta(hours=1)
    publish(views, Report.start({"metadata": {"name": "shop", "namespace": "gitsync", "generation": 1}}, later))
    views.conclude("gitsync/gone", later)
    view = views.application("gitsync/shop")
    assert view is not None
    assert view.seen == NOW
    assert views.events()[-1].time == later
    assert [view.key for view in views.applications()] == ["gitsync/shop"]


def test_an_application_that_is_gone_is_an_event(views: Views) -> None:
    publish(views, run(Change(A, Action.NOTHING)))
    views.remove("gitsync/shop", NOW)
    assert views.application("gitsync/shop") is None
    assert views.events()[-1].kind == "removed"


def test_a_view_has_the_fields_that_others_added(views: Views) -> None:
    def live(version: str, *managers: str) -> Manifest:
        fields = {"f:metadata": {"f:labels": {"f:owner": {}}}}
        entries = [{"manager": name, "operation": "Update", "fieldsV1": fields} for name in managers]
        meta = {"name": "a", "namespace": "shop", "labels": {"owner": "bob"}, "resourceVersion": version}
        return {**manifest_of(A), "metadata": {**meta, "managedFields": entries}}

    def foreign(version: str, *managers: str) -> list[tuple[str, str]]:
        change = Change(A, Action.NOTHING, desired=manifest_of(A), live=live(version, *managers))
        publish(views, run(change))
        view = views.application("gitsync/shop")
        assert view is not None
        return [(item.path, item.owners[0].manager) for item in view.resources[0].foreign]

    assert foreign("1") == []
    before = views.bounds[1]
    assert foreign("2", "kubectl-label") == [(".metadata.labels", "kubectl-label")]
    assert views.bounds[1] > before  # open pages are notified
    assert foreign("2") == [(".metadata.labels", "kubectl-label")]  # the same version is not compared twice


def test_phase_and_health_have_their_own_age() -> None:
    first = run(Change(A, Action.NOTHING))
    first.outcome = PhaseOutcome(Phase.SYNCED)
    status = build_status(first)
    again = run(Change(A, Action.NOTHING), now=NOW + timedelta(seconds=60))
    again.outcome, again.manifest["status"] = PhaseOutcome(Phase.AWAITING_APPROVAL), status
    later = build_status(again)
    assert (later["phaseSince"], later["healthSince"]) == ("2026-11-20T10:01:00Z", "2026-11-20T10:00:00Z")


def test_drift_that_stays_is_one_event(views: Views) -> None:
    def observe(*drift: tuple[ObjectRef, str], health: str) -> list[str]:
        known = views.bounds[1]
        made = run(Change(A, Action.NOTHING))
        assert made.observation is not None
        made.observation = replace(made.observation, health={A: HealthStatus(Health.PROGRESSING, health)})
        views.publish(view_of(made, build_status(made), views.application("gitsync/shop")), drift)
        return [event.message for event in views.events(known) if event.kind == "drift"]

    # a Pod that starts meanwhile makes a new view each time
    assert observe((A, "x set to 2"), health="0 of 2") == ["x set to 2"]
    assert observe((A, "x set to 2"), health="1 of 2") == []
    assert observe((A, "x set to 2"), (A, "y set to 3"), health="2 of 2") == ["y set to 3"]
    assert observe(health="3 of 3") == []
    assert observe((A, "x set to 2"), health="4 of 4") == ["x set to 2"]
