"""What others change in the cluster is restored at once with the default settings, and never taken for Git's."""

from __future__ import annotations

from typing import Any

import pytest

from gitsync.objects.manifest import Manifest, content_hash
from gitsync.plan.drift_history import DRIFT_ACTION, past_fields
from tests.agents.factories import agent, member, system
from tests.contract.manifests import manifest
from tests.contract.stage import Stage, eventually

API = "apps/v1"
AGENTS = "agents.gitsync.dev/v1alpha1"
DEFAULTS = {"approval": "Dangerous"}
MODEL = "http://model/v1"
EVIL = "http://evil/v1"
DENY = {"kind": "Deny", "schedule": "* * * * *", "duration": "1h"}


def web(endpoint: str = MODEL, replicas: int = 2) -> Manifest:
    """Return a Deployment with an endpoint, hardened as the restricted profile wants it."""
    container = {
        "name": "web",
        "image": "web:1",
        "env": [{"name": "MODEL_ENDPOINT", "value": endpoint}],
        "securityContext": {"allowPrivilegeEscalation": False},
    }
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return manifest(API, "Deployment", "web", spec=spec)


SERVICE = manifest(
    "v1",
    "Service",
    "web",
    spec={
        "selector": {"app": "web"},
        "ports": [{"name": "http", "port": 80}, {"name": "https", "port": 443}],
    },
)


def opened(stage: Stage, **spec: Any) -> None:
    stage.sync({"web.yaml": web(), "service.yaml": SERVICE}, risk=DEFAULTS, **spec)


def container(stage: Stage) -> dict[str, Any]:
    found: dict[str, Any] = stage.live("Deployment", "web", api=API)["spec"]["template"]["spec"]["containers"][0]
    return found


def replicas(stage: Stage) -> int:
    return int(stage.live("Deployment", "web", api=API)["spec"]["replicas"])


def of_container(**members: Any) -> dict[str, Any]:
    """Return the strategic merge patch of the container."""
    return {"spec": {"template": {"spec": {"containers": [{"name": "web", **members}]}}}}


def set_endpoint(stage: Stage, value: str, manager: str = "kubectl-set") -> None:
    patch = of_container(env=[{"name": "MODEL_ENDPOINT", "value": value}])
    stage.patch("Deployment", "web", patch, "strategic", api=API, manager=manager)


def scale(stage: Stage, count: int) -> None:
    stage.patch("Deployment", "web", {"spec": {"replicas": count}}, api=API, subresource="scale", manager="kubectl")


def test_a_hijacked_endpoint_is_restored_without_approval(stage: Stage) -> None:
    opened(stage)
    set_endpoint(stage, EVIL)
    eventually(stage, lambda: container(stage)["env"] == [{"name": "MODEL_ENDPOINT", "value": MODEL}])
    scale(stage, 7)
    eventually(stage, lambda: replicas(stage) == 2)


def test_a_held_commit_holds_no_repair_and_an_edit_no_commit(stage: Stage) -> None:
    opened(stage)
    stage.commit({"web.yaml": web(EVIL)})
    stage.phase("AwaitingApproval")
    scale(stage, 7)
    set_endpoint(stage, EVIL)  # the value of the held commit
    eventually(stage, lambda: replicas(stage) == 2 and container(stage)["env"][0]["value"] == MODEL)
    stage.phase("AwaitingApproval")
    set_endpoint(stage, "http://other/v1")
    stage.synced(stage.commit({"web.yaml": web(replicas=3)}))
    eventually(stage, lambda: replicas(stage) == 3 and container(stage)["env"][0]["value"] == MODEL)


def test_a_hijacked_agent_runs_nothing_and_is_restored(stage: Stage) -> None:
    made = {**agent("triage"), "metadata": {"name": "triage"}}
    made["spec"]["model"] = {**made["spec"]["model"], "endpoint": MODEL}
    stage.sync({"agent.yaml": made}, risk=DEFAULTS)
    eventually(stage, lambda: stage.live("Agent", "triage", api=AGENTS).get("status", {}).get("observedGeneration"))
    before = pods_of(stage)
    stage.patch("Agent", "triage", {"spec": {"model": {"endpoint": EVIL}}}, api=AGENTS)
    eventually(stage, lambda: stage.live("Agent", "triage", api=AGENTS)["spec"]["model"]["endpoint"] == MODEL)
    eventually(stage, lambda: is_settled(stage))
    assert EVIL not in str(pods_of(stage))
    assert pods_of(stage) == before
    assert [record for record in audit(stage, "agent:triage") if EVIL in str(record)] == []


def test_a_hijacked_agent_stays_as_it_runs_while_nothing_heals(stage: Stage) -> None:
    made = {**agent("triage"), "metadata": {"name": "triage"}}
    made["spec"]["model"] = {**made["spec"]["model"], "endpoint": MODEL}
    stage.sync({"agent.yaml": made}, risk=DEFAULTS, sync={"selfHeal": False})
    eventually(stage, lambda: stage.live("Agent", "triage", api=AGENTS).get("status", {}).get("observedGeneration"))
    before = pods_of(stage)
    # a user who may edit the object may remove its marks too
    annotations = {"annotations": {"gitsync.dev/tracking-id": None}}
    patch = {"spec": {"model": {"endpoint": EVIL}}, "metadata": annotations}
    stage.patch("Agent", "triage", patch, api=AGENTS)
    eventually(stage, lambda: stalled(stage).get("reason") == "ChangedInCluster")
    assert "is not what Application" in stalled(stage)["message"]
    assert pods_of(stage) == before


def test_a_hijacked_system_or_member_runs_nothing_and_is_restored(stage: Stage) -> None:
    at_once = {"order": "Parallel"}  # without Pods that start, a wave would never be ready
    made = {**system(member("a"), member("b"), rollout=at_once), "metadata": {"name": "desk"}}
    stage.sync({"desk.yaml": made}, risk=DEFAULTS)
    for name in ("desk-a", "desk-b"):
        eventually(stage, lambda name=name: stage.get("Deployment", name, api=API))
    before = pods_of(stage)
    # Git declares the system alone: its member is restored by the operator
    stage.patch("Agent", "desk-a", {"spec": {"model": {"endpoint": EVIL}}}, api=AGENTS)
    eventually(stage, lambda: "endpoint" not in stage.live("Agent", "desk-a", api=AGENTS)["spec"]["model"])
    replaced = members(stage)
    replaced[0]["template"]["spec"]["owner"] = "evil"
    stage.patch("MultiAgentSystem", "desk", {"spec": {"agents": replaced}}, api=AGENTS)
    eventually(stage, lambda: "evil" not in str(members(stage)))
    eventually(stage, lambda: is_carried_out(stage.live("MultiAgentSystem", "desk", api=AGENTS)))
    assert pods_of(stage) == before
    assert [record for record in audit(stage, "agent:desk-a") if EVIL in str(record)] == []
    # the operator applies under its own manager, which has to remove what users add
    containers = [{"name": "agent", "env": [{"name": "OPENAI_BASE_URL", "value": EVIL}]}]
    patch = {"spec": {"template": {"spec": {"containers": containers}}}}
    stage.patch("Deployment", "desk-b", patch, "strategic", api=API)
    eventually(stage, lambda: EVIL not in str(stage.live("Deployment", "desk-b", api=API)["spec"]))


def members(stage: Stage) -> list[dict[str, Any]]:
    return list(stage.live("MultiAgentSystem", "desk", api=AGENTS)["spec"]["agents"])


def is_carried_out(live: Manifest) -> bool:
    return bool(live.get("status", {}).get("observedGeneration") == live["metadata"]["generation"])


def stalled(stage: Stage) -> dict[str, Any]:
    conditions = stage.live("Agent", "triage", api=AGENTS).get("status", {}).get("conditions", [])
    return next((item for item in conditions if item["type"] == "Stalled"), {})


def is_settled(stage: Stage) -> bool:
    live = stage.live("Agent", "triage", api=AGENTS)
    is_current = live["status"]["observedGeneration"] == live["metadata"]["generation"]
    return bool(is_current and stalled(stage).get("reason") != "ChangedInCluster")


def pods_of(stage: Stage) -> str:
    """Return the hash of the Pod templates of the Agent."""
    path = stage.path("Deployment", "", api=API)
    items = stage.raw("GET", path, None)["items"]
    return content_hash(sorted((item["metadata"]["name"], item["spec"]["template"]) for item in items))


def audit(stage: Stage, name: str) -> list[Any]:
    assert stage.engine is not None
    return list(stage.engine.records.audit_records(f"{stage.namespace}/{name}"))


def test_a_renumbered_port_is_restored(stage: Stage) -> None:
    opened(stage)
    patch = [{"op": "replace", "path": "/spec/ports/0/port", "value": 8080}]
    stage.patch("Service", "web", patch, "json", manager="kubectl-patch")
    eventually(stage, lambda: [port["port"] for port in stage.live("Service", "web")["spec"]["ports"]] == [80, 443])


POD = "/spec/template/spec"
EDITS = {
    "keys of list items": {
        f"{POD}/containers/0/name": "renamed",
        f"{POD}/volumes/0/name": "renamed",
        f"{POD}/containers/0/volumeMounts/0/name": "renamed",
        f"{POD}/containers/0/ports/0/containerPort": 8080,
        f"{POD}/containers/0/env/0/name": "RENAMED",
    },
    "members of unions": {
        f"{POD}/volumes/0": {"name": "data", "secret": {"secretName": "s", "optional": True}},
        f"{POD}/containers/0/env/0": {"name": "MODE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        f"{POD}/containers/0/livenessProbe": {"tcpSocket": {"port": 80}},
    },
}


@pytest.mark.parametrize("undeclared", ["Report", "Remove"])
@pytest.mark.parametrize("edited", EDITS)
def test_edited_keys_and_choices_are_restored_in_one_write(stage: Stage, edited: str, undeclared: str) -> None:
    made = web()
    pod = made["spec"]["template"]["spec"]
    pod["volumes"] = [{"name": "data", "emptyDir": {}}]
    pod["containers"][0] |= {
        "env": [{"name": "MODE", "value": "fast"}],
        "ports": [{"containerPort": 80, "name": "http"}],
        "livenessProbe": {"httpGet": {"path": "/", "port": 80}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    stage.sync({"web.yaml": made}, risk=DEFAULTS, sync={"undeclaredFields": undeclared})
    declared = stage.live("Deployment", "web", api=API)["spec"]
    patch = [{"op": "replace", "path": path, "value": value} for path, value in EDITS[edited].items()]
    answer = stage.patch("Deployment", "web", patch, "json", api=API, manager="kubectl-edit")
    assert answer["spec"] != declared
    eventually(stage, lambda: stage.live("Deployment", "web", api=API)["spec"] == declared)
    # each write of the spec is a generation
    assert stage.live("Deployment", "web", api=API)["metadata"]["generation"] == answer["metadata"]["generation"] + 1


def test_a_privileged_container_is_restored(stage: Stage) -> None:
    opened(stage)
    context = {"privileged": True, "allowPrivilegeEscalation": True}
    stage.patch("Deployment", "web", of_container(securityContext=context), "strategic", api=API)
    eventually(stage, lambda: container(stage)["securityContext"] == {"allowPrivilegeEscalation": False})


def test_added_settings_are_removed_and_added_labels_reported(stage: Stage) -> None:
    opened(stage)
    rogue = of_container(env=[{"name": "MODEL_ID", "value": "rogue"}])
    stage.patch("Deployment", "web", rogue, "strategic", api=API, manager="kubectl-set")
    eventually(stage, lambda: [item["name"] for item in container(stage)["env"]] == ["MODEL_ENDPOINT"])
    stage.patch("Deployment", "web", {"metadata": {"labels": {"owner": "bob"}}}, api=API, manager="kubectl-label")
    eventually(stage, lambda: "set by kubectl-label" in undeclared(stage).get("message", ""))
    assert stage.status()["sync"] == "Synced"
    stage.patch("Deployment", "web", {"metadata": {"labels": {"owner": None}}}, api=API, manager="kubectl-label")
    eventually(stage, lambda: undeclared(stage) == {})


def test_a_healed_drift_is_an_event_and_an_entry_of_the_history(stage: Stage) -> None:
    stage.start(kubernetes_events=True)
    opened(stage)
    set_endpoint(stage, EVIL)
    eventually(stage, lambda: container(stage)["env"] == [{"name": "MODEL_ENDPOINT", "value": MODEL}])

    def events() -> set[tuple[str, str]]:
        items = stage.raw("GET", f"/api/v1/namespaces/{stage.namespace}/events", None)["items"]
        return {(item["involvedObject"]["kind"], item["reason"]) for item in items}

    eventually(stage, lambda: ("Deployment", "DriftHealed") in events())
    assert stage.engine is not None
    records = stage.engine.records
    links = eventually(stage, lambda: records.audit_records(f"{stage.system}/app", action=DRIFT_ACTION))
    entries = list(past_fields(links))
    assert {(entry.declared, entry.changed_to, entry.manager, entry.by.value) for entry in entries} == {
        (MODEL, EVIL, "kubectl-set", "self-heal")
    }


def undeclared(stage: Stage) -> dict[str, Any]:
    conditions = stage.status().get("conditions", [])
    return next((item for item in conditions if item["type"] == "Undeclared"), {})


@pytest.mark.parametrize("sync", [{"automated": False}, {"windows": [DENY]}], ids=["by hand", "a closed window"])
def test_what_delays_commits_delays_no_repair(stage: Stage, sync: dict[str, Any]) -> None:
    opened(stage)
    stage.application(sync=sync, risk=DEFAULTS)
    stage.commit({"web.yaml": web(replicas=3)})
    stage.phase("Pending")
    scale(stage, 7)
    eventually(stage, lambda: replicas(stage) == 2)


def test_a_suspended_application_is_observed(stage: Stage) -> None:
    opened(stage)
    stage.application(suspend=True, risk=DEFAULTS)
    stage.phase("Suspended")
    patch = of_container(image="web:crash")
    stage.patch("Deployment", "web", patch, "strategic", api=API, manager="kubectl-set")
    eventually(stage, lambda: (stage.status().get("drift") or {}).get("objects") == 1)
    assert (stage.status()["phase"], stage.status()["sync"]) == ("Suspended", "OutOfSync")
    commit = stage.commit({"web.yaml": web(replicas=3)})
    eventually(stage, lambda: stage.status()["revision"]["fetched"] == commit)
    assert container(stage)["image"] == "web:crash"
