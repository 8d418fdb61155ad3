"""
Measure the sandbox in a process of its own: ``python -m bench.sandbox``.

Applies per second with 16 client threads, the time of a LIST of 10,000 ConfigMaps, memory per ConfigMap, and 50
watches that must see every event.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

THREADS = 16
APPLIES = 3000
OBJECTS = 10_000
WATCHES = 50

SERVE = """
import sys, time
from gitsync.sandbox.server import Sandbox
sandbox = Sandbox(workloads=False)
sandbox.start()
print(sandbox.url, sandbox.token, flush=True)
sys.stdin.read()
"""


@contextmanager
def served() -> Iterator[tuple[str, str, int]]:
    process = subprocess.Popen([sys.executable, "-c", SERVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdin is not None
    url, token = process.stdout.readline().split()
    try:
        yield url.removeprefix("http://"), token, process.pid
    finally:
        process.stdin.close()
        process.wait()


class Client:
    def __init__(self, address: str, token: str) -> None:
        self.connection = http.client.HTTPConnection(address, timeout=60)
        self.headers = {"Authorization": f"Bearer {token}", "Accept": "application/json", "User-Agent": "bench"}

    def ask(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> bytes:
        data = None if body is None else json.dumps(body).encode()
        self.connection.request(method, path, data, {**self.headers, "Content-Type": kind})
        response = self.connection.getresponse()
        answer = response.read()
        if response.status >= 300:
            raise RuntimeError(f"{method} {path}: {response.status} {answer[:300]!r}")
        return answer

    def apply(self, path: str, body: Any) -> None:
        self.ask("PATCH", f"{path}?fieldManager=bench&force=true", body, "application/apply-patch+yaml")


def config_map(name: str, value: str) -> tuple[str, Any]:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": value, "other": "x"}}
    return f"/api/v1/namespaces/default/configmaps/{name}", body


def deployment(name: str, value: str) -> tuple[str, Any]:
    container = {
        "name": "web",
        "image": f"registry.example.com/web:{value}",
        "ports": [{"containerPort": 8080, "name": "http"}],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": value}],
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": "http"}},
    }
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "labels": labels}, "spec": spec}
    return f"/apis/apps/v1/namespaces/default/deployments/{name}", body


def applies(address: str, token: str, make: Callable[[str, str], tuple[str, Any]], count: int) -> float:
    """Return applies per second: half create, half change what is there."""
    local = threading.local()

    def one(number: int) -> None:
        client = getattr(local, "client", None)
        if client is None:
            client = local.client = Client(address, token)
        client.apply(*make(f"o{number % (count // 2)}", str(number)))

    begin = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(one, range(count)))
    return count / (time.perf_counter() - begin)


def resident(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def listing(address: str, token: str, pid: int) -> tuple[float, float]:
    """Return the seconds of a LIST and the bytes of memory of a ConfigMap."""
    client = Client(address, token)
    before = resident(pid)
    for number in range(OBJECTS):
        path, body = config_map(f"c{number}", "v" * 100)
        client.ask("POST", path.rpartition("/")[0], body)
    grown = (resident(pid) - before) / OBJECTS
    client.ask("GET", "/api/v1/configmaps?limit=1")
    begin = time.perf_counter()
    items = json.loads(client.ask("GET", "/api/v1/configmaps"))["items"]
    took = time.perf_counter() - begin
    assert len(items) >= OBJECTS
    return took, grown


def watching(address: str, token: str) -> bool:
    """Tell whether every watch saw every event."""
    seen = [0] * WATCHES
    ready = threading.Barrier(WATCHES + 1)

    def watch(number: int) -> None:
        client = Client(address, token)
        client.connection.request(
            "GET", "/api/v1/namespaces/kube-public/configmaps?watch=1&timeoutSeconds=5", headers=client.headers
        )
        response = client.connection.getresponse()
        ready.wait()
        seen[number] = sum(1 for line in response if line.strip() and b'"name":"w' in line)

    threads = [threading.Thread(target=watch, args=(number,)) for number in range(WATCHES)]
    for thread in threads:
        thread.start()
    ready.wait()
    client = Client(address, token)
    for number in range(200):
        _, body = config_map(f"w{number}", "x")
        client.ask("POST", "/api/v1/namespaces/kube-public/configmaps", body)
    for thread in threads:
        thread.join()
    return all(count == 200 for count in seen)


def main() -> None:
    with served() as (address, token, _):
        print(f"ConfigMap applies/s: {applies(address, token, config_map, APPLIES):.0f}")
        print(f"Deployment applies/s: {applies(address, token, deployment, APPLIES // 2):.0f}")
        print(f"50 watches see every event: {watching(address, token)}")
    with served() as (address, token, pid):
        took, grown = listing(address, token, pid)
        print(f"LIST of {OBJECTS} ConfigMaps: {took:.3f} s; memory per ConfigMap: {grown / 1024:.1f} KiB")


if __name__ == "__main__":
    main()
