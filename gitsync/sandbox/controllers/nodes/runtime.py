"""Container runtime of a node: what the kubelet asks of the processes behind containers that run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gitsync.objects.manifest import Manifest

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

    def refresh(self, kind: str, namespace: str, name: str) -> None:
        """Write the files of a changed ConfigMap or Secret into the volumes that have them."""
        ...

    def notify(self, action: Notify) -> None:
        """Call an action when a container of a Pod ends, or its probes change it."""
        ...
