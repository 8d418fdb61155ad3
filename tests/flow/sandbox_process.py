"""A sandbox in a process of its own, for tests that measure the process of a controller."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from types import TracebackType

from gitsync.cluster.client import Client, Connection
from gitsync.sandbox.faults import InjectedFault
from tests.child_process import child_process
from tests.waiting import until


class SandboxProcess:
    """A running ``gitsync sandbox`` that stops with this process; faults are set over HTTP."""

    def __init__(self, folder: Path) -> None:
        self._kubeconfig = folder / "sandbox.kubeconfig"
        self._ending = contextlib.ExitStack()

    def __enter__(self) -> SandboxProcess:
        command = [sys.executable, "-m", "gitsync", "sandbox", "--attached", "--kubeconfig", self._kubeconfig]
        with contextlib.ExitStack() as ending:  # stops the process where the sandbox does not start
            process = ending.enter_context(child_process(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL))
            until(lambda: self._kubeconfig.is_file() or process.poll() is not None)
            assert process.poll() is None, f"the sandbox ended with exit code {process.returncode}"
            self._client = Client(Connection(str(self._kubeconfig)))
            ending.callback(self._client.close)
            self.id = process.pid
            self._ending = ending.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.close()

    def kubeconfig(self, path: Path) -> Path:
        """Write the kubeconfig to a file, and return its path."""
        path.write_bytes(self._kubeconfig.read_bytes())
        return path

    def inject(self, fault: InjectedFault) -> None:
        """Add a fault."""
        self._client.send("POST", "/sandbox/faults", {**asdict(fault), "kind": fault.kind.value})

    def clear_faults(self) -> None:
        """Remove all faults."""
        self._client.send("DELETE", "/sandbox/faults", {})
