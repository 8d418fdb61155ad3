"""
Record what ``/metrics`` has before and during outages of a controller on the sandbox.

``python -m tests.server.record_outages`` writes ``outages/NAME.json``, which ``test_alerts.py`` gives to the shipped
rules. Only the metrics that a rule names are kept: of each series its value before, its value during the outage, and
what it grows by in a minute of it.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from unittest import mock

import yaml
from prometheus_client.parser import text_string_to_metric_families

from gitsync.runtime.clock import SystemClock
from gitsync.sandbox.faults import FaultKind, InjectedFault
from gitsync.sandbox.server import Sandbox
from gitsync.server.metrics import process_text
from gitsync.sync.pipeline import Pipeline
from tests.flow.environment import World
from tests.flow.factories import config_map
from tests.flow.tcp_proxy import Proxy
from tests.small_disk import fill, small_disk

FOLDER = Path(__file__).parent / "outages"
RULES = Path(__file__).resolve().parents[2] / "manifests/gitsync/components/monitoring/prometheusrule.yaml"
APPLICATIONS = 3
SETTLED = 12.0
"""Seconds of an outage until its metrics are read, and again until they are read a second time."""
RETRIED = 40.0
"""The same for a denied status, which is written again after half a minute."""

USED_LABELS = ("code", "verb", "resource", "phase", "sync", "health", "status", "stage", "le")
"""The labels that rules name; series that differ in others are added."""

Series = dict[str, float]


@dataclass(frozen=True, slots=True)
class Rig:
    """A controller, and the line between it and the API server."""

    world: World
    line: Proxy


Outage = Callable[[Rig], Iterator[None]]


def injected(code: int, resource: str = "") -> Outage:
    """Return an outage in which the API server answers every request of a kind, or all of them, with an error."""

    def outage(rig: Rig) -> Iterator[None]:
        rig.world.sandbox.inject(InjectedFault(FaultKind.ERROR, resource=resource, code=code))
        # watches that are open would last
        rig.line.cut()
        yield

    return outage


def unreachable(rig: Rig) -> Iterator[None]:
    """Cut the line to the API server."""
    rig.line.down(True)
    yield
    rig.line.down(False)


def denied_status(rig: Rig) -> Iterator[None]:
    """Take the right to write the status of Applications away, and commit what changes it."""
    fault = InjectedFault(FaultKind.ERROR, resource="applications.gitsync.dev", verb="update", code=403)
    rig.world.sandbox.inject(fault)
    files = {f"app{number}/a.yaml": config_map(f"a{number}", x="2") for number in range(APPLICATIONS)}
    rig.world.repo.commit("second", files)
    yield


def git(rig: Rig) -> Iterator[None]:
    """Take the repository away."""
    bare = rig.world.repo.bare
    bare.rename(bare.with_name("away"))
    yield


def revision(rig: Rig) -> Iterator[None]:
    """Delete the branch: the Applications fail, and by their source alone."""
    rig.world.repo.git("push", "-q", "origin", "HEAD:refs/heads/kept")
    (rig.world.repo.bare / "refs/heads/main").unlink()
    yield


def database(rig: Rig) -> Iterator[None]:
    """Overwrite the history database."""
    for file in (rig.world.folder / "data").glob("*.db*"):
        file.write_bytes(b"not a database" * 1000)
    yield


def disk(rig: Rig) -> Iterator[None]:
    """Fill the volume of the data folder, and commit."""
    fill(rig.world.folder / "data")
    files = {f"app{number}/a.yaml": config_map(f"a{number}", x="2") for number in range(APPLICATIONS)}
    rig.world.repo.commit("second", files)
    yield


def clock(rig: Rig) -> Iterator[None]:
    """Set the clock of the controller back by five minutes."""
    now = SystemClock.now
    late: Callable[[SystemClock], datetime] = lambda self: now(self) - timedelta(minutes=5)  # noqa: E731
    with mock.patch.object(SystemClock, "now", late):
        yield


def queue(rig: Rig) -> Iterator[None]:
    """Let every worker wait for ever."""
    end = threading.Event()

    def wait(*_: object) -> None:
        end.wait(120)

    with mock.patch.object(Pipeline, "sync", wait):
        rig.world.controller.requests.poll_now([f"gitsync/app{number}" for number in range(APPLICATIONS)])
        yield
        end.set()


OUTAGES: dict[str, tuple[Outage, str]] = {
    "credentials": (injected(401), "GitsyncApiUnauthorized"),
    "api": (injected(503), "GitsyncApiErrors"),
    "line": (unreachable, "GitsyncApiErrors"),
    "rights": (injected(403), "GitsyncNotReady"),
    "rights-of-a-kind": (injected(403, "configmaps"), "GitsyncApplicationsUnknown"),
    "status": (denied_status, "GitsyncStatusDenied"),
    "git": (git, "GitsyncSourceNotReady"),
    "revision": (revision, "GitsyncSourceNotReady"),
    "database": (database, "GitsyncDatabaseDown"),
    "disk": (disk, "GitsyncDiskFull"),
    "clock": (clock, "GitsyncClockWrong"),
    "queue": (queue, "GitsyncReconcileLate"),
}
"""What goes wrong, and the one alert of it."""


def names() -> set[str]:
    """Return the metrics that the rules name."""
    rules = yaml.safe_load(RULES.read_text())["spec"]["groups"][0]["rules"]
    return {name for rule in rules for name in re.findall(r"\bgitsync_\w+", rule["expr"])}


def read(world: World) -> Series:
    """Return the samples that rules name; the clock as its difference from the true time."""
    text = process_text(world.controller, has_applications=True)
    wanted = names()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    series: defaultdict[str, float] = defaultdict(float)
    for sample in samples:
        labels = ",".join(f"{key}={json.dumps(sample.labels[key])}" for key in USED_LABELS if key in sample.labels)
        is_clock = sample.name == "gitsync_clock_seconds"
        if sample.name in wanted:
            series[f"{sample.name}{{{labels}}}"] += sample.value - time.time() * is_clock
    return dict(series)


@contextmanager
def running(folder: Path) -> Iterator[Rig]:
    """A controller with some Applications that are in sync."""
    with (
        Sandbox() as sandbox,
        small_disk(folder / "disk", "64m") as place,
        Proxy(int(sandbox.url.rpartition(":")[2])) as line,
    ):
        world = World(folder, sandbox)
        config = world.kubeconfig.read_text().replace(sandbox.url.rpartition(":")[2], str(line.port))
        world.kubeconfig = folder / "through-the-proxy"
        world.kubeconfig.write_text(config)
        (folder / "data").symlink_to(place)
        commit = world.repo.commit(
            "first", {f"app{number}/a.yaml": config_map(f"a{number}", x="1") for number in range(APPLICATIONS)}
        )
        for number in range(APPLICATIONS):
            world.namespace(f"app{number}")
            world.application(f"app{number}")
        world.start()
        for number in range(APPLICATIONS):
            world.synced(commit, f"app{number}")
        yield Rig(world, line)
        world.sandbox.clear_faults()
        world.stop()
        world.client.close()


def record(name: str, outage: Outage, alert: str) -> None:
    """Write what an outage does to the metrics."""
    settled = RETRIED if name == "status" else SETTLED
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as rig:
        before = read(rig.world)
        with contextmanager(outage)(rig):
            time.sleep(settled)
            during = read(rig.world)
            time.sleep(settled)
            later = read(rig.world)
    series = {}
    for key in sorted(before.keys() | during.keys()):
        growth = max(later.get(key, 0.0) - during.get(key, 0.0), 0.0) * 60 / settled if grows(key) else 0.0
        series[key] = [_rounded(before.get(key)), _rounded(during.get(key)), _rounded(growth)]
    text = json.dumps({"alert": alert, "series": series}, indent=1)
    # one line for each series
    text = re.sub(r"\[\s+(\S+),\s+(\S+),\s+(\S+)\s+\]", r"[\1, \2, \3]", text)
    (FOLDER / f"{name}.json").write_text(f"{text}\n")


def grows(key: str) -> bool:
    """Whether a series is a count, or the time since something that happens no more."""
    return key.startswith("gitsync_oldest_look") or "_total{" in key or "_bucket{" in key


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def main() -> None:
    """Record all outages, or those that ``OUTAGES`` names."""
    for name, (outage, alert) in OUTAGES.items():
        if name in os.environ.get("OUTAGES", " ".join(OUTAGES)).split():
            record(name, outage, alert)
            print(name, flush=True)


if __name__ == "__main__":
    main()
