"""A fleet for benchmarks: a repository, a cluster and a controller, each in a process of its own, all counted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench._clusters import THREADS, BenchCluster, named_or_sandbox, sandbox
from gitsync.cluster.client import Client, Connection
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.controllers.crds import CrdInstaller
from gitsync.objects.keys import APPLICATION
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ObjectRef
from tests.flow.environment import Repository
from tests.git_processes import GitProcesses
from tests.waiting import until

NAMESPACE = "gitsync"
_PAUSE = 0.1
"""Seconds between questions to the controller."""
_SHARE = 20
"""How many times the CPU time of an answer a pause is, so that questions take no part of what is measured."""
_TICK = os.sysconf("SC_CLK_TCK")
_COMPILED = "import bench._controller, gitsync.workers.server"
"""Modules are compiled before a controller starts, as in an installation: that takes time and memory."""


Clusters = Callable[[Path], AbstractContextManager[BenchCluster]]
"""Return the cluster of a fleet, which may use a folder."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What something took: seconds, CPU seconds of processes, requests by verb, and git processes by command."""

    seconds: float
    controller: float
    git: float
    renders: float
    requests: Counter[str]
    processes: Counter[str]
    memory: int
    """Bytes of resident memory of the controller and its processes."""
    server: float | None
    """CPU seconds of the API server, which bounds what a controller can reach; None where they are not measured."""

    def __str__(self) -> str:
        verbs = " ".join(f"{verb} {count}" for verb, count in sorted(self.requests.items()))
        commands = " ".join(f"{name} {count}" for name, count in sorted(self.processes.items()))
        return (
            f"{self.seconds:.2f} s; CPU controller {self.controller:.3f} s, git {self.git:.3f} s, "
            f"render processes {self.renders:.2f} s, {_server(self.server)}; requests: {verbs or 'none'}; "
            f"git processes: {commands or 'none'}; memory {self.memory >> 20} MiB"
        )


class ControllerProcess:
    """A controller in a process of its own; ``settings`` are more environment variables."""

    def __init__(self, kubeconfig: Path, data: Path, programs: Path, settings: dict[str, str]) -> None:
        environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", **settings}
        environment |= {"PYTHONPYCACHEPREFIX": str(data.parent / "pycache"), "PYTHONDONTWRITEBYTECODE": ""}
        subprocess.run([sys.executable, "-c", _COMPILED], env=environment, check=True)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench._controller", str(kubeconfig), str(data)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            text=True,
        )
        self.id = self._process.pid
        self.is_new = True

    def ask(self, what: str, **more: Any) -> Any:
        """Return the answer to a question."""
        self.is_new = False
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"ask": what, **more}) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def stop(self) -> None:
        """Stop the controller and wait for its end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


class Fleet:
    """Applications of one repository in a cluster; ``client`` is another user of it."""

    def __init__(self, folder: Path, where: BenchCluster) -> None:
        self.folder = folder
        self._where = where
        self.repo = Repository(folder / "git")
        self.client = Client(Connection(str(where.kubeconfig), pool=THREADS + 4))
        self.cluster = KubernetesCluster(self.client)
        self._controller: ControllerProcess | None = None
        self._git = GitProcesses(folder / "git-processes")

    def prepare(self) -> None:
        """Create the namespace of Applications, and install their definition."""
        self.namespaces([NAMESPACE])
        CrdInstaller(self.cluster, install=True).start()
        until(lambda: self.cluster.any_version(APPLICATION), 60)

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of its administrator."""
        return self._where.kubeconfig

    def namespaces(self, names: Iterable[str]) -> None:
        """Create namespaces."""
        self._where.namespaces(names)

    @property
    def controller(self) -> ControllerProcess:
        """The running controller."""
        assert self._controller is not None
        return self._controller

    def start(self, **settings: str) -> None:
        """Start a controller with the data of the one before it; ``settings`` are environment variables."""
        self._controller = ControllerProcess(self._where.kubeconfig, self.folder / "data", self._git.folder, settings)

    def stop(self) -> None:
        """Stop the controller."""
        if self._controller is not None:
            self._controller.stop()
            self._controller = None

    def apply(self, manifests: Iterable[Manifest]) -> None:
        """Apply objects in parallel, as another manager."""
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lambda manifest: self.cluster.apply(manifest, manager="bench"), manifests))

    def raw(self, manifests: Iterable[Manifest]) -> Raw:
        """Apply objects in parallel, and return what that takes."""
        objects = list(manifests)
        client, server, began = time.process_time(), self._server_cpu(), time.perf_counter()
        self.apply(objects)
        took = time.perf_counter() - began
        return Raw(took, time.process_time() - client, _more(self._server_cpu(), server))

    def _server_cpu(self) -> float | None:
        return None if self._where.server is None else _cpu_of(self._where.server)

    def applications(self, names: Iterable[str], interval: str = "1h") -> None:
        """Declare an Application for the folder of each name, in a namespace of its own."""
        names = list(names)
        self.namespaces(names)
        self.apply(_application(name, self.repo.url, interval) for name in names)

    def application(self, name: str, url: str, interval: str) -> None:
        """Declare an Application of another repository."""
        self.apply([_application(name, url, interval)])

    def synced(self, count: int, commit: str = "", timeout: float = 800.0) -> None:
        """Wait until this many Applications are Synced, at a commit where one is named."""

        pause = _PAUSE

        def is_done() -> bool:
            nonlocal pause
            time.sleep(pause)
            found, cpu = self.controller.ask("synced", commit=commit)
            pause = max(_PAUSE, _SHARE * cpu)
            return bool(found == count)

        until(is_done, timeout, lambda: f"{self.controller.ask('synced', commit=commit)[0]} of {count} are synced")

    def quiet(self, timeout: float = 120.0) -> None:
        """Wait until the controller has used next to no CPU for a second."""
        pid = self.controller.id
        before = _cpu_of(pid) + _further(pid)

        def is_quiet() -> bool:
            nonlocal before
            time.sleep(1.0)
            last, before = before, _cpu_of(pid) + _further(pid)
            return before - last < 0.05

        until(is_quiet, timeout)

    def config(self, namespace: str, name: str) -> dict[str, str]:
        """Return the data of a live ConfigMap."""
        found = self.cluster.read(ObjectRef("", "ConfigMap", namespace, name), "v1") or {}
        return found.get("data") or {}

    def measured(self, act: Callable[[], None], *, settled: bool = True) -> Cost:
        """Return what an act costs, with the work that it leaves behind unless it need not settle."""
        self._git.forget()
        self._where.forget_requests(self.controller)
        pid, began = self.controller.id, time.perf_counter()
        cpu = self.controller.ask("cpu")
        further, renders, server = _further(pid), _renders(pid), self._server_cpu()
        act()
        took = time.perf_counter() - began
        if settled:
            self.quiet()
        after = self.controller.ask("cpu")
        return Cost(
            took,
            after[0] - cpu[0] + _further(pid) - further,
            after[1] - cpu[1],
            _renders(pid) - renders,
            self._where.requests(self.controller),
            self._git.counts(),
            memory_of(pid),
            _more(self._server_cpu(), server),
        )


@contextmanager
def fleet(folder: Path, clusters: Clusters = sandbox) -> Iterator[Fleet]:
    """Yield a fleet in a new sandbox, or in another cluster, whose controller is not started."""
    folder.mkdir(parents=True, exist_ok=True)
    with clusters(folder) as cluster:
        made = Fleet(folder, cluster)
        try:
            made.prepare()
            yield made
        finally:
            made.stop()
            made.client.close()


@dataclass(frozen=True, slots=True)
class Raw:
    """What raw parallel requests took: seconds, and CPU seconds of the client and of the API server, as in a Cost."""

    seconds: float
    client: float
    server: float | None

    def __str__(self) -> str:
        return f"raw {self.seconds:.2f} s; CPU client {self.client:.2f} s, {_server(self.server)}"


def raw_cost(folder: Path, manifests: Iterable[Manifest], namespaces: Iterable[str]) -> Raw:
    """Return what raw parallel applies of these objects take in a fresh sandbox, or in the named cluster."""
    with fleet(folder, named_or_sandbox) as made:
        made.namespaces(namespaces)
        return made.raw(manifests)


def _server(seconds: float | None) -> str:
    return "API server not measured" if seconds is None else f"API server {seconds:.2f} s"


def _more(after: float | None, before: float | None) -> float | None:
    return None if after is None or before is None else after - before


def _application(name: str, url: str, interval: str) -> Manifest:
    return {
        "apiVersion": "gitsync.dev/v1alpha1",
        "kind": "Application",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "source": {"repoURL": url, "path": name},
            "destination": {"namespace": name},
            "sync": {"interval": interval},
        },
    }


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):  # a thread has just ended
                found += map(int, (task / "children").read_text().split())
    return found


def _cpu_of(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):  # a child has just ended
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICK


def _renders(pid: int) -> float:
    return sum(map(_cpu_of, _descendants(pid))) - _further(pid)


def _further(pid: int) -> float:
    """Return the CPU seconds of the further controller processes."""
    return sum(_cpu_of(child) for child in _children(pid) if _is_controller(child))


def _is_controller(pid: int) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        return b"gitsync.cli.further_processes" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def _descendants(pid: int) -> list[int]:
    children = _children(pid)
    return [*children, *(each for child in children for each in _descendants(child))]


def memory_of(pid: int) -> int:
    """Return the bytes of resident memory of a process and its descendants."""
    return sum(map(_memory, (pid, *_descendants(pid))))


def own_memory_of(pid: int) -> int:
    """
    Return the bytes of memory of a process and its descendants, a page of several processes only once (PSS).

    The sum of resident memory counts the code of git and Python for each process that runs at the moment.
    """
    return sum(_field(each, "smaps_rollup", "Pss:") for each in (pid, *_descendants(pid)))


def _memory(pid: int) -> int:
    return _field(pid, "status", "VmRSS:")


def _field(pid: int, file: str, name: str) -> int:
    """Return the bytes that a file of a process tells in KiB, 0 for one that has just ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        for line in Path(f"/proc/{pid}/{file}").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) << 10
    return 0
