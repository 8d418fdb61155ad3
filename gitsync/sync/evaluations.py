"""
Evaluate agents of any kind before a changed one is applied, and hold them back until they have passed.

An object that names cases by an annotation is compared with what was applied: where the change is one of its model,
prompt, tools or image, a copy answers the cases first. Until it has passed, the object stays as it is, with all that
it reads; everything else of the commit is applied.
"""

from __future__ import annotations

import uuid
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from gitsync.agents.evaluation.verdict import EvaluationResult, inconclusive, reported
from gitsync.agents.expansion.checks import EVALUATION
from gitsync.apply.change import ApplyRequest
from gitsync.apply.execute import Applier
from gitsync.apply.owner_writes import NotAnswered
from gitsync.errors import InvalidInput
from gitsync.health.workloads import pod_trouble
from gitsync.kube.times import finish_of
from gitsync.objects.change import Action, Change, Decision, HoldReason, Plan, Risk, Verdict
from gitsync.objects.health import Health, HealthStatus
from gitsync.objects.keys import EVALUATION_ANNOTATION, EVALUATION_MANAGER
from gitsync.objects.manifest import Manifest, annotations_of, at, metadata_of, uid_of
from gitsync.objects.record import Outcome
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.plan.parts import closure, needs_by_step, part_of
from gitsync.plan.risk.agent_fields import EVALUATED, behaviour_of, named_objects
from gitsync.plan.risk.escalation import OwnSecrets, reads_secret
from gitsync.ports import Ports
from gitsync.sync.decision import SyncDecision
from gitsync.sync.evaluation_copies import (
    KEPT_SECONDS,
    EvaluatedObject,
    copied_objects,
    copy_job,
    copy_name,
    evaluated_object,
)
from gitsync.sync.input import ObjectEvaluation
from gitsync.sync.planner import Planned
from gitsync.sync.policies import Policies

_RULE: Final = "evaluates"
_POLL: Final = 3.0
"""Seconds between two reads of a running evaluation: no event of its Pod enqueues the Application."""
_FIRST_LIST: Final = 5.0
_FIRST_DELAY: Final = 30.0
MOST_ATTEMPTS: Final = 5
"""Attempts at an inconclusive evaluation, the delay doubles after each; the same as of Agents."""
_AT_ONCE: Final = 4
"""Evaluations of one Application that run at once: a commit may change the model of forty agents."""
_CLEANUP: Final = 1.0
_LOST: Final = 30.0
"""Seconds after which a Job that is not in the cluster is not only late."""
_KEPT: Final = 3
"""Passed verdicts that are kept for each object, so that a revert to what passed is applied at once."""
_ROWS: Final = 10
"""Rows of cases in the status, those that did not pass first."""


@dataclass(frozen=True, slots=True)
class GatedObject:
    """
    An object whose change waits for its evaluation.

    ``steps`` are the objects whose steps wait with it: its own and those of what it reads, now or from then on.
    ``problem`` is why it cannot be evaluated.
    """

    ref: ObjectRef
    steps: frozenset[ObjectRef]
    evaluated: EvaluatedObject | None = None
    digest: str = ""
    problem: str = ""


def gated_objects(planned: Planned) -> tuple[GatedObject, ...]:
    """
    Return the objects that an evaluation decides about: those that a commit changes in how they behave.

    What others changed is restored without one, and so is what a rollback restores.
    """
    rollback = planned.inputs.state.rollback
    if planned.is_applied or planned.app.is_deleted or (rollback is not None and rollback.to_commit):
        return ()
    writes = {step.ref: step for step in planned.plan.writes if step.action is not Action.HOOK}
    return tuple(_gated(planned, writes)) if writes else ()


def _gated(planned: Planned, writes: Mapping[ObjectRef, Change]) -> Iterator[GatedObject]:
    declared = _as_applied(planned)
    for change in planned.plan.changes:
        ref = change.ref
        if change.desired is None or EVALUATION_ANNOTATION not in annotations_of(declared.get(ref) or {}):
            continue
        fields = EVALUATED.get(ref.of)
        base = (change.base or {}).get("spec")
        spec = declared[ref].get("spec")
        own = {ref} & writes.keys()
        if fields is None:
            read = now = frozenset[ObjectRef]()
        else:
            read = named_objects(spec, ref.namespace, fields)
            now = named_objects(base, ref.namespace, fields)
        # a Secret that is rotated changes no answer, and what serves may need it
        changed = {other for other in read & writes.keys() if other.kind != "Secret"}
        if not changed and (
            not own or (fields is not None and behaviour_of(base, fields) == behaviour_of(spec, fields))
        ):
            continue
        # what only the serving one reads, such as the ConfigMap with the former hash, is deleted with the update
        waiting = (now - read) & writes.keys()
        steps = frozenset(own | changed | waiting)
        try:
            evaluated = evaluated_object(ref, declared, planned.observation.live)
        except InvalidInput as error:
            yield GatedObject(ref, steps, problem=str(error))
            continue
        if evaluated is not None:
            yield GatedObject(ref, steps, evaluated, evaluated.digest)


def _as_applied(planned: Planned) -> dict[ObjectRef, Manifest]:
    """
    Return the declared objects with the values that will be applied, which are live ones where a rule ignores a field.

    No step shows the declared value of such a field, so that no risk rule has judged it, and a copy would run it. The
    metadata stays as declared: it asks for the evaluation.
    """
    declared = dict(planned.observation.desired)
    for change in planned.plan.changes:
        if change.desired is not None and change.ref in declared:
            declared[change.ref] = {**change.desired, "metadata": declared[change.ref]["metadata"]}
    return declared


class ObjectEvaluator:
    """Make copies with the rights of the Application, read their verdicts, and delete them."""

    def __init__(self, ports: Ports, applier: Applier, policies: Policies) -> None:
        self._cluster = ports.cluster
        self._live = ports.live
        self._applier = applier
        self._policies = policies

    def advance(
        self, planned: Planned, gated: Sequence[GatedObject], *, may_begin: bool, is_approved: bool = False
    ) -> tuple[tuple[ObjectEvaluation, ...], float | None]:
        """
        Return the evaluations as they are now, and the seconds until they have to be read again.

        They are begun where ``may_begin``; those of another commit are ended, and their copies deleted. The judge's
        Secret has to be the Application's (see the risk rule ``reads-secret``) unless a person approved the plan.
        """
        known = planned.inputs.state.evaluations
        if not known and not gated:
            return (), None
        wanted = {(item.ref.path, item.digest): item for item in gated}
        current = {(it.object, it.digest): it for it in known}
        for evaluation in known:
            # a verdict is in the status before its Job is deleted: after a crash between the two it would be lost
            if _is_to_delete(planned, evaluation, wanted.keys()):
                self._delete(planned, evaluation)
        evaluations = {key: it for key, it in current.items() if not it.is_running or key in wanted}
        was_running = {key for key in wanted if key in evaluations and evaluations[key].is_running}
        for key, item in wanted.items():
            running = evaluations.get(key)
            if running is not None and running.is_running and item.evaluated is not None:
                evaluations[key] = self._read(planned, item.evaluated, running)
        running_count = sum(it.is_running for it in evaluations.values())
        for key, item in wanted.items():
            is_due = may_begin and item.evaluated is not None and running_count < _AT_ONCE
            # a request is acknowledged once every verdict is there: until then it is the one that they answer
            is_requested = planned.inputs.is_requested and not was_running
            if is_due and item.evaluated is not None and _is_due(planned, evaluations.get(key), is_requested):
                attempt = evaluations[key].attempt + 1 if key in evaluations else 1
                evaluations[key] = self._begin(planned, item.evaluated, item.digest, attempt, is_approved=is_approved)
                running_count += evaluations[key].is_running
        return _kept(evaluations.values(), wanted.keys()), _requeue(planned, evaluations, wanted)

    def _begin(
        self, planned: Planned, evaluated: EvaluatedObject, digest: str, attempt: int, *, is_approved: bool
    ) -> ObjectEvaluation:
        """Create the Job of an attempt; another one after a crash finds it by its name."""
        begun = ObjectEvaluation(evaluated.ref.path, digest, attempt, planned.inputs.now)
        try:
            job = copy_job(evaluated, digest, attempt)
        except InvalidInput as error:
            return _ended(planned, begun, inconclusive(str(error)))
        foreign = "" if is_approved else _foreign_secret(planned, job)
        if foreign:
            return _ended(planned, begun, inconclusive(foreign))
        problem = self._write(planned, [job]) or self._write_copies(planned, evaluated, job)
        return _ended(planned, begun, inconclusive(problem)) if problem else begun

    def _read(self, planned: Planned, evaluated: EvaluatedObject, running: ObjectEvaluation) -> ObjectEvaluation:
        """Return a running evaluation, or how it ended."""
        job = self._job(evaluated.ref, running)
        if job is None:
            may_come = (planned.inputs.now - running.at).total_seconds() < _LOST
            return running if may_come else _ended(planned, running, inconclusive("its Job was deleted"))
        # also where a crash came between the Job and these
        problem = self._write_copies(planned, evaluated, job)
        pods = [manifest for manifest in self._live.dependents(uid_of(job)) if manifest.get("kind") == "Pod"]
        pods.sort(key=lambda pod: str(metadata_of(pod).get("creationTimestamp", "")))
        report = reported(pods, EVALUATION)
        finish = finish_of(job)
        if not report and not problem and finish is None:
            return running
        if not report:
            trouble = next(filter(None, map(pod_trouble, pods)), "")
            report = inconclusive(problem or trouble or f"the evaluation reported nothing: {_failure(job)}")
        return _ended(planned, running, report)

    def _job(self, ref: ObjectRef, evaluation: ObjectEvaluation) -> Manifest | None:
        jobs = self._cluster.resource("batch", "v1", "Job")
        pods = self._cluster.resource("", "v1", "Pod")
        if jobs is None or pods is None:
            return None
        self._live.follow([(jobs, ref.namespace), (pods, ref.namespace)], _FIRST_LIST)
        return self._live.get(jobs, ref.namespace, copy_name(ref, evaluation.digest, evaluation.attempt))

    def _write_copies(self, planned: Planned, evaluated: EvaluatedObject, job: Manifest) -> str:
        """Write what is missing beside the Job; return why that cannot be written."""
        # a Job of this moment is known by its uid once it is written
        stored = job if uid_of(job) else self._find(job)
        if stored is None:
            return ""
        missing = [copy for copy in copied_objects(evaluated, stored) if self._find(copy) is None]
        return self._write(planned, missing) if missing else ""

    def _find(self, manifest: Manifest) -> Manifest | None:
        ref = ref_of(manifest)
        version = str(manifest["apiVersion"]).rpartition("/")[2]
        resource = self._cluster.resource(ref.group, version, ref.kind)
        if resource is None:
            return None
        self._live.follow([(resource, ref.namespace)], _FIRST_LIST)
        return self._live.get(resource, ref.namespace, ref.name)

    def _write(self, planned: Planned, manifests: Sequence[Manifest]) -> str:
        """Write objects with the rights of the Application; return why the first was refused, empty where none was."""
        steps = [
            Change(ref_of(manifest), Action.CREATE, Risk.SAFE, _RULE, "a preview copy", desired=manifest)
            for manifest in manifests
        ]
        plan = replace(planned.plan, changes=tuple(steps), repairs=(), risk=Risk.SAFE)
        # the policies of the Application also bind the copy: it must not run what the Application may not declare
        violations = self._policies.violations(planned.app, plan)
        if violations:
            return violations[0]
        return self._apply(planned, plan)

    def _delete(self, planned: Planned, evaluation: ObjectEvaluation) -> None:
        """Delete a Job, and with it all that it owns; where that fails, its time to live ends it."""
        job = self._job(ObjectRef.from_path(evaluation.object), evaluation)
        if job is not None and not metadata_of(job).get("deletionTimestamp"):
            step = Change(ref_of(job), Action.PRUNE, Risk.SAFE, _RULE, "the evaluation has ended", live=job)
            self._apply(planned, replace(planned.plan, changes=(step,), repairs=(), risk=Risk.SAFE))

    def _apply(self, planned: Planned, plan: Plan) -> str:
        versions = {
            step.ref: str((step.desired or step.live or {})["apiVersion"]).rpartition("/")[2] for step in plan.changes
        }
        request = ApplyRequest(
            # another field manager: no sync of the Application may take a copy for an object of its own
            replace(planned.app, field_manager=EVALUATION_MANAGER),
            plan,
            planned.target.commit,
            uuid.uuid4().hex[:16],
            versions,
            # never in the inventory: what is not in Git would be pruned by the next sync
            lambda entries: None,
            lambda ref, manifest: HealthStatus(Health.UNKNOWN),
        )
        results = self._applier.write(request, plan.changes)
        # one without an answer may still succeed, and the next reconcile finds what is missing
        failed = [it for it in results if it.outcome is Outcome.FAILED and not isinstance(it.error, NotAnswered)]
        return f"{failed[0].change.ref}: {failed[0].message}" if failed else ""


def _foreign_secret(planned: Planned, job: Manifest) -> str:
    """
    Return why the container that asks may not read the Secret of its judge, empty where it may.

    The plan has no step for the Job, so that no risk rule judges it, and a commit names that Secret and the image. What
    the object itself reads is part of its step.
    """
    asking = {**job, "spec": {"containers": at(job, "spec", "template", "spec", "containers")}}
    own = OwnSecrets(planned.app, planned.observation.desired, planned.observation.live)
    secret = reads_secret(Change(ref_of(job), Action.CREATE, desired=asking), own)
    if secret is None:
        return ""
    return (
        f"its judge's Secret {secret} is not the Application's: declare it, or let an object that is approved read it"
    )


def held_back(
    decision: SyncDecision, planned: Planned, gated: Sequence[GatedObject], evaluations: Iterable[ObjectEvaluation]
) -> SyncDecision:
    """
    Return a decision without the steps that wait for an evaluation.

    A plan that a person approved waits as a whole: the approval is for exactly this plan.
    """
    verdicts = {(it.object, it.digest): it for it in evaluations}
    waiting = [item for item in gated if not _is_passed(verdicts.get((item.ref.path, item.digest)))]
    if not waiting:
        return decision
    reasons = {item.ref: _reason(planned, item, verdicts.get((item.ref.path, item.digest))) for item in waiting}
    plan = decision.plan
    steps = tuple(_free_steps(plan, waiting)) if decision.trigger and not is_approved(decision) else ()
    if steps:
        verdict = decision.verdict or Verdict(Decision.ALLOWED)
        chosen = set(verdict.steps)
        part = tuple(path for path in steps if not chosen or path in chosen)
        if part:
            limited = part_of(plan, part, planned.app.risk.max_deletes)
            return replace(decision, plan=limited, verdict=replace(verdict, steps=part))
    is_over = not any(hold is HoldReason.EVALUATION for hold, _ in reasons.values())
    # a plan that would not run anyway says why, such as a window; a verdict is reported whether it would run or not
    if not decision.trigger and not is_over:
        return decision
    hold = HoldReason.EVALUATION_FAILED if is_over else HoldReason.EVALUATION
    ordered = sorted(reasons.values(), key=lambda item: item[0] is HoldReason.EVALUATION)
    verdict = Verdict(Decision.HELD, tuple(text for _, text in ordered), holds=(hold,))
    return replace(decision, trigger="", verdict=verdict)


def is_approved(decision: SyncDecision) -> bool:
    """Whether a person approved the plan of a decision."""
    return decision.verdict is not None and bool(decision.verdict.approver)


def _free_steps(plan: Plan, waiting: Sequence[GatedObject]) -> Iterator[str]:
    """Yield the paths of the objects whose steps need none that waits."""
    held = frozenset[ObjectRef]().union(*(item.steps for item in waiting))
    needs = needs_by_step(plan)
    for ref in needs:
        if ref not in held and not closure([ref], needs) & held:
            yield ref.path


def _is_passed(evaluation: ObjectEvaluation | None) -> bool:
    return evaluation is not None and evaluation.is_passed


def _reason(planned: Planned, item: GatedObject, evaluation: ObjectEvaluation | None) -> tuple[HoldReason, str]:
    """Return why an object is not applied, and whether that has ended."""
    if item.problem:
        return HoldReason.EVALUATION_FAILED, item.problem
    if evaluation is None:
        return HoldReason.EVALUATION, f"{item.ref} waits for its evaluation"
    if evaluation.is_running:
        return HoldReason.EVALUATION, f"{item.ref} answers its cases, attempt {evaluation.attempt}"
    message = evaluation.report.get("message", "")
    if evaluation.retry_at is not None:
        return HoldReason.EVALUATION, f"the evaluation of {item.ref} is repeated: {message}"
    word = "failed" if evaluation.report.get("result") == EvaluationResult.FAILED.value else "is inconclusive"
    return HoldReason.EVALUATION_FAILED, f"the evaluation of {item.ref} {word}: {message}; what serves stays"


def _is_to_delete(planned: Planned, evaluation: ObjectEvaluation, wanted: Container[tuple[str, str]]) -> bool:
    """Whether the Job of an evaluation is of no use any more, and its time to live may not have deleted it yet."""
    if evaluation.is_running:
        return (evaluation.object, evaluation.digest) not in wanted
    # not at the moment of its verdict, which is not in the status yet
    return 0 < (planned.inputs.now - evaluation.at).total_seconds() < KEPT_SECONDS


def _is_due(planned: Planned, evaluation: ObjectEvaluation | None, is_requested: bool) -> bool:
    """Whether an attempt is begun now: the first, one after an inconclusive one, or one that a user requests."""
    if evaluation is None:
        return True
    if evaluation.is_running or evaluation.is_passed:
        return False
    return is_requested or (evaluation.retry_at is not None and evaluation.retry_at <= planned.inputs.now)


def _ended(planned: Planned, evaluation: ObjectEvaluation, report: Mapping[str, Any]) -> ObjectEvaluation:
    """Return an evaluation with its report, and with the time of the next attempt where it says nothing."""
    now = planned.inputs.now
    is_inconclusive = report.get("result") == EvaluationResult.INCONCLUSIVE.value
    retry = None
    if is_inconclusive and evaluation.attempt < MOST_ATTEMPTS:
        retry = now + timedelta(seconds=_FIRST_DELAY * 2 ** (evaluation.attempt - 1))
    rows = [row for row in report.get("results") or () if isinstance(row, dict)]
    shown = {name: value for name, value in report.items() if name in ("result", "passed", "cases", "message")}
    return replace(evaluation, at=now, report={**shown, **({"results": rows[:_ROWS]} if rows else {})}, retry_at=retry)


def _kept(evaluations: Iterable[ObjectEvaluation], wanted: Iterable[tuple[str, str]]) -> tuple[ObjectEvaluation, ...]:
    """Return the evaluations that the status keeps: the current ones, and the newest that passed of each object."""
    current = set(wanted)
    kept: list[ObjectEvaluation] = []
    counts: dict[str, int] = {}
    for evaluation in sorted(evaluations, key=lambda it: it.at, reverse=True):
        is_current = (evaluation.object, evaluation.digest) in current
        count = counts[evaluation.object] = counts.get(evaluation.object, 0) + 1
        # the newest one stays whatever it says: it is what pages show
        if is_current or count == 1 or (evaluation.is_passed and count <= _KEPT):
            kept.append(evaluation)
    return tuple(sorted(kept, key=lambda it: (it.object, it.at)))


def _requeue(
    planned: Planned, evaluations: Mapping[tuple[str, str], ObjectEvaluation], wanted: Iterable[tuple[str, str]]
) -> float | None:
    delays = []
    for key in wanted:
        evaluation = evaluations.get(key)
        if evaluation is not None and evaluation.is_running:
            delays.append(_POLL)
        elif evaluation is not None and evaluation.retry_at is not None:
            delays.append(max((evaluation.retry_at - planned.inputs.now).total_seconds(), 0.0))
    # the Job of a verdict of this moment is deleted by the next reconcile
    delays += [_CLEANUP for evaluation in evaluations.values() if evaluation.at == planned.inputs.now]
    return min(delays, default=None)


def _failure(job: Manifest) -> str:
    conditions = at(job, "status", "conditions", default=[])
    return next((str(it.get("message", "")) for it in conditions if it.get("type") == "Failed"), "its Job ended")
