"""
Many Applications of one repository, four objects each: ``python -m bench.many [COUNT ...]``.

The first sync, one changed file, a commit that affects none, and a restart. The ratio is to raw parallel requests for
the same objects in the same run. ``KUBECONFIG`` names a
cluster to use instead of a sandbox.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench._clusters import named_or_sandbox
from bench._fleet import Fleet, Raw, fleet, raw_cost
from gitsync.objects.manifest import Manifest
from tests.flow.factories import config_map
from tests.waiting import until

COUNTS = (100, 300, 1000)
_OBJECTS = 4
_RUNS = 3


def main(counts: tuple[int, ...] = COUNTS) -> None:
    """Print the figures of each number of Applications."""
    for count in counts:
        with tempfile.TemporaryDirectory() as folder:
            raw = raw_cost(Path(folder, "raw"), manifests(count), names(count))
            with fleet(Path(folder, "fleet"), named_or_sandbox) as made:
                measure(made, count, raw)


def measure(made: Fleet, count: int, raw: Raw) -> None:
    """Print what a fleet costs."""
    commit = made.repo.commit("first", {path: text for name in names(count) for path, text in files(name)})
    made.applications(names(count))
    made.start()
    cost = made.measured(partial(made.synced, count, commit))
    print(f"{count} Applications, first sync: {cost.seconds / raw.seconds:.1f} x raw; {cost}; {raw}", flush=True)
    for run in range(_RUNS):
        cost = made.measured(partial(change, made, count // 2, str(run)))
        print(f"{count} Applications, one changed file: {cost}", flush=True)
    cost = made.measured(partial(touch, made))
    print(f"{count} Applications, a commit that affects none: {cost}", flush=True)
    made.stop()
    made.start()
    cost = made.measured(partial(made.synced, count))
    print(f"{count} Applications, restart: {cost}", flush=True)


def change(made: Fleet, number: int, value: str) -> None:
    """Commit another value for an object of one Application, and wait until it is live."""
    name = list(names(number + 1))[-1]
    made.repo.commit("change", {f"{name}/o0.yaml": config_map("o0", value=value)})
    made.controller.ask("push")
    until(lambda: made.config(name, "o0") == {"value": value}, 200)


def touch(made: Fleet) -> None:
    """Commit a file that no Application reads."""
    made.repo.commit("touch", {"README.md": "x"})
    made.controller.ask("push")


def names(count: int) -> Iterator[str]:
    """Yield the names of Applications."""
    return (f"app-{number:04}" for number in range(count))


def files(name: str) -> Iterator[tuple[str, str]]:
    """Yield the files of an Application."""
    return ((f"{name}/o{number}.yaml", config_map(f"o{number}", value=name)) for number in range(_OBJECTS))


def manifests(count: int) -> Iterator[Manifest]:
    """Yield the objects of all Applications."""
    for name in names(count):
        for number in range(_OBJECTS):
            metadata = {"name": f"o{number}", "namespace": name}
            yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": name}}


if __name__ == "__main__":
    main(tuple(map(int, sys.argv[1:])) or COUNTS)
