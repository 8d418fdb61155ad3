"""Watches whose events can be lost, duplicated, or followed by an older one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gitsync.cluster.client import Client
from tests.faults.injector import FaultInjector

NAMED = ("applications", "configmaps", "deployments", "jobs")
"""Plurals of kinds whose objects have the same names in each run, unlike Pods."""
_EXPIRED = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}


class FaultyWatchClient:
    """A client whose watch events pass through an injector; the events of one object are counted together."""

    def __init__(self, client: Client, injector: FaultInjector) -> None:
        self._client = client
        self._injector = injector

    def get(self, path: str, query: Mapping[str, str]) -> Any:
        """List without faults."""
        return self._client.get(path, query)

    def stream(self, path: str, query: Mapping[str, str]) -> FaultyWatch:
        """Open a watch."""
        return FaultyWatch(self._client.stream(path, query), path.rpartition("/")[2], self._injector)


class FaultyWatch:
    """
    One watch.

    An event may be ``lost``, after which the watch has expired, as when the controller was away; ``duplicated``; or
    followed by the previous event of the object (``stale``).
    """

    def __init__(self, stream: Any, plural: str, injector: FaultInjector) -> None:
        self._stream = stream
        self._plural = plural
        self._injector = injector
        self._before: dict[str, dict[str, Any]] = {}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for event in self._stream:
            if event["type"] == "BOOKMARK" or self._plural not in NAMED:
                yield event
                continue
            meta = event["object"]["metadata"]
            target = f"{self._plural}/{meta.get('namespace')}/{meta['name']}"
            what = self._injector.event(event["type"], target)
            before, self._before[target] = self._before.get(target), event
            if what == "lost":
                yield _EXPIRED
            yield event
            if what == "duplicated":
                yield event
            elif what == "stale" and before is not None:
                yield {**before, "type": "MODIFIED"}

    def close(self) -> None:
        """End the watch."""
        self._stream.close()
