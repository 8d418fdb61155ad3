"""A user holds a field during an incident: it stays, all else is restored, and the hold ends by itself."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from gitsync.objects.conditions import find_condition
from gitsync.objects.holds import FieldHold
from gitsync.objects.ref import ObjectRef
from gitsync.objects.user import User
from tests.flow.environment import World
from tests.flow.factories import deployment
from tests.waiting import until

WEB = ObjectRef("apps", "Deployment", "shop", "web")
ADA = User("ada")


def shop(world: World) -> None:
    commit = world.repo.commit("open", {"shop/web.yaml": deployment("web")})
    world.application()
    world.start()
    world.synced(commit)


def hold(world: World, field: str = "spec.replicas", period: timedelta = timedelta(hours=1)) -> FieldHold:
    held = FieldHold.of_field(WEB, field, world.controller.clock.now() + period, "ada", "incident 12")
    world.requests.hold(world.view(), world.controller.requests, held, ADA)
    return held


def edit(world: World, **spec: Any) -> None:
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}}
    world.apply({**manifest, "spec": spec}, "kubectl-edit")


def live(world: World) -> tuple[int, str]:
    spec = (world.get("Deployment", "web", api="apps/v1") or {})["spec"]
    return spec["replicas"], spec["template"]["spec"]["containers"][0]["image"]


def condition(world: World) -> str:
    return str(find_condition(world.status(), "FieldsHeld").get("message", ""))


def test_a_held_field_stays_while_the_others_are_restored(world: World) -> None:
    shop(world)
    declared = live(world)
    hold(world)
    until(lambda: "Deployment web .spec.replicas until" in condition(world), describe=world.status)
    # one edit of both: had the hold not counted, their repair would be one apply
    edit(world, replicas=5, template={"spec": {"containers": [{"name": "web", "image": "evil:1"}]}})
    until(lambda: live(world)[1] == declared[1], describe=lambda: live(world))
    assert live(world)[0] == 5
    until(lambda: world.status()["sync"] == "Synced", describe=world.status)


def test_a_hold_that_is_ended_by_hand_gives_the_field_back_to_git(world: World) -> None:
    shop(world)
    declared = live(world)
    held = hold(world)
    until(lambda: condition(world), describe=world.status)
    edit(world, replicas=5)
    until(lambda: live(world)[0] == 5)
    world.requests.end_holds(world.view(), world.controller.requests, [held], ADA, "over")
    until(lambda: live(world) == declared, describe=lambda: live(world))
    until(lambda: not condition(world), describe=world.status)
    actions = [link.action for link in world.controller.records.audit_records("gitsync/shop") if link.approver == "ada"]
    assert actions == ["unhold", "hold"]


def test_a_hold_ends_by_itself(world: World) -> None:
    shop(world)
    declared = live(world)
    hold(world, period=timedelta(seconds=2))
    edit(world, replicas=5)
    until(lambda: live(world) == declared, describe=lambda: live(world))
    until(lambda: not condition(world), describe=world.status)


def test_a_hold_survives_a_restart_of_the_controller(world: World) -> None:
    shop(world)
    held = hold(world)
    until(lambda: condition(world), describe=world.status)
    edit(world, replicas=5)
    world.stop()
    world.start()
    commit = world.repo.commit("newer", {"shop/web.yaml": deployment("web", image="web:2")})
    world.synced(commit)
    assert live(world)[0] == 5
    world.requests.end_holds(world.view(), world.controller.requests, [held], ADA, "over")
    until(lambda: live(world)[0] == 2, describe=lambda: live(world))
