"""``gitsync sandbox``."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from gitsync.cli.options import command
from gitsync.cli.output import Exit, say
from gitsync.sandbox.processes.environment import read_images
from gitsync.sandbox.server import Sandbox


@command
def sandbox(
    data: Annotated[Path | None, typer.Option(help="Store the state in this folder; by default in memory.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port on 127.0.0.1; 0 picks a free one.")] = 0,
    kubeconfig: Annotated[Path | None, typer.Option(help="Write the kubeconfig to this file.")] = None,
    workloads: Annotated[bool, typer.Option(help="Simulate Deployments, Jobs and Pods.")] = True,
    images: Annotated[
        Path | None, typer.Option(help="Run the images of this YAML table as processes; see docs/sandbox.md.")
    ] = None,
    attached: Annotated[bool, typer.Option(help="Stop when standard input ends.")] = False,
) -> Exit:
    """Run a Kubernetes API server in this process, for demos and tests."""
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    if attached:
        threading.Thread(target=_wait_for_end_of_input, args=(stopped,), daemon=True).start()
    if data is not None:
        data.mkdir(parents=True, exist_ok=True)
    with Sandbox(data, port, workloads=workloads, images=read_images(images) if images else None) as server:
        config = server.kubeconfig(kubeconfig or (data or Path(".gitsync")) / "kubeconfig")
        say(f"sandbox ready at {server.url}")
        say(f"try: kubectl --kubeconfig {config} get namespaces")
        if server.proxy_url:
            say(f"services by name: curl --proxy {server.proxy_url} http://NAME.NAMESPACE:PORT")
        # the demo waits for these lines at the other end of a pipe
        sys.stdout.flush()
        stopped.wait()
    return Exit.OK


def _wait_for_end_of_input(stopped: threading.Event) -> None:
    """Set the event when the process that started this one has ended, however it ended."""
    with contextlib.suppress(OSError, ValueError):
        while os.read(sys.stdin.fileno(), 4096):  # unbuffered: no thread may hold the buffer's lock at exit
            pass
    stopped.set()
