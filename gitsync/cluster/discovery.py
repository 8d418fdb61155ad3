"""Discovery: which kinds the API server serves, and where."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from gitsync.cluster.client import Client
from gitsync.cluster.errors import not_discovered
from gitsync.errors import GroupUnavailable, Rejected
from gitsync.ports import Resource

_AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)
_RETRY, _LONGEST_RETRY = 2.0, 60.0
"""Seconds until discovery is repeated for a kind that is not served: at first, and at most; it doubles."""

Kind = tuple[str, str, str]
_GroupVersion = tuple[str, str]


class Discovery:
    """
    Find resources by group, version and kind.

    The answer of the server is kept. For a kind that it does not have, discovery is repeated with growing delays, so
    a new CRD is found, and an Application of a kind that is never installed costs next to nothing.
    """

    def __init__(self, client: Client, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._resources: dict[Kind, Resource] = {}
        self._absent: dict[Kind, tuple[float, float]] = {}
        """When to repeat discovery for a kind, in monotonic seconds, and the delay after that."""
        self._unavailable: dict[_GroupVersion, GroupUnavailable] = {}
        self._asked = float("-inf")

    def resource(self, group: str, version: str, kind: str) -> Resource | None:
        """Return the resource of a kind, None when it is not served."""
        found = self.find(group, version, kind)
        return found if isinstance(found, Resource) else None

    def find(self, group: str, version: str, kind: str) -> Resource | GroupUnavailable | None:
        """Return the resource of a kind, or why it is unknown whether it is served; None when it is not."""
        found = self._resources.get((group, version, kind))
        if found is not None:
            return found
        wanted = (group, version, kind)
        with self._lock:
            due, delay = self._absent.get(wanted, (float("-inf"), _RETRY))
            if wanted not in self._resources and self._monotonic() >= max(due, self._asked + _RETRY):
                self._refresh()
                self._absent[wanted] = (self._monotonic() + delay, min(2 * delay, _LONGEST_RETRY))
            return self._resources.get(wanted) or self._unavailable.get((group, version))

    def any_version(self, group: str, kind: str) -> Resource | None:
        """Return the resource of a kind at the version that the server prefers."""
        with self._lock:
            if not self._resources:
                self._refresh()
        return next((found for found in self._resources.values() if (found.group, found.kind) == (group, kind)), None)

    def preferred(self) -> tuple[Resource, ...]:
        """Return every kind that is served, each at the version that the server prefers."""
        with self._lock:
            if not self._resources:
                self._refresh()
            first: dict[tuple[str, str], Resource] = {}
            for found in self._resources.values():
                first.setdefault((found.group, found.kind), found)
            return tuple(first.values())

    def forget(self) -> None:
        """Ask again at the next question: definitions have changed."""
        with self._lock:
            self._resources, self._absent = {}, {}
            self._asked = float("-inf")

    def _refresh(self) -> None:
        found = [item for root in ("/api", "/apis") for item in self._read(root)]
        resources = [item for item in found if isinstance(item, Resource)]
        self._unavailable = {item: not_discovered(*item) for item in found if not isinstance(item, Resource)}
        self._resources = {(item.group, item.version, item.kind): item for item in resources}
        self._asked = self._monotonic()
        self._absent = {kind: due for kind, due in self._absent.items() if kind not in self._resources}

    def _read(self, root: str) -> Iterator[Resource | _GroupVersion]:
        """Yield each resource, and each group version whose server is down."""
        answer = self._client.get(root, accept=_AGGREGATED)
        if answer.get("kind") == "APIGroupDiscoveryList":
            yield from _aggregated(answer)
        elif root == "/api":
            for version in answer.get("versions") or []:
                yield from self._read_version("", version)
        else:
            for group in answer.get("groups") or []:
                for version in group.get("versions") or []:
                    yield from self._read_version(group["name"], version["version"])

    def _read_version(self, group: str, version: str) -> Iterator[Resource | _GroupVersion]:
        """Read one group version; a broken one (an extension server that is down) hides no other."""
        try:
            answer = self._client.get(f"/apis/{group}/{version}" if group else f"/api/{version}")
        except GroupUnavailable:
            yield group, version
            return
        except Rejected:
            return
        for item in answer.get("resources") or []:
            if "/" not in item["name"]:
                yield Resource(
                    group, version, item["kind"], item["name"], bool(item["namespaced"]), frozenset(item["verbs"])
                )


def _aggregated(answer: dict[str, Any]) -> Iterator[Resource | _GroupVersion]:
    for group in answer.get("items") or []:
        name = group["metadata"].get("name", "")
        for version in group.get("versions") or []:
            if version.get("freshness") == "Stale" and not version.get("resources"):
                yield name, version["version"]
            for item in version.get("resources") or []:
                kind = (item.get("responseKind") or {}).get("kind")
                if kind:
                    yield Resource(
                        name,
                        version["version"],
                        kind,
                        item["resource"],
                        item.get("scope") == "Namespaced",
                        frozenset(item.get("verbs") or ()),
                    )
