"""
One Application with many ConfigMaps: ``python -m bench.big [COUNT]``.

The first sync, the correction of single edits and of a burst of 50, an event that changes nothing declared, and a
restart. The ratio is to raw parallel requests for the same objects in the same run. ``KUBECONFIG`` names a
cluster to use instead of a sandbox.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from bench._clusters import named_or_sandbox
from bench._fleet import Fleet, Raw, fleet, raw_cost
from gitsync.objects.manifest import Manifest
from tests.flow.factories import config_map
from tests.waiting import until

COUNT = 10_000
_EDITS = 8
_BURST = 50
_NAME = "big"


def main(count: int = COUNT) -> None:
    """Print the figures of an Application with this many objects."""
    with tempfile.TemporaryDirectory() as folder:
        raw = raw_cost(Path(folder, "raw"), manifests(count), [_NAME])
        with fleet(Path(folder, "fleet"), named_or_sandbox) as made:
            measure(made, count, raw)


def measure(made: Fleet, count: int, raw: Raw) -> None:
    """Print what an Application with many objects costs."""
    texts = [config_map(f"o{number}", value="x") for number in range(count)]
    commit = made.repo.commit("first", {f"{_NAME}/all.yaml": "---\n".join(texts)})
    made.start()
    made.quiet()
    cost = made.measured(partial(first_sync, made, commit))
    print(f"{count} objects, first sync: {cost.seconds / raw.seconds:.1f} x raw; {cost}; {raw}", flush=True)
    show(made, f"{count} objects, {_EDITS} edits corrected", partial(edits, made))
    show(made, f"{count} objects, a burst of {_BURST} edits corrected", partial(burst, made))
    show(made, f"{count} objects, an event that changes nothing declared", partial(annotate, made))
    made.stop()
    made.start()
    show(made, f"{count} objects, restart", partial(made.synced, 1))


def first_sync(made: Fleet, commit: str) -> None:
    """Create the Application, and wait until it is Synced."""
    made.applications([_NAME])
    made.synced(1, commit)


def show(made: Fleet, text: str, act: Callable[[], None]) -> None:
    """Print the cost of an act."""
    print(f"{text}: {made.measured(act)}", flush=True)


def edits(made: Fleet) -> None:
    """Edit objects one after the other, each once the one before is corrected."""
    times = []
    for number in range(_EDITS):
        began = time.perf_counter()
        edit(made, number)
        corrected(made, number)
        times.append(time.perf_counter() - began)
    print(f"  median {statistics.median(times):.2f} s, maximum {max(times):.2f} s", flush=True)


def burst(made: Fleet) -> None:
    """Edit objects at once and wait until all are corrected."""
    for number in range(_BURST):
        edit(made, 1000 + number)
    for number in range(_BURST):
        corrected(made, 1000 + number)


def edit(made: Fleet, number: int) -> None:
    """Change a declared value of an object."""
    made.apply([{**manifest(number), "data": {"value": "edited"}}])


def corrected(made: Fleet, number: int) -> None:
    """Wait until an object is what Git declares."""
    until(lambda: made.config(_NAME, f"o{number}") == {"value": "x"}, 120)


def annotate(made: Fleet) -> None:
    """Set an annotation that Git does not declare."""
    metadata = {"name": "o5", "namespace": _NAME, "annotations": {"example.com/seen": str(time.time())}}
    made.apply([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}])


def manifests(count: int) -> Iterator[Manifest]:
    """Yield all objects."""
    return (manifest(number) for number in range(count))


def manifest(number: int) -> Manifest:
    """Return an object."""
    metadata = {"name": f"o{number}", "namespace": _NAME}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": "x"}}


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
