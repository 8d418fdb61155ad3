"""
The lifecycle of a container, and the status of a pod that follows from those of its containers. Pure functions.

The lifecycle is a state machine: from a status to the next transition and its time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from gitsync.objects.manifest import Manifest, at
from gitsync.sandbox.controllers.nodes.runtime import LOST, ContainerBehaviour, ProcessState, behaviour_of
from gitsync.sandbox.controllers.object_meta import condition_of

# Seconds. The first restarts of a real kubelet come at once, too.
_RESTART_DELAY = 0.2
# A demo shows CrashLoopBackOff within seconds, as a user of a real cluster remembers it.
_QUICK_RESTARTS = 3
# kubelet: MaxContainerBackOff, 5 minutes.
_LONGEST_BACK_OFF = 300.0


class Move(Enum):
    """What happens to a container next."""

    START = "start"
    GIVE_UP_PULLING = "wait for the image"
    READY = "become ready"
    PROBED = "report what the probes say"
    END = "end"
    RESTART = "start again"


@dataclass(frozen=True, slots=True)
class Container:
    """A container of one pod: its spec, its status, and what its pod says about restarts."""

    spec: Manifest
    status: Manifest
    behaviour: ContainerBehaviour
    restart_policy: str
    pod: Manifest
    process: ProcessState = LOST
    """The state of its process, where it has one."""

    @property
    def name(self) -> str:
        """The name of the container."""
        return str(self.spec["name"])

    @property
    def exit_code(self) -> int | None:
        """The exit code, None while the container has not ended."""
        code = at(self.status, "state", "terminated", "exitCode")
        return None if code is None else int(code)

    @property
    def is_over(self) -> bool:
        """Whether the container ended and will not start again."""
        code = self.exit_code
        if code is None:
            return False
        return self.restart_policy == "Never" or (self.restart_policy == "OnFailure" and code == 0)

    @property
    def has_new_image(self) -> bool:
        """Whether the image in the spec changed since the container was created."""
        return bool(self.spec["image"] != self.status["image"])

    @property
    def has_started_once(self) -> bool:
        """Whether the container ran at some time."""
        return "waiting" not in self.status["state"] or bool(self.status.get("lastState"))


@dataclass(frozen=True, slots=True)
class Pace:
    """The delays of the machine, in seconds."""

    start: float
    run: float
    slow: float


def waiting(spec: Manifest, reason: str) -> Manifest:
    """Return the status of a container that has not started."""
    return {
        "name": spec["name"],
        "state": {"waiting": {"reason": reason}},
        "lastState": {},
        "ready": False,
        "restartCount": 0,
        "image": spec["image"],
        "imageID": "",
        "started": False,
    }


def next_move(container: Container, pace: Pace) -> tuple[Move, float] | None:
    """Return what happens to the container next and after how many seconds, None when it stays as it is."""
    state = container.status["state"]
    if "waiting" in state:
        return _next_of_waiting(container, state["waiting"]["reason"], pace)
    if "running" in state:
        # The image is the one member of a running pod that restarts a container.
        if container.has_new_image:
            return Move.RESTART, _RESTART_DELAY
        if container.behaviour is ContainerBehaviour.PROCESS:
            return _next_of_process(container)
        if container.behaviour is ContainerBehaviour.ENDS:
            return Move.END, pace.run
        if container.behaviour is ContainerBehaviour.SLOW and not container.status["ready"]:
            return Move.READY, pace.slow
        return None
    return None if container.is_over else (Move.RESTART, _RESTART_DELAY)


def _next_of_process(container: Container) -> tuple[Move, float] | None:
    process = container.process
    status = container.status
    if process.exit_code is not None:
        return Move.END, 0.0
    is_reported = (status["ready"], status["started"]) == (process.ready, process.started)
    return None if is_reported else (Move.PROBED, 0.0)


def _next_of_waiting(container: Container, reason: str, pace: Pace) -> tuple[Move, float] | None:
    if reason == "ImagePullBackOff":
        return (Move.START, 0.0) if container.has_new_image else None
    if reason == "ErrImagePull":
        return Move.GIVE_UP_PULLING, pace.start
    if reason == "CrashLoopBackOff":
        return Move.RESTART, back_off(container.status["restartCount"])
    # The image is there already; only the ConfigMap or Secret was missing.
    return Move.START, 0.0 if reason == "CreateContainerConfigError" else pace.start


def back_off(restarts: int) -> float:
    """Return how long a container that restarted so often waits: 10 s, doubled each time, at most 5 minutes."""
    # kubelet: containerBackOff starts at 10 s.
    return min(10.0 * float(2 ** max(0, restarts - 1)), _LONGEST_BACK_OFF)


def perform(container: Container, move: Move, now: str) -> Manifest:
    """Return the status of the container after the move."""
    status = container.status
    if move is Move.GIVE_UP_PULLING:
        image = container.spec["image"]
        return {
            **status,
            "state": {"waiting": {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{image}"'}},
        }
    if move is Move.READY:
        return {**status, "ready": True}
    if move is Move.PROBED:
        return {**status, "ready": container.process.ready, "started": container.process.started}
    if move is Move.END:
        return _finished(container, now)
    if move is Move.RESTART:
        return _restarted(container, now)
    return _started(container, status, now)


def config_error(container: Container, message: str) -> Manifest:
    """Return the status of a container whose environment cannot be made."""
    return {
        **container.status,
        "state": {"waiting": {"reason": "CreateContainerConfigError", "message": message}},
    }


def stopped(container: Container, now: str) -> Manifest:
    """Return the status of a container that was stopped with its pod."""
    if "terminated" in container.status["state"]:
        return container.status
    return _ended(
        # 128 + SIGKILL.
        container,
        container.status,
        137,
        at(container.status, "state", "running", "startedAt", default=now),
        now,
    )


def _started(container: Container, status: Manifest, now: str) -> Manifest:
    image = container.spec["image"]
    status = {**status, "image": image}
    if container.behaviour is ContainerBehaviour.MISSING:
        text = f'failed to pull and unpack image "{image}": not found'
        return {**status, "state": {"waiting": {"reason": "ErrImagePull", "message": text}}}
    if container.behaviour in (ContainerBehaviour.FAILS, ContainerBehaviour.OOM):
        return _ended(container, status, 137 if container.behaviour is ContainerBehaviour.OOM else 1, now, now)
    is_probed = container.behaviour is ContainerBehaviour.PROCESS and bool(
        container.spec.get("startupProbe") or container.spec.get("readinessProbe")
    )
    return {
        **status,
        "state": {"running": {"startedAt": now}},
        # Without a probe a container is ready as soon as it runs.
        "ready": container.behaviour is not ContainerBehaviour.SLOW and not is_probed,
        "containerID": _container_id(container),
        "started": container.behaviour is not ContainerBehaviour.PROCESS or not container.spec.get("startupProbe"),
    }


def _finished(container: Container, now: str) -> Manifest:
    """Return the status at the end of a run; a process that ended often waits before it starts again."""
    status = container.status
    is_process = container.behaviour is ContainerBehaviour.PROCESS
    code = container.process.exit_code or 0 if is_process else 0
    ended = _ended(container, status, code, at(status, "state", "running", "startedAt", default=now), now)
    if is_process and container.process.message:
        terminated = {**ended["state"]["terminated"], "message": container.process.message}
        ended = {**ended, "state": {"terminated": terminated}}
    will_restart = not replace(container, status=ended).is_over
    return _backing_off(container, ended) if will_restart and status["restartCount"] >= _QUICK_RESTARTS else ended


def _restarted(container: Container, now: str) -> Manifest:
    """Start again; a container that fails again backs off, once it did so a few times."""
    old_status = container.status
    if "running" in old_status["state"]:
        old_status = _ended(container, old_status, 0, old_status["state"]["running"]["startedAt"], now)
    last = at(old_status, "state", "terminated") or at(old_status, "lastState", "terminated")
    restarts = container.status["restartCount"] + 1
    again = _started(container, {**container.status, "lastState": {"terminated": last}, "restartCount": restarts}, now)
    ended = at(again, "state", "terminated")
    if not ended or ended["exitCode"] == 0 or restarts < _QUICK_RESTARTS:
        return again
    return _backing_off(container, again)


def _backing_off(container: Container, ended: Manifest) -> Manifest:
    """Return the status of a container that ended and starts again after a while."""
    meta = container.pod["metadata"]
    pod = f"{meta['name']}_{meta['namespace']}({meta['uid']})"
    delay = _duration(int(back_off(ended["restartCount"])))
    text = f"back-off {delay} restarting failed container={container.name} pod={pod}"
    return {
        **ended,
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": text}},
        "lastState": {"terminated": ended["state"]["terminated"]},
    }


def _duration(seconds: int) -> str:
    minutes, rest = divmod(seconds, 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _ended(container: Container, status: Manifest, code: int, began: str, now: str) -> Manifest:
    reason = "Completed" if code == 0 else "OOMKilled" if container.behaviour is ContainerBehaviour.OOM else "Error"
    identity = _container_id(container)
    ended = {"exitCode": code, "reason": reason, "startedAt": began, "finishedAt": now, "containerID": identity}
    return {
        **status,
        "state": {"terminated": ended},
        "ready": False,
        "containerID": identity,
        "started": False,
    }


def _container_id(container: Container) -> str:
    return f"fake://{container.pod['metadata']['uid']}"


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
