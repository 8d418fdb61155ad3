"""The status of a pod as a kubelet reports it, from the statuses of its containers. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from gitsync.objects.manifest import Manifest, at
from gitsync.sandbox.controllers.nodes.containers import Container, stopped, waiting
from gitsync.sandbox.controllers.nodes.runtime import behaviour_of
from gitsync.sandbox.controllers.object_meta import condition_of


def is_sidecar(spec: Manifest) -> bool:
    """Return whether an init container keeps running beside the main containers."""
    return bool(spec.get("restartPolicy") == "Always")


def init_containers(pod: Manifest) -> list[Container]:
    """Return the init containers of a pod with their statuses."""
    policy = pod["spec"].get("restartPolicy", "Always")
    known = {status["name"]: status for status in at(pod, "status", "initContainerStatuses") or ()}
    return [
        Container(
            spec,
            known.get(spec["name"]) or waiting(spec, "PodInitializing"),
            behaviour_of(spec, ends=not is_sidecar(spec)),
            # An init container that succeeded is not repeated, whatever the policy of the pod.
            "Always" if is_sidecar(spec) else "OnFailure" if policy == "Always" else policy,
            pod,
        )
        for spec in pod["spec"].get("initContainers") or ()
    ]


def main_containers(pod: Manifest) -> list[Container]:
    """Return the containers of a pod with their statuses."""
    policy = pod["spec"].get("restartPolicy", "Always")
    known = {status["name"]: status for status in at(pod, "status", "containerStatuses") or ()}
    reason = "PodInitializing" if pod["spec"].get("initContainers") else "ContainerCreating"
    return [
        Container(
            spec,
            known.get(spec["name"]) or waiting(spec, reason),
            behaviour_of(spec, ends=policy != "Always"),
            policy,
            pod,
        )
        for spec in pod["spec"]["containers"]
    ]


def is_initialized(container: Container) -> bool:
    """Return whether the pod may go on past this init container."""
    return container.status["started"] if is_sidecar(container.spec) else container.exit_code == 0


def current(pod: Manifest) -> list[Container]:
    """Return the containers that may move now: one init container at a time, then all others; sidecars always."""
    init = init_containers(pod)
    for index, container in enumerate(init):
        if not is_initialized(container):
            return [sidecar for sidecar in init[:index] if is_sidecar(sidecar.spec)] + [container]
    return [sidecar for sidecar in init if is_sidecar(sidecar.spec)] + main_containers(pod)


def with_containers(pod: Manifest, changed: dict[str, Manifest], now: str) -> Manifest:
    """Return the pod's status with these container statuses, and all that follows from them."""
    init = [changed.get(container.name, container.status) for container in init_containers(pod)]
    main = [changed.get(container.name, container.status) for container in main_containers(pod)]
    status = {**(pod.get("status") or {}), "containerStatuses": main}
    if init:
        status["initContainerStatuses"] = init
    # KEP-5067: the generation of the spec that this status is about.
    status["observedGeneration"] = pod["metadata"].get("generation", 1)
    draft = {**pod, "status": status}
    status["phase"] = _phase(draft)
    status["conditions"] = _conditions(draft, now)
    return status


def all_stopped(pod: Manifest, now: str) -> Manifest:
    """Return the status of a pod whose containers were stopped."""
    containers = [*init_containers(pod), *main_containers(pod)]
    return with_containers(pod, {container.name: stopped(container, now) for container in containers}, now)


def _phase(pod: Manifest) -> str:
    known: str = at(pod, "status", "phase") or "Pending"
    # Terminal: a finished pod stays finished.
    if known in ("Succeeded", "Failed"):
        return known
    init = init_containers(pod)
    main = main_containers(pod)
    if any(container.is_over and container.exit_code for container in init):
        return "Failed"
    if not all(is_initialized(container) for container in init) and not all(container.is_over for container in main):
        return "Pending"
    if all(
        container.exit_code is not None and (container.is_over or "deletionTimestamp" in pod["metadata"])
        for container in main
    ):
        return "Failed" if any(container.exit_code for container in main) else "Succeeded"
    return "Running" if all(container.has_started_once for container in main) else "Pending"


def _conditions(pod: Manifest, now: str) -> list[Manifest]:
    status = pod["status"]
    finished = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(status["phase"], "")
    init = [container.name for container in init_containers(pod) if not is_initialized(container)]
    unready = [container.name for container in main_containers(pod) if not container.status["ready"]]
    unready += [
        container.name
        for container in init_containers(pod)
        if is_sidecar(container.spec) and not container.status["ready"]
    ]
    ready = _readiness(unready, finished)
    return [
        _condition(pod, "PodReadyToStartContainers", bool(status.get("podIP")) and not finished, now),
        _condition(
            pod, "Initialized", not init, now, _because(init, finished, "ContainersNotInitialized", "incomplete")
        ),
        _condition(pod, "Ready", not unready, now, ready),
        _condition(pod, "ContainersReady", not unready, now, ready),
        _condition(pod, "PodScheduled", True, now),
    ]


def _readiness(unready: Sequence[str], finished: str) -> tuple[str, str]:
    return _because(unready, finished, "ContainersNotReady", "unready")


def _because(names: Sequence[str], finished: str, reason: str, word: str) -> tuple[str, str]:
    if finished:
        return finished, ""
    return (reason, f"containers with {word} status: [{' '.join(names)}]") if names else ("", "")


def _condition(pod: Manifest, kind: str, holds: bool, now: str, because: tuple[str, str] = ("", "")) -> Manifest:
    value = "True" if holds else "False"
    known = condition_of(pod, kind)
    since = known["lastTransitionTime"] if known.get("status") == value else None
    details = {"reason": because[0], "message": because[1]}
    return {
        "type": kind,
        "status": value,
        "lastProbeTime": None,
        "lastTransitionTime": since or now,
        **{key: text for key, text in details.items() if text},
    }
