"""Share: which keys a replica works on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


class Shard(Protocol):
    """Which keys this replica works on."""

    @property
    def may_write(self) -> bool:
        """Whether anything may be written by this replica now."""
        ...

    def owns(self, key: str) -> bool:
        """Whether a key is ours now."""
        ...

    def owner_of(self, key: str) -> str:
        """Return the replica that a key belongs to by what is known here; it may have changed since."""
        ...

    def claim(self, key: str) -> AbstractContextManager[bool]:
        """Hold a key while working on it; yields False if another replica owns it."""
        ...


class SingleReplica:
    """The share of the only replica: everything."""

    @property
    def may_write(self) -> bool:
        """Say yes."""
        return True

    def owns(self, key: str) -> bool:
        """Say yes."""
        return True

    def owner_of(self, key: str) -> str:
        """Return the same for every key."""
        return ""

    @contextmanager
    def claim(self, key: str) -> Iterator[bool]:
        """Let everything be worked on."""
        yield True
