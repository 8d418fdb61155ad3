"""Groups of leases: the processes of one machine divide keys between them, and others see them as one controller."""

from __future__ import annotations

from gitsync.runtime.membership import MemberLease, MemberSet, MemberStore

_MARK = "_process_"
"""Between the name of a group and that of a process in the holder of its lease."""


def holder_in(group: str, process: str) -> str:
    """Return the holder of the lease of a process; its name is unique also among processes that have ended."""
    return f"{group}{_MARK}{process}"


class GroupLeases:
    """The leases of the processes of a group (``is_inside``), or all others; what is written is not restricted."""

    def __init__(self, store: MemberStore, group: str, *, is_inside: bool) -> None:
        self._store = store
        self._prefix = holder_in(group, "")
        self._is_inside = is_inside

    def all(self) -> tuple[MemberLease, ...]:
        """Return the leases as they are now."""
        leases = self._store.all()
        return tuple(lease for lease in leases if lease.holder.startswith(self._prefix) is self._is_inside)

    def put(self, seen: MemberLease | None, holder: str, view: MemberSet, seconds: float) -> MemberLease:
        """Write a member's lease if it is still the one that was seen."""
        return self._store.put(seen, holder, view, seconds)

    def remove(self, seen: MemberLease) -> None:
        """Remove a lease that is still the one that was seen."""
        self._store.remove(seen)
