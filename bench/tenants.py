"""
Nine tenants beside one that is hostile in twelve ways at once: ``python -m bench.tenants [--minutes 30] [WAY...]``.

Each has an account of its namespace and a Tenant, as the pages of the installation advise.

The seconds from push to live of the nine, and the memory of the controller with its processes, first alone, then beside
the hostile one. Memory is the proportional set size: the sum of resident memory would count the code of git once for
each process that runs at the moment. The hostile one works as its ways out of its own repositories, Applications and
connections allow; what it may be stopped from is in docs/security.md.
"""

from __future__ import annotations

import argparse
import http.client
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from bench._fleet import Fleet, fleet, own_memory_of
from bench.fairness import silent_server
from gitsync.objects.manifest import Manifest
from tests.cli.conftest import dashboard_url, running
from tests.flow.environment import Repository
from tests.flow.factories import config_map
from tests.waiting import until

_OTHERS = 9
_HOSTILE = "hostile"
_TOKEN = "t" * 32
_LONGEST = 120.0
"""Seconds after which a commit that is not live counts as lost."""
_OBJECTS = 3000
_MAX_OBJECTS = 500
"""Of an Application, as in the example of docs/security.md."""
_CEL = "[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, a + b + c > 0)))"


@dataclass(frozen=True, slots=True)
class Way:
    """A way to be hostile: what is set up once, and what is then done again after each pause in seconds."""

    name: str
    act: Callable[[], object]
    pause: float


class Hostile:
    """The tenant that harms the others, with as many repositories and Applications as it likes."""

    def __init__(self, fleet: Fleet, folder: Path, url: str, servers: ExitStack) -> None:
        self._fleet = fleet
        self._folder = folder
        self._address = urlsplit(url).netloc
        self._servers = servers
        self._open: list[socket.socket] = []
        self.count = 0

    def ways(self, chosen: Collection[str] = ()) -> Iterator[Way]:
        """Set up each way, or the chosen ones, and yield it."""
        for name, set_up in self._set_ups().items():
            if not chosen or name in chosen:
                act, pause = set_up()
                yield Way(name, act, pause)

    def _set_ups(self) -> Mapping[str, Callable[[], tuple[Callable[[], object], float]]]:
        return {
            "hang": self._hang,
            "bomb": self._bomb,
            "flood": lambda: self._commits("flood", 10, pause=1),
            "render": lambda: self._commits(
                "render", 8, pause=5, **{"kustomization.yaml": _slow_kustomization(), "many.yaml": _maps(300)}
            ),
            "plan": self._huge_plan,
            "memory": lambda: self._commits("memory", 1, pause=5, **{"b.yaml": config_map("b", value="x" * (8 << 20))}),
            "disk": self._disk,
            "refs": self._refs,
            "webhooks": lambda: (lambda: self._request("POST", "/webhook/github", b"x" * (900 << 10)), 0.2),
            "reviews": lambda: (self._review, 0.1),
            "logs": lambda: (self._listen, 0.5),
            "cel": self._cel,
        }

    def _hang(self) -> tuple[Callable[[], object], float]:
        silent = self._servers.enter_context(silent_server("127.0.3.1"))
        for number in range(30):
            self._application(f"hang-{number}", f"https://{silent}/r{number}")
        return _nothing, 60

    def _commits(
        self, name: str, applications: int, *, pause: float, **files: str
    ) -> tuple[Callable[[], object], float]:
        repository = self._repository(name, applications, **files)
        return lambda: self._commit(repository, name, applications), pause

    def _huge_plan(self) -> tuple[Callable[[], object], float]:
        huge = self._repository("plan", 1, **{"many.yaml": _maps(_OBJECTS)})
        return lambda: self._commit(huge, "plan", 1, **{"many.yaml": _maps(_OBJECTS, self.count)}), 30

    def _disk(self) -> tuple[Callable[[], object], float]:
        repository = self._repository("disk", 1)
        return lambda: self._force_push(repository), 10

    def _refs(self) -> tuple[Callable[[], object], float]:
        repository = self._repository("refs", 1)
        self._make_refs(repository, 20_000)
        return lambda: self._commit(repository, "refs", 1), 5

    def _cel(self) -> tuple[Callable[[], object], float]:
        checks = {"healthChecks": [{"kind": "ConfigMap", "current": " && ".join([_CEL] * 8)}]}
        repository = self._repository("cel", 5, checks=checks)
        return lambda: self._commit(repository, "cel", 5), 2

    def _bomb(self) -> tuple[Callable[[], object], float]:
        self._application("bomb", f"file://{self._bomb_repository()}", path=".")
        return _nothing, 60

    def close(self) -> None:
        """Close the connections that are kept open."""
        for connection in self._open:
            connection.close()

    def _application(self, name: str, url: str, *, path: str = "", checks: Manifest | None = None) -> None:
        source = {"repoURL": url, "path": path or name}
        self._fleet.apply([_application(f"{_HOSTILE}-{name}", _HOSTILE, source, **(checks or {}))])

    def _repository(self, name: str, applications: int, *, checks: Manifest | None = None, **files: str) -> Repository:
        repository = Repository(self._folder / name)
        self._commit(repository, name, applications, **files)
        for number in range(applications):
            self._application(f"{name}-{number}", repository.url, checks=checks)
        return repository

    def _commit(self, repository: Repository, name: str, applications: int, **files: str) -> None:
        self.count += 1
        changed = {"o.yaml": config_map(f"{name}-o", value=str(self.count)), **files}
        folders = [f"{name}-{number}" for number in range(applications)]
        repository.commit("change", {f"{folder}/{file}": text for folder in folders for file, text in changed.items()})

    def _bomb_repository(self) -> Path:
        """Make a repository of 12 objects whose tree has 10^11 files."""
        folder = self._folder / "bomb.git"
        subprocess.run(["git", "init", "-q", "--bare", folder], check=True)

        def git(*arguments: str, text: str = "") -> str:
            identity = ("-c", "user.name=m", "-c", "user.email=m@example.com")
            done = subprocess.run(
                ["git", *identity, *arguments], cwd=folder, input=text, check=True, capture_output=True, text=True
            )
            return done.stdout.strip()

        blob = git("hash-object", "-w", "--stdin", text=config_map("x"))
        tree = git("mktree", text="".join(f"100644 blob {blob}\tf{number}.yaml\n" for number in range(10)))
        for _ in range(10):
            tree = git("mktree", text="".join(f"040000 tree {tree}\td{number}\n" for number in range(10)))
        git("update-ref", "refs/heads/main", git("commit-tree", tree, "-m", "bomb"))
        return folder

    def _force_push(self, repository: Repository) -> None:
        """Replace the history by one with another incompressible file."""
        file = repository.clone / "disk-0" / "random"
        file.write_bytes(os.urandom(8 << 20))
        repository.git("add", "-A")
        repository.git("commit", "-q", "--amend", "-m", "again")
        repository.git("push", "-q", "--force", "origin", "main")

    def _make_refs(self, repository: Repository, count: int) -> None:
        commit = repository.git("rev-parse", "HEAD")
        text = "".join(f"create refs/heads/b{number} {commit}\n" for number in range(count))
        subprocess.run(["git", "update-ref", "--stdin"], cwd=repository.bare, input=text, check=True, text=True)

    def _review(self) -> None:
        self._request("POST", f"/api/v1/applications/{_HOSTILE}/{_HOSTILE}-flood-0/review", b'{"verdict": "approve"}')
        self._request("GET", "/api/v1/applications", b"", token="guess")

    def _listen(self) -> None:
        """Keep one more stream of events open, and ask for logs."""
        host, _, port = self._address.partition(":")
        with suppress(OSError):
            connection = socket.create_connection((host, int(port)), 5)
            connection.sendall(f"GET /live HTTP/1.1\r\nHost: {self._address}\r\n\r\n".encode())
            self._open.append(connection)
        self._request("GET", f"/api/v1/applications/{_HOSTILE}/{_HOSTILE}-flood-0/logs", b"", token=_TOKEN)

    def _request(self, method: str, path: str, body: bytes, token: str = "") -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {"X-Hub-Signature-256": "sha256=0"}
        with suppress(OSError, http.client.HTTPException):  # to be refused is what it expects
            connection = http.client.HTTPConnection(self._address, timeout=10)
            connection.request(method, path, body or None, {"Content-Type": "application/json", **headers})
            connection.getresponse().read()
            connection.close()


class Others:
    """The tenants that are measured, one repository, namespace and Application each."""

    def __init__(self, fleet: Fleet, folder: Path) -> None:
        self._fleet = fleet
        self._names = [f"tenant-{number}" for number in range(_OTHERS)]
        self._repositories = [Repository(folder / name) for name in self._names]
        self.policies = folder / "policies"
        self.policies.mkdir(parents=True)
        fleet.namespaces([*self._names, _HOSTILE])
        for name in (*self._names, _HOSTILE):
            self._admit(name, folder.parent)
        for name, repository in zip(self._names, self._repositories, strict=True):
            repository.commit("first", {f"{name}/o.yaml": config_map("o", value="first")})
            fleet.apply([_application(name, name, {"repoURL": repository.url, "path": name})])

    def _admit(self, name: str, repositories: Path) -> None:
        """Give a namespace its account and rights, and a Tenant with limits, as an administrator does."""
        self._fleet.apply(yaml.safe_load_all(_gitsync("install", "--tenant", name)))
        _gitsync("tenant", "add", name, "--repository", f"file://{repositories}/*", "--policies", str(self.policies))
        with (self.policies / f"tenant-{name}.yaml").open("a", encoding="utf-8") as file:
            file.write(f"  limits: {{maxObjects: {_MAX_OBJECTS}}}\n")

    def measure(self, seconds: float, pid: int) -> Phase:
        """Push to one tenant after the other until the time is over."""
        times = []
        memory = []
        end = time.monotonic() + seconds
        number = 0
        while time.monotonic() < end:
            times.append(self._push(number % _OTHERS, f"{time.time()}"))
            memory.append(own_memory_of(pid))
            number += 1
            time.sleep(0.5)
        return Phase(times, memory)

    def _push(self, number: int, value: str) -> float:
        name = self._names[number]
        self._repositories[number].commit("change", {f"{name}/o.yaml": config_map("o", value=value)})
        began = time.perf_counter()
        with suppress(AssertionError):
            until(lambda: self._fleet.config(name, "o") == {"value": value}, _LONGEST)
        return time.perf_counter() - began


@dataclass(frozen=True, slots=True)
class Phase:
    """Seconds from push to live, and bytes of memory after each."""

    times: list[float]
    memory: list[int]

    def __str__(self) -> str:
        ordered = sorted(self.times)
        late = ordered[min(int(len(ordered) * 0.95), len(ordered) - 1)]
        return (
            f"{len(ordered)} commits: median {statistics.median(ordered):.2f} s, p95 {late:.2f} s, "
            f"maximum {ordered[-1]:.2f} s; memory median {statistics.median(self.memory) / 2**20:.0f} MiB, "
            f"maximum {max(self.memory) >> 20} MiB"
        )

    def compared(self, alone: Phase) -> str:
        """Return how much later commits are live, and how much more memory is used."""
        median = statistics.median(self.times) - statistics.median(alone.times)
        factor = statistics.median(self.memory) / statistics.median(alone.memory)
        return (
            f"{median:+.2f} s at the median, {max(self.times) - max(alone.times):+.2f} s at most; memory {factor:.2f}"
        )


def _application(name: str, namespace: str, source: Manifest, **spec: Any) -> Manifest:
    return {
        "apiVersion": "gitsync.dev/v1alpha1",
        "kind": "Application",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "source": source,
            "destination": {"namespace": namespace, "serviceAccountName": "gitsync-deployer"},
            "sync": {"interval": "1s"},
            "risk": {"approval": "Never"},
            **spec,
        },
    }


def _gitsync(*arguments: str) -> str:
    """Return what a command prints."""
    command = [sys.executable, "-m", "gitsync", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _nothing() -> None:
    """Do nothing more: what was set up continues by itself."""


def _maps(count: int, value: int = 0) -> str:
    return "---\n".join(config_map(f"m{number}", value=str(value)) for number in range(count))


def _slow_kustomization() -> str:
    """Return a kustomization that takes seconds: each of many patches reaches all objects."""
    # as JSON: a patch that begins with a bracket and is not JSON is refused at once
    operation = '[{"op": "add", "path": "/data/p%d", "value": "x"}]'
    patch = f"- target: {{kind: ConfigMap, name: '.*'}}\n  patch: '{operation}'\n"
    head = (
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [many.yaml, o.yaml]\npatches:\n"
    )
    return head + "".join(patch % number for number in range(60))


@contextmanager
def hostility(hostile: Hostile, chosen: Iterable[str]) -> Iterator[None]:
    """Be hostile in all chosen ways at once, each in a thread of its own, until the block ends."""
    ended = threading.Event()

    def repeat(way: Way) -> None:
        while not ended.wait(way.pause):
            with suppress(subprocess.CalledProcessError, OSError):
                way.act()

    threads = [threading.Thread(target=repeat, args=(way,), daemon=True) for way in hostile.ways(tuple(chosen))]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join(60)
        hostile.close()


def main(minutes: float = 2.0, chosen: Iterable[str] = ()) -> None:
    """Print the figures alone and beside the tenant that is hostile in the chosen ways, by default in all."""
    seconds = minutes * 60
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        made = stack.enter_context(fleet(folder / "fleet"))
        others = Others(made, folder / "tenants")
        settings = {
            "KUBECONFIG": made.kubeconfig,
            "GITSYNC_ALLOW_FILE_URLS": "true",
            "GITSYNC_POLICIES": others.policies,
            "GITSYNC_WEB_TOKEN": _TOKEN,
            "GITSYNC_WEBHOOK_SECRET": "s" * 32,
        }
        run = running("run", "--port", "0", "--data", folder / "data", cwd=folder, **settings)
        process, log = stack.enter_context(run)
        url = dashboard_url(log)
        others.measure(10, process.pid)  # until all have synced once
        alone = others.measure(seconds / 5, process.pid)
        print(f"alone:              {alone}", flush=True)
        servers = stack.enter_context(ExitStack())
        with hostility(Hostile(made, folder / _HOSTILE, url, servers), chosen):
            beside = others.measure(seconds, process.pid)
        print(f"beside the hostile: {beside}\n{beside.compared(alone)}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("ways", nargs="*", metavar="WAY", help="only these ways, such as flood")
    arguments = parser.parse_args()
    main(arguments.minutes, arguments.ways)
