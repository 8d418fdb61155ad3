"""A commit that names an object of another team shows nothing of it."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitsync.gate.policy import Policy
from gitsync.objects.change import Action
from gitsync.sandbox.server import Sandbox
from tests.flow.environment import World
from tests.waiting import until

CANARY = "canary-of-the-bank"
GUESS = """\
apiVersion: v1
kind: %s
metadata: {name: keys, namespace: bank}
data: {a: %s}
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with Sandbox() as sandbox:
        made = World(tmp_path, sandbox, policy=Policy(name="shop", namespaces=("shop",)))
        made.namespace("shop")
        made.namespace("bank")
        yield made
        made.close()


@pytest.mark.parametrize(
    ("kind", "value", "guess"),
    [
        ("ConfigMap", CANARY, "guess"),
        ("Secret", base64.b64encode(CANARY.encode()).decode(), base64.b64encode(CANARY.encode()).decode()),
    ],
)
def test_an_object_that_the_policy_rejects_is_not_read(world: World, kind: str, value: str, guess: str) -> None:
    world.apply(
        {"apiVersion": "v1", "kind": kind, "metadata": {"name": "keys", "namespace": "bank"}, "data": {"a": value}}
    )
    world.repo.commit("Guess", {"shop/guess.yaml": GUESS % (kind, guess)})
    world.application()
    world.start()

    until(lambda: "namespace bank is not allowed" in str(world.condition("Ready").get("message")), 20, world.status)
    view = world.view()
    [change] = view.plan.changes if view.plan else ()
    assert (change.live, change.differences, change.action) == (None, (), Action.NOTHING)
    assert "namespace bank is not allowed by policy shop" in change.unobserved
    assert CANARY not in repr(view)


def test_what_was_applied_before_stays_in_the_inventory(world: World) -> None:
    world.allow(Policy(name="all"))
    world.start()
    world.application()
    world.synced(world.repo.commit("Open", {"shop/a.yaml": GUESS % ("ConfigMap", "x")}))
    world.stop()
    world.allow(Policy(name="shop", namespaces=("shop",)))
    world.start()

    until(lambda: "namespace bank is not allowed" in str(world.condition("Ready").get("message")), 20, world.status)
    assert "bank/keys" in str(world.status()["inventory"])
