"""Namespaces: their first content, and their end."""

from __future__ import annotations

from tests.sandbox.controllers.cluster import NAMESPACE, World, conditions, config_map, deployment


def test_each_namespace_has_a_service_account_and_the_root_certificate(world: World) -> None:
    assert "managedFields" not in world.get("", "ServiceAccount", "default")["metadata"]
    assert "ca.crt" in world.get("", "ConfigMap", "kube-root-ca.crt")["data"]
    world.delete("", "ServiceAccount", "default")
    world.advance(0.1)
    assert not world.absent("", "ServiceAccount", "default")
    world.patch("", "ConfigMap", "kube-root-ca.crt", {"data": {"ca.crt": "mine"}})
    world.advance(0.1)
    assert world.get("", "ConfigMap", "kube-root-ca.crt")["data"] == {"ca.crt": ""}


def test_a_namespace_goes_with_all_its_content(world: World) -> None:
    world.create(deployment())
    world.advance(3)
    world.delete("", "Namespace", NAMESPACE, namespace="")
    world.advance(5)
    assert list(world.api.everything(NAMESPACE)) == []
    assert world.absent("", "Namespace", NAMESPACE, namespace="")


def test_what_is_left_is_told_in_conditions(world: World) -> None:
    world.create(config_map("held", finalizers=["x.example.com/hold"]))
    world.create(config_map("free"))
    world.delete("", "Namespace", NAMESPACE, namespace="")
    world.advance(0.1)
    live = world.get("", "Namespace", NAMESPACE, namespace="")
    assert conditions(live) == [
        ("NamespaceDeletionDiscoveryFailure", "False", "ResourcesDiscovered"),
        ("NamespaceDeletionGroupVersionParsingFailure", "False", "ParsedGroupVersions"),
        ("NamespaceDeletionContentFailure", "False", "ContentDeleted"),
        ("NamespaceContentRemaining", "True", "SomeResourcesRemain"),
        ("NamespaceFinalizersRemaining", "True", "SomeFinalizersRemain"),
    ]
    messages = [each["message"] for each in live["status"]["conditions"]]
    assert messages[3] == "Some resources are remaining: configmaps. has 1 resource instances"
    assert messages[4] == (
        "Some content in the namespace has finalizers remaining: x.example.com/hold in 1 resource instances"
    )
    assert world.absent("", "ConfigMap", "free")
    world.patch("", "ConfigMap", "held", {"metadata": {"finalizers": None}})
    world.advance(1)
    assert world.absent("", "Namespace", NAMESPACE, namespace="")


def test_a_held_namespace_is_not_written_again_and_again(world: World) -> None:
    world.create(config_map("held", finalizers=["x.example.com/hold"]))
    world.delete("", "Namespace", NAMESPACE, namespace="")
    world.advance(1)
    before = world.writes
    world.advance(60)
    assert world.writes == before
