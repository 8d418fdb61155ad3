"""Which applications are reconciled, and when."""

from __future__ import annotations

import itertools
import logging
import re
import time
from typing import Any

import pytest
import yaml

from gitsync.objects.keys import API_VERSION, GIT_PUSHED, PUSH_MANAGER, REQUESTED_REPAIR
from gitsync.objects.ref import ObjectRef
from gitsync.sync.input import ReconcileInput, RepairRequest
from gitsync.sync.pipeline import Pipeline
from gitsync.sync.planner import Planned, Planner
from gitsync.sync.status.report import Report
from tests.flow.environment import NAMESPACE, World
from tests.flow.factories import config_map
from tests.review_factories import approval, keep
from tests.waiting import until


def looks(world: World) -> int:
    """Return how often the engine has looked, by the time of its last look."""
    view = world.controller.view.application(f"{NAMESPACE}/shop")
    return int(view.seen.timestamp() * 1000) if view is not None else 0


def quiet(world: World) -> int:
    """Return the last look once there was none for a while, else 0."""
    before = looks(world)
    time.sleep(0.5)
    return before if looks(world) == before else 0


def test_a_changed_spec_is_taken_up_at_once(world: World) -> None:
    world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1"), "mall/a.yaml": config_map("a", x="2")})
    commit = world.repo.git("rev-parse", "HEAD")
    world.application(sync={"interval": "1h"})
    world.start()
    world.synced(commit)
    world.application(source={"path": "mall"}, sync={"interval": "1h"})
    until(lambda: (world.get("ConfigMap", "a") or {}).get("data") == {"x": "2"}, 3)


def test_a_request_looks_at_git_whatever_the_interval(world: World) -> None:
    first = world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1")})
    world.application(sync={"interval": "1h"})
    world.start()
    world.synced(first)
    second = world.repo.commit("second", {"shop/a.yaml": config_map("a", x="2")})
    assert world.controller.requests.request_sync(f"{NAMESPACE}/shop", "ada")
    world.synced(second, timeout=3)
    assert not world.controller.requests.request_sync(f"{NAMESPACE}/absent", "ada")


def test_an_application_made_while_running_is_found(world: World) -> None:
    commit = world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1")})
    world.start()
    assert world.controller.view.applications() == ()
    world.application()
    world.synced(commit)


def test_a_change_of_a_foreign_object_wakes_nobody(world: World) -> None:
    commit = world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1")})
    world.application(sync={"interval": "1h"})
    world.start()
    world.synced(commit)
    before = until(lambda: quiet(world))
    world.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "foreign", "namespace": "shop"}, "data": {}}
    )
    until(lambda: world.get("ConfigMap", "foreign") is not None)
    assert quiet(world) == before


def test_a_restart_goes_on_where_it_was(world: World) -> None:
    commit = world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1")})
    world.application()
    world.start()
    world.synced(commit)
    world.stop()
    before = world.get("ConfigMap", "a")
    second = world.repo.commit("second", {"shop/b.yaml": config_map("b", x="1")})
    world.start()
    world.synced(second)
    after = world.get("ConfigMap", "a")
    assert before is not None
    assert after is not None
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert [entry["id"] for entry in world.status()["history"]] == [2, 1]


def test_suspending_stops_syncs_and_keeps_the_rest_of_the_spec(world: World) -> None:
    first = world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1")})
    world.application()
    world.start()
    world.synced(first)
    key = f"{NAMESPACE}/shop"
    assert world.controller.requests.suspend(key, True)
    until(lambda: world.status()["phase"] == "Suspended", 3)
    second = world.repo.commit("second", {"shop/a.yaml": config_map("a", x="2")})
    assert world.controller.requests.suspend(key, False)
    world.synced(second, timeout=3)
    found = world.get("Application", "shop", NAMESPACE, "gitsync.dev/v1alpha1") or {}
    assert found["spec"]["source"]["path"] == "shop"
    assert not world.controller.requests.suspend(f"{NAMESPACE}/absent", True)


def test_a_defect_fails_one_application_with_an_id_that_the_log_has_too(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    plan, is_broken = Planner.plan, True

    def broken(self: Planner, given: ReconcileInput, *arguments: Any) -> Planned:
        if is_broken and given.app.name == "shop":
            raise KeyError("a secret value")
        return plan(self, given, *arguments)

    monkeypatch.setattr(Planner, "plan", broken)
    commit = world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1"), "other/b.yaml": config_map("b", x="1")})
    world.namespace("other")
    world.application()
    world.application("other")
    world.start()
    world.synced(commit, "other")
    until(lambda: world.status().get("phase") == "Failed", 5, world.status)
    ready = world.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "UnexpectedError")
    (id,) = re.findall("KeyError, id ([0-9a-f]{8})", ready["message"])
    assert f"defect {id}" in caplog.text
    assert "a secret value" not in ready["message"]
    is_broken = False
    world.synced(commit)


def test_a_status_that_cannot_be_built_still_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(report: Report) -> dict[str, Any]:
        raise RuntimeError(report.app.key)

    monkeypatch.setattr("gitsync.sync.pipeline.build_status", broken)
    world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1")})
    world.application()
    world.start()
    until(lambda: world.condition("Ready").get("reason") == "UnexpectedError", 5, world.status)
    assert world.status()["phase"] == "Failed"


def test_an_application_that_prunes_itself_goes_with_its_objects(world: World) -> None:
    itself = {
        "apiVersion": "gitsync.dev/v1alpha1",
        "kind": "Application",
        "metadata": {"name": "shop", "namespace": NAMESPACE},
        "spec": {
            "source": {"repoURL": world.repo.url, "path": "shop"},
            "destination": {"namespace": "shop"},
            "sync": {"interval": "1s"},
        },
    }
    first = world.repo.commit(
        "first", {"shop/itself.yaml": yaml.safe_dump(itself), "shop/a.yaml": config_map("a", x="1")}
    )
    world.application()
    world.start()
    world.synced(first)
    world.repo.commit("second", {"shop/itself.yaml": None})
    until(lambda: (world.status().get("plan") or {}).get("id"), 5, world.status)
    plan = world.view().plan
    assert plan is not None
    keep(world.controller.records, f"{NAMESPACE}/shop", plan.digest, approval("ada"))
    world.controller.requests.poll_now([f"{NAMESPACE}/shop"])
    until(lambda: world.get("Application", "shop", NAMESPACE, "gitsync.dev/v1alpha1") is None, 15, world.status)
    assert world.get("ConfigMap", "a") is None


def test_a_status_is_logged_once_with_its_fields(world: World, caplog: pytest.LogCaptureFixture) -> None:
    commit = world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1")})
    with caplog.at_level(logging.INFO, "gitsync.controllers.application"):
        world.application(sync={"interval": "1h"})
        world.start()
        world.synced(commit)
        until(lambda: [record for record in caplog.records if vars(record).get("health") == "Healthy"])
        world.controller.requests.request_sync(f"{NAMESPACE}/shop", "ada")
        until(lambda: quiet(world))

    logged = [record for record in caplog.records if record.getMessage() == "status changed"]
    names = ("application", "phase", "sync", "health", "revision", "reason")
    lines = [tuple(vars(record)[name] for name in names) for record in logged]
    assert lines[-1][:5] == (f"{NAMESPACE}/shop", "Synced", "Synced", "Healthy", commit)
    assert all(line != following for line, following in itertools.pairwise(lines))


def test_a_push_that_another_replica_passes_on_polls_git_and_writes_no_status_for_another_path(world: World) -> None:
    """The annotation asks for a poll; only the commit that affects the Application is reported."""
    first = world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1")})
    world.application(sync={"interval": "1h"})
    world.start()
    world.synced(first)
    until(lambda: quiet(world))
    written = world.sandbox.requests(verb="update", resource="applications.gitsync.dev/status")
    world.repo.commit("none", {"README.md": "x"})
    annotate(world, GIT_PUSHED)
    until(lambda: quiet(world))
    assert world.sandbox.requests(verb="update", resource="applications.gitsync.dev/status") == written
    second = world.repo.commit("second", {"shop/a.yaml": config_map("a", x="2")})
    annotate(world, GIT_PUSHED)
    world.synced(second)


def test_a_repair_request_that_is_taken_away_or_unreadable_requests_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would replace the name of the user who requests what is pending."""
    world.application(sync={"interval": "1h"})
    world.start()
    world.synced(world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1")}))
    requested: list[RepairRequest] = []
    monkeypatch.setattr(Pipeline, "request_repair", lambda self, uid, request: requested.append(request))
    first, last = (RepairRequest(frozenset({ObjectRef("", "ConfigMap", "shop", name)}), "ada") for name in "ab")
    annotate(world, REQUESTED_REPAIR, first.to_annotation("1"))
    until(lambda: requested)
    annotate(world, REQUESTED_REPAIR, "not a request")
    annotate(world, REQUESTED_REPAIR, None)
    annotate(world, REQUESTED_REPAIR, last.to_annotation("2"))
    until(lambda: last in requested)
    assert requested == [first, last]


def annotate(world: World, annotation: str, value: str | None = "") -> None:
    """Annotate the Application as another replica does, by default with a new text; None takes it away."""
    annotations = {annotation: value or str(time.time())} if value is not None else {}
    metadata = {"name": "shop", "namespace": NAMESPACE, "annotations": annotations}
    world.apply({"apiVersion": API_VERSION, "kind": "Application", "metadata": metadata}, manager=PUSH_MANAGER)
