"""Conversion between the stored version of an object and the version of a request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.registry.resources import ServedResource

Conversion = Callable[[Manifest], Manifest]


def convert(obj: Manifest, resource: ServedResource, *, to_storage: bool = False) -> Manifest:
    """Return a stored object at the resource's version, or the other way round; the same object when equal."""
    stored_version = obj["apiVersion"]
    wanted = resource.storage_version if to_storage else resource.api_version
    # Most reads are at the stored version.
    if stored_version == wanted:
        return obj
    custom = resource.to_storage if to_storage else resource.from_storage
    change = custom or _CONVERSIONS.get((resource.kind, stored_version, wanted))
    return {**(obj if change is None else change(obj)), "apiVersion": wanted}


_METRICS_NOTE = "autoscaling.alpha.kubernetes.io/metrics"
_BEHAVIOR_NOTE = "autoscaling.alpha.kubernetes.io/behavior"
_CONDITIONS_NOTE = "autoscaling.alpha.kubernetes.io/conditions"
_CURRENT_NOTE = "autoscaling.alpha.kubernetes.io/current-metrics"
_NOTES = (_METRICS_NOTE, _BEHAVIOR_NOTE, _CONDITIONS_NOTE, _CURRENT_NOTE)


def _is_cpu(metric: Manifest) -> bool:
    """Tell whether a metric is the one that autoscaling/v1 has a member for."""
    target = (metric.get("resource") or {}).get("target") or {}
    return (
        metric.get("type") == "Resource"
        and metric["resource"].get("name") == "cpu"
        and target.get("averageUtilization") is not None
    )


def _autoscaler_to_v1(obj: Manifest) -> Manifest:
    spec = {key: value for key, value in obj["spec"].items() if key not in ("metrics", "behavior")}
    status = {
        key: value for key, value in (obj.get("status") or {}).items() if key not in ("currentMetrics", "conditions")
    }
    notes: dict[str, str] = {}
    others = []
    for metric in obj["spec"].get("metrics") or []:
        if _is_cpu(metric) and "targetCPUUtilizationPercentage" not in spec:
            spec["targetCPUUtilizationPercentage"] = metric["resource"]["target"]["averageUtilization"]
        else:
            others.append(metric)
    for metric in (obj.get("status") or {}).get("currentMetrics") or []:
        current = (metric.get("resource") or {}).get("current") or {}
        if metric.get("type") == "Resource" and current.get("averageUtilization") is not None:
            status["currentCPUUtilizationPercentage"] = current["averageUtilization"]
    status.setdefault("currentReplicas", 0)  # v1 has no omitempty here
    kept = {
        _METRICS_NOTE: others,
        _BEHAVIOR_NOTE: obj["spec"].get("behavior"),
        _CONDITIONS_NOTE: (obj.get("status") or {}).get("conditions"),
        _CURRENT_NOTE: (obj.get("status") or {}).get("currentMetrics"),
    }
    for note, value in kept.items():
        if value:
            notes[note] = orjson.dumps(value).decode()
    return _with_notes({**obj, "spec": spec, "status": status}, notes)


def _autoscaler_to_v2(obj: Manifest) -> Manifest:
    meta = obj["metadata"]
    spec = dict(obj["spec"])
    status = dict(obj.get("status") or {})
    notes = meta.get("annotations") or {}
    metrics: list[Any] = _read(notes, _METRICS_NOTE) or []
    cpu = spec.pop("targetCPUUtilizationPercentage", None)
    if cpu is not None:
        target = {"type": "Utilization", "averageUtilization": cpu}
        metrics = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}, *metrics]
    status.pop("currentCPUUtilizationPercentage", None)
    if not status.get("currentReplicas"):
        status.pop("currentReplicas", None)
    if metrics:
        spec["metrics"] = metrics
    if behavior := _read(notes, _BEHAVIOR_NOTE):
        spec["behavior"] = behavior
    if conditions := _read(notes, _CONDITIONS_NOTE):
        status["conditions"] = conditions
    current = _read(notes, _CURRENT_NOTE)
    if current or "status" in obj:
        status["currentMetrics"] = current
    return _with_notes({**obj, "spec": spec, "status": status}, {})


def _read(notes: Manifest, name: str) -> Any:
    try:
        return orjson.loads(notes[name]) if name in notes else None
    # A user may have written anything into the annotation.
    except orjson.JSONDecodeError:
        return None


def _with_notes(obj: Manifest, notes: dict[str, str]) -> Manifest:
    """Return the object with these conversion notes among its annotations and no others."""
    meta = obj["metadata"]
    annotations = {key: value for key, value in (meta.get("annotations") or {}).items() if key not in _NOTES}
    annotations.update(notes)
    rest = {key: value for key, value in meta.items() if key != "annotations"}
    return {**obj, "metadata": {**rest, "annotations": annotations} if annotations else rest}


_EVENT_NAMES = (
    # core/v1, events.k8s.io/v1
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
)


def _renamed(names: dict[str, str]) -> Conversion:
    return lambda obj: {names.get(key, key): value for key, value in obj.items()}


_HPA = "HorizontalPodAutoscaler"
_CONVERSIONS: dict[tuple[str, str, str], Conversion] = {
    (_HPA, "autoscaling/v2", "autoscaling/v1"): _autoscaler_to_v1,
    (_HPA, "autoscaling/v1", "autoscaling/v2"): _autoscaler_to_v2,
    ("Event", "v1", "events.k8s.io/v1"): _renamed(dict(_EVENT_NAMES)),
    ("Event", "events.k8s.io/v1", "v1"): _renamed({new: old for old, new in _EVENT_NAMES}),
}
