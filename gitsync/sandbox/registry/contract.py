"""Protocols inside the sandbox: the API that its own parts use, and what a kind and admission contribute to a write."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ObjectRef
from gitsync.sandbox.errors import StatusCause
from gitsync.sandbox.users import ApiUser


@dataclass(slots=True)
class RequestContext:
    """
    Who writes, and how. ``warnings`` collects what the answer's Warning headers will say.

    ``validation`` is the fieldValidation level; ``duplicates`` the duplicate keys the body had.
    """

    user: ApiUser
    manager: str
    dry_run: bool = False
    validation: str = "Warn"
    force: bool = False
    duplicates: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


EventHandler = Callable[[str, Manifest, Manifest | None], None]
"""Called after a commit with ADDED, MODIFIED or DELETED, the object as it is now, and as it was before."""


class ControllerClient(Protocol):
    """
    Let a controller of the sandbox read and write as a client would, in process and without HTTP.

    Writes go through the same pipeline as requests (defaults, validation, ownership, watch events). All calls
    are made from the server's own thread. ``kind`` and ``group`` name a resource; objects returned are
    read-only. Refusals raise ApiError.
    """

    def get(self, group: str, kind: str, namespace: str, name: str) -> Manifest | None:
        """Return one object, or None."""
        ...

    def list(
        self, group: str, kind: str, namespace: str = "", labels: Mapping[str, str] | None = None
    ) -> Iterable[Manifest]:
        """Return the objects of a kind, of all namespaces when none is named; ``labels`` must all be equal."""
        ...

    def owned_by(self, uid: str) -> Iterable[Manifest]:
        """Return the objects of every kind that have an ownerReference to this uid, by an index."""
        ...

    def create(self, manifest: Manifest, *, manager: str) -> Manifest:
        """Create an object as field manager ``manager``."""
        ...

    def update(self, manifest: Manifest, *, manager: str, subresource: str = "") -> Manifest:
        """
        Replace an object, or one subresource; a resourceVersion in it is a precondition.

        ``status``, ``scale``; ``finalize`` takes ``spec.finalizers`` of a Namespace; ``binding`` takes ``spec`` and
        ``status`` of a Pod as the scheduler's bind does, without field ownership.
        """
        ...

    def patch(self, ref: ObjectRef, patch: Manifest, *, manager: str, subresource: str = "") -> Manifest:
        """Merge-patch (RFC 7386) an object or a subresource of it."""
        ...

    def delete(
        self,
        ref: ObjectRef,
        *,
        uid: str = "",
        propagation: str = "Background",
        grace_seconds: int | None = None,
    ) -> None:
        """Delete an object if it has this uid (any when empty); an absent object is ignored."""
        ...

    def apply(self, manifest: Manifest, *, manager: str) -> Manifest:
        """Server-side apply with force, as field manager ``manager``."""
        ...

    def everything(self, namespace: str = "") -> Iterable[Manifest]:
        """Return the objects of every kind, or those inside one namespace."""
        ...

    def resource(self, group: str, kind: str) -> tuple[str, bool] | None:
        """Return the plural name of a kind and whether it is namespaced; None when no such kind is served."""
        ...

    def subscribe(self, handler: EventHandler) -> None:
        """Call the handler after each commit, in order."""
        ...


class Timers(Protocol):
    """The sandbox's clock: it can be set and sped up."""

    def now(self) -> float:
        """Return seconds since the epoch by the sandbox's clock."""
        ...

    def call_later(self, seconds: float, action: Callable[[], None]) -> Callable[[], None]:
        """Run the action on the server's thread after ``seconds`` sandbox seconds; return a cancel function."""
        ...


class WriteContext(Protocol):
    """What preparing a write may ask for: allocation and randomness live in the server, not in the rules."""

    def now(self) -> str:
        """Return the time as RFC 3339 with seconds and ``Z``."""
        ...

    def allocate_ip(self, wanted: str = "") -> str:
        """Return a free Service address, or the wanted one; raise ApiError when it is taken or out of range."""
        ...

    def allocate_port(self, wanted: int = 0) -> int:
        """Return a free node port (30000-32767), or the wanted one; raise ApiError when it is taken."""
        ...

    def random_suffix(self, length: int = 5) -> str:
        """Return random characters as Kubernetes uses them in generated names."""
        ...

    def new_uid(self) -> str:
        """Return a fresh uid."""
        ...

    def get(self, group: str, kind: str, namespace: str, name: str) -> Manifest | None:
        """Read another object, for rules that depend on one."""
        ...


class Strategy(Protocol):
    """
    What one kind at one version contributes to the write pipeline; the pipeline does all that is common.

    Common, and not the strategy's: metadata rules, generation, ownership, resourceVersion, preconditions.
    """

    @property
    def has_status(self) -> bool:
        """Whether the kind has a status subresource, so a write to the main resource keeps the stored status."""
        ...

    @property
    def has_generation(self) -> bool:
        """Whether the pipeline counts generations."""
        ...

    @property
    def generation_metadata(self) -> tuple[str, ...]:
        """Members of the metadata whose change counts as a new generation."""
        ...

    @property
    def needs_resource_version(self) -> bool:
        """Whether an update must name the resourceVersion that it replaces (AllowUnconditionalUpdate is false)."""
        ...

    def default(self, obj: Manifest, *, merged: bool = False) -> Manifest:
        """
        Return the object with canonical values and defaults; idempotent; ``obj`` is not changed.

        ``merged`` is an object that the server merged itself: its numbers wrap around instead of being refused.
        """
        ...

    def unknown_fields(self, obj: Manifest) -> list[str]:
        """Return the paths of members that the schema does not declare, spelled as ``spec.foo``."""
        ...

    def prune(self, obj: Manifest) -> Manifest:
        """Return the object without the members that ``unknown_fields`` names."""
        ...

    def prepare(self, new: Manifest, old: Manifest | None, subresource: str, env: WriteContext) -> Manifest:
        """Return what is to be stored: allocations, members a client may not set; ``old`` is None on create."""
        ...

    def settle(self, new: Manifest, old: Manifest, env: WriteContext) -> Manifest:
        """Return an object written through a subresource as it is stored, after its managers were found."""
        ...

    def validate(self, new: Manifest, old: Manifest | None, subresource: str) -> list[StatusCause]:
        """Return what is wrong, immutable fields included, in the order the API server reports it."""
        ...


class Admission(Protocol):
    """Admission plugins and webhooks, called between defaults and validation."""

    def admit(self, operation: str, obj: Manifest | None, old: Manifest | None, request: Mapping[str, Any]) -> Manifest:
        """Return the object, perhaps changed; raise ApiError to refuse. ``request`` has user, resource, dryRun."""
        ...
