"""What people say of plans, in the whole way: by whom, how long, and what else a plan waits for."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from gitsync.objects.record import AuditRecord, Outcome
from gitsync.objects.user import User
from tests.flow.environment import NAMESPACE, World
from tests.flow.factories import config_map, deployment
from tests.review_factories import approval, keep, rejection
from tests.waiting import until

KEY = f"{NAMESPACE}/shop"
CLOSED = {"kind": "Deny", "schedule": "0 0 * * *", "duration": "24h", "manualSync": True}


def held(world: World, **spec: Any) -> str:
    """Sync, then commit what stops all replicas; return the digest of the plan that is held."""
    first = world.repo.commit("open", {"shop/web.yaml": deployment("web")})
    world.application()
    world.start()
    world.synced(first)
    world.application(**spec)
    world.repo.commit("close", {"shop/web.yaml": deployment("web", replicas=0)})
    until(lambda: world.status().get("phase") == "AwaitingApproval", 10, world.status)
    plan = world.view().plan
    assert plan is not None
    return plan.digest


def replicas(world: World) -> int:
    found = world.get("Deployment", "web", api="apps/v1")
    assert found is not None
    return int(found["spec"]["replicas"])


def said(world: World, reason: str) -> str:
    """Wait until the plan is held for this reason, and return what is said of it."""
    until(lambda: world.condition("Ready").get("reason") == reason, 10, world.status)
    return str(world.condition("Ready")["message"])


def test_the_gate_refuses_an_approval_of_who_may_not_give_one(world: World) -> None:
    digest = held(world, risk={"approvers": {"groups": ["platform"], "users": ["eve"]}})
    for person in (User("mallory", ("sales",), is_authenticated=True), User("eve")):
        keep(world.controller.records, KEY, digest, approval(person))
        world.controller.requests.poll_now([KEY])
        until(lambda who=person: f"{who.name} approved it" in world.condition("Ready")["message"], 10, world.status)
        assert "is not an approver (platform, eve)" in said(world, "AwaitingApproval")
    assert replicas(world) == 2

    keep(world.controller.records, KEY, digest, approval(User("ada", ("platform",), is_authenticated=True)))
    until(lambda: replicas(world) == 0, 10, world.status)
    intents = world.controller.records.audit_records(KEY, action="update", outcome="Intended")
    assert [(link.approver, link.digest) for link in intents] == [("ada", digest)]


def test_a_closed_window_is_said_to_be_one_and_outlasts_an_approval(world: World) -> None:
    digest = held(world, sync={"windows": [CLOSED]})
    until(lambda: "a Deny window is open" in said(world, "AwaitingApproval"), 10, world.status)

    keep(world.controller.records, KEY, digest, approval("ada"))
    world.controller.requests.poll_now([KEY])
    assert said(world, "OutsideWindow") == "a Deny window is open (0 0 * * * UTC)"
    assert (world.status()["phase"], world.condition("Reconciling")["status"]) == ("Pending", "True")
    assert replicas(world) == 2

    world.application(sync={"windows": []})
    until(lambda: replicas(world) == 0, 10, world.status)


def test_an_approval_without_its_record_runs_nothing_and_names_the_mismatch(world: World) -> None:
    digest = held(world)
    records = world.controller.records
    kept = world.status()["audit"]
    link = records.audit_records(KEY, limit=1)[0]
    assert (kept["record"], kept["hash"]) == (link.id, link.hash)
    with closing(sqlite3.connect(world.folder / "data" / "history.db")) as database, database:
        database.execute("INSERT INTO plan_reviews VALUES (?, ?, ?, 1, '2099-01-01')", (link.id, KEY, digest))
    world.controller.requests.poll_now([KEY])
    assert f"the audit chain does not confirm the review of this plan: record {link.id}" in said(world, "PlanRefused")
    assert replicas(world) == 2


def test_the_audit_keeps_so_many_days_as_the_operator_says(world: World) -> None:
    world.start()
    records = world.controller.records
    old = AuditRecord(KEY, "update", "/ConfigMap/shop/a", Outcome.SUCCEEDED, datetime(2020, 1, 1, tzinfo=UTC), "s")
    records.audit([old, replace(old, timestamp=datetime.now(UTC))])
    world.stop()

    world.start(audit_days=30)
    records = world.controller.records
    until(lambda: [link.action for link in records.export()] == ["update", "trim"], 5)
    assert records.verify() == ()


def test_a_rejection_holds_what_no_person_had_to_approve(world: World) -> None:
    first = world.repo.commit("open", {"shop/web.yaml": deployment("web", replicas=1)})
    world.application()
    world.start()
    world.synced(first)
    world.application(sync={"windows": [CLOSED]})
    world.repo.commit("grow", {"shop/web.yaml": deployment("web", replicas=2)})
    assert "window" in said(world, "OutsideWindow")
    plan = world.view().plan
    assert plan is not None
    keep(world.controller.records, KEY, plan.digest, rejection("bob", "one is enough"))
    world.application(sync={"windows": []})
    until(lambda: said(world, "Rejected") == "rejected by bob: one is enough", 10, world.status)
    world.controller.requests.request_sync(KEY, "ada")
    until(lambda: not world.controller.requests.queue_length())
    assert replicas(world) == 1

    second = world.repo.commit("grow by another commit", {"shop/note.yaml": deployment("note")})
    world.synced(second)
    assert replicas(world) == 2


def volume(name: str) -> str:
    spec = "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}"
    return f"apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: {name}}}\n{spec}\n"


def test_one_deletion_is_approved_and_another_waits(world: World) -> None:
    files = {"shop/a.yaml": volume("a"), "shop/b.yaml": volume("b"), "shop/note.yaml": config_map("note", text="old")}
    first = world.repo.commit("open", dict(files))
    world.application()
    world.start()
    world.synced(first)
    new = {"shop/a.yaml": None, "shop/b.yaml": None, "shop/note.yaml": config_map("note", text="new")}
    second = world.repo.commit("drop both", new)
    until(lambda: world.status().get("phase") == "AwaitingApproval", 10, world.status)

    world.approve("/PersistentVolumeClaim/shop/a")
    until(lambda: world.get("PersistentVolumeClaim", "a") is None, 10, world.status)
    until(lambda: len(pending_steps(world)) == 2, 10, lambda: pending_steps(world))
    world.quiet()
    world.in_phase("AwaitingApproval")
    assert pending_steps(world) == ["note", "b"]
    assert world.status()["revision"]["applied"] == first
    assert (world.get("ConfigMap", "note") or {})["data"] == {"text": "old"}
    history = world.controller.records.history
    until(lambda: history("gitsync/shop")[0].commit.id == second, describe=lambda: history("gitsync/shop"))
    (record, *_) = history("gitsync/shop")
    assert [(step.action, step.ref) for step in record.steps] == [("prune", "/PersistentVolumeClaim/shop/a")]
    assert record.approver == "ada"

    world.approve()
    world.synced(second)
    assert world.get("PersistentVolumeClaim", "b") is None


def pending_steps(world: World) -> list[str]:
    plan = world.view().plan
    return [step.ref.name for step in plan.writes] if plan is not None else []
