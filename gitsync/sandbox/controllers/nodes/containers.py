"""The lifecycle of a container as a state machine: its status to the next transition and its time. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from gitsync.objects.manifest import Manifest, at
from gitsync.sandbox.controllers.nodes.image_behaviour import ContainerBehaviour

_RESTART_DELAY = 0.2
_QUICK_RESTARTS = 3
_LONGEST_BACK_OFF = 300.0


class Move(Enum):
    """What happens to a container next."""

    START = "start"
    GIVE_UP_PULLING = "wait for the image"
    READY = "become ready"
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
        if container.has_new_image:
            return Move.RESTART, _RESTART_DELAY
        if container.behaviour is ContainerBehaviour.ENDS:
            return Move.END, pace.run
        if container.behaviour is ContainerBehaviour.SLOW and not container.status["ready"]:
            return Move.READY, pace.slow
        return None
    return None if container.is_over else (Move.RESTART, _RESTART_DELAY)


def _next_of_waiting(container: Container, reason: str, pace: Pace) -> tuple[Move, float] | None:
    if reason == "ImagePullBackOff":
        return (Move.START, 0.0) if container.has_new_image else None
    if reason == "ErrImagePull":
        return Move.GIVE_UP_PULLING, pace.start
    if reason == "CrashLoopBackOff":
        return Move.RESTART, back_off(container.status["restartCount"])
    return Move.START, 0.0 if reason == "CreateContainerConfigError" else pace.start


def back_off(restarts: int) -> float:
    """Return how long a container that restarted so often waits: 10 s, doubled each time, at most 5 minutes."""
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
    if move is Move.END:
        began = at(status, "state", "running", "startedAt", default=now)
        return _ended(container, status, 0, began, now)
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
        container, container.status, 137, at(container.status, "state", "running", "startedAt", default=now), now
    )


def _started(container: Container, status: Manifest, now: str) -> Manifest:
    image = container.spec["image"]
    status = {**status, "image": image}
    if container.behaviour is ContainerBehaviour.MISSING:
        text = f'failed to pull and unpack image "{image}": not found'
        return {**status, "state": {"waiting": {"reason": "ErrImagePull", "message": text}}}
    if container.behaviour in (ContainerBehaviour.FAILS, ContainerBehaviour.OOM):
        return _ended(container, status, 137 if container.behaviour is ContainerBehaviour.OOM else 1, now, now)
    return {
        **status,
        "state": {"running": {"startedAt": now}},
        "ready": container.behaviour is not ContainerBehaviour.SLOW,
        "containerID": _container_id(container),
        "started": True,
    }


def _restarted(container: Container, now: str) -> Manifest:
    """Start again; a container that fails again backs off, once it did so a few times."""
    before = container.status
    if "running" in before["state"]:
        before = _ended(container, before, 0, before["state"]["running"]["startedAt"], now)
    last = at(before, "state", "terminated") or at(before, "lastState", "terminated")
    restarts = container.status["restartCount"] + 1
    again = _started(container, {**container.status, "lastState": {"terminated": last}, "restartCount": restarts}, now)
    ended = at(again, "state", "terminated")
    if not ended or ended["exitCode"] == 0 or restarts < _QUICK_RESTARTS:
        return again
    meta = container.pod["metadata"]
    pod = f"{meta['name']}_{meta['namespace']}({meta['uid']})"
    delay = _duration(int(back_off(restarts)))
    text = f"back-off {delay} restarting failed container={container.name} pod={pod}"
    return {
        **again,
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": text}},
        "lastState": {"terminated": ended},
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
