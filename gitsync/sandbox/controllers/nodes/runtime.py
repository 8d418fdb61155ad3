"""What runs the containers of a node: the simulated behaviour of an image, or a process (ContainerRuntime)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol

from gitsync.objects.manifest import Manifest


class ContainerBehaviour(Enum):
    """How a container behaves once the kubelet tries to start it."""

    RUNS = "runs on, ready at once"
    SLOW = "runs on, ready after a while"
    ENDS = "ends with exit code 0"
    FAILS = "ends at once with exit code 1"
    OOM = "is killed for its memory, exit code 137"
    MISSING = "has an image that cannot be pulled"
    PROCESS = "is a process of this machine"


_BY_TAG = {
    "crash": ContainerBehaviour.FAILS,
    "fail": ContainerBehaviour.FAILS,
    "oom": ContainerBehaviour.OOM,
    "missing": ContainerBehaviour.MISSING,
    "slow": ContainerBehaviour.SLOW,
    "forever": ContainerBehaviour.RUNS,
}


def tag_of(image: str) -> str:
    """Return the tag of an image reference, empty where it has none."""
    # The registry may have a port, which a colon precedes as well.
    name = image.partition("@")[0].rpartition("/")[2]
    return name.partition(":")[2]


def is_simulated(image: str) -> bool:
    """Return whether the tag of an image selects a simulated behaviour."""
    return tag_of(image) in _BY_TAG


def behaviour_of(container: Manifest, *, ends: bool) -> ContainerBehaviour:
    """Return the behaviour of a container; ``ends`` says that it is meant to end, as in a Job."""
    return _BY_TAG.get(tag_of(container["image"]), ContainerBehaviour.ENDS if ends else ContainerBehaviour.RUNS)


Notify = Callable[[str, str], None]
"""Called with the namespace and name of a Pod one of whose containers changed."""


@dataclass(frozen=True, slots=True)
class ProcessState:
    """What the node sees of the process of a container."""

    exit_code: int | None
    """None while it runs."""
    ready: bool = False
    started: bool = False
    message: str = ""
    """What it wrote to its ``terminationMessagePath``, once it ended."""


LOST = ProcessState(255)
"""The state of a container whose process ended with a former run of the sandbox."""


@dataclass(frozen=True, slots=True)
class ContainerUsage:
    """What a container used: CPU in cores as the mean over ``window`` seconds, and memory in bytes."""

    cores: float
    memory: int
    window: float


class ContainerRuntime(Protocol):
    """Run containers as processes; all calls are made on the server's thread."""

    def runs(self, image: str) -> bool:
        """Return whether an image is a process, not simulated."""
        ...

    def address(self, pod: Manifest) -> str:
        """Return the address of a Pod that runs, always the same one."""
        ...

    def start(self, pod: Manifest, container: Manifest, run: int) -> None:
        """Start a container; ``run`` counts its restarts."""
        ...

    def state(self, uid: str, container: str) -> ProcessState:
        """Return the state of a container's process."""
        ...

    def stop(self, pod: Manifest, grace: float) -> bool:
        """End a Pod's processes within ``grace`` seconds; return whether all have ended."""
        ...

    def remove(self, uid: str) -> None:
        """Forget a Pod that is gone, with its logs and files."""
        ...

    def log(self, uid: str, container: str, run: int) -> Path | None:
        """Return the log file of one run of a container, None where there is none."""
        ...

    def usage(self) -> Mapping[tuple[str, str], ContainerUsage]:
        """Return what the running containers use, by the uid of their Pod and their name."""
        ...

    def refresh(self, kind: str, namespace: str, name: str) -> None:
        """Write the files of a changed ConfigMap or Secret into the volumes that have them."""
        ...

    def notify(self, action: Notify) -> None:
        """Call an action when a container of a Pod ends, or its probes change it."""
        ...
