"""Compare the contract of an Agent with its lock, ask its cases again, and decide what a difference means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from gitsync.agents.contract.series import ProbeResult, ProbeSeries, behaviour_result, contract_result
from gitsync.agents.expansion.checks import CONTRACT, EVALUATION, behaviour_job, contract_job
from gitsync.agents.expansion.config import config_name
from gitsync.agents.expansion.facts import Facts
from gitsync.agents.expansion.revisions import Revision
from gitsync.agents.keys import CONTRACT_LABEL
from gitsync.agents.model.agent import Agent
from gitsync.agents.model.evaluation import ContractPolicy, DriftAction
from gitsync.objects.change import Risk
from gitsync.objects.manifest import Manifest, at, labels_of
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.operator.observations import EvaluationReader
from gitsync.ports import Ports

_DEFAULTS: Final[Mapping[str, DriftAction]] = {Risk.MODERATE.value: "Evaluate", Risk.DANGEROUS.value: "Hold"}
_OF_CASES: Final = ("passed", "cases", "message", "results")
_OF_CONTRACT: Final = ("class", "count", "differences", "unreachable", "message")
_UNCONFIGURED: Final = 1.0
"""Seconds until an Agent is reconciled again whose revision has no configuration in the cluster yet."""
_HINT: Final = "review it by gitsync agent lock, and commit the lock"


@dataclass(frozen=True, slots=True)
class ProbedAgent:
    """An Agent whose contract is compared: the revision of its spec, the one that serves, and its last status."""

    agent: Agent
    facts: Facts
    target: Revision
    serving: Revision | None
    children: Mapping[ObjectRef, Manifest]
    previous: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ContractState:
    """
    What the probes of an Agent say now.

    ``wanted`` are the Jobs to begin, ``kept`` those that live, ``expired`` those that are not needed any more. ``held``
    is why no new revision is begun, ``pending`` what one waits for, ``stopped`` why all Pods end; they are empty where
    nothing is done.
    """

    wanted: Mapping[ObjectRef, Manifest] = field(default_factory=dict)
    kept: frozenset[ObjectRef] = frozenset()
    expired: Mapping[ObjectRef, Manifest] = field(default_factory=dict)
    contract: Mapping[str, Any] = field(default_factory=dict)
    behaviour: Mapping[str, Any] = field(default_factory=dict)
    held: str = ""
    pending: str = ""
    stopped: str = ""
    requeue_after: float | None = None

    @property
    def status(self) -> dict[str, Any]:
        """The members of the status."""
        members = {"contract": dict(self.contract), "behaviour": dict(self.behaviour)}
        return {name: value for name, value in members.items() if value}


class ContractKeeper:
    """Plan the probes of an Agent from the local copies, and read their reports."""

    def __init__(self, ports: Ports) -> None:
        self._reader = EvaluationReader(ports)

    def plan(self, probed: ProbedAgent, now: datetime) -> ContractState:
        """Return the probes to begin, what the ended ones found, and what that means for the rollout."""
        jobs = {
            ref: child
            for ref, child in probed.children.items()
            if ref.kind == "Job" and CONTRACT_LABEL in labels_of(child)
        }
        policy = probed.agent.spec.contract
        wanted: dict[ObjectRef, Manifest] = {}
        contract: Mapping[str, Any] = {}
        delays = []
        # Without its lock nothing can be compared; ReferencesResolved names it.
        if policy is not None and probed.facts.lock:
            series = _contract_series(probed, policy, now)
            job = contract_job(probed.agent, policy, probed.target, series.id)
            contract = self._advance(probed, series, job, wanted)
            delays.append(series.requeue_after)
            if series.is_due and not _is_configured(probed) and not probed.agent.spec.suspend:
                # The writes of this pass create it, and no event of a child may follow.
                delays.append(_UNCONFIGURED)
        stored = probed.previous.get("contract") or {}
        # Another lock or revision ends a stop once it is compared, not before.
        if policy is not None and not contract and _action(policy, stored, probed) == "Stop":
            contract = stored
        action = _action(policy, contract, probed)
        behaviours = _behaviour_series(probed, contract if action == "Evaluate" else {}, now)
        behaviour: Mapping[str, Any] = {}
        if behaviours is not None and probed.serving is not None:
            asking = behaviour_job(probed.agent, probed.serving, behaviours.id)
            behaviour = self._advance(probed, behaviours, asking, wanted)
            delays.append(behaviours.requeue_after)
        begun = wanted.keys() & jobs.keys()
        return ContractState(
            wanted={ref: job for ref, job in wanted.items() if ref not in jobs},
            # Also those of this pass: the main plan after it reads the children again.
            kept=frozenset(jobs) | wanted.keys(),
            # The report of an ended one is in the status.
            expired={ref: job for ref, job in jobs.items() if ref not in begun},
            contract=contract,
            behaviour=behaviour,
            held=_held(action, contract, behaviour),
            pending=_pending(policy, contract) if policy else "",
            stopped=_message(contract) if action == "Stop" else "",
            requeue_after=min((delay for delay in delays if delay is not None), default=None),
        )

    def _advance(
        self, probed: ProbedAgent, series: ProbeSeries, job: Manifest | None, wanted: dict[ObjectRef, Manifest]
    ) -> Mapping[str, Any]:
        """Return the status of a series; add its next Job to the wanted ones until its report is known."""
        last = series.last if series.is_known else {}
        if job is None or not series.is_due or probed.agent.spec.suspend or not _is_configured(probed):
            return last
        ref = ref_of(job)
        live = probed.children.get(ref)
        container = at(job, "spec", "template", "spec", "containers", 0, "name")
        report = self._reader.report(probed.agent, live, container) if live is not None else None
        if report is None:
            wanted[ref] = job
            return last
        # It stays until its report is stored: a crash before that must not lose the result.
        wanted[ref] = job
        judge = contract_result if container == CONTRACT else behaviour_result
        result, is_complete = judge(report)
        return series.ended(result, _shown(container, report), is_complete)


def _contract_series(probed: ProbedAgent, policy: ContractPolicy, now: datetime) -> ProbeSeries:
    settings = policy.model_dump_json(exclude={"schedule", "on_contract_drift"})
    subject = (probed.facts.lock, probed.target.name, settings)
    return ProbeSeries(subject, probed.previous.get("contract") or {}, policy.schedule, now)


def _behaviour_series(probed: ProbedAgent, drift: Mapping[str, Any], now: datetime) -> ProbeSeries | None:
    """Return the series of the cases, None where neither a schedule nor drift asks for it."""
    evaluation = probed.agent.spec.evaluation
    if evaluation is None or probed.serving is None or not probed.facts.cases:
        return None
    if evaluation.schedule is None and not drift:
        return None
    # Other drift asks again; the same one found by the next comparison does not.
    reason = str([drift.get("subject"), drift.get("differences")]) if drift else ""
    subject = (
        probed.facts.cases,
        probed.serving.name,
        evaluation.model_dump_json(exclude={"schedule"}, exclude_defaults=True),
        reason,
    )
    return ProbeSeries(subject, probed.previous.get("behaviour") or {}, evaluation.schedule, now)


def _is_configured(probed: ProbedAgent) -> bool:
    """Whether the Pod of a comparison could start: it mounts the configuration, which the main plan creates."""
    name = config_name(probed.agent, probed.target.config)
    return ObjectRef("", "ConfigMap", probed.agent.namespace, name) in probed.children


def _action(policy: ContractPolicy | None, contract: Mapping[str, Any], probed: ProbedAgent) -> DriftAction:
    """Return what is done about the drift that is known."""
    risk = str(contract.get("class", ""))
    # What the agent cannot see needs no action, whatever the policy is.
    if policy is None or contract.get("result") != ProbeResult.DRIFTED.value or risk not in _DEFAULTS:
        return "Report"
    action = policy.on_contract_drift or _DEFAULTS[risk]
    return "Report" if action == "Evaluate" and probed.agent.spec.evaluation is None else action


def _held(action: DriftAction, contract: Mapping[str, Any], behaviour: Mapping[str, Any]) -> str:
    """Return why no new revision is begun until the lock or the servers change."""
    if action in ("Hold", "Stop"):
        return f"{_message(contract)}; {_HINT}"
    if action == "Evaluate" and behaviour.get("result") == ProbeResult.DRIFTED.value:
        return f"{_message(contract)}, and cases fail: {behaviour.get('message', '')}; {_HINT}"
    return ""


def _pending(policy: ContractPolicy, contract: Mapping[str, Any]) -> str:
    """Return what a new revision waits for: the first comparison, where its result could hold it."""
    # Also without a lock, which would be a way around the comparison.
    is_awaited = not contract and policy.on_contract_drift in (None, "Hold", "Stop")
    return "the comparison of its contract with the lock to end" if is_awaited else ""


def _message(contract: Mapping[str, Any]) -> str:
    """Return the worst difference in words."""
    rows: Sequence[Mapping[str, str]] = contract.get("differences") or ({},)
    first = rows[0]
    more = int(contract.get("count", 1)) - 1
    text = f"contract drift ({contract.get('class', '')}): {first.get('place', '')}: {first.get('difference', '')}"
    return f"{text} and {more} more" if more else text


def _shown(container: str, report: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the members of a report that the status has; the result of a probe has names of its own."""
    names = _OF_CASES if container == EVALUATION else _OF_CONTRACT
    return {name: report[name] for name in names if name in report}
