"""The parts of the state together, for the engine and for its readers."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from gitsync.errors import Refused
from gitsync.kube.parts import PART_KINDS
from gitsync.objects.keys import AGENTS_GROUP, VERSION
from gitsync.objects.manifest import Manifest, at, uid_of
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.plan.mask import mask
from gitsync.plan.running import Execution
from gitsync.ports import Cluster, LiveCache, Sizes
from gitsync.state.costs import Costs, DriftCounts
from gitsync.state.declarations import Declarations
from gitsync.state.tracked import TrackedObjects
from gitsync.state.views import Views

_OWNERS = ("Agent", "MultiAgentSystem")
_DEPTH = 8
"""Levels of parts below an object: a cycle of owners must not hold a request."""


class LiveObjects:
    """Find live objects by Application, and parts by owner, in the local copies."""

    def __init__(self, cluster: Cluster, live: LiveCache, views: Views) -> None:
        self._cluster = cluster
        self._live = live
        self._views = views

    def live(self, key: str, ref: ObjectRef) -> Manifest | None:
        """Return a live object of an Application, or a part of one, masked; None for any other."""
        # only objects of the Application: the viewer was authorized for it, and not for the rest of the cluster
        view = self._views.application(key)
        if view is None:
            return None
        for resource in view.resources:
            # a commit may name an object of another team: what its policy does not let it read is not shown either
            is_readable = not resource.change.unobserved
            manifest = self._live_object(resource.ref, resource.version) if is_readable else None
            if resource.ref == ref:
                return mask(manifest) if manifest is not None else None
            if manifest is not None and ref.of in PART_KINDS:
                # an object without a view of its own is only shown where it is a part of one that is listed
                for part in self._parts(manifest):
                    if part["kind"] == ref.kind and part["metadata"]["name"] == ref.name:
                        return mask(part)
        return None

    def dependents(self, key: str, ref: ObjectRef) -> tuple[Manifest, ...]:
        """Return the live objects that an object of an Application owns, masked."""
        manifest = self.live(key, ref)
        return self.owned_by(uid_of(manifest)) if manifest is not None else ()

    def owned_by(self, uid: str) -> tuple[Manifest, ...]:
        """Return the live objects that name this uid as an owner, masked."""
        return tuple(mask(part) for part in self._live.dependents(uid))

    def restarts(self) -> Mapping[str, int]:
        """Return the restarts of the containers of all Pods that are watched, by why each container ended last."""
        totals = Counter[str]()
        resource = self._cluster.resource("", "v1", "Pod")
        for pod in self._live.all(resource) if resource is not None else ():
            for status in at(pod, "status", "containerStatuses", default=None) or ():
                totals[_last_end(status)] += int(status.get("restartCount") or 0)
        return {reason: count for reason, count in totals.items() if count}

    def held_owners(self) -> tuple[Manifest, ...]:
        """Return the Agents and systems whose own plan waits, sorted; those by hand are in no Application."""
        resources = (self._cluster.resource(AGENTS_GROUP, VERSION, kind) for kind in _OWNERS)
        owners = (owner for resource in resources if resource is not None for owner in self._live.all(resource))
        held = [mask(owner) for owner in owners if at(owner, "status", "plan", "digest")]
        return tuple(sorted(held, key=lambda owner: ref_of(owner).path))

    def _live_object(self, ref: ObjectRef, version: str) -> Manifest | None:
        resource = self._cluster.resource(ref.group, version, ref.kind)
        with suppress(Refused):  # its namespace is not watched
            return self._live.get(resource, ref.namespace, ref.name) if resource is not None else None
        return None

    def _parts(self, manifest: Manifest, depth: int = _DEPTH) -> Iterator[Manifest]:
        for part in self._live.dependents(uid_of(manifest)) if depth else ():
            yield part
            yield from self._parts(part, depth - 1)


_PODS: Final = 1000
"""Pods whose executions are kept; of more, those that were entered first are forgotten."""
_EXECUTIONS: Final = 20
"""Executions that are kept of one Pod."""


class Executions:
    """What users ran in Pods, as the audit sink received it. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_pod: dict[ObjectRef, tuple[Execution, ...]] = {}

    def note(self, pod: ObjectRef, execution: Execution) -> bool:
        """Store an execution; return False for one that is known, which the API server may send again."""
        with self._lock:
            known = self._by_pod.get(pod, ())
            if execution in known:
                return False
            self._by_pod[pod] = (*known, execution)[-_EXECUTIONS:]
            if len(self._by_pod) > _PODS:
                del self._by_pod[next(iter(self._by_pod))]
            return True

    def of(self, pod: ObjectRef) -> tuple[Execution, ...]:
        """Return what was run in a Pod of this name, the oldest first."""
        with self._lock:
            return self._by_pod.get(pod, ())


def _last_end(container: Manifest) -> str:
    """Return why a container ended last, such as ``OOMKilled``, empty where that is not known."""
    ends = (at(container, member, "terminated", "reason", default="") for member in ("state", "lastState"))
    return str(next(filter(None, ends), ""))


@dataclass(frozen=True, slots=True)
class EngineState:
    """What the engine writes; ``enqueue`` reconciles an Application because of what another one declares."""

    views: Views
    declarations: Declarations
    tracked: TrackedObjects
    costs: Costs
    drift: DriftCounts
    enqueue: Callable[[str], None]
    executions: Executions = field(default_factory=Executions)

    @classmethod
    def empty(cls, enqueue: Callable[[str], None], costs: Costs | None = None) -> EngineState:
        """Return the state of a process that has just started."""
        return cls(Views(), Declarations(enqueue), TrackedObjects(), costs or Costs(), DriftCounts(), enqueue)

    def forget(self, key: str, now: datetime) -> None:
        """Remove a deleted Application."""
        self.views.remove(key, now)
        self.tracked.forget(key)
        self.declarations.forget(key)
        self.costs.forget(key)


class StateView:
    """What readers see, as the port ``StateReader``."""

    def __init__(self, state: EngineState, objects: LiveObjects, sizes: Callable[[], Sizes]) -> None:
        self._views = state.views
        self.applications = state.views.applications
        self.application = state.views.application
        self.events = state.views.events
        self.wait = state.views.wait
        self.live = objects.live
        self.dependents = objects.dependents
        self.owned_by = objects.owned_by
        self.held_owners = objects.held_owners
        self.cost = state.costs.of
        self.api_requests = state.costs.api_requests
        self.drift_totals = state.drift.totals
        self.restarts = objects.restarts
        self.stage_durations = state.costs.distributions
        self.sizes = sizes

    @property
    def bounds(self) -> tuple[int, int]:
        """The ids of the oldest kept and the newest event; (0, 0) when there is none."""
        return self._views.bounds
