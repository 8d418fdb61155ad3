"""What the controller of an agent platform creates is shown below the object that Git declares."""

from __future__ import annotations

from typing import Any

from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ObjectRef
from gitsync.render.yaml.reader import read_all
from gitsync.server.queries.graph import graph
from gitsync.server.queries.tree import TreeNode, tree
from tests.flow.environment import NAMESPACE, World
from tests.flow.factories import deployment
from tests.operator.surroundings import define
from tests.waiting import until

AGENT = (
    "apiVersion: kagent.dev/v1\nkind: Agent\nmetadata: {name: helper, namespace: shop}\nspec: {description: helps}\n"
)
KEY = f"{NAMESPACE}/shop"


def owned_deployment(owner: Manifest) -> Manifest:
    """Return the Deployment that the controller of kagent would create."""
    found: Manifest = read_all(deployment("helper"), "helper.yaml")[0]
    reference = {"apiVersion": owner["apiVersion"], "kind": "Agent", "name": "helper", "controller": True}
    owners = [{**reference, "uid": owner["metadata"]["uid"]}]
    return {**found, "metadata": {**found["metadata"], "namespace": "shop", "ownerReferences": owners}}


def below(nodes: tuple[TreeNode, ...]) -> list[str]:
    return [kind for node in nodes for kind in (node.kind, *below(node.children))]


def test_the_parts_of_a_platform_are_followed_down_to_their_pods(world: World) -> None:
    define(world, "kagent.dev", "Agent")
    commit = world.repo.commit("agent", {"shop/agent.yaml": AGENT})
    world.application()
    world.start()
    world.synced(commit)
    live = until(lambda: world.get("Agent", "helper", api="kagent.dev/v1"))
    world.apply(owned_deployment(live), manager="kagent")

    def parts() -> list[str]:
        groups, _ = tree(world.view().resources, world.controller.view.owned_by)
        return [kind for kind in below(groups) if kind != "Agent"]

    until(lambda: "Pod" in parts(), 15, parts)
    assert {"Deployment", "ReplicaSet", "Pod"} <= set(parts())
    shown = graph(world.view().resources, world.controller.view.owned_by, "health")
    assert {"Deployment", "ReplicaSet", "Pod"} <= {node.kind for node in shown.nodes}
    until(lambda: _shown_part(world, "apps", "Deployment") == "helper", 30)
    # the Pod is asked for again each time: the watch is behind the API server by a moment
    until(lambda: _shown_part(world, "", "Pod").startswith("helper-"), 30)


def _shown_part(world: World, group: str, kind: str) -> str:
    """Return the name of the first object of a kind in the cluster that is also shown, empty where it is not yet."""
    name = _names(world, group, kind)[0]
    live = world.controller.view.live(KEY, ObjectRef(group, kind, "shop", name))
    return live["metadata"]["name"] if live is not None else ""


def _names(world: World, group: str, kind: str) -> list[str]:
    path = f"/apis/{group}/v1" if group else "/api/v1"
    items: list[dict[str, Any]] = world.client.get(f"{path}/namespaces/shop/{kind.lower()}s")["items"]
    return [item["metadata"]["name"] for item in items]
