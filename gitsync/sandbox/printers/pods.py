"""Table cells of pods."""

from __future__ import annotations

from typing import Any

from gitsync.kube.times import seconds_of
from gitsync.objects.manifest import Manifest, at
from gitsync.sandbox.printers.cells import NONE, human_duration, joined


def ready(pod: Manifest, now: float) -> str:
    """Return ``ready/total`` containers; sidecars count."""
    sidecars = _sidecars(pod)
    total = len(at(pod, "spec", "containers") or []) + len(sidecars)
    statuses = at(pod, "status", "containerStatuses") or []
    done = sum(1 for status in statuses if status.get("ready") and at(status, "state", "running") is not None)
    for status in at(pod, "status", "initContainerStatuses") or []:
        if status["name"] in sidecars and status.get("started") and status.get("ready"):
            done += 1
    return f"{done}/{total}"


def status(pod: Manifest, now: float) -> str:
    """Return the reason or phase that matters most."""
    reason = str(at(pod, "status", "reason") or at(pod, "status", "phase") or "")
    for condition in at(pod, "status", "conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    initial, initializing = _initializing(pod)
    if initializing:
        reason = initial
    if not initializing or _initialized(pod):
        reason = _containers_reason(pod, reason)
    if pod["metadata"].get("deletionTimestamp"):
        if at(pod, "status", "reason") == "NodeLost":
            return "Unknown"
        if at(pod, "status", "phase") not in ("Succeeded", "Failed"):
            return "Terminating"
    return reason


def restarts(pod: Manifest, now: float) -> str:
    """Return how often containers restarted, and when last."""
    statuses = list(at(pod, "status", "containerStatuses") or [])
    initial, initializing = _initializing(pod)
    if initializing and initial:
        statuses = at(pod, "status", "initContainerStatuses") or []
    total = sum(item.get("restartCount") or 0 for item in statuses)
    ended = [at(item, "lastState", "terminated", "finishedAt") for item in statuses]
    times = [seconds_of(time) for time in ended if time]
    if not total or not times:
        return str(total)
    return f"{total} ({human_duration(now - max(times))} ago)"


def ip(pod: Manifest, now: float) -> str:
    """Return the first address."""
    ips = at(pod, "status", "podIPs") or []
    return str((ips[0].get("ip") if ips else at(pod, "status", "podIP")) or NONE)


def readiness_gates(pod: Manifest, now: float) -> str:
    """Return how many readiness gates are met."""
    gates = at(pod, "spec", "readinessGates") or []
    if not gates:
        return NONE
    met = {
        condition["type"] for condition in at(pod, "status", "conditions") or [] if condition.get("status") == "True"
    }
    return f"{sum(1 for gate in gates if gate['conditionType'] in met)}/{len(gates)}"


def labels(obj: Manifest, now: float) -> str:
    """Return the labels of a pod template."""
    labels = at(obj, "template", "metadata", "labels") or {}
    return joined([f"{key}={value}" for key, value in sorted(labels.items())])


def _sidecars(pod: Manifest) -> set[str]:
    return {
        container["name"]
        for container in at(pod, "spec", "initContainers") or []
        if container.get("restartPolicy") == "Always"
    }


def _initializing(pod: Manifest) -> tuple[str, bool]:
    """Return what the first unfinished init container is at, and whether there is one."""
    containers = at(pod, "spec", "initContainers") or []
    sidecars = _sidecars(pod)
    for index, item in enumerate(at(pod, "status", "initContainerStatuses") or []):
        terminated = at(item, "state", "terminated")
        if terminated is not None and terminated.get("exitCode", 0) == 0:
            continue
        if item["name"] in sidecars and item.get("started"):
            continue
        if terminated is not None:
            return f"Init:{_ending(terminated)}", True
        waiting = at(item, "state", "waiting", "reason")
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}", True
        return f"Init:{index}/{len(containers)}", True
    return "", False


def _initialized(pod: Manifest) -> bool:
    return any(
        condition.get("type") == "Initialized" and condition.get("status") == "True"
        for condition in at(pod, "status", "conditions") or []
    )


def _containers_reason(pod: Manifest, reason: str) -> str:
    running = False
    # Backwards, so that the first container's reason is the one that stays.
    for item in reversed(at(pod, "status", "containerStatuses") or []):
        waiting = at(item, "state", "waiting", "reason")
        terminated: Any = at(item, "state", "terminated")
        if waiting:
            reason = waiting
        elif terminated is not None:
            reason = _ending(terminated)
        elif item.get("ready") and at(item, "state", "running") is not None:
            running = True
    if reason == "Completed" and running:
        is_ready = any(
            condition.get("type") == "Ready" and condition.get("status") == "True"
            for condition in at(pod, "status", "conditions") or []
        )
        return "Running" if is_ready else "NotReady"
    return reason


def _ending(terminated: Manifest) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"
