"""Measure a running controller on a sandbox: seconds from push to cluster, and from a manual edit to its correction."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from gitsync.sandbox.server import Sandbox
from tests.flow.environment import World
from tests.flow.factories import deployment
from tests.waiting import until

_RUNS = 5
_OBJECT = "/apis/apps/v1/namespaces/shop/deployments/web"


def main() -> None:
    """Print the median and the maximum of both latencies."""
    with tempfile.TemporaryDirectory() as folder, Sandbox() as sandbox:
        world = World(Path(folder), sandbox)
        try:
            world.namespace("shop")
            world.repo.commit("first", {"shop/web.yaml": deployment("web", replicas=1)})
            world.application()
            world.start()
            until(lambda: replicas(world) == 1, 30)
            print(f"push to cluster:      {figures(lambda run: commit(world, 10 + run))}")
            print(f"edit to correction:   {figures(lambda _: edit(world))}")
        finally:
            world.close()


def replicas(world: World) -> int | None:
    found = world.get("Deployment", "web", api="apps/v1")
    return found["spec"]["replicas"] if found else None


def commit(world: World, wanted: int) -> None:
    world.synced(world.repo.commit(f"{wanted} replicas", {"shop/web.yaml": deployment("web", replicas=wanted)}))
    assert replicas(world) == wanted


def edit(world: World) -> None:
    found, declared = world.get("Deployment", "web", api="apps/v1") or {}, replicas(world)
    metadata = {name: value for name, value in found["metadata"].items() if name != "resourceVersion"}
    body = {**found, "metadata": metadata, "spec": {**found["spec"], "replicas": 5}}
    world.client.send("PUT", _OBJECT, body, {"fieldManager": "kubectl-edit"})
    until(lambda: replicas(world) == declared, 30)


def figures(act: Callable[[int], None]) -> str:
    """Return the median and the maximum of the seconds that an act takes."""
    times = []
    for run in range(_RUNS):
        began = time.perf_counter()
        act(run)
        times.append(time.perf_counter() - began)
    return f"median {statistics.median(times):.2f} s, maximum {max(times):.2f} s"


if __name__ == "__main__":
    main()
