"""Watch: one kind of a cluster as a collection that a reflector can follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import random
from typing import Any

from gitsync.cluster.client import Client, Stream
from gitsync.cluster.errors import failure
from gitsync.cluster.kubernetes import KubernetesCluster, collection_path, with_type
from gitsync.objects.manifest import Manifest, metadata_of, resource_version_of
from gitsync.objects.ref import GroupKind
from gitsync.ports import ApiResource
from gitsync.runtime.reflector import Event, Expired, Listing

_PAGE = "500"


class KindCollection:
    """
    All objects of one resource, in all namespaces or in one; keys are ``namespace/name``.

    ``labels`` is a label selector that narrows list and watch.
    """

    def __init__(
        self,
        client: Client,
        resource: ApiResource,
        namespace: str = "",
        *,
        labels: str = "",
        random: Callable[[], float] = random,
    ) -> None:
        self._client = client
        self._resource = resource
        self._path = collection_path(resource, namespace)
        self._narrowed = {"labelSelector": labels} if labels else {}
        self._random = random

    def list(self) -> Listing:
        """
        Return the whole collection, read in pages of one snapshot.

        Where the snapshot expires between two pages, one request reads all, as the pager of client-go does: pages that
        are begun again could expire again, for ever.
        """
        first = self._page({"limit": _PAGE})
        try:
            pages = [first, *self._pages_after(first)]
        except Expired:
            pages = [self._page({})]
        items = {_key(item): with_type(item, self._resource) for page in pages for item in page.get("items") or []}
        return Listing(items, resource_version_of(pages[-1]))

    def _pages_after(self, page: dict[str, Any]) -> Iterator[dict[str, Any]]:
        while token := page["metadata"].get("continue"):
            page = self._page({"limit": _PAGE, "continue": token})
            yield page

    def _page(self, query: dict[str, str]) -> dict[str, Any]:
        page: dict[str, Any] = self._client.get(self._path, {**query, **self._narrowed})
        return page

    def watch(self, version: str) -> KindWatch:
        """Follow the changes after ``version``, with bookmarks; the server ends it after some minutes."""
        seconds = 240 + int(240 * self._random())  # spread, so that watches are not renewed all at once
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(seconds),
            **self._narrowed,
        }
        return KindWatch(self._client.stream(self._path, query))


def listed(client: Client, cluster: KubernetesCluster, of: GroupKind, namespace: str = "") -> Iterator[Manifest]:
    """Yield the objects of a kind as they are now; none, without a request, of a kind that is not served."""
    resource = cluster.any_version(of)
    if resource is not None:
        yield from KindCollection(client, resource, namespace).list().items.values()


class KindWatch:
    """The events of one watch."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[Event]:
        for event in self._stream:
            item = event.get("object") or {}
            if event.get("type") == "ERROR":
                code = int(item.get("code") or 500)
                message = str(item.get("message") or "the watch failed")
                raise Expired(message) if code == 410 else failure(code, b"", {}, message)
            yield Event(str(event.get("type")), _key(item), item, resource_version_of(item))

    def close(self) -> None:
        """End the watch, from any thread."""
        self._stream.close()


def _key(item: dict[str, Any]) -> str:
    meta = metadata_of(item)
    return f"{meta.get('namespace') or ''}/{meta.get('name')}"
