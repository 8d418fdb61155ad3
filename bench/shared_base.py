"""
A base of many overlays is changed: ``python -m bench.shared_base [COUNT]``.

Each Application has an overlay of one base with four ConfigMaps, all of which change in one commit. The ratio is to raw
parallel requests that write the same objects in the same run. ``KUBECONFIG`` names a
cluster to use instead of a sandbox.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench._clusters import named_or_sandbox
from bench._fleet import Fleet, fleet
from gitsync.objects.manifest import Manifest
from tests.flow.factories import config_map
from tests.waiting import until

COUNT = 300
_OBJECTS = 4
_RUNS = 3


def main(count: int = COUNT) -> None:
    """Print the figures of a base with this many overlays."""
    with tempfile.TemporaryDirectory() as folder, fleet(Path(folder), named_or_sandbox) as made:
        names = [f"app-{number:04}" for number in range(count)]
        overlays = {f"{name}/kustomization.yaml": "resources: [../base]\n" for name in names}
        commit = made.repo.commit("first", {**overlays, **base("0")})
        made.applications(names)
        made.start()
        made.synced(count, commit)
        for run in range(_RUNS):
            made.quiet()
            raw = made.raw(manifests(names, f"edited {run}", "other"))
            cost = made.measured(partial(change, made, names, str(run + 1)))
            print(f"base of {count} overlays: {cost.seconds / raw.seconds:.1f} x raw; {cost}; {raw}", flush=True)


def change(made: Fleet, names: list[str], value: str) -> None:
    """Commit another base, and wait until each overlay has it."""
    made.repo.commit("change", base(value))
    made.controller.ask("push")
    last = f"o{_OBJECTS - 1}"
    for name in names:
        until(lambda name=name: made.config(name, last) == {"value": value}, 200)


def base(value: str) -> dict[str, str | None]:
    """Return the files of the base."""
    objects = {f"o{number}.yaml": config_map(f"o{number}", value=value) for number in range(_OBJECTS)}
    index = "\n".join(f"- {name}" for name in objects)
    files: dict[str, str | None] = {f"base/{name}": text for name, text in objects.items()}
    return {**files, "base/kustomization.yaml": f"resources:\n{index}\n"}


def manifests(names: list[str], value: str, suffix: str) -> Iterator[Manifest]:
    """Yield as many objects as the overlays have, with names of their own."""
    for name in names:
        for number in range(_OBJECTS):
            metadata = {"name": f"o{number}-{suffix}", "namespace": name}
            yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": value}}


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
