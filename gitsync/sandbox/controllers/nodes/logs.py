"""Logs of a simulated container, derived from its state."""

from __future__ import annotations

from gitsync.objects.manifest import Manifest, at
from gitsync.sandbox.controllers.nodes.image_behaviour import ContainerBehaviour, behaviour_of

_LAST_WORDS = {
    ContainerBehaviour.FAILS: "fatal: the process ends with exit code 1",
    ContainerBehaviour.OOM: "allocating memory beyond the limit",
    ContainerBehaviour.ENDS: "done",
}


def log_of(pod: Manifest, container: str, *, previous: bool = False) -> str | None:
    """
    Return the log of a container, or of the run before; None when there was none.

    The text depends on the pod alone: the same pod prints the same log.
    """
    status = _status_of(pod, container)
    spec = _spec_of(pod, container)
    if status is None or spec is None:
        return None
    began = _began(status, previous=previous)
    if began is None:
        return None
    ends = pod["spec"].get("restartPolicy", "Always") != "Always"
    lines = [
        f"{began} {spec['image']} starts in pod {pod['metadata']['namespace']}/{pod['metadata']['name']}",
        *(f"{began} listening on port {each['containerPort']}" for each in spec.get("ports") or ()),
    ]
    last = _LAST_WORDS.get(behaviour_of(spec, ends=ends))
    if last is None:
        lines.append(f"{began} ready")
    elif previous or "running" not in status["state"]:
        lines.append(f"{began} {last}")
    return "\n".join(lines) + "\n"


def waiting_reason(pod: Manifest, container: str) -> str:
    """Return why a container has no log yet."""
    return str(at(_status_of(pod, container), "state", "waiting", "reason", default="ContainerCreating"))


def _status_of(pod: Manifest, container: str) -> Manifest | None:
    members = ("containerStatuses", "initContainerStatuses")
    statuses = [each for member in members for each in at(pod, "status", member) or ()]
    return next((each for each in statuses if each["name"] == container), None)


def _spec_of(pod: Manifest, container: str) -> Manifest | None:
    specs = [*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or ())]
    return next((each for each in specs if each["name"] == container), None)


def _began(status: Manifest, *, previous: bool) -> str | None:
    """Return when the run began that the log is of."""
    last = at(status, "lastState", "terminated", "startedAt")
    if previous:
        return None if last is None else str(last)
    now = at(status, "state", "running", "startedAt") or at(status, "state", "terminated", "startedAt") or last
    return None if now is None else str(now)
