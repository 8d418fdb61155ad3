"""
The dashboard beside 10,000 slow connections: ``python -m bench.connections``.

The seconds from push to live and those of a page, alone, beside the connections, and after their end; and descriptors
and memory of the controller, which serves the dashboard.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench._fleet import Fleet, fleet, memory_of
from bench.fairness import HEALTHY, figures, measured
from tests.flow.factories import config_map
from tests.waiting import until

_CONNECTIONS = 10_000
_PAGES = 9
_HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Site:
    """A controller in a process of its own, with its dashboard."""

    id: int
    port: int

    def page(self) -> float:
        """Return the seconds of the answer to a probe, which needs a connection but no sign-in."""
        began = time.perf_counter()
        with urllib.request.urlopen(f"http://{_HOST}:{self.port}/healthz", timeout=60) as answer:
            assert answer.status == 200
        return time.perf_counter() - began

    def show(self, made: Fleet, what: str) -> None:
        """Print the figures of one state."""
        live, pages = figures(measured(made)), figures([self.page() for _ in range(_PAGES)])
        descriptors = len(os.listdir(f"/proc/{self.id}/fd"))
        print(f"{what:25} push to live {live}; page {pages}; ", end="")
        print(f"{descriptors} descriptors, {memory_of(self.id) >> 20} MiB", flush=True)


def main() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as folder, fleet(Path(folder)) as made, running(Path(folder)) as site:
        made.repo.commit("first", {f"{HEALTHY}/o.yaml": config_map("o", value="first")})
        made.applications([HEALTHY], interval="1s")
        until(lambda: made.config(HEALTHY, "o") != {}, 60)
        site.show(made, "alone")
        with slow_clients(site.port):
            site.show(made, f"{_CONNECTIONS} slow connections")
        print(f"first page after their end: {site.page():.2f} s")
        time.sleep(12.0)  # until the server has closed what they left
        site.show(made, "after their end")


@contextmanager
def running(folder: Path) -> Iterator[Site]:
    """Run ``gitsync run`` with a dashboard on a free port."""
    log = folder / "log"
    command = [sys.executable, "-m", "gitsync", "run", "--kubeconfig", str(folder / "kubeconfig")]
    options = ["--data", str(folder / "data"), "--port", "0"]
    with log.open("w") as output:
        process = subprocess.Popen(
            [*command, *options], env={**os.environ, "GITSYNC_ALLOW_FILE_URLS": "true"}, stdout=output, stderr=output
        )
    try:
        address = folder / "data" / "dashboard.url"
        until(address.exists, 60, log.read_text)
        yield Site(process.pid, int(address.read_text().split("/")[2].partition(":")[2]))
    finally:
        process.terminate()
        process.wait(60)


@contextmanager
def slow_clients(port: int) -> Iterator[None]:
    """Keep slow connections open."""
    clients = subprocess.Popen(
        [sys.executable, "-m", "bench._slow_clients", _HOST, str(port), str(_CONNECTIONS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert clients.stdin is not None and clients.stdout is not None
    try:
        clients.stdout.readline()
        yield
    finally:
        clients.stdin.close()
        clients.wait(60)


if __name__ == "__main__":
    main()
