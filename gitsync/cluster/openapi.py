"""Schemas: the types of the kinds in use, from the documents that the API server serves."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from gitsync.cluster.client import Client
from gitsync.errors import Rejected
from gitsync.merge.schema import Schemas, builtin


class ClusterSchemas:
    """
    Keep the OpenAPI v3 documents of the group versions in use, each read once.

    A document is known by its URL, which holds a hash of its content: after ``forget`` only changed ones are read
    again. A server without OpenAPI v3 gets the built-in types.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._index: dict[str, str] | None = None
        self._documents: dict[str, dict[str, Any]] = {}
        self._used: dict[str, str] = {}
        self._schemas: Schemas | None = None

    def of(self, group_versions: Iterable[tuple[str, str]]) -> Schemas:
        """Return the types of these group versions (and of others seen before)."""
        wanted = {f"apis/{group}/{version}" if group else f"api/{version}" for group, version in group_versions}
        with self._lock:
            schemas = self._schemas
            if schemas is None or not wanted <= self._used.keys():
                schemas = self._schemas = self._load(wanted | self._used.keys())
            return schemas

    def forget(self) -> None:
        """Ask again at the next question: definitions have changed."""
        with self._lock:
            self._index = None
            self._schemas = None

    def _load(self, names: Iterable[str]) -> Schemas:
        if self._index is None or not set(names) <= self._index.keys():
            self._index = self._read_index()
        if not self._index:
            self._used = dict.fromkeys(names, "")
            return builtin()
        used = {name: self._index.get(name, "") for name in names}
        for name, url in used.items():
            if url and url not in self._documents and not self._fetch(url):
                used[name], self._index = "", None
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
