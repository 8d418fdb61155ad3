"""Reconciles of one Agent on fakes of the ports: its children, its status, and when it is reconciled again."""

from __future__ import annotations

from gitsync.agents.keys import STOPPED
from gitsync.errors import Rejected
from gitsync.objects.change import Review
from gitsync.objects.user import User
from tests.agents.factories import agent
from tests.operator.fake_operator import Operator

RETRY = 15.0


def test_an_agent_becomes_its_children_and_runs() -> None:
    operator = Operator()
    operator.settle()
    assert {"ConfigMap", "ControllerRevision", "Deployment", "NetworkPolicy", "Service"} <= operator.children()
    assert operator.status["phase"] == "Running"
    assert operator.status["observedGeneration"] == 1
    assert operator.status["lastGoodRevision"] == operator.status["updateRevision"]


def test_a_reconcile_of_what_runs_writes_nothing() -> None:
    operator = Operator()
    operator.settle()
    operator.reconcile()
    operator.cluster.writes.clear()
    operator.reconcile()
    assert operator.cluster.writes == []


def test_a_deleted_agent_is_left_to_the_garbage_collector() -> None:
    operator = Operator()
    operator.put(agent(), deletionTimestamp="2026-11-20T10:00:00Z")
    assert operator.reconcile() is None
    assert operator.cluster.writes == []


def test_an_invalid_spec_is_reported_and_changes_no_child() -> None:
    operator = Operator()
    operator.settle()
    kinds = operator.children()
    operator.put(agent(replicas=-1))
    assert operator.reconcile() is None
    assert "replicas" in operator.condition("Ready")["message"]
    assert operator.children() == kinds


def test_an_agent_without_its_prompt_waits_for_it() -> None:
    prompt = {"configMapKeyRef": {"name": "prompts", "key": "helper"}}
    operator = Operator(prompt=prompt)
    assert operator.reconcile() is None
    assert operator.condition("ReferencesResolved")["message"] == "ConfigMap prompts does not exist"
    assert "Deployment" not in operator.children()
    metadata = {"name": "prompts", "namespace": "shop"}
    operator.cluster.put(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"helper": "Be brief."}}
    )
    operator.settle()
    assert operator.status["phase"] == "Running"


def test_a_stopped_agent_runs_no_pod_and_says_why() -> None:
    operator = Operator()
    operator.settle()
    operator.put(agent(), annotations={STOPPED: "by ada: it leaks"})
    assert operator.reconcile() is None
    assert operator.deployment()["spec"]["replicas"] == 0
    assert "it leaks" in str(operator.status["conditions"])
    counts = ("ready", "readyReplicas", "updatedReplicas")
    assert [operator.status[count] for count in counts] == ["0/1", 0, 0]
    operator.put(agent())
    operator.settle()
    assert operator.deployment()["spec"]["replicas"] == 1


def test_a_stop_waits_for_no_approval() -> None:
    operator = Operator()
    operator.settle()
    endpoint = {"provider": "OpenAI", "id": "small", "endpoint": "https://elsewhere.example"}
    operator.put(agent(model=endpoint), annotations={STOPPED: "by ada"})
    operator.reconcile()
    assert operator.deployment()["spec"]["replicas"] == 0


def test_a_dangerous_change_by_hand_is_held_until_approved() -> None:
    operator = Operator()
    operator.settle()
    revision = operator.status["updateRevision"]
    endpoint = {"provider": "OpenAI", "id": "small", "endpoint": "https://elsewhere.example"}
    operator.put(agent(model=endpoint))
    operator.reconcile()
    assert operator.status["plan"]["class"] == "Dangerous"
    assert operator.status["updateRevision"] == revision, "the rollout stays where it is"
    operator.records.reviewed = Review(User("ada"), approves=True)
    operator.settle()
    assert "plan" not in operator.status
    assert operator.status["updateRevision"] != revision


def test_a_conflict_is_reported_and_tried_again() -> None:
    operator = Operator()
    operator.cluster.put(
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "helper", "namespace": "shop"}, "spec": {}}
    )
    assert operator.reconcile() == RETRY
    assert "Service shop/helper exists and does not belong to" in str(operator.status["conditions"])
    assert "Deployment" not in operator.children()


def test_a_child_that_cannot_be_written_is_tried_again() -> None:
    operator = Operator()
    operator.cluster.failures["helper"] += [Rejected("exceeded quota", code=403)]
    delay = operator.reconcile()
    while delay == 0.0:
        delay = operator.reconcile()
    assert delay is not None
    operator.settle()
    assert operator.status["phase"] == "Running"


def test_a_new_revision_is_rolled_out() -> None:
    operator = Operator()
    operator.settle()
    revision = operator.status["updateRevision"]
    operator.put(agent(version="2"))
    operator.settle()
    assert operator.status["updateRevision"] != revision
    assert operator.status["lastGoodRevision"] == operator.status["updateRevision"]


def test_a_change_that_no_pod_has_keeps_the_revision() -> None:
    operator = Operator()
    operator.settle()
    revision = operator.status["updateRevision"]
    operator.put(agent(replicas=2))
    operator.settle()
    assert operator.status["updateRevision"] == revision
    assert operator.deployment()["spec"]["replicas"] == 2


def test_a_kind_that_is_not_served_is_reported_and_left_out() -> None:
    operator = Operator(autoscaling={"provider": "KEDA", "maxReplicas": 3})
    operator.settle()
    assert "ScaledObject" not in operator.children()
    assert operator.condition("ScalingActive")["message"] == "the cluster does not serve ScaledObject"
    monitored = Operator(observability={"metrics": {"serviceMonitor": "Always"}})
    monitored.settle()
    assert "ServiceMonitor" not in monitored.children()
    missing = monitored.condition("ReferencesResolved")
    assert (missing["status"], missing["reason"]) == ("False", "KindNotServed")
    assert missing["message"] == "the cluster does not serve ServiceMonitor"


def test_a_status_that_did_not_change_makes_no_event() -> None:
    operator = Operator()
    operator.settle()
    operator.reconcile()
    events = [ref for ref in operator.cluster.objects if ref.kind == "Event"]
    operator.reconcile()
    assert [ref for ref in operator.cluster.objects if ref.kind == "Event"] == events
