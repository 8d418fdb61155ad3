"""A sandbox in a process of its own, for tests that measure the process of a controller."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from types import TracebackType

from gitsync.cluster.client import Client, Connection
from gitsync.sandbox.faults import Fault
from tests.waiting import until


class SandboxProcess:
    """A running ``gitsync sandbox`` that stops with this process; faults are set over HTTP."""

    def __init__(self, folder: Path) -> None:
        self._kubeconfig = folder / "sandbox.kubeconfig"
        command = [sys.executable, "-m", "gitsync", "sandbox", "--attached", "--kubeconfig", str(self._kubeconfig)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        self.id = self._process.pid

    def __enter__(self) -> SandboxProcess:
        until(self._kubeconfig.exists, 60)
        self._client = Client(Connection(str(self._kubeconfig)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)

    def kubeconfig(self, path: Path) -> Path:
        """Write the kubeconfig to a file, and return its path."""
        path.write_bytes(self._kubeconfig.read_bytes())
        return path

    def inject(self, fault: Fault) -> None:
        """Add a fault."""
        self._client.send("POST", "/sandbox/faults", {**asdict(fault), "kind": fault.kind.value})

    def clear_faults(self) -> None:
        """Remove all faults."""
        self._client.send("DELETE", "/sandbox/faults", {})
