"""ClusterRole aggregation: rules follow the roles that the labels select."""

from __future__ import annotations

from gitsync.objects.manifest import Manifest
from tests.sandbox.controllers.cluster import World

GROUP = "rbac.authorization.k8s.io"


def role(name: str, resources: str, labels: dict[str, str] | None = None) -> Manifest:
    rule = {"apiGroups": [""], "resources": [resources], "verbs": ["get"]}
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": labels or {"part": "yes"}},
        "rules": [rule],
    }


def aggregated() -> Manifest:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "all"},
        "rules": [],
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"part": "yes"}}]},
    }


def resources(world: World) -> list[str]:
    rules = world.get(GROUP, "ClusterRole", "all", namespace="").get("rules") or []
    return [each["resources"][0] for each in rules]


def test_rules_are_joined_and_follow_changes(world: World) -> None:
    world.create(aggregated())
    world.create(role("b", "pods"))
    world.create(role("a", "secrets"))
    world.create(role("c", "nodes", {"part": "no"}))
    world.advance(0.1)
    assert resources(world) == ["secrets", "pods"]
    world.delete(GROUP, "ClusterRole", "a", namespace="")
    world.advance(0.1)
    assert resources(world) == ["pods"]


def test_the_controller_applies_the_rules_under_its_own_name(world: World) -> None:
    world.create(aggregated())
    world.create(role("a", "secrets"))
    world.advance(0.1)
    entries = world.get(GROUP, "ClusterRole", "all", namespace="")["metadata"]["managedFields"]
    applied = [each for each in entries if each["operation"] == "Apply"]
    assert [(each["manager"], each["fieldsV1"]) for each in applied] == [
        ("clusterrole-aggregation-controller", {"f:rules": {}})
    ]


def test_a_role_that_aggregates_nothing_keeps_its_rules(world: World) -> None:
    world.create(role("all", "pods"))
    world.advance(0.1)
    assert resources(world) == ["pods"]
