"""Endpoints and EndpointSlices: which pods answer for a Service, at which ports."""

from __future__ import annotations

from typing import Any

from gitsync.objects.manifest import Manifest, at, labels_of
from tests.sandbox.controllers.cluster import NAMESPACE, World, deployment, pod


def service(selector: dict[str, str] | None = None, **spec: Any) -> Manifest:
    ports = [{"port": 80, "targetPort": 8080, "protocol": "TCP"}]
    given = {"ports": ports, "type": "ClusterIP", "selector": selector or {"app": "web"}, **spec}
    metadata = {"name": "web", "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": given}


def slice_of(world: World) -> Manifest:
    (found,) = [
        each
        for each in world.list("discovery.k8s.io", "EndpointSlice")
        if labels_of(each)["kubernetes.io/service-name"] == "web"
    ]
    return found


def addresses(world: World) -> list[str]:
    subsets = world.get("", "Endpoints", "web").get("subsets") or []
    return [each["ip"] for subset in subsets for each in subset.get("addresses") or ()]


def test_ready_pods_answer(world: World) -> None:
    world.create(service())
    world.create(deployment())
    world.advance(3)
    expected = [each["status"]["podIP"] for each in world.pods()]
    assert sorted(addresses(world)) == sorted(expected)
    found = slice_of(world)
    assert sorted(at(each, "addresses", 0) for each in found["endpoints"]) == sorted(expected)
    assert all(each["conditions"]["ready"] for each in found["endpoints"])
    assert [(each["port"], each["protocol"]) for each in found["ports"]] == [(8080, "TCP")]
    assert found["metadata"]["ownerReferences"][0]["kind"] == "Service"


def test_a_pod_that_is_not_ready_does_not(world: World) -> None:
    world.create(service())
    world.create(pod("web:crash"))
    world.advance(3)
    assert addresses(world) == []
    assert world.get("", "Endpoints", "web")["subsets"][0]["notReadyAddresses"]
    assert [each["conditions"]["ready"] for each in slice_of(world)["endpoints"]] == [False]


def test_a_pod_that_goes_or_loses_the_label_is_left_out(world: World) -> None:
    world.create(service())
    world.create(pod(name="a"))
    world.create(pod(name="b"))
    world.advance(2)
    assert len(addresses(world)) == 2
    world.delete("", "Pod", "a")
    world.patch("", "Pod", "b", {"metadata": {"labels": {"app": "other"}}})
    world.advance(2)
    assert addresses(world) == []
    assert not slice_of(world).get("endpoints")


def test_named_ports_are_looked_up_in_the_pods(world: World) -> None:
    world.create(service(ports=[{"name": "http", "port": 80, "targetPort": "web", "protocol": "TCP"}]))
    ports = [{"name": "web", "containerPort": 9090}]
    world.create(pod(containers=[{"name": "main", "image": "web:1", "ports": ports}]))
    world.advance(2)
    assert world.get("", "Endpoints", "web")["subsets"][0]["ports"] == [
        {"name": "http", "port": 9090, "protocol": "TCP"}
    ]


def test_both_objects_go_with_the_service_and_come_back_when_deleted(world: World) -> None:
    world.create(service())
    world.advance(1)
    world.delete("", "Endpoints", "web")
    world.delete("discovery.k8s.io", "EndpointSlice", slice_of(world)["metadata"]["name"])
    world.advance(1)
    assert not world.absent("", "Endpoints", "web")
    assert slice_of(world)
    world.delete("", "Service", "web")
    world.advance(1)
    assert world.absent("", "Endpoints", "web")
    assert world.list("discovery.k8s.io", "EndpointSlice") == []


def test_a_service_without_selector_is_left_to_its_user(world: World) -> None:
    manifest = service()
    del manifest["spec"]["selector"]
    world.create(manifest)
    world.advance(1)
    assert world.absent("", "Endpoints", "web")
