"""
Many Agents: ``python -m bench.agents [COUNT ...]``.

The first reconcile of all of them, half a minute in which nothing changes, and a restart. The limits of the project are
60 seconds for the first reconcile of 500 on two cores, and no request while nothing changes.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench._fleet import Fleet, fleet
from gitsync.objects.manifest import Manifest, at, metadata_of
from tests.agents.factories import agent
from tests.waiting import until

COUNTS = (100, 500)
_NAMESPACES = 10
_IDLE = 30.0
_PATH = "/apis/agents.gitsync.dev/v1alpha1/agents"


def main(counts: tuple[int, ...] = COUNTS) -> None:
    """Print the figures of each number of Agents."""
    for count in counts:
        with tempfile.TemporaryDirectory() as folder, fleet(Path(folder)) as made:
            measure(made, count)


def measure(made: Fleet, count: int) -> None:
    """Print what these Agents cost."""
    made.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"a{one}"}} for one in range(_NAMESPACES))
    made.apply(agents(count))
    began = time.perf_counter()
    made.start()
    made.controller.ask("queue")
    until(partial(is_reconciled, made, count), 600)
    print(f"{count} Agents, first reconcile: {time.perf_counter() - began:.1f} s", flush=True)
    made.quiet()
    print(f"{count} Agents, {_IDLE:.0f} s without a change: {made.measured(partial(time.sleep, _IDLE))}", flush=True)
    made.stop()
    made.start()
    print(f"{count} Agents, restart: {made.measured(partial(time.sleep, 1))}", flush=True)


def agents(count: int) -> Iterator[Manifest]:
    """Yield small Agents, in several namespaces."""
    prompt = {"text": "Answer briefly."}
    return (agent(f"agent-{one:03}", f"a{one % _NAMESPACES}", prompt=prompt, replicas=2) for one in range(count))


def is_reconciled(made: Fleet, count: int) -> bool:
    """Whether this many Agents have a status of their newest spec with children."""
    time.sleep(0.5)
    found = made.client.get(_PATH)["items"]
    done = [one for one in found if at(one, "status", "observedGeneration") == metadata_of(one)["generation"]]
    return sum(bool(at(one, "status", "children")) for one in done) == count


if __name__ == "__main__":
    main(tuple(map(int, sys.argv[1:])) or COUNTS)
