"""The contract of an Agent: its comparison is a Job, and drift of it reports, evaluates, holds or stops."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from gitsync.agents.expansion.config import config_map
from gitsync.agents.expansion.facts import Facts
from gitsync.agents.expansion.revisions import Revision, revision_of
from gitsync.agents.model.agent import Agent, parse_agent
from gitsync.agents.status import probe_conditions
from gitsync.objects.manifest import Manifest, uid_of
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.operator.contracts import ContractKeeper, ContractState, ProbedAgent
from tests.agents.factories import agent
from tests.fakes.ports import FakeCluster, FakeReaderPorts

NOW = datetime(2026, 1, 1, 3, 0, 30, tzinfo=UTC)
LOCK = {"lock": {"name": "helper-contract", "key": "contracts.lock"}}
EVALUATION = {"cases": {"name": "cases", "key": "cases.jsonl"}}
KEY = {"name": "model", "key": "api-key"}
MODEL = {"provider": "OpenAI", "id": "small", "credentials": {"secretKeyRef": KEY}}
DANGEROUS = {
    "class": "Dangerous",
    "count": 2,
    "differences": [{"place": "tools.a", "difference": "instructs the agent"}],
}
MODERATE = {"class": "Moderate", "count": 1, "differences": [{"place": "tools.a", "difference": "only the wording"}]}
UNCHANGED: dict[str, Any] = {"class": "", "count": 0, "differences": [], "unreachable": []}


class ProbeWorld:
    """An Agent whose Jobs run when a test reports for them."""

    def __init__(self, **spec: Any) -> None:
        manifest = agent(model=MODEL, **spec)
        self.agent: Agent = parse_agent({**manifest, "metadata": {**manifest["metadata"], "uid": "0001"}})
        self.facts = Facts(lock="lock-1", cases="cases-1" if "evaluation" in spec else "")
        self.children: dict[ObjectRef, Manifest] = {}
        self.status: dict[str, Any] = {}
        self.is_configured = True
        self._cluster = FakeCluster()
        self._keeper = ContractKeeper(FakeReaderPorts(self._cluster))  # type: ignore[arg-type]

    def pass_once(self) -> ContractState:
        """Plan as the operator does, create and delete what it wants, and store its status."""
        revision = self.revision
        config = config_map(self.agent, revision.config)
        configured = {ref_of(config): config} if self.is_configured else {}
        probed = ProbedAgent(self.agent, self.facts, revision, revision, {**configured, **self.children}, self.status)
        state = self._keeper.plan(probed, NOW)
        self.children |= {ref: self._cluster.put(job) for ref, job in state.wanted.items()}
        for ref in state.expired:
            del self.children[ref]
        self.status = state.status
        return state

    @property
    def revision(self) -> Revision:
        return revision_of(self.agent, self.facts)

    @property
    def job(self) -> Manifest:
        """The only Job."""
        (found,) = self.children.values()
        return found

    def report(self, report: Mapping[str, Any] | None, condition: str = "Complete") -> ContractState:
        """End the only Job with this report, and return what follows once it is stored."""
        job = self.job
        container = job["spec"]["template"]["spec"]["containers"][0]["name"]
        terminated = {"exitCode": 0, **({"message": json.dumps(report)} if report is not None else {})}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{job['metadata']['name']}-x",
                "namespace": "shop",
                "ownerReferences": [{"uid": uid_of(job), "controller": True}],
            },
            "status": {
                "phase": "Succeeded",
                "containerStatuses": [{"name": container, "state": {"terminated": terminated}}],
            },
        }
        self._cluster.put(pod)
        ended = {**job, "status": {"conditions": [{"type": condition, "status": "True", "message": "it ended"}]}}
        self.children[ref_of(job)] = ended
        self.pass_once()
        return self.pass_once()


def test_a_comparison_has_the_keys_of_the_revision_and_no_others() -> None:
    world = ProbeWorld(contract=LOCK, runtime={"image": "a:1", "env": [{"name": "OTHER", "value": "x"}]})
    world.pass_once()
    pod = world.job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert "AGENT_MODEL_API_KEY" in [variable["name"] for variable in container["env"]]
    assert "OTHER" not in [variable["name"] for variable in container["env"]]
    assert container["command"][:6] == ["gitsync", "agent", "lock", ".", "shop/helper", "--check"]
    assert pod["automountServiceAccountToken"] is False
    assert [volume["configMap"]["name"] for volume in pod["volumes"]] == [
        config_map(world.agent, world.revision.config)["metadata"]["name"],
        "helper-contract",
    ]


def test_a_comparison_begins_once_its_configuration_is_there() -> None:
    world = ProbeWorld(contract=LOCK)
    world.is_configured = False
    state = world.pass_once()
    assert (state.wanted, state.requeue_after) == ({}, 1.0)
    world.is_configured = True
    state = world.pass_once()
    assert len(state.wanted) == 1
    # The main plan, which comes after, must not delete it.
    assert state.kept == state.wanted.keys()
    # A second pass with nothing changed begins nothing.
    assert (world.pass_once().wanted, len(world.children)) == ({}, 1)


def test_an_ended_comparison_is_stored_before_its_job_goes() -> None:
    world = ProbeWorld(contract=LOCK)
    assert world.pass_once().pending == "the comparison of its contract with the lock to end"
    state = world.report(UNCHANGED)
    assert (state.held, state.pending, state.stopped, state.contract["result"]) == ("", "", "", "Unchanged")
    assert world.children == {}
    assert world.pass_once().wanted == {}


@pytest.mark.parametrize(
    ("action", "report", "held", "stopped"),
    [
        (None, DANGEROUS, True, False),
        (None, MODERATE, False, False),
        (None, UNCHANGED, False, False),
        ("Report", DANGEROUS, False, False),
        ("Hold", MODERATE, True, False),
        ("Stop", DANGEROUS, True, True),
        ("Stop", UNCHANGED, False, False),
        ("Hold", {"class": "Safe", "count": 1, "differences": [{"place": "a", "difference": "b"}]}, False, False),
        ("Stop", {"count": 0, "unreachable": ["a: does not answer"]}, False, False),
    ],
)
def test_drift_has_the_chosen_effect(action: str | None, report: dict[str, Any], held: bool, stopped: bool) -> None:
    policy = {**LOCK, **({"onContractDrift": action} if action else {})}
    world = ProbeWorld(contract=policy)
    world.pass_once()
    state = world.report(report)
    assert (bool(state.held), bool(state.stopped)) == (held, stopped)


def test_a_stop_ends_only_once_another_lock_is_compared() -> None:
    world = ProbeWorld(contract={**LOCK, "onContractDrift": "Stop"})
    world.pass_once()
    assert world.report(DANGEROUS).stopped == "contract drift (Dangerous): tools.a: instructs the agent and 1 more"
    world.facts = Facts(lock="lock-2")
    assert world.pass_once().stopped
    assert not world.report(UNCHANGED).stopped


def test_a_missing_lock_is_awaited_as_a_comparison() -> None:
    world = ProbeWorld(contract=LOCK)
    world.facts = Facts()
    state = world.pass_once()
    assert (state.wanted, bool(state.pending)) == ({}, True)
    assert ProbeWorld().pass_once() == ContractState()
    assert ProbeWorld(contract={**LOCK, "onContractDrift": "Report"}).pass_once().pending == ""


def test_moderate_drift_asks_the_cases_and_their_failure_holds() -> None:
    world = ProbeWorld(contract=LOCK, evaluation=EVALUATION)
    world.pass_once()
    assert world.report(MODERATE).held == ""
    command = world.job["spec"]["template"]["spec"]["containers"][0]["command"]
    assert command[command.index("--url") + 1] == "http://helper.shop.svc.cluster.local:8080/"
    assert "--serving" not in command

    failed = world.report({"result": "Failed", "passed": 0, "cases": 1, "message": "0 of 1 cases passed"})

    assert "cases fail: 0 of 1 cases passed" in failed.held
    conditions = {
        condition.type: (condition.status, condition.reason)
        for condition in probe_conditions(world.agent, failed.contract, failed.behaviour)
    }
    assert conditions == {"ContractDrift": ("True", "Moderate"), "BehaviouralDrift": ("True", "CasesFailed")}


def test_scheduled_cases_are_asked_of_what_serves() -> None:
    world = ProbeWorld(evaluation={**EVALUATION, "schedule": "0 3 * * *"})
    world.pass_once()
    assert world.job["metadata"]["name"].startswith("helper-behaviour-")
    state = world.report({"result": "Passed", "passed": 1, "cases": 1, "message": "1 of 1 cases passed"})
    assert (state.behaviour["result"], state.held, state.requeue_after) == ("Unchanged", "", 86400 - 30)


def test_a_job_that_failed_without_a_report_is_repeated() -> None:
    world = ProbeWorld(contract=LOCK)
    world.pass_once()
    state = world.report(None, "Failed")
    assert (state.contract["result"], state.contract["message"]) == ("Inconclusive", "it ended")
    # The next attempt is later, and until then a rollout is not held by an outage.
    assert (state.requeue_after, state.held, state.pending) == (60, "", "")


def test_a_suspended_agent_is_not_probed() -> None:
    assert ProbeWorld(contract=LOCK, suspend=True).pass_once().wanted == {}
