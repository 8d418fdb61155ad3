"""
The clusters of benchmarks: a sandbox in a process of its own, or the cluster that ``KUBECONFIG`` names.

A named cluster has to be labelled for tests (see ``tests/allowed_cluster.py``). What a benchmark creates there is new,
and it deletes all of it, even after a failure.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from gitsync.cluster.client import Client, Connection
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.crds import definitions
from gitsync.errors import AlreadyExists, Rejected
from gitsync.objects.keys import API_VERSION
from gitsync.objects.manifest import Manifest
from tests.allowed_cluster import REFUSAL, is_allowed
from tests.waiting import until

THREADS = 16
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_LABEL = "gitsync.dev/benchmark"
_GONE_SECONDS = 1800.0
"""Seconds that a cluster has to delete the namespaces of a benchmark."""
_SANDBOX = """
import sys
from pathlib import Path
from gitsync.sandbox.server import Sandbox
with Sandbox(workloads=False) as sandbox:
    sandbox.kubeconfig(Path(sys.argv[1]))
    print(flush=True)
    sys.stdin.read()
"""


class Asks(Protocol):
    """A controller process that answers questions; ``is_new`` until the first one."""

    is_new: bool

    def ask(self, what: str, **more: Any) -> Any:
        """Return the answer to a question."""
        ...


class BenchCluster(Protocol):
    """Where a benchmark runs; ``server`` is the id of the API server's process, None where that is not measured."""

    kubeconfig: Path
    server: int | None

    def namespaces(self, names: Iterable[str]) -> None:
        """Create namespaces."""
        ...

    def forget_requests(self, controller: Asks) -> None:
        """Count requests from now on."""
        ...

    def requests(self, controller: Asks) -> Counter[str]:
        """Return the requests of the controller since then, by verb and resource."""
        ...


class SandboxCluster:
    """A sandbox in a process, which counts requests."""

    def __init__(self, kubeconfig: Path, server: int) -> None:
        self.kubeconfig, self.server = kubeconfig, server
        self._client = Client(Connection(str(kubeconfig), pool=THREADS))
        self._cluster = KubernetesCluster(self._client)

    def namespaces(self, names: Iterable[str]) -> None:
        """Create namespaces."""
        in_parallel(lambda name: self._cluster.apply(namespace(name), manager="bench"), names)

    def forget_requests(self, controller: Asks) -> None:
        """Count requests from now on."""
        self._client.send("DELETE", "/sandbox/requests", {})

    def requests(self, controller: Asks) -> Counter[str]:
        """Return what the sandbox counted; a benchmark reads objects itself."""
        found: Counter[str] = Counter()
        for entry in self._client.get("/sandbox/requests")["requests"]:
            is_ours = "gitsync" in entry["userAgent"] and entry["verb"] != "get"
            if is_ours and not entry["resource"].startswith("/"):
                found[f"{entry['verb']} {entry['resource']}"] += entry["count"]
        return found

    def close(self) -> None:
        """Close connections."""
        self._client.close()


class NamedCluster:
    """A cluster that others own: the controller counts its requests, and all that is created is deleted."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig, self.server = kubeconfig, None
        self._client = Client(Connection(str(kubeconfig), pool=THREADS))
        self._cluster = KubernetesCluster(self._client)
        if not is_allowed(self._client):
            raise SystemExit(f"{REFUSAL}, or unset KUBECONFIG to use a sandbox")
        self._created: list[str] = []
        self._before: Counter[str] = Counter()
        self._own_definitions = [name for name in _names_of_definitions() if self._is_absent(f"{_DEFINITIONS}/{name}")]

    def namespaces(self, names: Iterable[str]) -> None:
        """Create namespaces; exit where one of them exists, which is not the benchmark's to use."""
        in_parallel(self._create, names)

    def forget_requests(self, controller: Asks) -> None:
        """Count requests from now on; those of a controller that was just started all count."""
        self._before = Counter() if controller.is_new else Counter(controller.ask("requests"))

    def requests(self, controller: Asks) -> Counter[str]:
        """Return what the controller counted in its metrics, without reads of single objects, as for a sandbox."""
        found = Counter(controller.ask("requests")) - self._before
        return Counter({name: count for name, count in found.items() if not name.startswith("get ")})

    def close(self) -> None:
        """Delete what was created, and wait until it is gone."""
        try:
            self._release_applications()
            in_parallel(self._delete, [f"/api/v1/namespaces/{name}" for name in self._created])
            until(self._are_gone, _GONE_SECONDS, lambda: f"namespaces are left: {self._left()}")
            own = [f"{_DEFINITIONS}/{name}" for name in self._own_definitions]
            in_parallel(self._delete, own)  # its objects are deleted later, also those of a definition that replaces it
            until(lambda: all(map(self._is_absent, own)), _GONE_SECONDS, lambda: f"definitions are left: {own}")
        finally:
            self._client.close()

    def _create(self, name: str) -> None:
        try:
            self._cluster.create(namespace(name), manager="bench")
        except AlreadyExists as error:
            raise SystemExit(f"namespace {name} exists in the cluster; use one without it") from error
        self._created.append(name)

    def _release_applications(self) -> None:
        """Remove the finalizers of Applications: their controller has ended, and their objects are deleted anyway."""
        for name in self._created:
            path = f"/apis/{API_VERSION}/namespaces/{name}/applications"
            for one in () if self._is_absent(path) else self._client.get(path)["items"]:
                if one["metadata"].get("finalizers"):
                    removal = [{"op": "remove", "path": "/metadata/finalizers"}]
                    self._client.patch(f"{path}/{one['metadata']['name']}", removal, {})

    def _are_gone(self) -> bool:
        return not self._left()

    def _left(self) -> list[str]:
        items = self._client.get("/api/v1/namespaces", {"labelSelector": _LABEL})["items"]
        return sorted({item["metadata"]["name"] for item in items} & set(self._created))

    def _delete(self, path: str) -> None:
        if not self._is_absent(path):
            self._client.send("DELETE", path, {})

    def _is_absent(self, path: str) -> bool:
        try:
            self._client.get(path)
        except Rejected as error:
            if error.code != 404:
                raise
            return True
        return False


@contextmanager
def sandbox(folder: Path) -> Iterator[SandboxCluster]:
    """Yield a sandbox that ends with the block."""
    kubeconfig = folder / "kubeconfig"
    process = subprocess.Popen(
        [sys.executable, "-c", _SANDBOX, str(kubeconfig)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None and process.stdout is not None
    process.stdout.readline()
    found = SandboxCluster(kubeconfig, process.pid)
    try:
        yield found
    finally:
        found.close()
        process.stdin.close()
        process.wait(30)


@contextmanager
def named_or_sandbox(folder: Path) -> Iterator[SandboxCluster | NamedCluster]:
    """Yield the cluster that KUBECONFIG names, cleaned up after the block; without the variable, a sandbox."""
    if not os.environ.get("KUBECONFIG"):
        with sandbox(folder) as found:
            yield found
        return
    cluster = NamedCluster(Path(os.environ["KUBECONFIG"]))
    try:
        yield cluster
    finally:
        cluster.close()


def in_parallel(act: Any, items: Iterable[Any]) -> None:
    """Call a function with each item, in several threads; raise the first error."""
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(act, items))


def namespace(name: str) -> Manifest:
    """Return a namespace of a benchmark."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {_LABEL: "true"}}}


def _names_of_definitions() -> list[str]:
    return [str(one["metadata"]["name"]) for one in definitions()]
