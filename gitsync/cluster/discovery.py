"""What the API server serves: the kinds and where (Discovery), and their types (ClusterSchemas)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from gitsync.cluster.client import Client
from gitsync.cluster.errors import not_discovered
from gitsync.errors import GroupUnavailable, Rejected
from gitsync.merge.schema import Schemas, builtin
from gitsync.ports import ApiResource, Capabilities

_AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)
# seconds until discovery is repeated for a kind that is not served: at first, and at most; it doubles
_RETRY = 2.0
_LONGEST_RETRY = 60.0

_VERSION_SECONDS = 300.0
"""Seconds after which the version is read again: no watch reports an upgrade of the API server."""

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
        self._resources: dict[Kind, ApiResource] = {}
        # when to repeat discovery for a kind, in monotonic seconds, and the delay after that
        self._absent: dict[Kind, tuple[float, float]] = {}
        self._unavailable: dict[_GroupVersion, GroupUnavailable] = {}
        self._asked = float("-inf")
        self._apis: dict[_GroupVersion, frozenset[str]] = {}
        self._version = ""
        self._version_due = float("-inf")
        self._capabilities: Capabilities | None = None

    def resource(self, group: str, version: str, kind: str) -> ApiResource | None:
        """Return the resource of a kind, None when it is not served."""
        resource = self.find(group, version, kind)
        return resource if isinstance(resource, ApiResource) else None

    def find(self, group: str, version: str, kind: str) -> ApiResource | GroupUnavailable | None:
        """Return the resource of a kind, or why it is unknown whether it is served; None when it is not."""
        wanted = (group, version, kind)
        resource = self._resources.get(wanted)  # without the lock, which a slow request may hold
        if resource is not None:
            return resource
        with self._lock:
            due, delay = self._absent.get(wanted, (float("-inf"), _RETRY))
            if wanted not in self._resources and self._monotonic() >= max(due, self._asked + _RETRY):
                self._refresh()
                self._absent[wanted] = (self._monotonic() + delay, min(2 * delay, _LONGEST_RETRY))
            return self._resources.get(wanted) or self._unavailable.get((group, version))

    def any_version(self, group: str, kind: str) -> ApiResource | None:
        """Return the resource of a kind at the version that the server prefers."""
        with self._lock:
            if not self._resources:
                self._refresh()
        resources = self._resources.values()  # in the order of the server, the preferred version first
        return next((resource for resource in resources if (resource.group, resource.kind) == (group, kind)), None)

    def preferred(self) -> tuple[ApiResource, ...]:
        """Return every kind that is served, each at the version that the server prefers."""
        with self._lock:
            if not self._resources:
                self._refresh()
            first: dict[tuple[str, str], ApiResource] = {}
            for resource in self._resources.values():
                first.setdefault((resource.group, resource.kind), resource)
            return tuple(first.values())

    def capabilities(self) -> Capabilities:
        """Return the version of the server, read again after some minutes, and what it serves."""
        with self._lock:
            if not self._resources:
                self._refresh()
            if self._monotonic() >= self._version_due:
                answer = self._client.get("/version")
                self._version = str(answer.get("gitVersion") or "")
                self._version_due = self._monotonic() + _VERSION_SECONDS
            if self._capabilities is None or self._capabilities.version != self._version:
                apis = sorted(name for names in self._apis.values() for name in names)
                self._capabilities = Capabilities(self._version, tuple(apis))
            return self._capabilities

    def forget(self) -> None:
        """Ask again at the next question: definitions have changed."""
        with self._lock:
            self._resources = {}
            self._absent = {}
            self._asked = float("-inf")

    def _refresh(self) -> None:
        items = [item for root in ("/api", "/apis") for item in self._read(root)]
        resources = [item for item in items if isinstance(item, ApiResource)]
        self._unavailable = {item: not_discovered(*item) for item in items if not isinstance(item, ApiResource)}
        self._resources = {(item.group, item.version, item.kind): item for item in resources}
        # A server that is down is not gone: charts would give up the objects that they make where it is there.
        self._apis = {item: names for item, names in self._apis.items() if item in self._unavailable} | _apis(resources)
        self._capabilities = None
        self._asked = self._monotonic()
        self._absent = {kind: due for kind, due in self._absent.items() if kind not in self._resources}

    def _read(self, root: str) -> Iterator[ApiResource | _GroupVersion]:
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

    def _read_version(self, group: str, version: str) -> Iterator[ApiResource | _GroupVersion]:
        """Read one group version; a broken one (an extension server that is down) hides no other."""
        try:
            answer = self._client.get(f"/apis/{group}/{version}" if group else f"/api/{version}")
        except GroupUnavailable:
            yield group, version
            return
        except Rejected:
            return
        for item in answer.get("resources") or []:
            if "/" not in item["name"]:  # a subresource such as pods/log
                yield ApiResource(
                    group, version, item["kind"], item["name"], bool(item["namespaced"]), frozenset(item["verbs"])
                )


def _apis(resources: Iterable[ApiResource]) -> dict[_GroupVersion, frozenset[str]]:
    """Return what is served, by group and version, as Helm names it (``action.GetVersionSet``)."""
    names: dict[_GroupVersion, set[str]] = {}
    for resource in resources:
        kinds = names.setdefault((resource.group, resource.version), {resource.api_version})
        kinds.add(f"{resource.api_version}/{resource.kind}")
    return {item: frozenset(kinds) for item, kinds in names.items()}


def _aggregated(answer: dict[str, Any]) -> Iterator[ApiResource | _GroupVersion]:
    for group in answer.get("items") or []:
        name = group["metadata"].get("name", "")
        for version in group.get("versions") or []:
            # the aggregator keeps the last answer of a server that is down, and marks it; without one it lists nothing
            if version.get("freshness") == "Stale" and not version.get("resources"):
                yield name, version["version"]
            for item in version.get("resources") or []:
                kind = (item.get("responseKind") or {}).get("kind")
                if kind:
                    yield ApiResource(
                        name,
                        version["version"],
                        kind,
                        item["resource"],
                        item.get("scope") == "Namespaced",
                        frozenset(item.get("verbs") or ()),
                    )


_FIRST_RETRY = 1.0
"""Seconds until a missing document is looked up again; each time doubles it."""
_LAST_RETRY = 60.0
_PUBLISHED_WITHIN = 15.0
"""Seconds after a change of a definition in which its document may still be the former one."""


class ClusterSchemas:
    """
    Keep the OpenAPI v3 documents of the group versions in use, each read once.

    A document is known by its URL, which holds a hash of its content: after ``forget`` only changed ones are read
    again. For some seconds after that, and for as long as a group version has no document, the URLs are looked up
    again: a server publishes a changed definition up to a second after it serves the kind. A server without OpenAPI v3
    gets the built-in types.
    """

    def __init__(self, client: Client, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._index: dict[str, str] | None = None
        self._documents: dict[str, dict[str, Any]] = {}
        self._used: dict[str, str] = {}
        self._schemas: Schemas | None = None
        self._retry_at = 0.0
        self._retry_delay = _FIRST_RETRY
        self._settled_at = float("-inf")

    def of(self, group_versions: Iterable[tuple[str, str]]) -> Schemas:
        """Return the types of these group versions (and of others seen before)."""
        wanted = {f"apis/{group}/{version}" if group else f"api/{version}" for group, version in group_versions}
        with self._lock:
            schemas = self._schemas
            if schemas is None or not wanted <= self._used.keys() or self._is_published_anew(wanted):
                schemas = self._schemas = self._load(wanted | self._used.keys())
            return schemas

    def _is_published_anew(self, wanted: set[str]) -> bool:
        """Return whether the server has published another document of one of these group versions, or its first one."""
        now = self._monotonic()
        is_settled = now > self._settled_at
        doubtful = {name for name in wanted if not self._used[name]} if is_settled else wanted
        if not doubtful or now < self._retry_at:
            return False
        # The delay grows, because the group of an aggregated API without OpenAPI stays missing for ever.
        self._retry_at = now + self._retry_delay
        self._retry_delay = min(2 * self._retry_delay, _LAST_RETRY)
        self._index = self._read_index()
        # one that is gone from the list stays in use: its kind may be served for a moment more
        return any(self._index.get(name, self._used[name]) != self._used[name] for name in doubtful)

    def forget(self) -> None:
        """Ask again at the next question: definitions have changed."""
        with self._lock:
            self._index = None
            self._schemas = None
            self._retry_at = self._monotonic() + _FIRST_RETRY
            self._retry_delay = _FIRST_RETRY
            self._settled_at = self._monotonic() + _PUBLISHED_WITHIN

    def _load(self, names: Iterable[str]) -> Schemas:
        if self._index is None or not set(names) <= self._index.keys():
            self._index = self._read_index()
        if not self._index:
            self._used = dict.fromkeys(names, "")
            return builtin()
        used = {name: self._index.get(name, "") for name in names}
        for name, url in used.items():
            if url and url not in self._documents and not self._fetch(url):
                used[name] = ""
                self._index = None  # it listed what is gone, so it is read again at the next question
        self._documents = {url: self._documents[url] for url in used.values() if url}
        self._used = used
        return Schemas.from_openapi(self._documents.values())

    def _fetch(self, url: str) -> bool:
        """
        Read a document; return False for a group version that is removed, which the index may still list.

        It is requested without the hash of its URL: with one that definitions have changed since, the API server
        answers with a redirect, again at each retry.
        """
        try:
            self._documents[url] = self._client.get(url.partition("?")[0])
        except Rejected as error:
            if error.code != 404:
                raise
            return False
        return True

    def _read_index(self) -> dict[str, str]:
        try:
            answer = self._client.get("/openapi/v3")
        except Rejected:
            return {}
        return {name: str(entry["serverRelativeURL"]) for name, entry in answer["paths"].items()}
