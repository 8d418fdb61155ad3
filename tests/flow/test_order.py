"""Stages, waves, approvals and moves between applications."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tests.flow.environment import NAMESPACE, World
from tests.flow.factories import WIDGET, WIDGETS, config_map, deployment
from tests.review_factories import approval, keep, rejection
from tests.waiting import until

SPACE = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: shop-space\n"


def with_annotation(text: str, key: str, value: str) -> str:
    return text.replace("metadata:\n", f'metadata:\n  annotations:\n    {key}: "{value}"\n', 1)


def steps(world: World, number: int = 0) -> list[str]:
    record = world.controller.records.history(f"{NAMESPACE}/shop")[number]
    return [step.ref for step in record.steps]


def test_a_definition_and_its_object_arrive_in_one_commit(world: World) -> None:
    commit = world.repo.commit("widgets", {"shop/crd.yaml": WIDGETS, "shop/widget.yaml": WIDGET})
    world.grant("CustomResourceDefinition")
    world.application(destination={"namespace": "shop", "allowClusterScoped": True}, risk={"approval": "Never"})
    world.start()
    world.synced(commit)
    world.cluster.definitions_changed()
    found = world.get("Widget", "w", api="example.com/v1")
    assert found is not None
    assert found["spec"] == {"size": 3}
    assert steps(world) == [
        "apiextensions.k8s.io/CustomResourceDefinition//widgets.example.com",
        "example.com/Widget/shop/w",
    ]


def test_a_namespace_and_what_is_in_it_arrive_in_one_commit(world: World) -> None:
    inside = config_map("a", x="1").replace("  name: a\n", "  name: a\n  namespace: shop-space\n")
    commit = world.repo.commit("space", {"shop/space.yaml": SPACE, "shop/a.yaml": inside})
    world.grant("Namespace")
    world.application(destination={"namespace": "shop", "allowClusterScoped": True})
    world.start()
    world.synced(commit)
    assert world.get("ConfigMap", "a", "shop-space") is not None


def test_the_failure_names_what_was_refused_and_counts_what_was_not_tried(world: World) -> None:
    refused = SPACE + "  labels:\n    team: not a label\n"
    inside = {
        f"shop/{name}.yaml": config_map(name, x="1").replace(
            f"  name: {name}\n", f"  name: {name}\n  namespace: shop-space\n"
        )
        for name in ("a", "b")
    }
    world.repo.commit("space", {"shop/space.yaml": refused, **inside})
    world.grant("Namespace")
    world.application(destination={"namespace": "shop", "allowClusterScoped": True})
    world.start()
    until(lambda: "labels" in world.condition("Ready").get("message", ""))
    record = until(lambda: next(iter(world.controller.records.history(f"{NAMESPACE}/shop")), None))
    assert record.message.startswith("Namespace shop-space: ")
    assert record.message.endswith("; 2 not tried")
    assert world.condition("Ready")["message"].startswith("Namespace shop-space: ")


def test_a_later_wave_waits_until_the_earlier_one_is_healthy(world: World) -> None:
    first = with_annotation(deployment("first"), "gitsync.dev/sync-wave", "1")
    second = with_annotation(config_map("second", x="1"), "gitsync.dev/sync-wave", "2")
    commit = world.repo.commit("waves", {"shop/first.yaml": first, "shop/second.yaml": second})
    world.application()
    world.start()
    world.synced(commit)
    made = world.get("ConfigMap", "second")
    assert made is not None
    pods = world.client.get("/api/v1/namespaces/shop/pods")["items"]
    assert pods
    assert all(
        condition["status"] == "True"
        for pod in pods
        for condition in pod["status"]["conditions"]
        if condition["type"] == "Ready"
    )
    records = world.controller.records.history(f"{NAMESPACE}/shop")
    assert [record.outcome.value for record in records] == ["Succeeded"], "one sync, however many looks it took"
    assert steps(world) == ["apps/Deployment/shop/first", "/ConfigMap/shop/second"]


def test_a_wave_that_never_gets_healthy_holds_the_next_and_a_newer_commit_supersedes_it(world: World) -> None:
    crash = with_annotation(deployment("first", image="web:crash"), "gitsync.dev/sync-wave", "1")
    second = with_annotation(config_map("second", x="1"), "gitsync.dev/sync-wave", "2")
    world.repo.commit("waves", {"shop/first.yaml": crash, "shop/second.yaml": second})
    world.application()
    world.start()
    until(lambda: "waits for" in world.condition("Reconciling").get("message", ""), 10, world.status)
    world.in_phase("Executing")
    assert world.get("ConfigMap", "second") is None
    well = with_annotation(deployment("first", image="web:2"), "gitsync.dev/sync-wave", "1")
    commit = world.repo.commit("well", {"shop/first.yaml": well})
    world.synced(commit, timeout=20)
    assert world.get("ConfigMap", "second") is not None
    outcomes = [record.outcome.value for record in world.controller.records.history(f"{NAMESPACE}/shop")]
    assert outcomes == ["Succeeded", "Superseded"]


def test_a_dangerous_plan_waits_for_an_approval_of_exactly_this_plan(world: World) -> None:
    claim: dict[str, Any] = {"shop/a.yaml": config_map("a", x="1"), "shop/claim.yaml": CLAIM}
    first = world.repo.commit("claim", claim)
    world.application()
    world.start()
    world.synced(first)
    second = world.repo.commit("no claim", {"shop/claim.yaml": None})
    until(lambda: world.status()["phase"] == "AwaitingApproval", 5, world.status)
    assert world.get("PersistentVolumeClaim", "data") is not None
    assert world.status()["plan"]["dangerous"] == 1
    plan = world.view().plan
    assert plan is not None
    records = world.controller.records
    keep(records, f"{NAMESPACE}/shop", "another-digest", approval("bob"))
    world.controller.requests.request_sync(f"{NAMESPACE}/shop", "bob")
    until(lambda: not world.controller.requests.queue_length())
    assert world.get("PersistentVolumeClaim", "data") is not None
    keep(records, f"{NAMESPACE}/shop", plan.digest, rejection("bob", "we need it"))
    world.controller.requests.request_sync(f"{NAMESPACE}/shop", "bob")
    until(lambda: world.status()["phase"] == "Rejected", 5, world.status)
    assert world.condition("Ready")["message"] == "rejected by bob: we need it"
    assert (world.condition("Ready")["reason"], world.condition("Stalled")["status"]) == ("Rejected", "True")
    keep(records, f"{NAMESPACE}/shop", plan.digest, approval("ada"))
    world.controller.requests.request_sync(f"{NAMESPACE}/shop", "ada")
    world.synced(second)
    record = records.history(f"{NAMESPACE}/shop")[0]
    assert record.approver == "ada"
    assert records.review(f"{NAMESPACE}/shop", plan.digest, datetime.now(UTC)) is None


CLAIM = """apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: data
spec:
  accessModes: [ReadWriteOnce]
  resources:
    requests:
      storage: 1Gi
"""


def test_an_object_that_moves_to_another_application_is_not_deleted(world: World) -> None:
    files: dict[str, str | None] = {
        "shop/a.yaml": config_map("a", x="1"),
        "shop/moved.yaml": config_map("moved", x="1"),
        "mall/b.yaml": config_map("b", x="1"),
    }
    first = world.repo.commit("before", files)
    world.application("shop")
    world.application("mall", destination={"namespace": "shop"}, sync={"interval": "1h"})
    world.start()
    world.synced(first)
    world.synced(first, "mall")
    before = world.get("ConfigMap", "moved")
    assert before is not None
    second = world.repo.commit("after", {"shop/moved.yaml": None, "mall/moved.yaml": config_map("moved", x="1")})
    world.synced(second)
    world.synced(second, "mall")
    after = world.get("ConfigMap", "moved")
    assert after is not None
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["metadata"]["labels"]["gitsync.dev/application"] == "mall"
    held = lambda name: {entry["id"] for entry in world.status(name)["inventory"]}  # noqa: E731
    until(lambda: held("shop") == {"/ConfigMap/shop/a"}, 5, world.status)
    until(lambda: held("mall") == {"/ConfigMap/shop/b", "/ConfigMap/shop/moved"}, 5, lambda: world.status("mall"))


def test_a_second_application_that_claims_an_object_is_refused_before_its_first_write(world: World) -> None:
    first = world.repo.commit(
        "rivals", {"shop/a.yaml": config_map("a", x="1"), "mall/a.yaml": config_map("a", x="2"), "mall/b.yaml": MALL}
    )
    world.application("shop")
    world.start()
    world.synced(first)
    world.application("mall", destination={"namespace": "shop"})
    until(lambda: world.status("mall").get("phase") == "Failed", 5, lambda: world.status("mall"))
    assert "gitsync/shop" in world.condition("Ready", "mall")["message"]
    found = world.get("ConfigMap", "a")
    assert found is not None
    assert found["data"] == {"x": "1"}
    assert world.get("ConfigMap", "b") is None


MALL = config_map("b", x="1")


def test_an_empty_render_prunes_nothing(world: World) -> None:
    listed = "resources: [a.yaml, b.yaml]\n"
    first = world.repo.commit(
        "full",
        {
            "shop/kustomization.yaml": listed,
            "shop/a.yaml": config_map("a", x="1"),
            "shop/b.yaml": with_annotation(config_map("b", x="1"), "config.kubernetes.io/local-config", "true"),
        },
    )
    world.application()
    world.start()
    world.synced(first)
    world.repo.commit("empty", {"shop/kustomization.yaml": "resources: [b.yaml]\n"})
    until(lambda: world.status().get("phase") == "AwaitingApproval", 5, world.status)
    assert "the render is empty" in world.condition("Ready")["message"]
    assert world.get("ConfigMap", "a") is not None


def test_deleting_an_application_asks_before_it_deletes_a_volume(world: World) -> None:
    first = world.repo.commit("claim", {"shop/a.yaml": config_map("a", x="1"), "shop/claim.yaml": CLAIM})
    world.application()
    world.start()
    world.synced(first)
    world.client.send("DELETE", f"/apis/gitsync.dev/v1alpha1/namespaces/{NAMESPACE}/applications/shop", {})
    until(lambda: world.status().get("phase") == "AwaitingApproval", 5, world.status)
    assert world.get("ConfigMap", "a") is not None
    assert world.get("PersistentVolumeClaim", "data") is not None
    plan = world.view().plan
    assert plan is not None
    keep(world.controller.records, f"{NAMESPACE}/shop", plan.digest, approval("ada"))
    world.controller.requests.request_sync(f"{NAMESPACE}/shop", "ada")
    until(lambda: world.get("Application", "shop", NAMESPACE, "gitsync.dev/v1alpha1") is None, 10, world.status)
    assert world.get("PersistentVolumeClaim", "data") is None
    assert world.get("ConfigMap", "a") is None
