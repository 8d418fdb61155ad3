"""The controller of Agents and MultiAgentSystems: which ones to reconcile, and when."""

from __future__ import annotations

from gitsync.agents.keys import AGENT_LABEL
from gitsync.agents.references import named_objects
from gitsync.controllers.base import DEBOUNCE, BaseController, Workers, is_renewal
from gitsync.objects.inventory import OwnerKey
from gitsync.objects.manifest import Manifest, annotations_of, labels_of, metadata_of, uid_of
from gitsync.objects.ref import GroupKind, ObjectRef, ref_of
from gitsync.operator.child_reconciler import ChildrenCache
from gitsync.operator.kinds import AGENT, SYSTEM
from gitsync.operator.reporting import OwnerReconciler
from gitsync.runtime.workqueue import FairShare, WorkQueue

# kinds that a spec names without owning them, such as the Secret with the key of a model
_REFERENCED = frozenset({("", "Secret"), ("", "ConfigMap"), ("", "Service")})
_KINDS = (AGENT, SYSTEM)
_UNRESOLVED = ObjectRef(AGENT.group, "", "", "")
"""The key that is not of an Agent or system, see ``BaseController``."""
_OUTLIVING = frozenset({"PersistentVolumeClaim", "VolumeSnapshot"})
"""Kinds of objects that may outlive their Agent: the label names it where no owner reference does."""


class AgentController(BaseController[ObjectRef]):
    """
    Reconcile Agents and systems, level-based: a key is the ref of one.

    One is reconciled when it changes, when a child or an object that it names changes, when a member or the system of
    a member changes, and when the next step of its rollout is due.
    """

    def __init__(self, agents: OwnerReconciler, systems: OwnerReconciler, workers: Workers) -> None:
        # a namespace with many Agents must not delay those of another
        queue = WorkQueue(fair_share=FairShare[ObjectRef].of_all(workers.count, lambda key: key.namespace))
        super().__init__(_KINDS, _UNRESOLVED, queue, workers)
        self._agents = agents
        self._systems = systems
        self._caches: dict[ObjectRef, ChildrenCache] = {}
        self._named: dict[ObjectRef, tuple[object, frozenset[str]]] = {}

    def _reconcile(self, key: ObjectRef) -> float | None:
        owner = OwnerKey.of_ref(key)
        with self._share.claim(str(owner)) as is_ours:
            if not is_ours:
                # the other replica starts from the cluster and the audit; a cache that comes back later would be out of
                # date
                self._caches.pop(key, None)
                self._writes.forget(str(owner))
                return None
            manifest = self._get(owner)
            if manifest is None:
                self._caches.pop(key, None)
                self._named.pop(key, None)
                return self._conclude_writes(str(owner))
            reconciler = self._agents if key.of == AGENT else self._systems
            return reconciler.reconcile(manifest, self._caches.setdefault(key, ChildrenCache()))

    def _key_of(self, owner: OwnerKey) -> ObjectRef | None:
        return owner.ref if owner.of in _KINDS else None

    def on_object_change(self, old: Manifest | None, new: Manifest | None) -> None:
        """Enqueue the Agents and systems of a changed object."""
        manifest = new or old or {}
        ref = ref_of(manifest)
        if ref.of in _KINDS:
            self._on_own_change(ref, old, new)
            return
        # both controllers ignore renewals: the operator leaves the spec of the Lease to the Pods (decision 0037)
        if is_renewal(old, new):
            return
        for owner in self._live.owners(manifest):
            if ref_of(owner).of in _KINDS:
                self._queue.add_after(ref_of(owner), DEBOUNCE)
        if ref.kind in _OUTLIVING and AGENT_LABEL in labels_of(manifest):
            agent = ObjectRef(AGENT.group, AGENT.kind, ref.namespace, labels_of(manifest)[AGENT_LABEL])
            self._queue.add_after(agent, DEBOUNCE)
        # a child of an Agent has its label, and was enqueued through its owner
        if (ref.group, ref.kind) in _REFERENCED and AGENT_LABEL not in labels_of(manifest):
            self._enqueue_users(ref)

    def enqueue_all(self) -> None:
        """Enqueue all: a watch failed or recovered, or this replica owns others now."""
        self._queue.add_after(_UNRESOLVED, DEBOUNCE)
        for of in _KINDS:
            for manifest in self._all(of):
                self._queue.add_after(ref_of(manifest), DEBOUNCE)

    def enqueue_owner(self, application: str) -> None:
        """Enqueue the Agent or system of which the API server has answered a write."""
        self._queue.add(OwnerKey.parse(application).ref)

    def _on_own_change(self, ref: ObjectRef, old: Manifest | None, new: Manifest | None) -> None:
        """Enqueue one whose input changed, and those of its namespace that depend on it."""
        is_input = old is None or new is None or _input(old) != _input(new)
        if is_input:
            self._queue.add(ref)
        manifests = [manifest for manifest in (old, new) if manifest is not None]
        names = frozenset[str]().union(*map(named_objects, manifests)) if is_input else frozenset[str]()
        for of in _KINDS:
            if is_input or of == SYSTEM:  # a system observes the status of its members
                self._enqueue_related(of, ref, names)

    def _enqueue_related(self, of: GroupKind, ref: ObjectRef, names: frozenset[str]) -> None:
        """Enqueue those of the namespace that name an object, or that it names."""
        for manifest in self._all(of):
            other = ref_of(manifest)
            if other == ref or other.namespace != ref.namespace:
                continue
            # the spec of a system has the short names of its members
            if other.name in names or self._names(manifest) & {ref.name, *_parts(ref.name)}:
                self._queue.add_after(other, DEBOUNCE)

    def _enqueue_users(self, ref: ObjectRef) -> None:
        """Enqueue the Agents that name an object, and for a Service all that may call it."""
        for manifest in self._all(AGENT):
            is_near = metadata_of(manifest).get("namespace") == ref.namespace and ref.name in self._names(manifest)
            # a Service may be used from any namespace, by an address instead of its name
            if ref.kind == "Service" or is_near:
                self._queue.add_after(ref_of(manifest), DEBOUNCE)

    def _names(self, manifest: Manifest) -> frozenset[str]:
        """Return the names in a spec, cached by its generation."""
        ref = ref_of(manifest)
        # by generation: the names in a spec cannot change without it; of an object of the same name, the uid differs
        version = (uid_of(manifest), metadata_of(manifest).get("generation"))
        known = self._named.get(ref)
        if known is None or known[0] != version:
            known = self._named[ref] = (version, named_objects(manifest))
        return known[1]


def _parts(name: str) -> tuple[str, ...]:
    """Return the names of the members that may be called so: ``desk-triage`` is the member ``triage`` of ``desk``."""
    # a name may have hyphens anywhere, so that each of its ends may be the member's name
    words = name.split("-")
    return tuple("-".join(words[index:]) for index in range(1, len(words)))


def _input(manifest: Manifest) -> tuple[object, ...]:
    meta = metadata_of(manifest)
    return (
        uid_of(manifest),
        meta.get("generation"),
        annotations_of(manifest),
        labels_of(manifest),
        meta.get("deletionTimestamp"),
    )
