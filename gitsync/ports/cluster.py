"""The Kubernetes API: kinds and objects by requests, live objects from local copies, Events and logs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from gitsync.errors import GroupUnavailable
from gitsync.merge.schema import Schemas
from gitsync.objects.change import Change
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import GroupKind, ObjectRef


@dataclass(frozen=True, slots=True)
class ApiResource:
    """A kind that the cluster serves, at one version."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    verbs: frozenset[str] = frozenset()  # kinds without list and watch, such as TokenReview, cannot be followed

    @property
    def api_version(self) -> str:
        """The apiVersion of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.kind} {self.api_version}"


class Capabilities(NamedTuple):
    """
    What templates of charts may ask of a cluster: its version, and the APIs that it serves, sorted.

    An API is an apiVersion, or an apiVersion with a kind (``apps/v1/Deployment``), as Helm names them.
    """

    version: str = ""
    apis: tuple[str, ...] = ()


Scope = tuple[ApiResource, str]
"""A kind, and the namespace in which its objects are; empty for all that are watched, and for kinds without one."""


class Cluster(Protocol):
    """
    Read and write a cluster by requests.

    Called while an Application is reconciled: for kinds and dry runs when it is planned, for writes when the plan is
    applied; and by commands that run once.

    Failures are ClusterUnavailable (try again; whether a write took effect is unknown), Conflict (read again) and
    Rejected (the object is at fault).
    """

    def resource(self, group: str, version: str, kind: str) -> ApiResource | None:
        """Return the resource of a kind, None when it is not served; discovery is repeated for an unknown kind."""
        ...

    # apart from ``resource``: where an aggregated API does not answer, discovery lacks its kinds, but their objects
    # exist
    def find(self, group: str, version: str, kind: str) -> ApiResource | GroupUnavailable | None:
        """Return what ``resource`` does, or why it is unknown whether the kind is served: it may have objects."""
        ...

    def any_version(self, of: GroupKind) -> ApiResource | None:
        """Return the resource of a kind at the version that the server prefers, None when it is not served."""
        ...

    def schemas(self, group_versions: Iterable[tuple[str, str]]) -> Schemas:
        """Return the types of these groups and versions."""
        ...

    # discovery and schemas are many requests, so that they are kept until a definition changes
    def definitions_changed(self) -> None:
        """Drop the cached kinds and schemas: a definition changed."""
        ...

    def capabilities(self) -> Capabilities:
        """Return the version of the server and what it serves, at most some minutes old."""
        ...

    def read(self, ref: ObjectRef, version: str, *, user: str = "") -> Manifest | None:
        """Return the object as it is now, None when it is absent; impersonate ``user`` if given."""
        ...

    # server-side apply has no such condition: it would take over an object of that name
    def create(self, manifest: Manifest, *, manager: str, user: str = "") -> Manifest:
        """Create an object; raise AlreadyExists, and change nothing, where one of its name exists."""
        ...

    # forced by default: the plan has decided about the fields of other managers before
    def apply(
        self, manifest: Manifest, *, manager: str, force: bool = True, dry_run: bool = False, user: str = ""
    ) -> Manifest:
        """Apply server-side as this field manager, impersonating ``user`` if given; return the object then."""
        ...

    # an apply can give up its own fields only, and not those of another manager
    def set_managed_fields(
        self, live: Manifest, managed_fields: Sequence[Mapping[str, Any]], *, manager: str, user: str = ""
    ) -> Manifest:
        """
        Transfer field ownership without changing a value, and return the object with its new resourceVersion.

        Raise Conflict when the resourceVersion or uid of the object differs from that of ``live``.
        """
        ...

    # in one patch: between several ones the object would be as neither Git nor a user has written it
    def remove_fields(self, live: Manifest, pointers: Sequence[str], *, manager: str, user: str = "") -> Manifest:
        """Remove fields by JSON Pointer in one patch; raise Conflict as ``set_managed_fields`` does."""
        ...

    def release(self, released: Change, *, manager: str, user: str = "") -> Manifest:
        """Remove our marks and our ownership of fields in one patch; raise Conflict when the object changed."""
        ...

    # by uid: an object that another client has created under the name since is not the one that was planned
    def delete(
        self,
        ref: ObjectRef,
        version: str,
        *,
        uid: str,
        user: str = "",
        foreground: bool = False,
        dry_run: bool = False,
    ) -> Manifest | None:
        """
        Request the object's deletion if it still has this uid; an absent object is ignored.

        In the ``foreground`` the object stays until what it owns is gone. A ``dry_run`` deletes nothing.

        Return what is on its way out, None when the object is gone.
        """
        ...

    # with the resourceVersion: the status of an older reconcile never overwrites a newer one
    def replace(self, manifest: Manifest, *, manager: str, subresource: str = "") -> Manifest:
        """Write the object, or a subresource; raise Conflict unless its resourceVersion is the newest."""
        ...


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

    # an API group that is down must not stop the Applications whose objects are of other kinds
    def follow_available(
        self, scopes: Iterable[Scope], timeout: float, *, only: bool = False
    ) -> Mapping[ApiResource, GroupUnavailable]:
        """
        Follow kinds as ``follow`` does, and return the error of each kind whose API group is unavailable.

        The copy of such a kind says nothing of the cluster, neither presence nor absence, until the group recovers.
        """
        ...

    # its watch would be refused with 404 until the process ends
    def forget(self, of: GroupKind) -> None:
        """Stop watching a kind that the cluster no longer serves."""
        ...

    # a watch that was opened before a definition changed delivers objects without the new fields
    def relist(self, of: GroupKind, delay: float) -> None:
        """List a kind again after ``delay`` seconds."""
        ...

    def get(self, resource: ApiResource, namespace: str, name: str) -> Manifest | None:
        """
        Return the object as last seen, None when it is absent; the kind must be followed.

        Raise Refused for one of a namespace that is not watched: whether it exists is unknown. Raise GroupUnavailable
        where a read is a request, without a copy, and the server of the group does not answer.
        """
        ...

    def find(self, resource: ApiResource, refs: Iterable[ObjectRef]) -> dict[ObjectRef, Manifest]:
        """Return those of these objects of a kind that exist, as ``get`` does for each."""
        ...

    def all(self, resource: ApiResource) -> tuple[Manifest, ...]:
        """Return every object of a followed kind."""
        ...

    def dependents(self, uid: str) -> tuple[Manifest, ...]:
        """Return the followed objects that name this uid as an owner."""
        ...

    def owners(self, manifest: Manifest) -> tuple[Manifest, ...]:
        """Return the object and its owners, the nearest first, as far as they are followed."""
        ...

    # a TTL may delete a Job before a reconcile has observed how it ended
    def last_finished(self, ref: ObjectRef) -> Manifest | None:
        """Return the last state of a deleted object that had finished, see ``finish_of``; the newest are kept."""
        ...

    # without it the next reconcile may act on the object from before the write
    def observe_write(self, resource: ApiResource, manifest: Manifest) -> None:
        """Store the response of our own write before its watch event arrives."""
        ...

    def observe_delete(self, resource: ApiResource, manifest: Manifest) -> None:
        """Remove an object that our own delete removed, before its watch event arrives."""
        ...


@dataclass(frozen=True, slots=True)
class KubernetesEvent:
    """A Kubernetes Event about an object; ``last`` is RFC 3339, empty when unknown."""

    type: str
    reason: str
    message: str
    count: int = 1
    last: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class LogRequest:
    """
    Which log to read: that of a container of a Pod, or of its instance before the last restart if ``is_previous``.

    The last ``lines`` are read: a whole log may be larger than the memory of the controller. ``has_times`` has each
    begin with the time at which it was written, in RFC 3339.
    """

    namespace: str
    pod: str
    container: str
    is_previous: bool = False
    lines: int = 200
    has_times: bool = False


class ObjectDetails(Protocol):
    """
    Read what no watch keeps, by one request each: the Events of an object, the log of a container, and an Application
    that may have changed since its watch delivered it.

    Called by the dashboard and its API when a user opens them. Raises ClusterUnavailable, and Rejected where the
    controller has no permission (``list`` events, ``get`` pods/log).
    """

    def events(self, ref: ObjectRef) -> tuple[KubernetesEvent, ...]:
        """Return the latest Events about an object, newest first."""
        ...

    def logs(self, request: LogRequest) -> str:
        """Return the last lines of the log of a container."""
        ...

    def application(self, key: str) -> Manifest:
        """Return the Application ``namespace/name`` as the API server has it now; raise Rejected where it is gone."""
        ...


class EventWriter(Protocol):
    """Write Kubernetes Events about Applications. Called by the notifier; raises a GitsyncError where that fails."""

    def write_event(self, application: str, type: str, reason: str, message: str, ref: ObjectRef | None = None) -> None:
        """Write one Event, Normal or Warning, about the Application ``namespace/name`` or an object of it."""
        ...
