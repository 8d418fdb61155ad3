"""What Pods of Applications do now: state, restarts, last end, and usage against requests and limits."""

from __future__ import annotations

from typing import Any

from gitsync.cli.commands.top import pod_rows
from gitsync.objects.inventory import Inventory, InventoryEntry
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ObjectRef

WEB = ObjectRef("apps", "Deployment", "shop", "web")
DESK = ObjectRef("agents.gitsync.dev", "MultiAgentSystem", "shop", "desk")


def application(*refs: ObjectRef) -> Manifest:
    inventory = Inventory({ref: InventoryEntry("v1", "u") for ref in refs})
    return {"metadata": {"name": "shop", "namespace": "gitsync"}, "status": inventory.to_status()}


def part(api: str, kind: str, name: str, owner: Manifest | None = None, **members: Any) -> Manifest:
    metadata: dict[str, Any] = {"name": name, "namespace": "shop", "uid": f"{kind}-{name}"}
    if owner is not None:
        reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"]}
        metadata["ownerReferences"] = [{**reference, "uid": owner["metadata"]["uid"], "controller": True}]
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **members}


DEPLOYMENT = part("apps/v1", "Deployment", "web")
REPLICAS = part("apps/v1", "ReplicaSet", "web-1", DEPLOYMENT)


def pod(name: str, owner: Manifest | None = REPLICAS, **status: Any) -> Manifest:
    resources = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}}
    spec = {"nodeName": "node-1", "containers": [{"name": "c", "resources": resources}, {"name": "d"}]}
    return part("v1", "Pod", name, owner, spec=spec, status={"phase": "Running", **status})


def test_a_pod_counts_for_the_application_that_holds_an_owner() -> None:
    system = part("agents.gitsync.dev/v1alpha1", "MultiAgentSystem", "desk")
    agent = part("agents.gitsync.dev/v1alpha1", "Agent", "desk-a", system)
    deployment = part("apps/v1", "Deployment", "desk-a", agent)
    members = [agent, deployment, pod("desk-a-1", deployment)]
    parts = [DEPLOYMENT, REPLICAS, pod("web-1-a"), pod("alone", None), *members]
    rows = pod_rows([application(WEB, DESK)], parts, {})
    assert [(row["application"], row["pod"]) for row in rows] == [
        ("gitsync/shop", "desk-a-1"),
        ("gitsync/shop", "web-1-a"),
    ]
    assert pod_rows([application()], parts, {}) == []


def test_the_last_end_and_the_reason_of_waiting_are_shown() -> None:
    killed = {"terminated": {"reason": "OOMKilled", "exitCode": 137, "finishedAt": "2026-11-20T10:00:00Z"}}
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
    statuses = [
        {"name": "c", "restartCount": 4, "state": waiting, "lastState": killed},
        {"name": "d", "restartCount": 1},
    ]
    (first, second) = pod_rows(
        [application(WEB)], [DEPLOYMENT, REPLICAS, pod("calm"), pod("sick", containerStatuses=statuses)], {}
    )
    assert (first["pod"], first["state"], first["restarts"]) == ("sick", "CrashLoopBackOff", 5)
    assert (first["ended"], first["node"]) == ("OOMKilled 2026-11-20T10:00:00Z", "node-1")
    assert (second["state"], second["restarts"], second["ended"]) == ("Running", 0, "-")


def test_usage_is_shown_beside_requests_and_limits() -> None:
    used = [{"usage": {"cpu": "250m", "memory": "32Mi"}}, {"usage": {"cpu": "1", "memory": "1Gi"}}]
    metrics = {("shop", "web-1-a"): {"containers": used}}
    (row,) = pod_rows([application(WEB)], [DEPLOYMENT, REPLICAS, pod("web-1-a")], metrics)
    assert (row["cpu"], row["cpuRequest"], row["cpuLimit"]) == ("1250m", "100m", "-")
    # a container without a limit leaves the Pod without one
    assert (row["memory"], row["memoryRequest"], row["memoryLimit"]) == ("1056Mi", "64Mi", "-")
    (without,) = pod_rows([application(WEB)], [DEPLOYMENT, REPLICAS, pod("web-1-a")], {})
    assert without["cpu"] == "-"
