"""
Manual edits of many Applications, also while others wait for an approval: ``python -m bench.repair [COUNT]``.

The seconds from the answer to an edit until a watch shows its repair, the requests of these repairs, and the requests
while nothing differs. The ``waiting`` share is what neither the controller nor the API server computed: on a busy
machine, the wait for a core. ``KUBECONFIG`` names a cluster to use instead of a sandbox.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from bench._clusters import named_or_sandbox
from bench._fleet import Cost, Fleet, fleet
from bench.many import names
from gitsync.cluster.watch import KindCollection
from gitsync.objects.manifest import Manifest, resource_version_of
from gitsync.ports import ApiResource
from gitsync.runtime.reflector import Reflector
from tests.flow.factories import config_map

COUNT = 1000
_WAITING = 50
_EDITS = 200
_QUIET_SECONDS = 60.0
_REPAIR_SECONDS = 60.0
_ENDPOINT = "OPENAI_BASE_URL"
"""Another value of it is Dangerous, so that its commit waits for an approval, and its edit has to be repaired."""
_DECLARED = "http://models/v1"
_EDITED = "http://elsewhere/v1"


def main(count: int = COUNT) -> None:
    """Print the figures, first of Applications that wait for nothing."""
    with tempfile.TemporaryDirectory() as folder, fleet(Path(folder), named_or_sandbox) as made:
        every = list(names(count))
        waiting, others = every[:_WAITING], every[_WAITING:]
        edits = min(_EDITS, len(others) // 2)
        commit = made.repo.commit("first", {path(name): config_map("o", **{_ENDPOINT: _DECLARED}) for name in every})
        made.applications(every)
        made.start()
        made.synced(count, commit)
        made.quiet()
        repairs = Repairs(made)
        try:
            print(f"{count} Applications, nothing differs for {_QUIET_SECONDS:.0f} s: {idle(made)}", flush=True)
            show(f"{count} Applications, edits", made, repairs, others[:edits])
            made.repo.commit("other", {path(name): config_map("o", **{_ENDPOINT: "http://new/v1"}) for name in waiting})
            made.controller.ask("push")
            made.synced(count - len(waiting))
            made.quiet()
            show(f"edits while {_WAITING} others wait", made, repairs, others[edits : 2 * edits])
            show(f"edits of the {_WAITING} that wait", made, repairs, waiting)
            print(f"nothing more differs for {_QUIET_SECONDS:.0f} s: {idle(made)}", flush=True)
        finally:
            repairs.close()


def path(name: str) -> str:
    """Return the path of an Application's only file."""
    return f"{name}/o.yaml"


def idle(made: Fleet) -> Cost:
    """Return what the controller does while nothing differs."""
    return made.measured(partial(time.sleep, _QUIET_SECONDS))


def show(what: str, made: Fleet, repairs: Repairs, edited: Sequence[str]) -> None:
    """Edit an object of each Application, one after the other, and print what that took."""
    times: list[float] = []
    cost = made.measured(lambda: times.extend(map(repairs.edit, edited)))
    busy = cost.controller + (cost.server or 0.0)
    load = os.getloadavg()[0]
    waiting = max(0.0, 1 - busy / sum(times))
    print(f"{what}: {figures(times)}, load {load:.1f}, waiting {waiting:.0%}; {cost}", flush=True)


def figures(times: list[float]) -> str:
    """Return the median, the 99th percentile and the maximum of seconds."""
    p99 = statistics.quantiles(times, n=100, method="inclusive")[98]
    return f"median {statistics.median(times):.3f} s, p99 {p99:.3f} s, maximum {max(times):.3f} s"


class Repairs:
    """A user who edits objects, and the store of a watch that shows when each is as before."""

    def __init__(self, made: Fleet) -> None:
        self._client = made.client
        self._objects: dict[str, Manifest] = {}
        self._changed = threading.Condition()
        config_maps = ApiResource("", "v1", "ConfigMap", "configmaps", namespaced=True)
        self._reflector = Reflector("repairs", KindCollection(made.client, config_maps), self)
        self._reflector.start()

    def edit(self, namespace: str) -> float:
        """Edit the endpoint of an Application, and return the seconds until it is as before."""
        operation = {"op": "replace", "path": f"/data/{_ENDPOINT}", "value": _EDITED}
        where = f"/api/v1/namespaces/{namespace}/configmaps/o"
        edited = self._client.patch(where, [operation], {"fieldManager": "kubectl-edit"})
        began = time.perf_counter()
        with self._changed:
            is_repaired = self._changed.wait_for(lambda: self._is_newer(f"{namespace}/o", edited), _REPAIR_SECONDS)
        assert is_repaired, f"the edit in {namespace} was not repaired within {_REPAIR_SECONDS:.0f} s"
        return time.perf_counter() - began

    def _is_newer(self, key: str, edited: Manifest) -> bool:
        live = self._objects.get(key, edited)
        # the versions of the objects of one kind grow
        # (https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions)
        is_later = int(resource_version_of(live)) > int(resource_version_of(edited))
        return is_later and live["data"][_ENDPOINT] == _DECLARED

    def replace(self, items: Mapping[str, Manifest], version: str) -> None:
        """Take all objects of the kind."""
        with self._changed:
            self._objects = dict(items)
            self._changed.notify_all()

    def put(self, key: str, item: Manifest) -> None:
        """Take the newest state of an object."""
        with self._changed:
            self._objects[key] = item
            self._changed.notify_all()

    def remove(self, key: str, item: Manifest) -> None:
        """Drop an object."""
        with self._changed:
            self._objects.pop(key, None)

    def close(self) -> None:
        """End the watch."""
        self._reflector.stop()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
