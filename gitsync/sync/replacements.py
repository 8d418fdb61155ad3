"""Replace Pods that run otherwise than declared: restart stale workloads, and delete Pods that a user modified."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from gitsync.apply.change import ApplyRequest
from gitsync.apply.execute import Applier
from gitsync.apply.owner_writes import NotAnswered
from gitsync.gate.decide import repair_hold
from gitsync.objects.application import Application
from gitsync.objects.change import ABSENT, Action, Change, Difference, FieldDifference, Risk
from gitsync.objects.manifest import Manifest, annotations_of, at, metadata_of
from gitsync.objects.record import Outcome, SyncRecord
from gitsync.objects.ref import ObjectRef
from gitsync.plan.explain import explain
from gitsync.plan.field_owners import RESTARTER
from gitsync.plan.risk.table import plan_risk
from gitsync.plan.running import POD, RESTARTED_AT, RunningFinding, RunningKind
from gitsync.ports import Ports
from gitsync.sync.cache import Operation, ReconcileCache
from gitsync.sync.observe import health_of
from gitsync.sync.operation import Ending, record_steps, save_record
from gitsync.sync.planner import Planned
from gitsync.sync.policies import Policies
from gitsync.sync.repair import Widen

_RULE = "replaces-pods"
_PERIOD = 60.0
"""Seconds between two attempts for one object: its Pods need some time, and a rejected write would fail each time."""


class Replacer:
    """Carry out ``sync.restartOn`` and ``sync.modifiedPods``."""

    def __init__(self, ports: Ports, applier: Applier, policies: Policies) -> None:
        self._cluster = ports.cluster
        self._live = ports.live
        self._records = ports.records
        self._clock = ports.clock
        self._applier = applier
        self._policies = policies

    def run(self, planned: Planned, cache: ReconcileCache, widen: Widen) -> SyncRecord | None:
        """
        Replace the Pods that the settings name, once a minute for each object; return the record, None without a write.

        As for a repair, a user or the policy permitted what the new Pods run, so that no approval is needed.
        """
        now = self._clock.monotonic()
        steps = [step for step in self._steps(planned) if cache.execution.replaced.get(step.ref, 0.0) <= now]
        if not steps or repair_hold(planned.app, self._policies.of(planned.app), planned.inputs.now):
            return None
        cache.execution.replaced = {ref: at for ref, at in cache.execution.replaced.items() if at > now}
        cache.execution.replaced |= {step.ref: now + _PERIOD for step in steps}
        operation = _operation(planned, steps, now)
        results = self._applier.write(self._request(planned, operation, widen), steps)
        answered = [result for result in results if not isinstance(result.error, NotAnswered)]
        operation.steps.update(record_steps(answered))
        failures = [f"{result.change.ref}: {result.message}" for result in answered if result.outcome is Outcome.FAILED]
        took = round((self._clock.monotonic() - now) * 1000)
        return save_record(operation, planned.app, self._records, Ending(next(iter(failures), ""), took))

    def _steps(self, planned: Planned) -> list[Change]:
        app = planned.app
        steps = []
        for ref, findings in planned.observation.running.items():
            stale = [item for item in findings if _restarts(app, item)]
            if stale:
                steps.append(_restart(planned.observation.live[ref], ref, stale, planned.inputs.now))
            steps += [step for item in findings if _replaces(app, item) for step in self._deletion(item)]
        return steps

    def _deletion(self, finding: RunningFinding) -> list[Change]:
        resource = self._cluster.resource(POD.group, "v1", POD.kind)
        live = self._live.get(resource, finding.pod.namespace, finding.pod.name) if resource is not None else None
        # nothing creates a Pod again that has no controller
        if live is None or not any(owner.get("controller") for owner in metadata_of(live).get("ownerReferences") or ()):
            return []
        return [
            Change(finding.pod, Action.PRUNE, Risk.MODERATE, _RULE, f"replaces a Pod that {finding.message}", live=live)
        ]

    def _request(self, planned: Planned, operation: Operation, widen: Widen) -> ApplyRequest:
        app = planned.app
        pods = {step.ref: "v1" for step in operation.plan.changes if step.ref.of == POD}
        return ApplyRequest(
            # another field manager: the next sync would remove a field of ours that Git does not declare
            replace(app, field_manager=RESTARTER),
            operation.plan,
            operation.commit,
            operation.id,
            {**planned.observation.versions, **pods},
            widen,
            lambda ref, manifest: health_of(ref, manifest, self._live, app),
            trigger=operation.trigger,
            initiator=operation.initiator,
        )


def _restarts(app: Application, finding: RunningFinding) -> bool:
    is_stale = finding.kind is RunningKind.STALE and finding.source is not None
    return is_stale and finding.source is not None and finding.source.kind in app.sync.restart_on


def _replaces(app: Application, finding: RunningFinding) -> bool:
    return finding.kind is RunningKind.MODIFIED and app.sync.modified_pods == "Replace"


def _restart(live: Manifest, ref: ObjectRef, findings: Sequence[RunningFinding], now: datetime) -> Change:
    """Return the step that sets the annotation of ``kubectl rollout restart``."""
    sources = sorted({str(item.source) for item in findings})
    # not before the change: the clock of the API server may be ahead of ours
    time = max(f"{now:%Y-%m-%dT%H:%M:%SZ}", *(item.since for item in findings))
    template = {"metadata": {"annotations": {RESTARTED_AT: time}}}
    metadata = {"name": ref.name, "namespace": ref.namespace}
    desired = {"apiVersion": live["apiVersion"], "kind": ref.kind, "metadata": metadata, "spec": {"template": template}}
    path = f'.spec.template.metadata.annotations["{RESTARTED_AT}"]'
    pointer = f"/spec/template/metadata/annotations/{RESTARTED_AT.replace('/', '~1')}"
    old = annotations_of(at(live, "spec", "template", default={})).get(RESTARTED_AT)
    difference = FieldDifference(path, pointer, Difference.CHANGED, time, ABSENT if old is None else old)
    reason = f"restarts its Pods, which started before {', '.join(sources)} changed"
    return Change(
        ref, Action.UPDATE, Risk.MODERATE, _RULE, reason, desired=desired, live=live, differences=(difference,)
    )


def _operation(planned: Planned, steps: Sequence[Change], now: float) -> Operation:
    risk = plan_risk(steps, planned.app.risk.max_deletes)
    plan = replace(planned.plan, changes=tuple(steps), repairs=(), risk=risk, explanation=explain((), steps))
    return Operation(
        id=uuid.uuid4().hex[:16],
        commit=planned.target.commit,
        trigger="restart",
        initiator="automated",
        started=planned.inputs.now,
        began=now,
        plan=plan,
        begun_with=plan,
    )
