"""What a rollout of an Agent may not change, on the sandbox and on a real control plane."""

from __future__ import annotations

import base64
import json
import urllib.request
from functools import partial
from typing import Any

import pytest

from gitsync.agents.keys import BACKUP
from gitsync.agents.rollout import context
from gitsync.objects.manifest import at
from gitsync.server.app import create_app
from tests.agents.factories import changed
from tests.asgi_server import serve
from tests.contract.agent_stage import (
    API,
    BRIEF,
    GOOD,
    NEVER_READY,
    approve,
    condition,
    declared,
    end_pods,
    eventually,
    jobs,
    model,
    pods,
    runs,
    serves,
    service,
    start_pods,
    status,
)
from tests.contract.manifests import config_map
from tests.contract.stage import Stage
from tests.waiting import until, until_quiet


def shared(stage: Stage) -> dict[str, Any]:
    """Return the specs of what all revisions share."""
    policy = stage.live("NetworkPolicy", "helper", api="networking.k8s.io/v1")
    return {"policy": policy["spec"], "service": stage.live("Service", "helper")["spec"]}


def egress_ports(stage: Stage) -> set[int]:
    policy = stage.live("NetworkPolicy", "helper", api="networking.k8s.io/v1")
    return {port["port"] for rule in policy["spec"].get("egress", []) for port in rule.get("ports", [])}


def checked(seconds: int = 600) -> dict[str, Any]:
    """Return members by which a new revision has a preview first, and time to become ready."""
    lifecycle = {**BRIEF, "validate": [{"name": "check", "exec": {"command": ["true"]}}]}
    return {"lifecycle": lifecycle, "update": {"type": "Recreate", "progressDeadlineSeconds": seconds}}


def template(stage: Stage) -> Any:
    workloads = (stage.get("Deployment", name, api="apps/v1") for name in ("helper", "helper-blue"))
    return next(at(live, "spec", "template") for live in workloads if live is not None)


def change(stage: Stage, workload: str, **spec: Any) -> None:
    """Declare another revision, approve what is dangerous of it, and wait for the workload that it has first."""
    stage.apply(declared(stage, **spec))

    def has_begun() -> bool:
        approve(stage)
        return stage.get("Deployment", workload, api="apps/v1") is not None

    eventually(stage, has_begun)


def test_policy_and_service_keep_what_serves_until_the_verdict(stage: Stage) -> None:
    stage.apply(service(stage, "local-model", 8000, 9000))
    first = serves(stage, model=model(stage, 8000), lifecycle=BRIEF)
    unchanged = shared(stage)
    runtime = {"image": NEVER_READY, "port": 9999}
    change(stage, "helper-preview", model=model(stage, 9000), runtime=runtime, **checked())
    eventually(stage, lambda: {8000, 9000} <= egress_ports(stage))
    assert shared(stage)["service"]["selector"] == unchanged["service"]["selector"]
    assert {port["port"] for port in shared(stage)["service"]["ports"]} >= {8080}
    # One second is over at once: the revision is given up.
    stage.apply(declared(stage, model=model(stage, 9000), runtime=runtime, **checked(1)))
    eventually(stage, lambda: status(stage).get("failedRevision"))
    assert status(stage)["currentRevision"] == first
    eventually(stage, lambda: shared(stage) == unchanged)


def test_a_removed_tool_stays_allowed_while_old_pods_serve(stage: Stage) -> None:
    stage.apply(service(stage, "tickets-mcp", 8081))
    tool = {"name": "tickets", "type": "MCP", "mcp": {"serviceRef": {"name": "tickets-mcp", "port": 8081}}}
    canary = {"type": "Canary", "canary": {"steps": [{"weight": 50, "pauseSeconds": 3600}, {"weight": 100}]}}
    serves(stage, tools=[tool], update=canary, replicas=2)
    assert 8081 in egress_ports(stage)
    change(stage, "helper-canary", update=canary, replicas=2, version="2.0.0")
    eventually(stage, lambda: at(status(stage), "rollout", "stage", default="") == "Update")
    assert 8081 in egress_ports(stage)


def test_a_removed_volume_keeps_its_claim_until_the_verdict(stage: Stage) -> None:
    volume = {"name": "tmp", "mountPath": "/data", "size": "1Gi", "onDelete": "Delete"}
    serves(stage, state={"volumes": [volume]}, update={"type": "Recreate"})
    claim = stage.live("PersistentVolumeClaim", "helper-tmp")["metadata"]["uid"]
    change(stage, "helper-preview", runtime={"image": NEVER_READY}, **checked())
    metadata = stage.live("PersistentVolumeClaim", "helper-tmp")["metadata"]
    assert (metadata["uid"], "deletionTimestamp" in metadata) == (claim, False)
    stage.apply(declared(stage, runtime={"image": NEVER_READY}, **checked(1)))
    eventually(stage, lambda: status(stage).get("failedRevision"))
    metadata = stage.live("PersistentVolumeClaim", "helper-tmp")["metadata"]
    assert (metadata["uid"], "deletionTimestamp" in metadata) == (claim, False)


def test_a_deleted_secret_leaves_the_serving_pod(stage: Stage) -> None:
    key = {"api-key": base64.b64encode(b"A").decode()}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "k", "namespace": stage.namespace},
        "data": key,
    }
    stage.apply(secret)
    signs_in = {"credentials": {"secretKeyRef": {"name": "k", "key": "api-key"}}}
    serves(stage, model=model(stage, 8000, **signs_in), update={"type": "Recreate"})
    serving = {pod["metadata"]["uid"] for pod in pods(stage)}
    stage.apply(changed(secret, "metadata.labels", {"team": "other"}))
    stage.delete("Secret", "k")
    missing = "Secret k does not exist"
    eventually(stage, lambda: missing in condition(stage, "ReferencesResolved").get("message", ""))
    assert {pod["metadata"]["uid"] for pod in pods(stage)} == serving
    assert status(stage)["readyReplicas"] == 1


def test_a_check_that_a_quota_refuses_is_reported(stage: Stage) -> None:
    cases = config_map("cases", **{"c.jsonl": '{"name":"a","input":"x","assert":[{"contains":"y"}]}'})
    stage.apply(changed(cases, "metadata.namespace", stage.namespace))
    serves(stage)
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few", "namespace": stage.namespace},
        "spec": {"hard": {"pods": "2"}},
    }
    stage.apply(quota)
    eventually(stage, lambda: at(stage.live("ResourceQuota", "few"), "status", "used", "pods", default="0") == "1")
    evaluation = {"cases": {"name": "cases", "key": "c.jsonl"}}
    stage.apply(declared(stage, version="2.0.0", evaluation=evaluation))
    eventually(stage, lambda: start_pods(stage) or "such as by a quota" in str(status(stage).get("conditions")))


def test_an_evaluation_runs_under_a_compute_quota(stage: Stage) -> None:
    """Such a quota admits no Pod whose containers have no requests and limits."""
    cases = config_map("cases", **{"c.jsonl": '{"name":"a","input":"x","assert":[{"contains":"y"}]}'})
    stage.apply(changed(cases, "metadata.namespace", stage.namespace))
    hard = {"requests.cpu": "4", "requests.memory": "4Gi", "limits.cpu": "8", "limits.memory": "8Gi"}
    metadata = {"name": "compute", "namespace": stage.namespace}
    stage.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}})
    resources = {"requests": {"cpu": "100m", "memory": "200Mi"}, "limits": {"cpu": "1", "memory": "200Mi"}}
    serves(stage, runtime={"image": GOOD, "resources": resources})
    assert at(stage.live("ResourceQuota", "compute"), "status", "used", "requests.cpu") == "100m"
    evaluation = {"cases": {"name": "cases", "key": "c.jsonl"}, "image": "registry.example.com/gitsync:forever"}
    changes = {"runtime": {"image": GOOD, "resources": resources}, "version": "2.0.0", "evaluation": evaluation}
    stage.apply(declared(stage, **changes))

    def has_begun() -> bool:
        start_pods(stage)
        labels = [str(at(pod, "metadata", "labels", "batch.kubernetes.io/job-name", default="")) for pod in pods(stage)]
        return any(name.startswith("helper-validate-") for name in labels)

    eventually(stage, has_begun)


def test_an_agent_with_an_external_model_is_reconciled_in_its_namespace(stage: Stage) -> None:
    stage.start(namespaces=f"{stage.system},{stage.namespace}")
    network = {"egressTo": [{"cidr": "0.0.0.0/0", "ports": [443]}]}
    external = {"provider": "OpenAI", "id": "small", "endpoint": "https://api.example.com/v1"}
    stage.apply(declared(stage, model=external, network=network))
    runs(stage)


def test_a_hand_edit_that_moves_a_tool_waits_for_approval(stage: Stage) -> None:
    network = {"egressTo": [{"cidr": "0.0.0.0/0", "ports": [443]}]}
    tool = {
        "name": "tickets",
        "type": "MCP",
        "mcp": {"url": "https://tools.example.com/mcp"},
        "allow": ["find_order", "close_ticket"],
        "requireApproval": ["close_ticket"],
    }
    first = serves(stage, tools=[tool], network=network)

    def held_for(text: str) -> bool:
        return text in "; ".join(at(status(stage), "plan", "reasons", default=[]))

    def edit(**members: Any) -> None:
        stage.apply(declared(stage, tools=[{**tool, **members}], network=network), manager="kubectl-edit")

    edit(requireApproval=[])
    eventually(stage, lambda: held_for("a tool no longer needs approval"))
    assert condition(stage, "Reconciling")["reason"] == "AwaitingApproval"
    edit(mcp={"url": "https://elsewhere.example.com/mcp"})
    eventually(stage, lambda: held_for("elsewhere") and not held_for("no longer needs"))
    assert status(stage)["plan"]["class"] == "Dangerous"
    assert status(stage)["currentRevision"] == first
    assert stage.engine is not None
    with serve(create_app(stage.engine)) as web:
        reviews = partial(page, f"{web.url}/approvals")
        until(lambda: f"{stage.namespace}/helper" in reviews(), 30, reviews)
    eventually(stage, lambda: approve(stage) or status(stage)["currentRevision"] != first)


def page(url: str) -> str:
    with urllib.request.urlopen(url) as answer:
        return str(answer.read().decode())


def test_a_requested_backup_that_is_not_kept_is_not_repeated(stage: Stage) -> None:
    volume = {"name": "keep", "mountPath": "/keep", "size": "1Gi"}
    saved = {"state": {"volumes": [volume]}, "update": {"type": "Recreate"}, "lifecycle": BRIEF}
    saved["backup"] = {"command": ["copy"], "keep": 1}
    serves(stage, model=model(stage, 8000), **saved)
    stage.patch("Agent", "helper", {"metadata": {"annotations": {BACKUP: "one"}}}, api=API)

    def is_saved(id: str) -> bool:
        approve(stage)
        end_pods(stage, "helper-backup-", "Succeeded")
        return at(status(stage), "backup", "lastGood", default="") == id

    eventually(stage, lambda: is_saved("one"))
    # A dangerous change has a backup of its own, which takes the only place.
    stage.apply(declared(stage, model=model(stage, 9000), **saved))
    eventually(stage, lambda: is_saved("generation-2"))
    runs(stage)
    eventually(stage, lambda: set(jobs(stage)) == {"helper-backup-generation-2"})
    kept = jobs(stage)
    assert until_quiet(lambda: jobs(stage)) == kept
    assert at(status(stage), "backup", "last") == "generation-2"


def test_a_failed_first_evaluation_is_not_repeated(stage: Stage) -> None:
    if not stage.is_real:
        pytest.skip("Pods of the sandbox end by themselves; its own test runs processes")
    cases = config_map("cases", **{"c.jsonl": '{"name":"a","input":"x","assert":[{"contains":"y"}]}'})
    stage.apply(changed(cases, "metadata.namespace", stage.namespace))
    stage.start()
    # A kubelet without processes lets the Pods of this tag run, so that only the test ends them.
    image = "registry.example.com/gitsync:forever"
    stage.apply(declared(stage, evaluation={"cases": {"name": "cases", "key": "c.jsonl"}, "image": image}))
    evaluated: set[str] = set()
    verdict = json.dumps({"result": "Failed", "message": "0 of 1 cases passed; failed: a"})

    def is_failed() -> bool:
        start_pods(stage)
        evaluated.update(jobs(stage).values())
        end_pods(stage, "helper-validate", "Failed", exitCode=1, message=verdict)
        return bool(status(stage).get("failedRevision"))

    eventually(stage, is_failed)
    until_quiet(lambda: is_failed() and jobs(stage))
    assert len(evaluated) == 1
    assert "0 of 1 cases passed" in condition(stage, "Stalled")["message"]


def report_crash(stage: Stage, image: str) -> None:
    """Report the containers with this image as ended again and again, as a kubelet does; the sandbox has its own."""
    if not stage.is_real:
        return
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed container"}}
    ended = {"terminated": {"exitCode": 1, "reason": "Error"}}
    for pod in pods(stage):
        names = [container["name"] for container in pod["spec"]["containers"] if container["image"] == image]
        known = {"image": image, "imageID": "", "ready": False, "restartCount": 3, "state": waiting, "lastState": ended}
        body = {"status": {"phase": "Running", "containerStatuses": [{"name": name, **known} for name in names]}}
        if names and at(pod, "status", "containerStatuses", 0, "state") != waiting:
            stage.patch("Pod", pod["metadata"]["name"], body, "strategic", manager="kubelet", subresource="status")


def test_a_crashing_canary_ends_long_before_its_deadline(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "_CRASH_PATIENCE", 1.0)
    update = {"type": "Canary", "progressDeadlineSeconds": 3600, "canary": {"steps": [{"weight": 50}]}}
    first = serves(stage, update=update, replicas=2)
    crashing = "registry.example.com/agents/server:crash"
    stage.apply(declared(stage, update=update, replicas=2, runtime={"image": crashing}))

    def is_given_up() -> bool:
        start_pods(stage)
        report_crash(stage, crashing)
        return "CrashLoopBackOff" in condition(stage, "Stalled").get("message", "")

    eventually(stage, is_given_up)
    assert status(stage)["currentRevision"] == first != status(stage)["failedRevision"]
    eventually(stage, lambda: stage.get("Deployment", "helper-canary", api="apps/v1") is None)


def test_a_canary_without_metrics_is_not_promoted(stage: Stage) -> None:
    analysis = [{"name": "errors", "prometheusQuery": "errors", "max": "0.05"}]

    def measured(seconds: int) -> dict[str, Any]:
        canary = {"steps": [{"weight": 50}], "analysis": analysis}
        return {"type": "Canary", "progressDeadlineSeconds": seconds, "canary": canary}

    first = serves(stage, update=measured(600), replicas=2)
    change(stage, "helper-canary", update=measured(600), replicas=2, version="2.0.0")
    absent = "errors has no data: it needs a Prometheus"
    eventually(stage, lambda: start_pods(stage) or absent in condition(stage, "Reconciling").get("message", ""))
    assert status(stage)["currentRevision"] == first
    # One second is over at once: the revision is given up.
    stage.apply(declared(stage, update=measured(1), replicas=2, version="2.0.0"))
    eventually(stage, lambda: absent in condition(stage, "Stalled").get("message", ""))
    assert status(stage)["currentRevision"] == first != status(stage)["failedRevision"]


def contents(stage: Stage, revision: str) -> dict[str, str]:
    """Return all children as JSON, without what the API server counts, and without what other revisions keep."""
    live = {}
    kept = {"kind": "ControllerRevision", "name": revision, "apiVersion": "apps/v1"}
    for listed in (kept, *status(stage)["children"]):
        manifest = stage.live(listed["kind"], listed["name"], api=listed["apiVersion"])
        counted = ("resourceVersion", "generation", "managedFields")
        metadata = {key: value for key, value in manifest["metadata"].items() if key not in counted}
        body = {key: value for key, value in manifest.items() if key not in ("metadata", "status")}
        live[f"{listed['kind']}/{listed['name']}"] = json.dumps({**body, "metadata": metadata}, sort_keys=True)
    config = at(template(stage), "spec", "volumes", 0, "configMap", "name")
    of_others = {name for name in live if name.startswith("ConfigMap/helper-config-")} - {f"ConfigMap/{config}"}
    return {name: text for name, text in live.items() if name not in of_others}


def differing(before: dict[str, str], after: dict[str, str]) -> str:
    names = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    return "\n".join(f"{name}\n{before.get(name)}\n{after.get(name)}" for name in names)


@pytest.mark.parametrize("update", ["Recreate", "Canary", "BlueGreen"])
def test_after_a_rollback_the_children_are_byte_for_byte_those_before(stage: Stage, update: str) -> None:
    stage.apply(service(stage, "local-model", 8000, 9000))
    stage.apply(service(stage, "tickets-mcp", 8081))
    tool = {"name": "tickets", "type": "MCP", "mcp": {"serviceRef": {"name": "tickets-mcp", "port": 8081}}}
    volume = {"name": "tmp", "mountPath": "/data", "size": "1Gi", "onDelete": "Delete", "accessModes": [SHARED]}

    def limited(seconds: int) -> dict[str, Any]:
        kinds: dict[str, Any] = {"Canary": {"canary": {"steps": [{"weight": 50, "pauseSeconds": 600}]}}}
        return {"update": {"type": update, "progressDeadlineSeconds": seconds, **kinds.get(update, {})}}

    before = {"model": model(stage, 8000), "tools": [tool], "state": {"volumes": [volume]}, "replicas": 2}
    first = serves(stage, **before, lifecycle=BRIEF, **limited(600))
    runs(stage)
    until_quiet(lambda: status(stage))
    unchanged = contents(stage, first)
    assert {name.partition("/")[0] for name in unchanged} >= CHILDREN
    other = {"model": model(stage, 9000), "runtime": {"image": NEVER_READY, "port": 9999}, "replicas": 2}
    lifecycle = checked()["lifecycle"]
    stage.apply(declared(stage, **other, lifecycle=lifecycle, **limited(600)))
    eventually(stage, lambda: approve(stage) or 9000 in egress_ports(stage))
    assert contents(stage, first) != unchanged
    # One second is over at once: the revision is given up.
    stage.apply(declared(stage, **other, lifecycle=lifecycle, **limited(1)))
    eventually(stage, lambda: status(stage).get("failedRevision"))
    # The Pods of the failed revision may need what they had until they have drained.
    until(lambda: contents(stage, first) == unchanged, 30, lambda: differing(unchanged, contents(stage, first)))
    until_quiet(lambda: status(stage))
    assert contents(stage, first) == unchanged
    assert status(stage)["currentRevision"] == first


SHARED = "ReadWriteMany"
CHILDREN = {"ConfigMap", "ControllerRevision", "Deployment", "NetworkPolicy", "PersistentVolumeClaim", "Service"}
