"""Reach the dashboard in the cluster of a kubeconfig, with its rights: ``kubectl port-forward`` to the Service."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import threading
from collections import deque
from pathlib import Path
from typing import IO

from gitsync.cli.options import NAMESPACE
from gitsync.errors import ClusterUnavailable, one_line

_SERVICE = "service/gitsync"
_SECONDS = 15.0
"""How long kubectl may take until it forwards."""
_READY = re.compile(r"Forwarding from (127\.0\.0\.1:\d+) ")


def can_forward() -> bool:
    """Return whether there are a kubectl and a kubeconfig."""
    config = _given() or os.environ.get("KUBECONFIG") or str(Path("~/.kube/config").expanduser())
    return shutil.which("kubectl") is not None and any(map(os.path.exists, config.split(os.pathsep)))


def forward() -> str:
    """Return the URL of the dashboard in the cluster, which is reached until this process ends."""
    place = [f"--kubeconfig={_given()}"] if _given() else []
    command = ["kubectl", *place, "--namespace", NAMESPACE, "port-forward", "--address", "127.0.0.1", _SERVICE, ":80"]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    atexit.register(process.kill)
    assert process.stdout is not None
    limit = threading.Timer(_SECONDS, process.kill)
    limit.start()
    line = process.stdout.readline()
    ready = _READY.match(line)
    limit.cancel()
    if ready is None:
        process.kill()
        reason = one_line(line + process.communicate()[0], 300)
        raise ClusterUnavailable(
            f"no dashboard runs on the data folder, nor is one reached: {reason}",
            object=f"{NAMESPACE}/{_SERVICE}",
            hint="name one with --server URL",
        )
    threading.Thread(target=_drop, args=(process.stdout,), daemon=True).start()
    return f"http://{ready[1]}"


def _given() -> str:
    return os.environ.get("GITSYNC_KUBECONFIG", "")


def _drop(stream: IO[str]) -> None:
    """Read what kubectl prints for each connection, so that it is never blocked."""
    deque(stream, maxlen=0)
