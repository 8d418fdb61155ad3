"""RepositoryIndex: which Applications name which repository."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable


class RepositoryIndex:
    """Find Applications by the URLs of their repositories, of which there are far fewer than Applications."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: defaultdict[str, set[str]] = defaultdict(set)
        self._urls: dict[str, str] = {}

    def set(self, key: str, url: str) -> None:
        """Store the repository of an Application; an empty URL removes it."""
        with self._lock:
            before = self._urls.pop(key, "")
            self._keys[before].discard(key)
            if not self._keys[before]:
                del self._keys[before]
            if url:
                self._urls[key] = url
                self._keys[url].add(key)

    def urls(self) -> frozenset[str]:
        """Return the URLs of all repositories."""
        with self._lock:
            return frozenset(self._keys)

    def find(self, is_it: Callable[[str], bool]) -> tuple[str, ...]:
        """Return the keys of the Applications whose URL is one of those wanted."""
        with self._lock:
            return tuple(key for url, keys in self._keys.items() if is_it(url) for key in keys)
