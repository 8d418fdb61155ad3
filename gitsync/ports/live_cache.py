"""Live objects from local copies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from gitsync.errors import GroupUnavailable
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import GroupKind, ObjectRef
from gitsync.ports.cluster import Resource, Scope


class LiveCache(Protocol):
    """
    Live objects from local copies that watches keep current: no request, and absence means absence.

    Called by each reconcile to observe objects, and by the applier after each write, before the watch event arrives.
    """

    def follow(self, scopes: Iterable[Scope], timeout: float, *, only: bool = False) -> None:
        """
        Keep copies of these kinds too, and wait for the first complete list of each.

        A namespace matters where the controller watches single namespaces: only the rights there are needed. With
        ``only`` it matters always: nothing of others is read, unless the kind is followed everywhere already.

        Raise ClusterUnavailable when one is not complete in time or may be out of date.
        """
        ...

    def follow_available(
        self, scopes: Iterable[Scope], timeout: float, *, only: bool = False
    ) -> Mapping[Resource, GroupUnavailable]:
        """
        Follow kinds as ``follow`` does, and return the error of each kind whose API group is unavailable.

        The copy of such a kind says nothing of the cluster, neither presence nor absence, until the group recovers.
        """
        ...

    def forget(self, of: GroupKind) -> None:
        """Stop watching a kind that the cluster no longer serves."""
        ...

    def get(self, resource: Resource, namespace: str, name: str) -> Manifest | None:
        """
        Return the object as last seen, None when it is absent; the kind must be followed.

        Raise Refused for one of a namespace that is not watched: whether it exists is unknown. Raise GroupUnavailable
        where a read is a request, without a copy, and the server of the group does not answer.
        """
        ...

    def find(self, resource: Resource, refs: Iterable[ObjectRef]) -> dict[ObjectRef, Manifest]:
        """Return those of these objects of a kind that exist, as ``get`` does for each."""
        ...

    def all(self, resource: Resource) -> tuple[Manifest, ...]:
        """Return every object of a followed kind."""
        ...

    def dependents(self, uid: str) -> tuple[Manifest, ...]:
        """Return the followed objects that name this uid as an owner."""
        ...

    def owners(self, manifest: Manifest) -> tuple[Manifest, ...]:
        """Return the object and its owners, the nearest first, as far as they are followed."""
        ...

    def last_finished(self, ref: ObjectRef) -> Manifest | None:
        """Return the last state of a deleted object that had finished, see ``finish_of``; the newest are kept."""
        ...

    def observe_write(self, resource: Resource, manifest: Manifest) -> None:
        """Store the response of our own write before its watch event arrives."""
        ...

    def observe_delete(self, resource: Resource, manifest: Manifest) -> None:
        """Remove an object that our own delete removed, before its watch event arrives."""
        ...
