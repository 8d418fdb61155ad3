"""PathIndex: which Applications read a path. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain


class PathIndex:
    """
    Find the Applications that read one of some changed paths, at a cost that follows the number of changed paths.

    What an Application read are files, also absent ones, and folders, which end in ``/`` and mean everything below.
    """

    def __init__(self) -> None:
        self._keys: dict[str, set[str]] = {}
        self._read: dict[str, frozenset[str]] = {}

    def set(self, key: str, read: frozenset[str]) -> None:
        """Store what an Application read, instead of what it read before."""
        before = self._read.get(key, frozenset())
        if before is read:
            return
        for path in before - read:
            self._keys[path].discard(key)
            if not self._keys[path]:
                del self._keys[path]
        for path in read - before:
            self._keys.setdefault(path, set()).add(key)
        self._read[key] = read

    def remove(self, key: str) -> None:
        """Remove an Application."""
        self.set(key, frozenset())
        self._read.pop(key, None)

    def affected(self, changed: Iterable[str]) -> frozenset[str]:
        """Return the Applications that read one of these paths, or a folder above it."""
        places = frozenset(chain.from_iterable(map(_places, changed)))
        return frozenset(chain.from_iterable(self._keys.get(place, ()) for place in places))

    def __contains__(self, key: str) -> bool:
        return key in self._read


def reads(read: frozenset[str], changed: Iterable[str]) -> bool:
    """Whether one of some changed paths was read, or is below a folder that was read."""
    return not read.isdisjoint(chain.from_iterable(map(_places, changed)))


def _places(path: str) -> Iterator[str]:
    """Yield a path and the folders above it, as they are stored."""
    yield path
    yield "/"
    for end, character in enumerate(path):
        if character == "/":
            yield path[: end + 1]
