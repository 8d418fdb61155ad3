"""The Kubernetes API by requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gitsync.errors import GroupUnavailable
from gitsync.merge.schema import Schemas
from gitsync.objects.change import Change
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import GroupKind, ObjectRef


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind that the cluster serves, at one version."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    verbs: frozenset[str] = frozenset()

    @property
    def api_version(self) -> str:
        """The apiVersion of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.kind} {self.api_version}"


Scope = tuple[Resource, str]
"""A kind, and the namespace in which its objects are; empty for all that are watched, and for kinds without one."""


class Cluster(Protocol):
    """
    Read and write a cluster by requests.

    Called while an Application is reconciled: for kinds and dry runs when it is planned, for writes when the plan is
    applied; and by commands that run once.

    Failures are ClusterUnavailable (try again; whether a write took effect is unknown), Conflict (read again) and
    Rejected (the object is at fault).
    """

    def resource(self, group: str, version: str, kind: str) -> Resource | None:
        """Return the resource of a kind, None when it is not served; discovery is repeated for an unknown kind."""
        ...

    def find(self, group: str, version: str, kind: str) -> Resource | GroupUnavailable | None:
        """Return what ``resource`` does, or why it is unknown whether the kind is served: it may have objects."""
        ...

    def any_version(self, of: GroupKind) -> Resource | None:
        """Return the resource of a kind at the version that the server prefers, None when it is not served."""
        ...

    def schemas(self, group_versions: Iterable[tuple[str, str]]) -> Schemas:
        """Return the types of these groups and versions."""
        ...

    def definitions_changed(self) -> None:
        """Drop the cached kinds and schemas: a definition changed."""
        ...

    def read(self, ref: ObjectRef, version: str) -> Manifest | None:
        """Return the object as it is now, None when it is absent."""
        ...

    def create(self, manifest: Manifest, *, manager: str, user: str = "") -> Manifest:
        """Create an object; raise AlreadyExists, and change nothing, where one of its name exists."""
        ...

    def apply(
        self, manifest: Manifest, *, manager: str, force: bool = True, dry_run: bool = False, user: str = ""
    ) -> Manifest:
        """Apply server-side as this field manager, impersonating ``user`` if given; return the object then."""
        ...

    def set_managed_fields(
        self, live: Manifest, managed_fields: Sequence[Mapping[str, Any]], *, manager: str, user: str = ""
    ) -> None:
        """Transfer field ownership without changing a value; raise Conflict when the object is no longer ``live``."""
        ...

    def remove_fields(self, live: Manifest, pointers: Sequence[str], *, manager: str, user: str = "") -> Manifest:
        """Remove fields by JSON Pointer in one patch; raise Conflict when the object is no longer ``live``."""
        ...

    def release(self, released: Change, *, manager: str, user: str = "") -> Manifest:
        """Remove our marks and our ownership of fields in one patch; raise Conflict when the object changed."""
        ...

    def delete(self, ref: ObjectRef, version: str, *, uid: str, user: str = "") -> Manifest | None:
        """
        Request the object's deletion if it still has this uid; an absent object is ignored.

        Return what is on its way out, None when the object is gone.
        """
        ...

    def replace(self, manifest: Manifest, *, manager: str, subresource: str = "") -> Manifest:
        """Write the object, or a subresource; raise Conflict unless its resourceVersion is the newest."""
        ...
