"""An Agent from its spec to children, status and deletion, on a sandbox."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.agents.factories import agent, changed
from tests.flow.environment import World
from tests.operator.agent_world import (
    annotate,
    approve,
    condition,
    config_map,
    delete,
    running,
    secret,
    serving,
    status_of,
    writes,
)
from tests.waiting import until

REVISION = "agents.gitsync.dev/revision"
PROMPT = {"configMapKeyRef": {"name": "prompt", "key": "system.md"}}
KEY = {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "a"}}}


def test_an_agent_becomes_a_running_deployment(world: World) -> None:
    world.start()
    world.apply(agent(replicas=2))
    status = running(world)
    assert (status["ready"], status["replicas"], status["updatedReplicas"]) == ("2/2", 2, 2)
    deployment = world.get("Deployment", "helper", api="apps/v1") or {}
    assert deployment["spec"]["replicas"] == 2
    assert deployment["metadata"]["ownerReferences"][0]["kind"] == "Agent"
    kinds = {child["kind"] for child in status["children"]}
    assert kinds == {"ConfigMap", "Deployment", "NetworkPolicy", "Service", "ServiceAccount"}
    assert all(child["ready"] for child in status["children"]), status["children"]
    assert status["url"] == "http://helper.shop.svc.cluster.local:8080"


def test_deleting_it_deletes_the_children(world: World) -> None:
    world.start()
    world.apply(agent())
    running(world)
    delete(world, "helper")
    until(lambda: world.get("Deployment", "helper", api="apps/v1") is None)
    until(lambda: world.get("Service", "helper") is None)


def test_nothing_is_written_when_nothing_changes(world: World) -> None:
    world.start()
    world.apply(agent(replicas=2))
    running(world)
    world.quiet()  # the status of Pods and Endpoints settles
    before = writes(world)
    world.stop()
    world.start()
    world.quiet()
    assert writes(world) == before


def test_the_newest_records_of_an_agent_are_kept(world: World) -> None:
    """Each pass that writes has one: without a limit they would fill the disk."""
    records = world.start().records
    world.apply(agent(replicas=1))
    running(world)
    (first,) = {record.application for record in records.history()}
    for _ in range(30):
        records.save(replace(records.history(first, limit=1)[0], id=0))
    world.apply(agent(replicas=2))
    until(lambda: status_of(world)["ready"] == "2/2", 30, lambda: status_of(world))
    assert len(records.history(first, limit=100)) == 20


def test_an_edited_child_is_restored(world: World) -> None:
    world.start()
    world.apply(agent())
    running(world)
    found = world.get("Service", "helper") or {}
    changed_service = changed(found, "spec.selector", {"app": "other"})
    path = "/api/v1/namespaces/shop/services/helper"
    world.client.send("PUT", path, changed_service, {"fieldManager": "kubectl-edit"})
    until(lambda: "agents.gitsync.dev/agent" in (world.get("Service", "helper") or {})["spec"]["selector"])


def test_a_changed_prompt_is_a_new_revision(world: World) -> None:
    world.apply(config_map("prompt", **{"system.md": "Be brief."}))
    world.start()
    world.apply(agent(prompt=PROMPT))
    first = running(world)["currentRevision"]
    world.apply(config_map("prompt", **{"system.md": "Be verbose."}))
    until(lambda: status_of(world)["currentRevision"] != first)
    second = running(world)["currentRevision"]
    configs = {child["name"] for child in status_of(world)["children"] if child["name"].startswith("helper-config-")}
    texts = {(world.get("ConfigMap", name) or {})["data"]["prompt.md"] for name in configs}
    assert texts == {"Be brief.", "Be verbose."}
    world.apply(config_map("prompt", **{"system.md": "Be brief."}))
    until(lambda: status_of(world)["currentRevision"] == first, 10, lambda: (second, status_of(world)))


def test_an_agent_waits_for_its_prompt(world: World) -> None:
    world.start()
    world.apply(agent(prompt=PROMPT))
    until(lambda: condition(world, "Reconciling").get("reason") == "WaitingForReferences")
    assert world.get("Deployment", "helper", api="apps/v1") is None
    world.apply(config_map("prompt", **{"system.md": "Be brief."}))
    running(world)


def test_a_rotated_secret_restarts_the_pods_once(world: World) -> None:
    world.apply(secret("keys", a="one"))
    world.start()
    world.apply(agent(runtime={"image": "helper:1", "env": [KEY]}))
    running(world)
    before = serving(world)[REVISION]
    world.apply(secret("keys", a="two"))
    until(lambda: serving(world)[REVISION] != before)
    running(world)
    after = serving(world)[REVISION]
    world.quiet()
    assert serving(world)[REVISION] == after
    stored = str([world.get("Deployment", "helper", api="apps/v1"), status_of(world)])
    assert "b25l" not in stored  # "one" in base64
    assert "dHdv" not in stored


def test_a_missing_service_is_reported_and_does_not_stop_the_agent(world: World) -> None:
    world.start()
    tool = {"name": "tickets", "type": "MCP", "mcp": {"serviceRef": {"name": "tickets-mcp", "port": 8080}}}
    model = {"provider": "OpenAICompatible", "id": "m", "endpoint": "http://llm.shop.svc:8000/v1"}
    world.apply(agent(tools=[tool], model=model))
    message = "Service shop/llm does not exist; Service shop/tickets-mcp does not exist"
    until(lambda: condition(world, "ReferencesResolved").get("message") == message, describe=lambda: status_of(world))
    running(world)
    for name in ("llm", "tickets-mcp"):
        spec = {"selector": {"app": name}, "ports": [{"port": 8080}]}
        world.apply(
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "shop"}, "spec": spec}
        )
    until(lambda: condition(world, "ReferencesResolved")["status"] == "True")


def test_a_missing_reference_is_reported(world: World) -> None:
    world.start()
    world.apply(agent(runtime={"image": "helper:1", "env": [KEY]}))
    until(lambda: condition(world, "ReferencesResolved").get("status") == "False")
    assert condition(world, "ReferencesResolved")["message"] == "Secret keys does not exist"
    world.apply(secret("keys", b="one"))
    until(lambda: "has no member a" in condition(world, "ReferencesResolved")["message"])
    world.apply(secret("keys", a="one"))
    until(lambda: condition(world, "ReferencesResolved")["status"] == "True")


def test_a_foreign_object_of_the_same_name_is_never_changed(world: World) -> None:
    world.apply(config_map("helper-card", x="mine"))
    world.start()
    world.apply(agent())
    until(lambda: condition(world, "Stalled").get("reason") == "ChildConflict")
    assert "ConfigMap shop/helper-card exists" in condition(world, "Stalled")["message"]
    assert (world.get("ConfigMap", "helper-card") or {})["data"] == {"x": "mine"}
    assert world.get("Deployment", "helper", api="apps/v1") is None


def test_a_suspended_agent_has_no_replicas(world: World) -> None:
    world.start()
    world.apply(agent(replicas=2, suspend=True))
    until(lambda: status_of(world).get("phase") == "Suspended")
    world.apply(agent(replicas=2, suspend=False))
    running(world, generation=2)


def test_an_autoscaled_agent_resumes_with_its_fewest_replicas(world: World) -> None:
    scaled = {"autoscaling": {"minReplicas": 2, "maxReplicas": 4}}
    world.start()
    world.apply(agent(**scaled))
    running(world)
    world.apply(agent(suspend=True, **scaled))
    until(lambda: status_of(world)["phase"] == "Suspended", 15, lambda: status_of(world))
    world.apply(agent(suspend=False, **scaled))
    assert running(world, generation=3)["ready"] == "2/2"


def test_an_agent_that_is_scaled_to_zero_is_ready(world: World) -> None:
    world.start()
    world.apply(agent(replicas=0))
    ready = until(lambda: (found := condition(world, "Ready")).get("reason") == "ScaledToZero" and found)
    assert (ready["status"], ready["message"]) == ("True", "0 of 0 replicas are ready")


def test_a_restart_replaces_the_pods(world: World) -> None:
    world.start()
    world.apply(agent())
    first = running(world)["currentRevision"]
    annotate(world, "helper", restarted_at="2026-01-01T00:00:00Z")
    until(lambda: status_of(world)["currentRevision"] != first)
    running(world)


def test_a_retained_volume_outlives_the_agent_and_is_used_again(world: World) -> None:
    volume = {"name": "data", "mountPath": "/data", "size": "1Gi", "accessModes": ["ReadWriteMany"]}
    world.start()
    world.apply(agent(state={"volumes": [volume]}))
    running(world)
    claim = world.get("PersistentVolumeClaim", "helper-data") or {}
    delete(world, "helper")
    until(lambda: world.get("Deployment", "helper", api="apps/v1") is None)
    world.apply(agent(state={"volumes": [volume]}))
    running(world)
    again = world.get("PersistentVolumeClaim", "helper-data") or {}
    assert again["metadata"]["uid"] == claim["metadata"]["uid"]


def test_a_retained_volume_is_deleted_with_the_agent_once_the_spec_wants_it(world: World) -> None:
    volume = {"name": "data", "mountPath": "/data", "size": "1Gi", "accessModes": ["ReadWriteMany"]}
    world.start()
    for generation, policy in enumerate(("Delete", "Retain", "Delete"), 1):
        world.apply(agent(state={"volumes": [{**volume, "onDelete": policy}]}))
        if generation == 3:  # what was to outlive the Agent may be lost from now on
            plan = until(lambda: status_of(world).get("plan"), 10, lambda: status_of(world))
            assert any("its volumes will be deleted" in reason for reason in plan["reasons"])
            approve(world)
        running(world, generation=generation)
    delete(world, "helper")
    until(lambda: world.get("PersistentVolumeClaim", "helper-data") is None)


def test_a_claim_of_others_is_no_volume_of_the_agent(world: World) -> None:
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    metadata = {"name": "helper-data", "namespace": "shop"}
    world.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec})
    world.start()
    volume = {
        "name": "data",
        "mountPath": "/data",
        "size": "1Gi",
        "onDelete": "Delete",
        "accessModes": ["ReadWriteMany"],
    }
    world.apply(agent(state={"volumes": [volume]}))
    until(lambda: condition(world, "Stalled").get("reason") == "ChildConflict")


def test_the_replicas_of_an_autoscaler_are_never_reset(world: World) -> None:
    world.start()
    world.apply(agent(replicas=3))
    running(world)
    world.apply(changed(agent(autoscaling={"minReplicas": 1, "maxReplicas": 5}), "spec.replicas", None))
    until(lambda: world.get("HorizontalPodAutoscaler", "helper", api="autoscaling/v2"))
    until(lambda: status_of(world)["observedGeneration"] == 2)
    assert (world.get("Deployment", "helper", api="apps/v1") or {})["spec"]["replicas"] == 3


def test_events_report_what_happened(world: World) -> None:
    world.start()
    world.apply(agent())
    running(world)

    def reasons() -> set[str]:
        events = world.client.get("/api/v1/namespaces/shop/events")["items"]
        return {event["reason"] for event in events if event["involvedObject"]["kind"] == "Agent"}

    until(lambda: reasons() >= {"NewRevision", "AllReplicasReady"}, describe=reasons)


@pytest.mark.parametrize("path", ["spec.model.endpoint"])
def test_a_dangerous_change_by_hand_waits_for_approval(world: World, path: str) -> None:
    world.start()
    world.apply(agent())
    running(world)
    world.apply(changed(agent(), path, "http://elsewhere.example.com/v1"))
    until(lambda: condition(world, "Reconciling").get("reason") == "AwaitingApproval")
    assert "elsewhere" not in str(world.get("Deployment", "helper", api="apps/v1"))
    approve(world)
    running(world, generation=2)
    assert "elsewhere" in str(world.get("Deployment", "helper", api="apps/v1"))
    assert "plan" not in status_of(world)


def test_only_a_changed_key_of_a_secret_restarts_an_agent(world: World) -> None:
    keys = secret("keys", a="1", b="1")
    world.apply(keys)
    world.start()
    world.apply(agent(runtime={"image": "registry.internal/agents/helper:1.0", "env": [KEY]}))
    first = running(world)["currentRevision"]
    world.apply({**keys, "metadata": {**keys["metadata"], "labels": {"team": "support"}}})
    world.apply(secret("keys", a="1", b="2"))
    world.client.send("DELETE", "/api/v1/namespaces/shop/secrets/keys", {})
    until(lambda: condition(world, "ReferencesResolved").get("status") == "False", 10, lambda: status_of(world))
    assert "Secret keys does not exist" in condition(world, "ReferencesResolved")["message"]
    world.apply(keys)
    until(lambda: condition(world, "ReferencesResolved").get("status") == "True", 10, lambda: status_of(world))
    assert status_of(world)["updateRevision"] == first
    world.apply(secret("keys", a="2", b="1"))
    until(lambda: status_of(world)["updateRevision"] != first, 10, lambda: status_of(world))


def test_what_git_permits_of_a_spec_is_no_loss_of_data(world: World) -> None:
    modes = ["ReadWriteMany"]
    volume = {"name": "tmp", "mountPath": "/tmpd", "size": "1Gi", "onDelete": "Delete", "accessModes": modes}
    drain = {"drain": {"timeoutSeconds": 1}}
    # Without approvals of the Application: its gate lets everything of the spec through.
    world.application("shop", destination={"namespace": "shop"}, risk={"approval": "Never"})
    world.start()
    for state in ({"volumes": [volume]}, {}):
        declared = json.dumps(agent(lifecycle=drain, state=state))
        world.synced(world.repo.commit("Change helper", {"shop/helper.yaml": declared}), "shop", 30)
        live = world.get("Agent", "helper", "shop", "agents.gitsync.dev/v1alpha1") or {}
        running(world, generation=live["metadata"]["generation"])
    plan = until(lambda: status_of(world).get("plan"), 60, lambda: status_of(world))
    assert (plan["class"], plan["steps"]) == ("Dangerous", 1)
    assert plan["reasons"] == ["1 dangerous step waits for an approval"]
    assert "deletionTimestamp" not in (world.get("PersistentVolumeClaim", "helper-tmp") or {})["metadata"]
    approve(world)
    until(lambda: world.get("PersistentVolumeClaim", "helper-tmp") is None, 30, lambda: status_of(world))


def test_a_removed_volume_is_deleted_by_an_approval_of_its_own(world: World) -> None:
    volume = {
        "name": "tmp",
        "mountPath": "/tmpd",
        "size": "1Gi",
        "onDelete": "Delete",
        "accessModes": ["ReadWriteMany"],
    }
    drain = {"drain": {"timeoutSeconds": 1}}
    world.start()
    world.apply(agent(state={"volumes": [volume]}, lifecycle=drain))
    running(world)
    world.apply(agent(lifecycle=drain))
    running(world, generation=2)
    plan = until(lambda: status_of(world).get("plan"), 60, lambda: status_of(world))
    assert (plan["class"], plan["steps"]) == ("Dangerous", 1)
    assert world.get("PersistentVolumeClaim", "helper-tmp") is not None
    approve(world)
    until(lambda: world.get("PersistentVolumeClaim", "helper-tmp") is None, 30, lambda: status_of(world))
    until(lambda: "plan" not in status_of(world), 10, lambda: status_of(world))
