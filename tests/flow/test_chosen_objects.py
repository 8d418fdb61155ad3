"""A sync of chosen objects writes these alone, by the rules of every sync, and the others stay as they are."""

from __future__ import annotations

from typing import Any

import pytest

from gitsync.errors import InvalidInput, WrongState
from gitsync.objects.change import Action
from gitsync.objects.manifest import resource_version_of, uid_of
from gitsync.objects.record import Outcome
from gitsync.objects.ref import ObjectRef
from gitsync.objects.user import User
from gitsync.plan.parts import Choice
from tests.flow.environment import NAMESPACE, World
from tests.flow.factories import config_map, deployment
from tests.waiting import until

KEY = f"{NAMESPACE}/shop"
ADA = User("ada")
BY_HAND = {"automated": False}
CLOSED = {"kind": "Deny", "schedule": "0 0 * * *", "duration": "24h"}
A, B, WEB = (
    ObjectRef("", "ConfigMap", "shop", "a"),
    ObjectRef("", "ConfigMap", "shop", "b"),
    ObjectRef("apps", "Deployment", "shop", "web"),
)
FILES: dict[str, str | None] = {
    "shop/a.yaml": config_map("a", text="old"),
    "shop/b.yaml": config_map("b", text="old"),
    "shop/web.yaml": deployment("web"),
}


def committed(world: World, changes: dict[str, str | None], **spec: Any) -> str:
    """Sync the files, then commit changes with other settings; return the new commit once it is planned."""
    first = world.repo.commit("open", FILES)
    world.application()
    world.start()
    world.synced(first)
    world.application(**spec)
    second = world.repo.commit("change", changes)
    world.controller.requests.poll_now([KEY])

    def is_planned() -> bool:
        plan = world.view().plan
        return plan is not None and plan.revision == second and bool(plan.writes)

    until(is_planned, 10, world.status)
    return second


def sync(world: World, *refs: ObjectRef, prune: bool = False, replace: bool = False) -> str:
    """Request a sync of some objects; return its id."""
    choice = Choice(frozenset(refs), prune=prune, replace=replace)
    return world.requests.sync_chosen(world.view(), world.controller.requests, choice, ADA, "because")


def has_ended(world: World, request: str) -> None:
    """Wait until a request was carried out."""
    until(lambda: world.status().get("requestedSync") == request, 10, world.status)
    assert "pendingSync" not in world.status()


def waits(world: World, request: str, reason: str) -> None:
    """Wait until a request is held for a reason, and known to be pending."""
    until(lambda: world.condition("Ready").get("reason") == reason, 10, world.status)
    assert world.status()["pendingSync"]["id"] == request


def text(world: World, name: str) -> str:
    """Return what a ConfigMap says, empty where it is gone."""
    return str((world.get("ConfigMap", name) or {"data": {}})["data"].get("text", ""))


def drifted(world: World) -> list[ObjectRef]:
    """Return the objects that others changed."""
    plan = world.view().plan
    return [step.ref for step in plan.repairs] if plan is not None else []


def replicas(world: World) -> int:
    return int((world.get("Deployment", "web", api="apps/v1") or {})["spec"]["replicas"])


BOTH: dict[str, str | None] = {
    "shop/a.yaml": config_map("a", text="new"),
    "shop/b.yaml": config_map("b", text="new"),
}
STOP: dict[str, str | None] = {**BOTH, "shop/web.yaml": deployment("web", replicas=0)}


def test_only_the_chosen_object_is_written(world: World) -> None:
    committed(world, BOTH, sync=BY_HAND)
    request = sync(world, A)
    has_ended(world, request)
    assert (text(world, "a"), text(world, "b")) == ("new", "old")
    assert world.status()["sync"] == "OutOfSync"
    record = world.controller.records.history(KEY)[0]
    assert (record.initiator, [step.ref for step in record.steps]) == ("ada", [A.path])
    [link] = world.controller.records.audit_records(KEY, action="sync-objects")
    assert (link.approver, link.reasoning, link.message) == ("ada", "because", str(A))
    assert (link.details["objects"], link.details["options"]) == ([str(A)], [])


def test_the_rest_is_synced_by_another_request(world: World) -> None:
    second = committed(world, BOTH, sync=BY_HAND)
    has_ended(world, sync(world, A))
    world.controller.requests.request_sync(KEY, "ada")
    world.synced(second)
    assert text(world, "b") == "new"


def test_a_chosen_object_passes_no_approval(world: World) -> None:
    committed(world, STOP, sync=BY_HAND)
    request = sync(world, WEB)
    waits(world, request, "AwaitingApproval")
    assert replicas(world) == 2
    world.approve()
    has_ended(world, request)
    assert (replicas(world), text(world, "a")) == (0, "old")


def test_a_harmless_object_does_not_wait_for_the_dangerous_one(world: World) -> None:
    committed(world, STOP)
    until(lambda: world.status().get("phase") == "AwaitingApproval", 10, world.status)
    has_ended(world, sync(world, A))
    assert (text(world, "a"), text(world, "b"), replicas(world)) == ("new", "old", 2)
    until(lambda: world.status().get("phase") == "AwaitingApproval", 10, world.status)


def test_a_rejected_choice_is_over(world: World) -> None:
    committed(world, STOP, sync=BY_HAND)
    request = sync(world, WEB)
    waits(world, request, "AwaitingApproval")
    view = world.view()
    assert view.plan is not None
    world.requests.reject(view, view.plan.digest, ADA, "not today")
    has_ended(world, request)
    assert replicas(world) == 2


def test_a_window_holds_chosen_objects(world: World) -> None:
    committed(world, BOTH, sync={**BY_HAND, "windows": [CLOSED]})
    request = sync(world, A)
    waits(world, request, "OutsideWindow")
    assert text(world, "a") == "old"
    world.application(sync={**BY_HAND, "windows": []})
    has_ended(world, request)
    assert (text(world, "a"), text(world, "b")) == ("new", "old")


def test_deleting_a_chosen_object_has_to_be_requested(world: World) -> None:
    committed(world, {"shop/a.yaml": None, "shop/b.yaml": config_map("b", text="new")}, sync=BY_HAND)
    with pytest.raises(InvalidInput, match="Git does not declare ConfigMap shop/a any more, so a sync deletes it"):
        sync(world, A)
    has_ended(world, sync(world, A, prune=True))
    assert world.get("ConfigMap", "a") is None
    assert text(world, "b") == "old"


def test_deletions_in_parts_do_not_pass_their_limit(world: World) -> None:
    gone: dict[str, str | None] = {"shop/a.yaml": None, "shop/b.yaml": None}
    committed(world, gone, sync=BY_HAND, risk={"maxDeletes": 1})
    request = sync(world, A, prune=True)
    waits(world, request, "AwaitingApproval")
    assert "would delete 2 of 3 objects, more than maxDeletes (1)" in world.condition("Ready")["message"]
    assert text(world, "a") == "old"


IMMUTABLE = "immutable: true\n"


def test_what_cannot_be_changed_in_place_is_replaced_on_request(world: World) -> None:
    before = config_map("c", text="old") + IMMUTABLE
    after = config_map("c", text="new") + IMMUTABLE
    world.repo.commit("first", {"shop/c.yaml": before})
    committed(world, {"shop/c.yaml": after, **BOTH}, sync=BY_HAND)
    ref = ObjectRef("", "ConfigMap", "shop", "c")
    uid = uid_of(world.get("ConfigMap", "c") or {})
    request = sync(world, ref, replace=True)
    waits(world, request, "AwaitingApproval")
    assert uid_of(world.get("ConfigMap", "c") or {}) == uid
    # it outlives the process that took it
    world.stop()
    world.start()
    until(lambda: world.controller.view.application(KEY), 10)
    waits(world, request, "AwaitingApproval")
    world.approve()
    has_ended(world, request)
    assert text(world, "c") == "new"
    assert uid_of(world.get("ConfigMap", "c") or {}) != uid
    assert text(world, "a") == "old"


def test_a_newer_commit_ends_the_request(world: World) -> None:
    committed(world, STOP, sync=BY_HAND)
    request = sync(world, WEB)
    waits(world, request, "AwaitingApproval")
    world.repo.commit("start again", {"shop/web.yaml": deployment("web", replicas=3)})
    world.controller.requests.poll_now([KEY])
    has_ended(world, request)
    assert replicas(world) == 2


def test_the_drift_of_a_chosen_object_alone_is_restored(world: World) -> None:
    first = world.repo.commit("open", FILES)
    world.application(sync={"selfHeal": {"enabled": False}})
    world.start()
    world.synced(first)
    for name in ("a", "b"):
        world.apply(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": "shop"},
                "data": {"text": "edited"},
            }
        )
    until(lambda: sorted(drifted(world)) == [A, B], 10, world.status)
    has_ended(world, sync(world, A))
    assert (text(world, "a"), text(world, "b")) == ("old", "edited")


def test_a_replace_that_git_does_not_declare_needs_an_approval_also_for_drift(world: World) -> None:
    world.repo.commit("first", {**FILES, "shop/c.yaml": config_map("c", text="old") + IMMUTABLE})
    world.application(sync={"selfHeal": {"enabled": False}})
    world.start()
    until(lambda: world.status().get("sync") == "Synced", 10, world.status)
    live = world.get("ConfigMap", "c") or {}
    ref = ObjectRef("", "ConfigMap", "shop", "c")
    world.cluster.delete(ref, "v1", uid=uid_of(live))
    metadata = {"name": "c", "namespace": "shop", "labels": live["metadata"]["labels"]}
    edited = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": "edited"}}
    uid = uid_of(world.apply({**edited, "immutable": True}))
    until(lambda: drifted(world) == [ref], 10, world.status)
    waits(world, sync(world, ref, replace=True), "AwaitingApproval")
    assert uid_of(world.get("ConfigMap", "c") or {}) == uid


def test_no_hook_runs_with_chosen_objects(world: World) -> None:
    hook = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: hook, annotations: {gitsync.dev/hook: PreSync}}\n"
        "data: {text: ran}\n"
    )
    committed(world, {**BOTH, "shop/hook.yaml": hook}, sync=BY_HAND)
    has_ended(world, sync(world, A))
    assert (text(world, "a"), text(world, "hook")) == ("new", "")


def test_an_object_without_a_step_cannot_be_chosen(world: World) -> None:
    committed(world, BOTH, sync=BY_HAND)
    with pytest.raises(WrongState, match="the plan has no step for Deployment shop/web; it is as Git declares it"):
        sync(world, WEB)
    with pytest.raises(InvalidInput, match="no object is chosen"):
        sync(world)


def test_a_dry_run_writes_nothing_and_tells_what_the_api_server_answers(world: World) -> None:
    before = config_map("c", text="old") + IMMUTABLE
    world.repo.commit("first", {"shop/c.yaml": before})
    after = config_map("c", text="new") + IMMUTABLE
    committed(world, {**BOTH, "shop/c.yaml": after, "shop/b.yaml": None}, sync=BY_HAND)
    refs = (A, B, ObjectRef("", "ConfigMap", "shop", "c"))
    versions = [resource_version_of(world.get("ConfigMap", name) or {}) for name in "abc"]
    known = len(world.controller.records.audit_records(KEY))

    def answers(*, replace: bool = False) -> list[tuple[Action, Outcome]]:
        choice = Choice(frozenset(refs), prune=True, replace=replace)
        results = world.requests.dry_run(world.view(), world.controller.dry_runs, choice, ADA)
        return [(result.change.action, result.outcome) for result in results]

    update, prune = (Action.UPDATE, Outcome.SUCCEEDED), (Action.PRUNE, Outcome.SUCCEEDED)
    assert answers() == [update, prune, (Action.UPDATE, Outcome.FAILED)]
    assert answers(replace=True) == [update, prune, (Action.REPLACE, Outcome.SUCCEEDED)]
    assert [resource_version_of(world.get("ConfigMap", name) or {}) for name in "abc"] == versions
    assert len(world.controller.records.audit_records(KEY)) == known
