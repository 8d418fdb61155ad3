"""``gitsync sandbox``."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from pathlib import Path

from gitsync.cli.output import Exit, say
from gitsync.sandbox.server import Sandbox


def sandbox(data: Path | None, port: int, kubeconfig: Path | None, workloads: bool, attached: bool) -> Exit:
    """Serve until interrupted; print where, and how to reach it with kubectl."""
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    if attached:
        threading.Thread(target=_wait_for_end_of_input, args=(stopped,), daemon=True).start()
    if data is not None:
        data.mkdir(parents=True, exist_ok=True)
    with Sandbox(data, port, workloads=workloads) as server:
        config = server.kubeconfig(kubeconfig or (data or Path(".gitsync")) / "kubeconfig")
        say(f"sandbox ready at {server.url}")
        say(f"try: kubectl --kubeconfig {config} get namespaces")
        sys.stdout.flush()
        stopped.wait()
    return Exit.OK


def _wait_for_end_of_input(stopped: threading.Event) -> None:
    """Notice the end of the process that started this one, however it ended."""
    with contextlib.suppress(OSError, ValueError):
        while os.read(sys.stdin.fileno(), 4096):  # unbuffered: nobody may hold the buffer's lock when this process ends
            pass
    stopped.set()
