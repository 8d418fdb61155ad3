"""HorizontalPodAutoscalers: size a workload by a metric that the sandbox's user sets, within its limits."""

from __future__ import annotations

import math

from gitsync.kube.quantity import parse
from gitsync.objects.manifest import Manifest, annotations_of, at, group_of
from gitsync.sandbox.controllers.base import SandboxController
from gitsync.sandbox.controllers.events import EventSource
from gitsync.sandbox.controllers.object_meta import MANAGER, Key, is_deleting, key_of

METRIC = "sandbox.gitsync.dev/metric-"
"""Annotation of an autoscaler, followed by a metric's name: its value, averaged over the pods (percent or quantity)."""

_SOURCE = EventSource("horizontal-pod-autoscaler")
# kube-controller-manager: --horizontal-pod-autoscaler-tolerance.
_TOLERANCE = 0.1
_NO_METRICS = (
    "unable to get metrics for resource {name}: unable to fetch metrics from resource metrics API: "
    "the server could not find the requested resource (get pods.metrics.k8s.io)"
)


class Autoscalers(SandboxController):
    """Evaluate each target periodically and when it or its autoscaler changed, and scale it."""

    name = "horizontalpodautoscaler"
    watches = frozenset(
        {
            ("autoscaling", "HorizontalPodAutoscaler"),
            ("apps", "Deployment"),
            ("apps", "StatefulSet"),
            ("apps", "ReplicaSet"),
        }
    )

    def observe(self, event: str, obj: Manifest, old: Manifest | None) -> None:
        """Mark the autoscaler at once, or after a period when its target changed."""
        if obj["kind"] == "HorizontalPodAutoscaler":
            # Its own status writes must not wake it.
            if old is None or (old["spec"], annotations_of(old)) != (obj["spec"], annotations_of(obj)):
                self.enqueue(key_of(obj))
            return
        replicas = (at(obj, "spec", "replicas"), at(obj, "status", "replicas"))
        if old is not None and replicas == (at(old, "spec", "replicas"), at(old, "status", "replicas")):
            return
        namespace, name = key_of(obj)
        for autoscaler in self.api.list("autoscaling", "HorizontalPodAutoscaler", namespace):
            target = autoscaler["spec"]["scaleTargetRef"]
            if (target["kind"], target["name"]) == (obj["kind"], name):
                # Not at once: a rollout changes its counts many times.
                self.enqueue_after(key_of(autoscaler), self.context.behaviour.autoscale_period)

    def reconcile(self, key: Key) -> None:
        """Decide on a number, scale, and say why."""
        autoscaler = self.api.get("autoscaling", "HorizontalPodAutoscaler", *key)
        if autoscaler is None or is_deleting(autoscaler):
            return
        reference = autoscaler["spec"]["scaleTargetRef"]
        group = group_of(reference.get("apiVersion", "apps/v1"))
        kind = reference["kind"]
        target = self.api.get(group, kind, key[0], reference["name"])
        if target is None:
            self._report_missing(autoscaler, group, kind, reference["name"])
            return
        current = at(target, "spec", "replicas", default=1)
        low = autoscaler["spec"].get("minReplicas", 1)
        high = autoscaler["spec"]["maxReplicas"]
        # A user scaled to zero by hand, which turns the autoscaler off (ScalingDisabled).
        if current == 0 and low:
            self._report(autoscaler, {}, [_GOT_SCALE, _DISABLED])
        elif not low <= current <= high:
            bound = min(max(current, low), high)
            above = current > high
            why = (
                "Current number of replicas above Spec.MaxReplicas"
                if above
                else ("Current number of replicas below Spec.MinReplicas")
            )
            self._scale(autoscaler, target, bound, why, None)
        else:
            self._follow_metrics(autoscaler, target, current)

    def _follow_metrics(self, autoscaler: Manifest, target: Manifest, current: int) -> None:
        metrics = autoscaler["spec"].get("metrics") or ()
        read = [_read(autoscaler, metric, current, self.context.behaviour.metrics) for metric in metrics]
        known = [reading for reading in read if reading is not None]
        status: Manifest = {"currentReplicas": current, "desiredReplicas": current}
        if not known:
            # The real controller writes empty entries for metrics it could not read.
            status["currentMetrics"] = [{"type": ""} for _ in metrics]
            self._report(autoscaler, status, [_GOT_SCALE, _failed(metrics[0] if metrics else {})])
            return
        # Several metrics: the one that asks for most replicas wins.
        wanted = max(number for number, _ in known)
        desired = min(max(wanted, autoscaler["spec"].get("minReplicas", 1)), autoscaler["spec"]["maxReplicas"])
        status["currentMetrics"] = [shown for _, shown in known]
        limited = _limited(wanted, desired)
        name = _metric_name(metrics[read.index(max(known, key=lambda reading: reading[0]))])
        if desired != current:
            side = "above" if desired > current else "below"
            why = f"{name} resource utilization (percentage of request) {side} target"
            self._scale(autoscaler, target, desired, why, (status, [_valid(name), limited]))
        else:
            self._report(autoscaler, status, [_READY_TO_SCALE, _valid(name), limited])

    def _scale(
        self,
        autoscaler: Manifest,
        target: Manifest,
        desired: int,
        why: str,
        measured: tuple[Manifest, list[Manifest]] | None,
    ) -> None:
        scaled = {**target, "spec": {**target["spec"], "replicas": desired}}
        self.api.update(scaled, manager=MANAGER, subresource="scale")
        text = f"New size: {desired}; reason: {why}"
        self.context.recorder.normal(autoscaler, "SuccessfulRescale", text, _SOURCE)
        status, conditions = measured or ({}, [])
        status = {
            **status,
            "lastScaleTime": self.context.now(),
            "currentReplicas": at(target, "spec", "replicas", default=1),
            "desiredReplicas": desired,
        }
        message = f"the HPA controller was able to update the target scale to {desired}"
        rescaled = _condition("AbleToScale", True, "SucceededRescale", message)
        self._report(autoscaler, status, [rescaled, *conditions])
        self.enqueue_after(key_of(autoscaler), self.context.behaviour.autoscale_period)

    def _report_missing(self, autoscaler: Manifest, group: str, kind: str, name: str) -> None:
        served = self.api.resource(group, kind)
        resource = ".".join(filter(None, (served[0] if served else kind.lower(), group)))
        message = f'the HPA controller was unable to get the target\'s current scale: {resource} "{name}" not found'
        self.context.recorder.warning(autoscaler, "FailedGetScale", f'{resource} "{name}" not found', _SOURCE)
        self._report(autoscaler, {}, [_condition("AbleToScale", False, "FailedGetScale", message)])

    def _report(self, autoscaler: Manifest, status: Manifest, conditions: list[Manifest]) -> None:
        """Write the status; a condition of the same status keeps its transition time, others stay as they are."""
        old_status = autoscaler.get("status") or {}
        merged = {item["type"]: item for item in old_status.get("conditions") or ()}
        for condition in conditions:
            known = merged.get(condition["type"], {})
            same = known.get("status") == condition["status"]
            since = known["lastTransitionTime"] if same else self.context.now()
            merged[condition["type"]] = {**condition, "lastTransitionTime": since}
        kept = {key: old_status[key] for key in ("lastScaleTime",) if key in old_status}
        fresh = {"desiredReplicas": 0, "currentMetrics": None, **kept, **status, "conditions": list(merged.values())}
        self.write_status(autoscaler, fresh)


def _condition(kind: str, holds: bool, reason: str, message: str) -> Manifest:
    return {"type": kind, "status": "True" if holds else "False", "reason": reason, "message": message}


_GOT_SCALE = _condition(
    "AbleToScale", True, "SucceededGetScale", "the HPA controller was able to get the target's current scale"
)
_READY_TO_SCALE = _condition("AbleToScale", True, "ReadyForNewScale", "recommended size matches current size")
_DISABLED = _condition(
    "ScalingActive", False, "ScalingDisabled", "scaling is disabled since the replica count of the target is zero"
)


def _valid(name: str) -> Manifest:
    text = (
        "the HPA was able to successfully calculate a replica count from "
        f"{name} resource utilization (percentage of request)"
    )
    return _condition("ScalingActive", True, "ValidMetricFound", text)


def _limited(wanted: int, desired: int) -> Manifest:
    if wanted > desired:
        text = "the desired replica count is more than the maximum replica count"
        return _condition("ScalingLimited", True, "TooManyReplicas", text)
    if wanted < desired:
        text = "the desired replica count is less than the minimum replica count"
        return _condition("ScalingLimited", True, "TooFewReplicas", text)
    return _condition("ScalingLimited", False, "DesiredWithinRange", "the desired count is within the acceptable range")


def _failed(metric: Manifest) -> Manifest:
    kind = metric.get("type", "Resource")
    name = _metric_name(metric)
    cause = _NO_METRICS.format(name=name)
    text = f"the HPA was unable to compute the replica count: failed to get {name} utilization: {cause}"
    return _condition("ScalingActive", False, f"FailedGet{kind}Metric", text)


def _metric_name(metric: Manifest) -> str:
    """Return the name of a metric, whichever member of the source holds it."""
    for source in metric.values():
        if isinstance(source, dict):
            return str(source.get("name") or at(source, "metric", "name") or "")
    return ""


def _read(autoscaler: Manifest, metric: Manifest, current: int, available: bool) -> tuple[int, Manifest] | None:
    """
    Return the number of replicas that a metric asks for and the metric as the status shows it.

    A metric that is not set equals its target; None when no metrics are available.
    """
    text = annotations_of(autoscaler).get(METRIC + _metric_name(metric))
    if text is None and not available:
        return None
    member = next(key for key, value in metric.items() if isinstance(value, dict))
    target = metric[member]["target"]
    if target["type"] == "Utilization":
        goal = float(target["averageUtilization"])
        value = goal if text is None else float(text)
        shown: Manifest = {"averageUtilization": int(value), "averageValue": "0"}
    else:
        wanted_text = target.get("averageValue") or target.get("value")
        text = text or wanted_text
        value = float(parse(text).nanos)
        goal = float(parse(wanted_text).nanos)
        shown = {"averageValue" if "averageValue" in target else "value": text}
    # Replicas times current value divided by target, as in the documentation of the autoscaler.
    ratio = value / goal
    wanted = current if abs(ratio - 1) <= _TOLERANCE else math.ceil(current * ratio)
    identity = {key: identity_value for key, identity_value in metric[member].items() if key != "target"}
    return wanted, {"type": metric["type"], member: {**identity, "current": shown}}
