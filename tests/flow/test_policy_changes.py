"""Requirements of the operator's policies in a running controller, which follows changes of their files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gitsync.errors import Refused
from gitsync.objects.user import User
from gitsync.sandbox.server import Sandbox
from gitsync.server.queries.filters import Filter
from gitsync.server.queries.timeline import Position, changes
from gitsync.services.reviews import Approval
from tests.flow.environment import World
from tests.flow.factories import config_map, deployment
from tests.waiting import until

POLICY = """\
kind: Policy
metadata: {name: team}
spec: {require: %s}
"""
ADA, BEN, EVE = (User(name, ("sre",), is_authenticated=True) for name in ("ada", "ben", "eve"))


def require(world: World, text: str) -> None:
    (world.folder / "policies" / "team.yaml").write_text(POLICY % text)


def test_a_changed_config_map_takes_effect_without_a_restart(world: World) -> None:
    folder = world.folder / "policies"

    def mount(version: str, text: str) -> None:
        """Replace the files as the kubelet does: a folder for the version, and one link that is renamed."""
        (folder / version).mkdir()
        (folder / version / "team.yaml").write_text(POLICY % text)
        (folder / "..new").symlink_to(version)
        (folder / "..new").rename(folder / "..data")

    mount("..2026_1", "{}")
    (folder / "team.yaml").symlink_to("..data/team.yaml")
    first = world.repo.commit("Open", {"shop/a.yaml": config_map("a", mode="open")})
    world.application()
    world.start()
    world.synced(first)
    mount("..2026_2", "{readOnly: true}")
    until(lambda: world.controller.policies.current.policies[0].read_only)
    world.repo.commit("Close", {"shop/a.yaml": config_map("a", mode="closed")})
    says(world, "policy team is read-only")
    mount("..2026_3", "{}")
    until(lambda: (world.get("ConfigMap", "a") or {}).get("data") == {"mode": "closed"}, describe=world.status)


def test_a_commit_with_more_objects_than_allowed_changes_nothing_and_one_with_fewer_heals(world: World) -> None:
    limit = world.folder / "policies" / "team.yaml"

    def allow(count: int) -> None:
        limit.write_text(f"kind: Policy\nmetadata: {{name: team}}\nspec: {{limits: {{maxObjects: {count}}}}}\n")

    def maps(count: int) -> dict[str, str | None]:
        return {f"shop/{number}.yaml": config_map(f"m{number}") if number < count else None for number in range(4)}

    allow(4)
    first = world.repo.commit("Four", maps(4))
    world.application()
    world.start()
    world.synced(first)
    # what is applied is not deleted, since nothing else is allowed either
    allow(2)
    says(world, "has 4 objects, the limit is 2")
    assert world.get("ConfigMap", "m3")
    # the deletions of a commit do not count against it
    world.synced(world.repo.commit("Two", maps(2)))
    assert world.get("ConfigMap", "m3") is None
    world.repo.commit("Three", {"shop/2.yaml": config_map("m2")})
    says(world, "has 3 objects, the limit is 2")
    assert world.get("ConfigMap", "m2") is None
    allow(3)
    until(lambda: world.get("ConfigMap", "m2"), describe=world.status)


def policy_records(world: World) -> list[tuple[str, str]]:
    found = world.controller.records.audit_records(action="policy")
    return [(record.message, record.approver) for record in reversed(found)]


def test_each_change_of_a_policy_is_audited_once(world: World) -> None:
    by = f"{(world.folder / 'policies').owner()} (owner of policies)"
    require(world, "{}")
    world.start()
    until(lambda: policy_records(world) == [("added team", by)], describe=lambda: policy_records(world))
    world.stop()
    require(world, "{readOnly: true}")  # while the controller is stopped
    (world.folder / "policies" / "more.yaml").write_text(POLICY.replace("team", "more") % "{}")
    world.start()
    until(lambda: len(policy_records(world)) == 2, describe=lambda: policy_records(world))
    require(world, "{readOnly: maybe}")  # invalid, so not in use
    until(lambda: world.controller.policies.problem != "")
    (world.folder / "policies" / "more.yaml").unlink()
    require(world, "{readOnly: true}")
    until(lambda: len(policy_records(world)) == 3, describe=lambda: policy_records(world))
    assert [message for message, _ in policy_records(world)] == [
        "added team",
        "added more; changed team",
        "removed more",
    ]
    assert world.controller.records.verify() == ()
    shown = changes(world.controller, Filter(), Position(), 10).entries
    assert [entry.title for entry in shown if entry.kind == "policy"] == ["Policies changed"] * 3
    assert shown[0].people == (by,)
    assert shown[0].reason == "removed more"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    (tmp_path / "policies").mkdir()
    with Sandbox() as sandbox:
        made = World(tmp_path, sandbox, policies=tmp_path / "policies")
        made.namespace("shop")
        yield made
        made.close()


def says(world: World, text: str) -> None:
    until(lambda: text in world.condition("Ready").get("message", ""), describe=lambda: world.status())


def test_a_changed_policy_takes_effect_without_a_restart(world: World) -> None:
    require(world, "{}")
    first = world.repo.commit("Open", {"shop/a.yaml": config_map("a", mode="open")})
    world.application(risk={"approval": "Never"})
    world.start()
    world.synced(first)
    require(world, "{readOnly: true}")
    until(lambda: world.controller.policies.current.policies[0].read_only)
    second = world.repo.commit("Close", {"shop/a.yaml": config_map("a", mode="closed")})
    says(world, "policy team is read-only")
    require(world, "{readOnly: maybe}")
    until(lambda: "team.yaml: spec.require.readOnly" in world.controller.policies.problem)
    assert world.controller.policies.current.policies[0].read_only  # the last valid version stays in use
    require(world, "{}")
    world.synced(second)
    assert world.controller.policies.problem == ""


def test_two_users_who_are_no_authors_approve(world: World) -> None:
    require(world, "{approval: Moderate, approvers: {groups: [sre], count: 2, notAuthor: true}}")
    world.repo.commit("Start", {"shop/a.yaml": config_map("a", mode="open")})
    commit = world.repo.commit("Add a workload", {"shop/web.yaml": deployment("web")})
    world.application(risk={"approval": "Never"})
    engine = world.start()
    says(world, "waits for 2 users of sre, not an author of the commits")
    requests = world.requests
    view = world.view()
    assert view.plan is not None
    digest = view.plan.digest
    with pytest.raises(Refused, match="ada is an author of its commits"):  # of the repository of these tests
        requests.approve(view, digest, Approval(ADA))
    with pytest.raises(Refused, match="'ben' is not authenticated"):
        requests.approve(view, digest, Approval(User("ben")))
    requests.approve(view, digest, Approval(BEN))
    says(world, "ben approved it, 1 more approval is needed")
    requests.approve(world.view(), digest, Approval(EVE))
    world.synced(commit)
    intents = engine.records.audit_records("gitsync/shop", action="create")
    assert {link.approver for link in intents} == {"eve, ben"}
