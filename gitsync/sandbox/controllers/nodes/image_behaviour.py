"""The simulated behaviour of a container, selected by the tag of its image."""

from __future__ import annotations

from enum import Enum

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
    name = image.partition("@")[0].rpartition("/")[2]
    return name.partition(":")[2]


def is_simulated(image: str) -> bool:
    """Return whether the tag of an image selects a simulated behaviour."""
    return tag_of(image) in _BY_TAG


def behaviour_of(container: Manifest, *, ends: bool) -> ContainerBehaviour:
    """Return the behaviour of a container; ``ends`` says that it is meant to end, as in a Job."""
    return _BY_TAG.get(tag_of(container["image"]), ContainerBehaviour.ENDS if ends else ContainerBehaviour.RUNS)
