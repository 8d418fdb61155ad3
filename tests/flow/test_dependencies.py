"""What an application needs beside its objects: other applications, its namespace, health of kinds of its own."""

from __future__ import annotations

from tests.flow.environment import NAMESPACE, World
from tests.flow.factories import WIDGET, WIDGETS, config_map
from tests.waiting import until


def test_an_application_waits_for_those_it_depends_on(world: World) -> None:
    world.namespace("base")
    first = world.repo.commit("first", {"base/Broken.yaml": config_map("Not_A_Name"), "shop/a.yaml": config_map("a")})
    world.application("base")
    world.application(dependsOn=[{"name": "base"}])
    world.start()
    until(
        lambda: "depends on Application gitsync/base" in world.condition("Ready").get("message", ""), 10, world.status
    )
    world.quiet()
    assert world.get("ConfigMap", "a") is None
    assert world.status()["revision"].get("applied") != first
    second = world.repo.commit("fixed", {"base/Broken.yaml": config_map("fine")})
    world.synced(second, timeout=20)


def test_a_cycle_of_dependencies_is_said_and_applies_nothing(world: World) -> None:
    world.namespace("base")
    world.repo.commit("first", {"base/b.yaml": config_map("b"), "shop/a.yaml": config_map("a")})
    world.application("base", dependsOn=[{"name": "shop"}])
    world.application(dependsOn=[{"name": "base"}])
    world.start()
    until(lambda: "is a cycle" in world.condition("Ready").get("message", ""), 10, world.status)
    assert "gitsync/shop → gitsync/base → gitsync/shop" in world.condition("Ready")["message"]
    assert world.get("ConfigMap", "a") is None


def test_the_destination_is_created_when_asked_and_outlives_its_application(world: World) -> None:
    commit = world.repo.commit("first", {"shop/a.yaml": config_map("a"), "second/b.yaml": config_map("b")})
    world.application(destination={"namespace": "new", "createNamespace": True})
    world.application("second", destination={"namespace": "new", "createNamespace": True})
    world.start()
    until(lambda: world.get("ConfigMap", "a", "new"), 10, world.status)
    world.client.send("DELETE", f"/apis/gitsync.dev/v1alpha1/namespaces/{NAMESPACE}/applications/second", {})
    world.synced(commit)
    world.client.send("DELETE", f"/apis/gitsync.dev/v1alpha1/namespaces/{NAMESPACE}/applications/shop", {})
    until(lambda: world.get("Application", "shop", NAMESPACE, "gitsync.dev/v1alpha1") is None, 10, world.status)
    assert world.get("ConfigMap", "a", "new") is None
    namespace = world.get("Namespace", "new", "")
    assert namespace is not None
    assert "deletionTimestamp" not in namespace["metadata"]


def test_a_namespace_in_git_is_no_exception_to_cluster_scope(world: World) -> None:
    namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: new, labels: {x: y}}\n"
    world.repo.commit("first", {"shop/a.yaml": config_map("a"), "shop/n.yaml": namespace})
    world.application(destination={"namespace": "new", "createNamespace": True})
    world.start()
    until(lambda: world.status().get("phase") == "Failed", 10, world.status)
    assert world.get("Namespace", "new", "") is None


def test_a_kind_is_as_healthy_as_the_applications_own_check_says(world: World) -> None:
    commit = world.repo.commit("first", {"shop/crd.yaml": WIDGETS, "shop/widget.yaml": WIDGET})
    world.grant("CustomResourceDefinition")
    world.application(
        destination={"namespace": "shop", "allowClusterScoped": True},
        risk={"approval": "Never"},
        healthChecks=[
            {
                "group": "example.com",
                "kind": "Widget",
                "current": "object.metadata.annotations['state'] == 'fine'",
                "failed": "object.metadata.annotations['state'] == 'broken'",
            }
        ],
    )
    world.start()
    world.synced(commit, timeout=20)
    world.cluster.definitions_changed()
    until(lambda: world.status()["health"] == "Progressing", 10, world.status)
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "shop"}}
    for state, health in (("fine", "Healthy"), ("broken", "Degraded")):
        metadata = {**widget["metadata"], "annotations": {"state": state}}  # type: ignore[dict-item]
        world.apply({**widget, "metadata": metadata})
        until(lambda health=health: world.status()["health"] == health, 10, world.status)


def test_a_check_that_is_no_expression_is_said(world: World) -> None:
    world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1")})
    world.application(healthChecks=[{"kind": "ConfigMap", "current": "object.data.x =="}])
    world.start()
    until(lambda: "is not valid CEL" in world.condition("Ready").get("message", ""), 10, world.status)
