"""What the dashboard is built on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from gitsync.ports import ApplicationSets, Clock, ObjectDetails, Records, StateReader, SyncRequests, ViewStore
from gitsync.ports.previews import Proposals
from gitsync.services.adopt import KeepService
from gitsync.services.provenance import FieldProvenance
from gitsync.services.requests import DryRuns, WorkloadWriter
from gitsync.services.revert import RevertPreview, RevertService
from gitsync.services.updates import Updates
from gitsync.services.usage import PodUsage, TokenUsage
from gitsync.sync.policies import Policies


class NoticeReceivers(Protocol):
    """Where the controller sends what happens."""

    @property
    def has_events(self) -> bool:
        """Whether it writes Kubernetes Events."""
        ...

    def of(self, applications: Iterable[str]) -> Sequence[Any]:
        """Return the rules about some Applications, with ``services``, ``kinds``, ``applications`` and ``interval``."""
        ...


class Backend(Protocol):
    """A running controller, as far as the dashboard may see it."""

    def problems(self) -> tuple[str, ...]:
        """Return what keeps it from syncing, such as a Lease that is not renewed or a watch that is denied."""
        ...

    @property
    def is_replica(self) -> bool:
        """Whether other replicas have pages of their own."""
        ...

    def owns(self, key: str) -> bool:
        """Return whether this process works on an Application; it shows those of others too."""
        ...

    @property
    def view(self) -> StateReader:
        """What it knows."""
        ...

    @property
    def requests(self) -> SyncRequests:
        """What it may be asked."""
        ...

    @property
    def sets(self) -> ApplicationSets:
        """The ApplicationSets."""
        ...

    @property
    def records(self) -> Records:
        """History, audit and approvals."""
        ...

    @property
    def views(self) -> ViewStore:
        """The saved views of users."""
        ...

    @property
    def reverts(self) -> RevertService:
        """Reverts in Git."""
        ...

    @property
    def provenance(self) -> FieldProvenance:
        """Where fields come from."""
        ...

    @property
    def preview(self) -> RevertPreview:
        """Effects of reverts."""
        ...

    @property
    def details(self) -> ObjectDetails:
        """Events and logs of objects."""
        ...

    @property
    def policies(self) -> Policies:
        """The operator's policies."""
        ...

    @property
    def usage(self) -> TokenUsage:
        """The tokens that agents used."""
        ...

    @property
    def pod_usage(self) -> PodUsage:
        """The CPU time and memory that Pods use."""
        ...

    @property
    def keeps(self) -> KeepService:
        """Values of the cluster that users keep in Git."""
        ...

    @property
    def updates(self) -> Updates:
        """Images and values of other environments that can be taken."""
        ...

    @property
    def workloads(self) -> WorkloadWriter:
        """Restarts of workloads and deletes of Pods."""
        ...

    @property
    def dry_runs(self) -> DryRuns:
        """What the API server answers to single steps, without writing them."""
        ...

    @property
    def pull_requests(self) -> Proposals:
        """What waits to be merged."""
        ...

    @property
    def receivers(self) -> NoticeReceivers:
        """Where notifications go."""
        ...

    @property
    def clock(self) -> Clock:
        """The time."""
        ...
