"""What lets a dangerous plan of an Agent run: a review in the audit chain, never a text that Git or a tenant writes."""

from __future__ import annotations

from typing import Any

from gitsync.objects.conditions import find_condition
from gitsync.objects.manifest import Manifest
from gitsync.objects.user import User
from gitsync.services.reviews import Approval, OwnerReviews
from tests.agents.factories import agent, changed
from tests.flow.environment import World
from tests.operator.agent_world import annotate, approve, running, status_of
from tests.waiting import until

ACCOUNT = {"image": "registry.internal/agents/helper:1.0", "serviceAccount": {"create": False, "name": "deployer"}}
TOKEN = {**ACCOUNT, "serviceAccount": {**ACCOUNT["serviceAccount"], "automountToken": True}}  # type: ignore[dict-item]
ENDPOINT = "http://elsewhere.example.com/v1"


def held(world: World) -> dict[str, Any]:
    def waiting_plan() -> Any:
        status = status_of(world)
        is_held = find_condition(status, "Reconciling").get("reason") == "AwaitingApproval"
        return status["plan"] if is_held else None

    plan: dict[str, Any] = until(waiting_plan, describe=lambda: status_of(world))
    return plan


def deployment(world: World) -> str:
    return str(world.get("Deployment", "helper", api="apps/v1"))


def test_an_annotation_never_approves(world: World) -> None:
    world.start()
    world.apply(agent())
    running(world)
    world.apply(changed(agent(), "spec.model.endpoint", ENDPOINT))
    plan = held(world)
    for text in (plan["digest"], plan["id"], *"0123456789abcdef"):
        annotate(world, "helper", approve=text)
    world.quiet()
    assert "elsewhere" not in deployment(world)
    assert held(world)["digest"] == plan["digest"]
    approve(world)
    running(world, generation=2)
    assert "elsewhere" in deployment(world)


def test_an_approval_is_of_one_plan(world: World) -> None:
    world.start()
    world.apply(agent())
    running(world)
    world.apply(changed(agent(), "spec.model.endpoint", ENDPOINT))
    held(world)
    first = status_of(world)["plan"]["digest"]
    world.apply(changed(agent(), "spec.model.endpoint", "http://third.example.com/v1"))
    until(lambda: held(world)["digest"] != first)
    annotate(world, "helper", approve=first)
    world.quiet()
    assert "third" not in deployment(world)


def marked(mark: str) -> Manifest:
    """Return an Agent that names an Application as its manager, and takes the account of another team."""
    manifest = agent(runtime=TOKEN)
    return {**manifest, "metadata": {**manifest["metadata"], "annotations": {"gitsync.dev/tracking-id": mark}}}


def test_a_forged_mark_opens_no_gate(world: World) -> None:
    world.start()
    for mark in ("x:y", "shop/shop:agents.gitsync.dev/Agent/shop/helper"):
        world.apply(marked(mark))
        held(world)
        assert world.get("Deployment", "helper", api="apps/v1") is None


TOOL = {"name": "tickets", "type": "MCP", "mcp": {"url": "https://tools.example.com/mcp"}}
GUARDED = {**TOOL, "allow": ["find_order", "close_ticket"], "requireApproval": ["close_ticket"]}


def test_a_dashboard_approves_what_was_changed_by_hand(world: World) -> None:
    engine = world.start()
    world.apply(agent(tools=[GUARDED]))
    running(world)
    moved = {**TOOL, "mcp": {"url": "https://elsewhere.example.com/mcp"}}
    world.apply(agent(tools=[moved]))
    digest = held(world)["digest"]
    until(lambda: engine.view.held_owners(), 15)
    (owner,) = engine.view.held_owners()
    assert "elsewhere" not in deployment(world)
    reviews = OwnerReviews(engine.records, engine.requests, engine.clock, engine.policies.of)
    reviews.approve(owner, digest, Approval(User("grace"), "checked"))
    running(world, generation=2)
    until(lambda: not engine.view.held_owners(), 15)


def test_a_tool_that_needs_no_approval_any_more_needs_one_itself(world: World) -> None:
    world.start()
    world.apply(agent(tools=[GUARDED]))
    running(world)
    world.apply(agent(tools=[{**GUARDED, "requireApproval": []}]))
    plan = held(world)
    assert plan["class"] == "Dangerous"
    assert any("a tool no longer needs approval" in reason for reason in plan["reasons"])
    approve(world)
    running(world, generation=2)


def test_a_stop_waits_for_nothing_and_lets_nothing_else_through(world: World) -> None:
    world.start()
    world.apply(agent())
    running(world)
    stopped = changed(agent(), "spec.suspend", True)
    world.apply(changed(stopped, "spec.model.endpoint", ENDPOINT))
    plan = held(world)
    assert not any("stops all replicas" in reason for reason in plan["reasons"])
    until(lambda: (world.get("Deployment", "helper", api="apps/v1") or {})["spec"]["replicas"] == 0)
    assert "elsewhere" not in deployment(world)
    world.apply(stopped)
    until(lambda: status_of(world).get("phase") == "Suspended", 10, lambda: status_of(world))


def test_a_prompt_after_an_approved_endpoint_is_a_prompt(world: World) -> None:
    world.start()
    world.apply(agent())
    running(world)
    moved = changed(agent(), "spec.model.endpoint", ENDPOINT)
    world.apply(moved)
    held(world)
    approve(world)
    running(world, generation=2)
    world.apply(changed(moved, "spec.prompt", {"text": "Sort tickets by urgency."}))
    running(world, generation=3)
