"""Changes of an Agent that runs, on fakes of the ports: until a verdict, what serves keeps all that it needs."""

from __future__ import annotations

from typing import Any

import pytest

from gitsync.agents.keys import BACKUP
from gitsync.objects.change import Review
from gitsync.objects.manifest import at
from gitsync.objects.ref import ref_of
from gitsync.objects.user import User
from tests.agents.factories import agent
from tests.operator.agent_world import config_map, secret
from tests.operator.fake_operator import Operator

IMAGE = "registry.internal/agents/helper:1.0"
CHECKS: dict[str, Any] = {"lifecycle": {"validate": [{"name": "check", "exec": {"command": ["true"]}}]}}
MODEL = {"provider": "OpenAICompatible", "id": "local", "endpoint": "http://local-model:8000/v1"}
OTHER_MODEL = {**MODEL, "endpoint": "http://model-b:9000/v1"}
TOOL = {"name": "tickets", "type": "MCP", "mcp": {"serviceRef": {"name": "tickets-mcp", "port": 8080, "path": "/mcp"}}}
VOLUME = {"name": "tmp", "mountPath": "/tmpd", "size": "1Gi", "onDelete": "Delete"}
RECREATE = {"type": "Recreate"}
CANARY: dict[str, Any] = {"type": "Canary", "canary": {"steps": [{"weight": 25, "pauseSeconds": 600}, {"weight": 100}]}}
DRAIN_SECONDS = 31
CREATED = "2026-11-20T09:00:00Z"
SHARED = ("NetworkPolicy", "Service", "PersistentVolumeClaim", "ServiceAccount")

CHANGES = [
    pytest.param(
        {"model": MODEL, "runtime": {"image": IMAGE, "port": 8080}},
        {"model": OTHER_MODEL, "runtime": {"image": IMAGE, "port": 9090}},
        id="another endpoint and port",
    ),
    pytest.param({"tools": [TOOL]}, {"tools": [], "version": "2"}, id="a tool is removed"),
    pytest.param({"leaderElection": {}}, {"version": "2"}, id="no leader any more"),
    pytest.param(
        {"state": {"volumes": [VOLUME]}, "update": RECREATE}, {"update": RECREATE}, id="a volume that goes is removed"
    ),
    pytest.param(
        {"model": MODEL, "update": RECREATE}, {"model": OTHER_MODEL, "update": RECREATE}, id="another endpoint at once"
    ),
]


SLICE = {
    "apiVersion": "discovery.k8s.io/v1",
    "kind": "EndpointSlice",
    "metadata": {"name": "kubernetes", "namespace": "default", "labels": {"kubernetes.io/service-name": "kubernetes"}},
    "endpoints": [{"addresses": ["10.0.0.1"]}],
    "ports": [{"port": 6443}],
}
SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "tickets-mcp", "namespace": "shop"}}
REACHED = (SLICE, {**SERVICE, "spec": {"selector": {"app": "tickets"}, "ports": [{"port": 8080, "targetPort": 9000}]}})
"""What the rules of a policy are made of: the Pods and ports behind a Service, and the addresses of API servers."""


def shared(operator: Operator) -> dict[str, Any]:
    """Return the specs of the children that all revisions share, by kind and name."""
    return {f"{kind}/{live['metadata']['name']}": live.get("spec") for kind in SHARED for live in operator.named(kind)}


def lost(needed: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Return what children had and do not have any more: objects, and items of their lists."""
    gone = [name for name in needed if name not in now]
    for name in needed.keys() & now.keys():
        for member, items in (needed[name] or {}).items():
            # A Service lists ports and a policy rules; the names of ports may change.
            wanted = [_nameless(item) for item in items] if isinstance(items, list) else []
            live = [_nameless(item) for item in (now[name] or {}).get(member) or ()] if wanted else []
            gone += [f"{name} {member}: {item}" for item in wanted if item not in live]
    return gone


def _nameless(item: Any) -> Any:
    return {key: value for key, value in item.items() if key != "name"} if isinstance(item, dict) else item


def checked(**spec: Any) -> Operator:
    """Return an Agent whose first revision has passed its checks, and whose plans are approved."""
    operator = Operator(**CHECKS, **spec)
    for live in REACHED:
        operator.cluster.put(live)
    operator.records.reviewed = Review(User("ada"), approves=True)
    operator.run()
    operator.run()
    operator.end_job("helper-validate-", "Complete")
    operator.settle()
    assert operator.status["phase"] == "Running", operator.status
    return operator


def assert_reached(spec: dict[str, Any], rules: list[Any]) -> None:
    """Fail where the rules of a policy do not name what is behind a tool or the API server."""
    assert ("9000" in str(rules)) == ("tools" in spec)
    assert ("10.0.0.1/32" in str(rules)) == ("leaderElection" in spec)


@pytest.mark.parametrize(("before", "after"), CHANGES)
def test_failed_checks_change_nothing_that_serves(before: dict[str, Any], after: dict[str, Any]) -> None:
    operator = checked(**before)
    children = shared(operator)
    assert_reached(before, children["NetworkPolicy/helper"]["egress"])
    template = operator.deployment()["spec"]["template"]
    good = operator.status["lastGoodRevision"]

    operator.put(agent(**CHECKS, **after))
    for _ in range(6):
        operator.run()
        assert lost(children, shared(operator)) == []
    assert operator.status["updateRevision"] != good
    operator.end_job("helper-validate-", "Failed")
    for _ in range(6):
        operator.run()
        assert lost(children, shared(operator)) == []
    # Pods of the failed revision may still end until here.
    operator.run(seconds=DRAIN_SECONDS)
    operator.run()

    assert (operator.status["currentRevision"], operator.status["lastGoodRevision"]) == (good, good)
    assert operator.deployment()["spec"]["template"] == template
    assert shared(operator) == children


def test_a_policy_narrows_only_after_the_last_step() -> None:
    before: dict[str, Any] = {"tools": [TOOL], "replicas": 4, "update": CANARY}
    operator = Operator(**before)
    operator.settle()
    rules = shared(operator)["NetworkPolicy/helper"]["egress"]
    operator.put(agent(**{**before, "tools": [], "version": "2"}))
    for _ in range(6):
        operator.run()
    assert {live["metadata"]["name"] for live in operator.named("Deployment")} == {"helper", "helper-canary"}
    assert shared(operator)["NetworkPolicy/helper"]["egress"] == rules
    operator.run(seconds=601)
    operator.run()
    assert operator.status["phase"] == "Running"
    assert shared(operator)["NetworkPolicy/helper"]["egress"] == rules, "Pods of the former revision may still end"
    operator.run(seconds=DRAIN_SECONDS)
    assert len(shared(operator)["NetworkPolicy/helper"]["egress"]) < len(rules)


def test_no_data_is_offered_for_deletion_while_a_rollout_runs() -> None:
    volume = {**VOLUME, "accessModes": ["ReadWriteMany"]}
    operator = Operator(state={"volumes": [volume]}, replicas=4, update=CANARY)
    operator.settle()
    operator.put(agent(replicas=4, update=CANARY))
    _assert_data_is_kept(operator, 4)  # The claim that only the old revision of this rollout has.
    operator.run(seconds=601)
    _assert_data_is_kept(operator, 2)  # Its Pods may still end.
    operator.run(seconds=DRAIN_SECONDS)
    operator.run()
    assert (operator.status["plan"]["class"], operator.status["plan"]["steps"]) == ("Dangerous", 1)
    # What no revision in use has waits too: one approval must not delete amid another change.
    operator.put(agent(replicas=4, update=CANARY, version="2"))
    operator.run()
    _assert_data_is_kept(operator, 4)
    operator.run(seconds=601)
    operator.run(seconds=DRAIN_SECONDS)
    operator.run()
    assert operator.status["plan"]["steps"] == 1


def _assert_data_is_kept(operator: Operator, passes: int) -> None:
    for _ in range(passes):
        operator.run()
        assert "plan" not in operator.status
        assert operator.named("PersistentVolumeClaim")


def test_a_failed_first_revision_is_checked_once() -> None:
    operator = Operator(**CHECKS)
    for _ in range(3):
        operator.run()
    operator.end_job("helper-validate-", "Failed")
    for _ in range(5):
        operator.run(seconds=60)
    # The Job is deleted, as by a user or a time to live: its verdict is kept by the revision and the status.
    (job,) = operator.named("Job", "helper-validate-") or (None,)
    if job is not None:
        operator.cluster.delete(ref_of(job), "v1", uid=job["metadata"].get("uid", ""))
    operator.start()
    for _ in range(5):
        operator.run(seconds=60)
    assert operator.created("helper-validate-") == 1
    assert operator.condition("Stalled")["status"] == "True"


def test_a_missing_or_relabelled_secret_ends_no_pod() -> None:
    keys = secret("k", **{"api-key": "A"})
    operator = Operator(
        model={**MODEL, "credentials": {"secretKeyRef": {"name": "k", "key": "api-key"}}}, update=RECREATE
    )
    operator.cluster.put(keys)
    operator.settle()
    serving = operator.deployment()["spec"]

    live = operator.cluster.put({**keys, "metadata": {**keys["metadata"], "labels": {"team": "support"}}})
    operator.settle()
    assert operator.deployment()["spec"] == serving
    operator.cluster.delete(ref_of(live), "v1", uid=live["metadata"]["uid"])
    operator.settle()
    assert operator.deployment()["spec"] == serving
    assert operator.condition("ReferencesResolved")["message"].startswith("Secret k does not exist")
    operator.cluster.put(secret("k", **{"api-key": "B"}))
    operator.settle()
    assert operator.deployment()["spec"] != serving


def test_a_requested_backup_is_made_once_whatever_is_kept() -> None:
    saved: dict[str, Any] = {
        "state": {"volumes": [VOLUME]},
        "backup": {"schedule": "* * * * *", "keep": 1, "command": ["copy"]},
        "update": RECREATE,
    }
    operator = Operator(**saved)
    operator.put(agent(**saved), creationTimestamp=CREATED)
    operator.settle()
    operator.put(agent(**saved), creationTimestamp=CREATED, annotations={BACKUP: "mine"})
    for _ in range(5):
        operator.run()
        _end_backups(operator)
        operator.run(seconds=60)
    assert operator.status["backup"]["lastGood"] != "mine"
    assert operator.created("helper-backup-mine") == 1
    assert operator.named("Job", "helper-backup-mine") == []


def _end_backups(operator: Operator) -> None:
    """End the running backups; each began at the time of now."""
    for job in operator.named("Job", "helper-backup-"):
        began = job["metadata"].get("creationTimestamp") or operator.clock.now().isoformat()
        status = {"conditions": [{"type": "Complete", "status": "True"}]}
        operator.cluster.put({**job, "metadata": {**job["metadata"], "creationTimestamp": began}, "status": status})


UNRELATED: dict[str, dict[str, Any]] = {
    "model": {"model": OTHER_MODEL},
    "network": {"network": {"egressTo": [{"cidr": "10.0.0.0/8"}]}},
    "tracing": {"observability": {"tracing": {"endpoint": "http://elsewhere:4317", "captureContent": True}}},
    "election": {"leaderElection": {}},
}


@pytest.mark.parametrize("name", UNRELATED)
def test_a_held_change_names_no_tools_that_it_does_not_change(name: str) -> None:
    before: dict[str, Any] = {"model": MODEL, "tools": [TOOL]}
    operator = Operator(**before)
    operator.settle()
    operator.put(agent(**{**before, **UNRELATED[name]}))
    operator.run()
    plan = operator.status["plan"]
    assert (plan["class"], "tool" in str(plan["reasons"])) == ("Dangerous", False), plan


@pytest.mark.parametrize("endpoint", ["https://api.openai.com/v1", "http://model.elsewhere.svc:8000/v1"])
def test_a_limited_controller_runs_an_agent_with_a_far_model(endpoint: str) -> None:
    operator = Operator(
        model={**MODEL, "endpoint": endpoint}, network={"egressTo": [{"cidr": "0.0.0.0/0", "ports": [443]}]}
    )
    operator.live.namespaces = frozenset({"shop", "default"})
    operator.settle()
    assert operator.status["phase"] == "Running"


CASES = '{"name": "a", "input": "x", "assert": [{"contains": "y"}]}'


def evaluated() -> Operator:
    """Return an Agent whose first revision is being evaluated."""
    operator = Operator(evaluation={"cases": {"name": "cases", "key": "c.jsonl"}})
    operator.cluster.put(config_map("cases", **{"c.jsonl": CASES}))
    for _ in range(3):
        operator.run()
    return operator


def test_an_evaluation_that_a_quota_refuses_is_reported_at_once() -> None:
    operator = evaluated()
    (job,) = operator.named("Job")
    for container in at(job, "spec", "template", "spec", "containers"):
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
    operator.cluster.put({**job, "status": {"startTime": operator.clock.now().isoformat()}})
    delay = operator.run(seconds=10)
    assert "no Pod of Job helper-validate-" in str(operator.status["conditions"])
    assert delay is not None
    assert delay <= 10


def test_an_evaluation_that_a_policy_denies_is_reported_at_once() -> None:
    operator = evaluated()
    assert "denies" not in str(operator.status["conditions"])
    metadata = {"name": "default-deny", "namespace": "shop"}
    denies: dict[str, Any] = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata}
    denies["spec"] = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    operator.cluster.put(denies)
    delay = operator.run()
    assert "egress of default-deny denies the requests of the check" in operator.condition("Reconciling")["message"]
    assert delay is not None
    assert delay <= 10
    # What it asks is allowed, so that the reason goes; the Agent's own policy allows what arrives.
    denies["spec"] |= {"egress": [{"to": [{"podSelector": {}}]}]}
    operator.cluster.put(denies)
    operator.run()
    assert "denies" not in str(operator.status["conditions"])
