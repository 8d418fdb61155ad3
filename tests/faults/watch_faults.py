"""Watches between a cluster and an engine whose notices can be lost, told twice, or followed by an older one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gitsync.cluster.client import Client
from tests.faults.injector import Line

NAMED = ("applications", "configmaps", "deployments", "jobs")
"""Kinds whose objects have the same names in each run; pods, say, have not."""
_EXPIRED = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}


class Noticing:
    """A client whose watches go through a line; what a watch says of one object is a call of its own."""

    def __init__(self, client: Client, line: Line) -> None:
        self._client = client
        self._line = line

    def get(self, path: str, query: Mapping[str, str]) -> Any:
        """List as ever."""
        return self._client.get(path, query)

    def stream(self, path: str, query: Mapping[str, str]) -> Notices:
        """Open a watch."""
        return Notices(self._client.stream(path, query), path.rpartition("/")[2], self._line)


class Notices:
    """
    One watch.

    A notice may be ``lost``, after which the watch is too old to be taken up, as when an engine was not there to see
    it; told twice (``duplicated``); or followed by what was said of the object before (``stale``).
    """

    def __init__(self, stream: Any, plural: str, line: Line) -> None:
        self._stream = stream
        self._plural = plural
        self._line = line
        self._before: dict[str, dict[str, Any]] = {}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for event in self._stream:
            if event["type"] == "BOOKMARK" or self._plural not in NAMED:
                yield event
                continue
            meta = event["object"]["metadata"]
            target = f"{self._plural}/{meta.get('namespace')}/{meta['name']}"
            what = self._line.notice(event["type"], target)
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
