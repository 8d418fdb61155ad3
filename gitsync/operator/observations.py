"""What the operator observes beside workloads: queries of canaries and budgets, verdicts of evaluations, and routes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from math import isfinite
from typing import Any, Final

from gitsync.agents.budget import BudgetReading, BudgetState, TokenCount, judge_budget, parse_prices, usage_query
from gitsync.agents.evaluation.verdict import EvaluationResult, inconclusive, reported
from gitsync.agents.expansion.access import is_routed
from gitsync.agents.expansion.checks import EVALUATION, checks_hash, validation_name
from gitsync.agents.expansion.facts import Facts
from gitsync.agents.expansion.network import denied_check
from gitsync.agents.expansion.revisions import Revision
from gitsync.agents.expansion.volumes import is_stateful
from gitsync.agents.keys import ABORT, CHECKS, PROMOTE, RETRY, TRACK_LABEL
from gitsync.agents.model.agent import Agent
from gitsync.agents.model.scaling import Analysis
from gitsync.agents.rollout.observed import AnalysisResult, CheckResult, Observed, Route, workload_of
from gitsync.agents.rollout.state import RolloutStage, RolloutState, Track
from gitsync.errors import InvalidInput
from gitsync.health.workloads import pod_trouble
from gitsync.objects.health import Health
from gitsync.objects.keys import AGENTS_MANAGER
from gitsync.objects.manifest import Manifest, at, metadata_of, uid_of
from gitsync.objects.ref import GroupKind, ObjectRef, ref_of
from gitsync.operator.kinds import child_resources
from gitsync.ports import Cluster, LiveCache, MetricResult, MetricsProvider, Ports
from gitsync.sync.observe import health_of

_WORKLOADS = ("Deployment", "StatefulSet")

_PERIOD = 10.0
"""Seconds between two evaluations of the queries of a canary."""

_PENDING = 0.3
"""Seconds until the answer of a query is read: an older one than a period does not count."""

_PENDING_ANSWER = AnalysisResult(is_pending=True)
_UNCONFIGURED = MetricResult(problem="it needs a Prometheus, see GITSYNC_PROMETHEUS")


class RolloutAnalysis:
    """Evaluate the queries of canaries; without a Prometheus, or while it fails, they have no data."""

    def __init__(self, metrics: MetricsProvider | None) -> None:
        self._metrics = metrics

    def result(self, agent: Agent, state: RolloutState) -> AnalysisResult:
        """Return which limit a canary exceeds, and which query has no data."""
        return AnalysisResult.of([self._compare(limit, agent, state) for limit in _limits(agent, state)])

    def period(self, agent: Agent, state: RolloutState, last: AnalysisResult) -> float | None:
        """Return the seconds until the queries are evaluated again, None where none is."""
        if self._metrics is None or not _limits(agent, state):
            return None
        return _PENDING if last.is_pending else _PERIOD

    def _compare(self, limit: Analysis, agent: Agent, state: RolloutState) -> AnalysisResult:
        result = self._read(limit, agent, state.goal)
        if result is None:
            return _PENDING_ANSWER
        if not result.samples:
            return _without_data(limit, result.problem)
        value = _worst(result)
        if limit.max is not None and value > limit.max:
            return AnalysisResult(f"{limit.name} is {value:.4g}, over {limit.max:g}")
        if limit.max_above_serving is None:
            return AnalysisResult()
        serving = self._read(limit, agent, state.current)
        if serving is None:
            return _PENDING_ANSWER
        if not serving.samples:
            return _without_data(limit, f"the revision that serves: {serving.problem}")
        maximum = _worst(serving) + limit.max_above_serving
        if value > maximum:
            return AnalysisResult(f"{limit.name} is {value:.4g}, over {maximum:.4g} by what serves")
        return AnalysisResult()

    def _read(self, limit: Analysis, agent: Agent, revision: str) -> MetricResult | None:
        if self._metrics is None:
            return _UNCONFIGURED
        # A revision is named by its Agent and the value of the label of its Pods.
        return self._metrics.read(limit.query_of(revision.removeprefix(f"{agent.name}-")), _PERIOD)


def _limits(agent: Agent, state: RolloutState) -> tuple[Analysis, ...]:
    """Return the limits that judge the rollout at this stage."""
    canary = agent.spec.update.canary
    # Only while requests are divided do the queries say anything about the canary.
    return canary.analysis if canary is not None and state.stage is RolloutStage.UPDATE else ()


def _without_data(limit: Analysis, problem: str) -> AnalysisResult:
    if limit.on_no_data == "Ignore":
        return AnalysisResult()
    reason = problem or "the query gives no data"
    return AnalysisResult(absent=f"{limit.name} has no data: {reason}", is_held=limit.on_no_data == "Hold")


def _worst(result: MetricResult) -> float:
    return max(sample.value for sample in result.samples)


_BUDGET_PERIOD: Final = 60.0
"""Seconds between two readings of what an Agent used."""


class BudgetReader:
    """Read what Agents used today, with one query a minute for all those of a namespace."""

    def __init__(self, metrics: MetricsProvider | None) -> None:
        self._metrics = metrics

    def judge(
        self, agent: Agent, prices: str, previous: Mapping[str, Any], now: datetime
    ) -> tuple[BudgetState | None, float | None]:
        """Return how much of its budget an Agent has used, and the seconds until the next reading; None without one."""
        budget = agent.spec.budget
        if budget is None:
            return None, None
        reading = self._read(agent, now)
        if reading is not None and budget.prices is not None:
            reading = _with_prices(reading, prices, f"{budget.prices.name}/{budget.prices.key}")
        delay = _PENDING if reading is None else _BUDGET_PERIOD
        return judge_budget(budget, agent.name, reading, previous, now), delay

    def _read(self, agent: Agent, now: datetime) -> BudgetReading | None:
        result = _UNCONFIGURED
        if self._metrics is not None:
            answer = self._metrics.read(usage_query(agent.namespace, now), _BUDGET_PERIOD)
            if answer is None:
                return None
            result = answer
        counts = tuple(
            TokenCount.of_series(sample.series, sample.value)
            for sample in result.samples
            # An infinite counter is a fault of an exporter, and no usage.
            if isfinite(sample.value)
        )
        return BudgetReading(counts, result.problem)


def _with_prices(reading: BudgetReading, text: str, place: str) -> BudgetReading:
    try:
        return replace(reading, prices=parse_prices(text, place))
    except InvalidInput as error:
        return replace(reading, prices_problem=str(error))


_FIRST_LIST = 5.0
CREATION_SECONDS: Final = 10.0
"""Seconds after which a Job without a Pod is in trouble; the Job controller creates it at once."""


class EvaluationReader:
    """Read verdicts; Pods are followed only in namespaces with an Agent that has an evaluation."""

    def __init__(self, ports: Ports) -> None:
        self._cluster = ports.cluster
        self._live = ports.live

    def verdict(self, agent: Agent, job: Manifest | None) -> Mapping[str, Any] | None:
        """
        Return the verdict of the newest Pod of the Job, empty where it has none, None while no Pod has ended.

        A Job that failed before its evaluation reported anything is inconclusive: it says nothing about the agent.
        """
        pods = self._cluster.resource("", "v1", "Pod")
        if agent.spec.evaluation is None or job is None or pods is None:
            return {}
        self._live.follow([(pods, agent.namespace)], _FIRST_LIST)
        pods_of_job = self._pods(job)
        result, message = _result_of(job)
        # A running Pod may still report something else.
        if not any(at(pod, "status", "phase") in ("Succeeded", "Failed") for pod in pods_of_job):
            if result is CheckResult.FAILED:
                return inconclusive(f"no Pod of the evaluation ended: {message}")
            return None
        report = reported(pods_of_job, EVALUATION)
        if not report and result is CheckResult.FAILED and not any(map(_has_failed_check, pods_of_job)):
            return inconclusive(f"the evaluation reported nothing: {message}")
        return report

    def report(self, agent: Agent, job: Manifest, container: str) -> Mapping[str, Any] | None:
        """Return what a container of a Job reported, a message alone where it ended without, None while it runs."""
        pods = self._cluster.resource("", "v1", "Pod")
        if pods is None:
            return None
        self._live.follow([(pods, agent.namespace)], _FIRST_LIST)
        pods_of_job = self._pods(job)
        report = reported(pods_of_job, container)
        result, message = _result_of(job)
        has_ended = all(at(pod, "status", "phase") in ("Succeeded", "Failed") for pod in pods_of_job)
        # The Job may be known to have ended before its Pod is.
        if report or result not in (CheckResult.PASSED, CheckResult.FAILED) or not has_ended:
            return report or None
        return {"message": message or "its Pod reported nothing"}

    def trouble(self, job: Manifest | None, now: datetime) -> str:
        """Return why the Pods of a running Job do not start, as far as Pods are followed; empty where they do."""
        if job is None:
            return ""
        reason = next(filter(None, map(pod_trouble, self._pods(job))), "")
        return reason or _without_pod(job, now)

    def _pods(self, job: Manifest) -> list[Manifest]:
        pods = [manifest for manifest in self._live.dependents(uid_of(job)) if manifest.get("kind") == "Pod"]
        return sorted(pods, key=lambda pod: str(metadata_of(pod).get("creationTimestamp", "")))


def _without_pod(job: Manifest, now: datetime) -> str:
    """Return that no Pod of a Job was created, empty where one was or still may be."""
    status = job.get("status") or {}
    started = status.get("startTime")
    # The Job controller counts Pods that it has created; where the API server refuses one, it has only an Event.
    if not started or any(status.get(count) for count in ("active", "succeeded", "failed")):
        return ""
    if (now - datetime.fromisoformat(str(started))).total_seconds() < CREATION_SECONDS:
        return ""
    name = ref_of(job).name
    return f"no Pod of Job {name} was created, such as by a quota; its Events tell why: kubectl describe job {name}"


def _has_failed_check(pod: Manifest) -> bool:
    """Whether a check beside the evaluation failed, which decides whatever the evaluation reports."""
    statuses = at(pod, "status", "containerStatuses") or ()
    others = [status for status in statuses if status.get("name") != EVALUATION]
    return any(at(status, "state", "terminated", "exitCode", default=0) != 0 for status in others)


_POLICY = GroupKind("networking.k8s.io", "NetworkPolicy")
_ROUTE = GroupKind("gateway.networking.k8s.io", "HTTPRoute")


def observed_route(agent: Agent, children: Mapping[ObjectRef, Manifest], cluster: Cluster, live: LiveCache) -> Route:
    """Return the weight of the canary in the Agent's route, and what its gateways report; also of one that is to go."""
    ref = ObjectRef(_ROUTE.group, _ROUTE.kind, agent.namespace, agent.name)
    is_served = _ROUTE in child_resources(cluster)
    route = children.get(ref)
    # The second backend is the canary, as the expansion writes it.
    weight = int(at(route, "spec", "rules", 0, "backendRefs", 1, "weight", default=0))
    if not is_routed(agent):
        return Route(weight)
    # A gateway that has not accepted the route does not divide requests yet.
    health = health_of(ref, route, live)
    problem = "" if health.health is Health.HEALTHY else health.message
    return Route(weight, problem, is_served, _changed_at(route))


def _changed_at(route: Manifest | None) -> datetime | None:
    """Return when the operator last changed the spec of a route, by the clock of the API server."""
    entries = metadata_of(route).get("managedFields", ()) if route else ()
    times = [
        str(entry["time"]) for entry in entries if entry.get("manager") == AGENTS_MANAGER and "subresource" not in entry
    ]
    return datetime.fromisoformat(max(times)) if times else None


@dataclass(frozen=True, slots=True)
class CheckVerdict:
    """The result of the checks of a revision, with the hash of what it was checked by."""

    checks: str
    result: CheckResult
    message: str = ""

    def to_json(self) -> str:
        """Return the text that ``parse`` reads."""
        return json.dumps({"checks": self.checks, "result": self.result.value, "message": self.message}, sort_keys=True)

    @classmethod
    def parse(cls, text: str) -> CheckVerdict | None:
        """Return the verdict of an annotation, None where it has none."""
        try:
            members = json.loads(text)
            return cls(str(members["checks"]), CheckResult(members["result"]), str(members.get("message", "")))
        except (ValueError, KeyError, TypeError):
            return None  # a text that a user wrote there: the revision is checked


class RolloutObserver:
    """Observe what an Agent's rollout decides from: workloads, checks, analysis and route."""

    def __init__(self, ports: Ports, analysis: RolloutAnalysis) -> None:
        self._cluster = ports.cluster
        self._live = ports.live
        self._clock = ports.clock
        self._evaluations = EvaluationReader(ports)
        self._analysis = analysis

    def observe(
        self, agent: Agent, facts: Facts, children: Mapping[ObjectRef, Manifest], target: Revision, state: RolloutState
    ) -> Observed:
        """Return what the children report now; ``target`` is the revision of the spec."""
        wanted_checks = checks_hash(agent, target, facts)
        # Of the attempt too: the Job of an inconclusive attempt says nothing about the next one.
        attempt_checks = checks_hash(agent, target, facts, state.attempt if state.goal == target.name else 0)
        name = validation_name(target, agent)
        job = _of_checks(children.get(ObjectRef("batch", "Job", agent.namespace, name)), attempt_checks)
        checks, message = _result_of(job)
        verdict = self._evaluations.verdict(agent, job)
        if verdict is None and checks is not CheckResult.NONE:
            checks = CheckResult.RUNNING  # the Job ended, and what its Pod reports is not known yet
        if checks is CheckResult.FAILED and (verdict or {}).get("result") == EvaluationResult.INCONCLUSIVE.value:
            checks = CheckResult.INCONCLUSIVE
        if checks is CheckResult.RUNNING:
            message = self._evaluations.trouble(job, self._clock.now())
        # What was judged was reached; a check that nothing answers would else tell of timeouts alone.
        denied = self._denied(agent) if checks in (CheckResult.RUNNING, CheckResult.INCONCLUSIVE) else ""
        recorded = CheckVerdict.parse(target.verdict)
        # The Job may be deleted by its TTL or by a user; its verdict is kept with the revision.
        if checks is CheckResult.NONE and recorded is not None and recorded.checks == wanted_checks:
            checks = recorded.result
            message = recorded.message
        observed = Observed(
            target=target.name,
            wanted=0,
            now=self._clock.now(),
            is_autoscaled=agent.spec.autoscaling is not None and not agent.spec.suspend,
            is_stateful=is_stateful(agent),
            checks=checks,
            checks_message="; ".join(filter(None, (str((verdict or {}).get("message") or message), denied))),
            has_new_checks=recorded is not None and recorded.checks != wanted_checks,
            evaluation=verdict or {},
            analysis=self._analysis.result(agent, state),
            promote=agent.annotations.get(PROMOTE, ""),
            abort=agent.annotations.get(ABORT, ""),
            retry=agent.annotations.get(RETRY, ""),
        )
        return self.refresh(observed, agent, children, state)

    def refresh(
        self, observed: Observed, agent: Agent, children: Mapping[ObjectRef, Manifest], state: RolloutState
    ) -> Observed:
        """Return the observation with workloads and route as these children are."""
        live = {
            Track(at(manifest, "spec", "selector", "matchLabels", TRACK_LABEL)): manifest
            for ref, manifest in children.items()
            # One that is being deleted keeps its status until its Pods are gone, and serves no more.
            if ref.kind in _WORKLOADS and not metadata_of(manifest).get("deletionTimestamp")
        }
        return replace(
            observed,
            now=self._clock.now(),
            wanted=_wanted(agent, live.get(state.home)),
            workloads={
                track: workload_of(manifest, agent.name, self._crash(manifest)) for track, manifest in live.items()
            },
            route=observed_route(agent, children, self._cluster, self._live),
        )

    def _denied(self, agent: Agent) -> str:
        """Return which NetworkPolicies keep the Pods of checks from the Agent, empty where none does."""
        # Followed already: one is a child of the Agent.
        policies = child_resources(self._cluster).get(_POLICY)
        return denied_check(agent, self._live.all(policies)) if policies is not None else ""

    def _crash(self, workload: Manifest) -> str:
        """Return why the Pods of a workload fail, empty where they do not."""
        status = health_of(ref_of(workload), workload, self._live)
        return status.message if status.health is Health.DEGRADED else ""


def _of_checks(job: Manifest | None, checks: str) -> Manifest | None:
    """Return a Job where it runs these checks; one of an older version of gitsync does not tell, and counts."""
    ran = at(job, "spec", "template", "metadata", "annotations", CHECKS, default=checks)
    return job if ran == checks else None


def _wanted(agent: Agent, live: Manifest | None) -> int:
    """Return the number of replicas that serve: of the spec, or as the autoscaler decided."""
    if agent.spec.suspend:
        return 0
    scaling = agent.spec.autoscaling
    if scaling is None:
        return 1 if agent.spec.replicas is None else agent.spec.replicas
    # 0 is what an autoscaler has before its first decision.
    return int(at(live, "spec", "replicas", default=0)) or scaling.min_replicas


def _result_of(job: Manifest | None) -> tuple[CheckResult, str]:
    """Return the result and message of the Job that checks a revision."""
    if job is None:
        return CheckResult.NONE, ""
    # One of the two at most is True, and neither while the Job runs.
    for condition in at(job, "status", "conditions", default=[]):
        if condition.get("status") == "True" and condition.get("type") in ("Complete", "Failed"):
            is_passed = condition["type"] == "Complete"
            return CheckResult.PASSED if is_passed else CheckResult.FAILED, str(condition.get("message", ""))
    return CheckResult.RUNNING, ""
