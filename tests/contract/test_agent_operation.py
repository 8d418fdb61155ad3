"""
What a running Agent does when what it shares, its status or its owner changes, on both kinds of cluster.

With ``test_agent_rollouts.py``, these are the cases of a team with many agents that lost data or traffic.
"""

from __future__ import annotations

import base64
import json
import urllib.request
from typing import Any

import pytest
from typer.testing import CliRunner

from gitsync.agents.expansion import revisions
from gitsync.agents.keys import ABORT, UPGRADE
from gitsync.cli.main import app
from gitsync.objects.manifest import Manifest, at
from gitsync.operator import waves
from gitsync.server.app import create_app
from tests.agents.factories import changed, member, system
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
from tests.integrations.fake_prometheus import prometheus, vector
from tests.waiting import until, until_quiet

SYSTEM = "MultiAgentSystem"
COLOURS = {"type": "BlueGreen", "blueGreen": {"promotion": "Automatic", "keepOldSeconds": 3600}}
KEY = {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "model", "key": "key"}}}


def template(stage: Stage, name: str = "helper") -> Any:
    return at(stage.get("Deployment", name, api="apps/v1") or {}, "spec", "template")


def replica_sets(stage: Stage) -> set[str]:
    items = stage.client.get(stage.path("ReplicaSet", "", api="apps/v1"))["items"]
    return {live["metadata"]["uid"] for live in items}


def secret(stage: Stage, key: str, **labels: str) -> Manifest:
    metadata = {"name": "model", "namespace": stage.namespace, "labels": labels}
    data = {"key": base64.b64encode(key.encode()).decode()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}


def test_a_removed_volume_is_deleted_only_by_its_own_approval(stage: Stage) -> None:
    volume = {"name": "tmp", "mountPath": "/data", "size": "1Gi", "onDelete": "Delete"}
    recreate = {"update": {"type": "Recreate"}, "lifecycle": BRIEF}
    serves(stage, state={"volumes": [volume]}, **recreate)
    stage.apply(declared(stage, **recreate))
    runs(stage)
    eventually(stage, lambda: status(stage).get("plan"))
    plan = status(stage)["plan"]
    assert (plan["class"], plan["steps"]) == ("Dangerous", 1)
    assert "deletionTimestamp" not in stage.live("PersistentVolumeClaim", "helper-tmp")["metadata"]
    approve(stage)

    def is_deleted() -> bool:
        claim = stage.get("PersistentVolumeClaim", "helper-tmp")
        # Where nothing removes the protection of claims, a deletion that has begun is all that can be seen.
        return claim is None or "deletionTimestamp" in claim["metadata"]

    eventually(stage, is_deleted)


def upgrade(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the controller by a newer one, which gives Pods another grace period."""
    stage.stop()
    older = revisions.pod_template

    def newer(*arguments: Any) -> Manifest:
        made = older(*arguments)
        return {**made, "spec": {**made["spec"], "terminationGracePeriodSeconds": 77}}

    monkeypatch.setattr(revisions, "pod_template", newer)
    version = revisions.EXPANSION_VERSION + 1
    for module in (revisions, waves):
        monkeypatch.setattr(module, "EXPANSION_VERSION", version)
    stage.start()


def test_a_newer_expansion_replaces_no_pod(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    serves(stage)
    serving, sets = template(stage), replica_sets(stage)
    upgrade(stage, monkeypatch)
    change = "spec.terminationGracePeriodSeconds: nothing -> 77"
    eventually(stage, lambda: at(status(stage), "expansion", "changes", default=[]) == [change])
    until_quiet(lambda: stage.live("Deployment", "helper", api="apps/v1")["metadata"]["generation"])
    assert (template(stage), replica_sets(stage)) == (serving, sets)


def test_a_requested_upgrade_reaches_one_agent_at_a_time(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.start()
    names = ("a", "b")
    for name in names:
        stage.apply(declared(stage, name))
    for name in names:
        runs(stage, name)
    serving = {name: template(stage, name) for name in names}
    upgrade(stage, monkeypatch)
    for name in names:
        eventually(stage, lambda name=name: at(status(stage, name), "expansion", "changes"))  # type: ignore[misc]
        mark = {"metadata": {"annotations": {UPGRADE: f"{revisions.EXPANSION_VERSION}/1"}}}
        stage.patch("Agent", name, mark, api=API)
    if stage.is_real:
        # Pods stay unready until the test sets their status.
        eventually(stage, lambda: condition(stage, "Outdated", "b").get("reason") == "WaitsForWave")
        assert template(stage, "b") == serving["b"]
    eventually(stage, lambda: start_pods(stage) or all(template(stage, name) != serving[name] for name in names))


def test_a_rotated_secret_reaches_one_agent_at_a_time(stage: Stage) -> None:
    stage.apply(secret(stage, "first"))
    stage.start()
    names = ("a", "b")
    for name in names:
        stage.apply(declared(stage, name, runtime={"image": GOOD, "env": [KEY]}))
    for name in names:
        runs(stage, name)
    serving = {name: template(stage, name) for name in names}
    stage.apply(secret(stage, "first", team="other"))
    until_quiet(lambda: status(stage, "b"))
    assert {name: template(stage, name) for name in names} == serving
    stage.apply(secret(stage, "second", team="other"))
    if stage.is_real:
        # No kubelet runs on this cluster: Pods stay unready until the test sets their status, so the first Agent is
        # still rolling out and the second one waits.
        eventually(stage, lambda: condition(stage, "Outdated", "b").get("reason") == "WaitsForWave")
        assert template(stage, "b") == serving["b"]
    eventually(stage, lambda: start_pods(stage) or all(template(stage, name) != serving[name] for name in names))


def test_an_agent_whose_pods_never_start_is_not_healthy(stage: Stage) -> None:
    stage.start()
    late = {"type": "RollingUpdate", "progressDeadlineSeconds": 1}
    stage.apply(declared(stage, replicas=2, update=late, runtime={"image": NEVER_READY}))
    eventually(stage, lambda: condition(stage, "Stalled").get("status") == "True")
    assert status(stage)["phase"] in ("Failed", "Degraded")
    assert condition(stage, "Ready")["status"] == "False"


def test_an_application_with_an_agent_without_pods_does_not_match(stage: Stage) -> None:
    late = {"type": "RollingUpdate", "progressDeadlineSeconds": 1}
    stage.sync({"agent.yaml": declared(stage, replicas=2, update=late, runtime={"image": NEVER_READY})})
    eventually(stage, lambda: status(stage).get("ready") == "0/2")
    eventually(stage, lambda: stage.status().get("health") == "Degraded")
    assert stage.engine is not None
    with serve(create_app(stage.engine)) as web:
        until(lambda: f"Agent {stage.namespace}/helper: " in page(web.url), 30, lambda: page(web.url))
        assert "matches Git" not in page(web.url)
        stage.sync({"agent.yaml": declared(stage, replicas=2, update=late)})
        until(lambda: start_pods(stage) or "The application matches Git" in page(web.url), 60, lambda: page(web.url))


def page(url: str) -> str:
    with urllib.request.urlopen(url) as answer:
        return str(answer.read().decode())


def test_a_system_with_a_failed_member_is_not_ready(stage: Stage) -> None:
    stage.start()
    broken = changed(member("a"), "template.spec.runtime.image", NEVER_READY)
    broken = changed(broken, "template.spec.update", {"type": "RollingUpdate", "progressDeadlineSeconds": 1})
    good = changed(member("b"), "template.spec.runtime.image", GOOD)
    stage.apply(system(broken, good, namespace=stage.namespace, rollout={"order": "Parallel"}))
    eventually(stage, lambda: start_pods(stage) or status(stage, "desk-b").get("phase") == "Running")
    eventually(stage, lambda: status(stage, "desk", SYSTEM).get("phase") in ("Failed", "Degraded"))
    assert condition(stage, "Ready", "desk", SYSTEM)["status"] == "False"
    assert "a" in condition(stage, "Ready", "desk", SYSTEM)["message"]


def test_blue_green_returns_to_the_side_that_is_kept(stage: Stage) -> None:
    first = serves(stage, update=COLOURS)
    selected = stage.live("Service", "helper")["spec"]["selector"]
    stage.apply(declared(stage, update=COLOURS, version="2.0.0"))
    eventually(stage, lambda: start_pods(stage) or status(stage).get("currentRevision") not in (None, first))
    eventually(stage, lambda: stage.live("Service", "helper")["spec"]["selector"] != selected)
    mark = {"metadata": {"annotations": {ABORT: status(stage)["updateRevision"]}}}
    stage.patch("Agent", "helper", mark, api=API)
    eventually(stage, lambda: stage.live("Service", "helper")["spec"]["selector"] == selected)
    eventually(stage, lambda: status(stage)["currentRevision"] == first)


def test_another_description_replaces_no_pod(stage: Stage) -> None:
    serves(stage, description="Sorts tickets.")
    serving, sets = template(stage), replica_sets(stage)
    stage.apply(declared(stage, description="Sorts the tickets of customers."))
    runs(stage)
    until_quiet(lambda: status(stage))
    assert (template(stage), replica_sets(stage)) == (serving, sets)


def test_a_stop_ends_all_pods_until_it_is_undone_by_name(stage: Stage) -> None:
    def command(*arguments: str) -> int:
        options = ["-n", stage.namespace, "--kubeconfig", str(stage.kubeconfig), "--data", str(stage.folder / "data")]
        return CliRunner().invoke(app, ["agent", *arguments, *options]).exit_code

    serves(stage, replicas=2)
    assert command("stop", "helper", "--by", "grace", "--reason", "it leaks data") == 0
    eventually(stage, lambda: not pods(stage) and status(stage).get("phase") == "Suspended")
    # What Git declares does not undo it.
    stage.apply(declared(stage, replicas=3))
    eventually(stage, lambda: condition(stage, "Ready").get("observedGeneration") == 2)
    assert (status(stage)["phase"], status(stage)["ready"], pods(stage)) == ("Suspended", "0/2", [])
    assert "stopped by grace: it leaks data" in condition(stage, "Ready")["message"]
    assert command("start", "helper") == 0
    runs(stage)
    eventually(stage, lambda: start_pods(stage) or status(stage).get("ready") == "3/3")


def test_an_exceeded_budget_suspends_until_it_is_raised(stage: Stage) -> None:
    def limited(tokens: int) -> Manifest:
        return declared(stage, replicas=2, budget={"agent": {"tokensPerDay": tokens}, "onExceeded": "Suspend"})

    labels = {"service": "helper", "gen_ai_request_model": "small", "gen_ai_token_type": "input"}
    with prometheus() as server:
        server.default = vector((labels, "1200"))
        stage.start(prometheus=server.url)
        stage.apply(limited(5000))
        runs(stage)
        eventually(stage, lambda: condition(stage, "BudgetExceeded").get("reason") == "Within")
        applied = stage.apply(limited(1000))
        eventually(stage, lambda: not pods(stage) and status(stage).get("phase") == "Suspended")
        assert condition(stage, "BudgetExceeded")["reason"] == "Suspended"
        assert status(stage)["budget"]["limits"][0]["percent"] == 120
        # The Agent is as it was applied, so that an Application has nothing to restore.
        live = stage.live("Agent", "helper", api=API)
        assert live["metadata"]["generation"] == applied["metadata"]["generation"]
        stage.apply(limited(5000))
        eventually(stage, lambda: start_pods(stage) or status(stage).get("ready") == "2/2")


def test_a_prompt_after_an_approved_endpoint_is_not_held(stage: Stage) -> None:
    stage.apply(service(stage, "tickets-mcp", 8081))
    tools = [{"name": "tickets", "type": "MCP", "mcp": {"serviceRef": {"name": "tickets-mcp", "port": 8081}}}]
    serves(stage, model=model(stage, 8000), tools=tools)
    stage.apply(declared(stage, model=model(stage, 9000), tools=tools), manager="kubectl-edit")
    eventually(stage, lambda: status(stage).get("plan"))
    reasons = "; ".join(status(stage)["plan"]["reasons"])
    assert ("endpoint" in reasons, "tool" in reasons) == (True, False), reasons
    approve(stage)
    runs(stage)
    prompt = {"text": "Sort tickets by urgency."}
    stage.apply(declared(stage, model=model(stage, 9000), tools=tools, prompt=prompt), manager="kubectl-edit")
    # Nothing approves: a plan that waits would never run.
    runs(stage)


def cases(stage: Stage) -> dict[str, Any]:
    """Store one case, and return the evaluation that asks it."""
    text = '{"name":"a","input":"x","assert":[{"contains":"y"}]}'
    stage.apply(changed(config_map("cases", **{"c.jsonl": text}), "metadata.namespace", stage.namespace))
    return {"cases": {"name": "cases", "key": "c.jsonl"}}


def test_an_evaluation_that_cannot_be_pulled_is_reported(stage: Stage) -> None:
    serves(stage)
    image = "registry.example.com/gitsync:missing"
    stage.apply(declared(stage, version="2.0.0", evaluation={**cases(stage), "image": image}))

    def is_reported() -> bool:
        start_pods(stage)
        report_pull_failure(stage, image)
        return "ImagePullBackOff" in json.dumps(status(stage).get("conditions", []))

    eventually(stage, is_reported)
    assert image in json.dumps(status(stage)["conditions"])


def test_an_evaluation_that_a_policy_denies_is_reported(stage: Stage) -> None:
    serves(stage)
    metadata = {"name": "default-deny", "namespace": stage.namespace}
    denies: Manifest = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata}
    denies = {**denies, "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}}
    stage.apply(denies)
    image = "registry.example.com/gitsync:forever"
    stage.apply(declared(stage, version="2.0.0", evaluation={**cases(stage), "image": image}))

    def conditions() -> str:
        start_pods(stage)
        return json.dumps(status(stage).get("conditions", []))

    eventually(stage, lambda: "the egress of default-deny denies the requests of the check" in conditions())
    stage.apply(changed(denies, "spec.egress", [{}]))
    eventually(stage, lambda: "denies" not in conditions())


def report_pull_failure(stage: Stage, image: str) -> None:
    """Report containers with this image as waiting for it, as a kubelet does; the sandbox has its own."""
    if not stage.is_real:
        return
    for pod in pods(stage):
        names = [one["name"] for one in pod["spec"]["containers"] if one["image"] == image]
        if not names or at(pod, "status", "containerStatuses"):
            continue
        waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}
        states = [
            {"name": name, "image": image, "imageID": "", "ready": False, "restartCount": 0, "state": waiting}
            for name in names
        ]
        body = {"status": {"phase": "Pending", "containerStatuses": states}}
        stage.patch("Pod", pod["metadata"]["name"], body, "strategic", manager="kubelet", subresource="status")


def test_an_inconclusive_evaluation_neither_passes_nor_fails(stage: Stage) -> None:
    if not stage.is_real:
        pytest.skip("Pods of the sandbox end by themselves; there the evaluation asks processes")
    first = serves(stage)
    # A kubelet without processes lets the Pods of this tag run, so that only the test ends them.
    image = "registry.example.com/gitsync:forever"
    stage.apply(declared(stage, version="2.0.0", evaluation={**cases(stage), "image": image}))
    verdict = json.dumps({"result": "Inconclusive", "message": "0 of 1 cases passed; inconclusive: a"})

    def is_reported() -> bool:
        start_pods(stage)
        end_pods(stage, "helper-validate", "Failed", exitCode=3, message=verdict)
        return "inconclusive: a" in json.dumps(status(stage).get("conditions", []))

    eventually(stage, is_reported)
    assert jobs(stage).keys() <= {name for name in jobs(stage) if name.startswith("helper-validate")}
    assert (status(stage)["currentRevision"], status(stage).get("failedRevision")) == (first, None)
