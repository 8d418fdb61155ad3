"""Observe desired and live objects from the shared caches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property

from gitsync.errors import ClusterUnavailable, GroupUnavailable
from gitsync.health.assess import assess, assess_by
from gitsync.kube.kinds import CRD
from gitsync.kube.parts import PARTS, WORKLOADS, all_parts
from gitsync.kube.times import is_temporary
from gitsync.merge.schema import DefinedKinds, Schema, Schemas, kind_schema
from gitsync.objects.application import Application
from gitsync.objects.health import Health, HealthStatus, worst
from gitsync.objects.inventory import Inventory
from gitsync.objects.keys import APPLICATION, RECONCILE
from gitsync.objects.manifest import Manifest, at, group_of, uid_of
from gitsync.objects.options import Reconcile
from gitsync.objects.ref import GroupKind, ObjectRef
from gitsync.plan.normalize import PreparedObject, desired_objects
from gitsync.plan.options import options_of
from gitsync.ports import ApiResource, Cluster, LiveCache, Scope
from gitsync.sync.running import Running

_Kind = tuple[str, str, str]
"""Group, version and kind."""
_CACHE_SYNC_TIMEOUT = 5.0
"""Seconds that a worker waits for the first list of a kind; later the list enqueues the Application."""


@dataclass(frozen=True)
class Observation:
    """
    What was observed of one Application at one moment.

    ``live`` holds every declared or held object that exists; every kind of it was listed completely. Only those in
    ``unobserved`` may exist or not, for the reason given. ``health`` has the declared objects other than hooks.
    ``temporary`` are those that a TTL deletes once they finished, ``finished`` those that it deletes or has deleted.
    """

    desired: Mapping[ObjectRef, Manifest]
    live: Mapping[ObjectRef, Manifest]
    versions: Mapping[ObjectRef, str]
    schemas: Schemas
    inventory: Inventory = field(default_factory=Inventory)
    health: Mapping[ObjectRef, HealthStatus] = field(default_factory=dict)
    unobserved: Mapping[ObjectRef, str] = field(default_factory=dict)
    finished: Mapping[ObjectRef, HealthStatus] = field(default_factory=dict)
    temporary: tuple[ObjectRef, ...] = ()
    running: Running = field(default_factory=dict)
    """What the Pods of the workloads run otherwise than declared."""
    references: frozenset[ObjectRef] = frozenset()
    """The Secrets and ConfigMaps that the workloads read, declared or not."""
    defined: DefinedKinds = field(default_factory=DefinedKinds)
    """The kinds that Git defines."""
    readers: Mapping[ObjectRef, str] = field(default_factory=dict)
    """What still reads the ConfigMaps and Secrets that Git no longer declares."""

    @property
    def replaced(self) -> tuple[ObjectRef, ...]:
        """The live objects of the inventory that Git no longer declares."""
        return tuple(ref for ref in self.inventory if ref not in self.desired and ref in self.live)

    @cached_property
    def overall_health(self) -> Health:
        """The worst health of the declared objects; an unknown one does not count."""
        return worst(status.health for status in self._known_health.values())

    @cached_property
    def least_healthy(self) -> str:
        """The least healthy object with its message, empty when no health is known."""
        known = self._known_health
        if not known:
            return ""
        ref = next(ref for ref, status in known.items() if status.health is self.overall_health)
        return f"{ref}: {known[ref].message}"

    @cached_property
    def _known_health(self) -> dict[ObjectRef, HealthStatus]:
        return {ref: status for ref, status in self.health.items() if status.health is not Health.UNKNOWN}

    def schema_of(self, manifest: Manifest) -> Schema | None:
        """Return the schema of a manifest's kind: by its definition in Git, which is applied first, or as served."""
        return self.defined.schema_of(manifest) or kind_schema(self.schemas, manifest)


def build_desired(
    app: Application, manifests: Sequence[Manifest], cluster: Cluster, prepared: dict[int, PreparedObject] | None = None
) -> tuple[dict[ObjectRef, Manifest], bool]:
    """
    Return the objects that an Application declares, with namespace and owner marks, and whether that is final.

    It is not final while the cluster does not know a kind: the result may change without a change in Git. Objects
    of an earlier call for the same Application are reused from ``prepared``; see ``desired_objects``.
    """
    # a kind that is not known yet counts as namespaced, as most are; the second result tells that it may change
    scopes = _scopes(manifests, _resources(manifests, cluster).values())
    objects = desired_objects(app, manifests, lambda of: scopes.get(of, True), prepared)
    return created_namespace(app) | objects, all(ref.of in scopes for ref in objects)


def created_namespace(app: Application) -> dict[ObjectRef, Manifest]:
    """
    Return the destination namespace where the Application has it created, as an object that is only created.

    It has no owner marks: several Applications may create it, and none prunes it.
    """
    if not app.destination.create_namespace:
        return {}
    ref = ObjectRef("", "Namespace", "", app.destination.namespace)
    # only created: labels that others set on the namespace later are not drift
    metadata = {"name": ref.name, "annotations": {RECONCILE: "once"}}
    return {ref: {"apiVersion": "v1", "kind": ref.kind, "metadata": metadata}}


@dataclass(frozen=True)
class Selection:
    """The objects to observe: those that are declared and those in the inventory."""

    desired: Mapping[ObjectRef, Manifest]
    inventory: Inventory
    other_versions: Mapping[_Kind, str] = field(default_factory=dict)
    """The version to read the objects of a kind at whose own version is not served."""

    @cached_property
    def defined(self) -> DefinedKinds:
        """The kinds that Git defines, by the definitions that are applied whenever they change."""
        definitions = (manifest for ref, manifest in self.desired.items() if ref.of == CRD)
        # others decide what such a definition says in the cluster
        once_or_never = (Reconcile.NEVER, Reconcile.ONCE)
        return DefinedKinds(it for it in definitions if options_of(it).reconcile not in once_or_never)

    @cached_property
    def versions(self) -> Mapping[ObjectRef, str]:
        """The API version to read each object at."""
        held = {ref: held.version for ref, held in self.inventory.entries.items()}
        # what Git declares comes last: it may name a newer version than the one by which the object was applied
        versions = held | {ref: _version(str(manifest["apiVersion"])) for ref, manifest in self.desired.items()}
        others = self.other_versions
        if not others:
            return versions
        return {ref: others.get((ref.group, version, ref.kind), version) for ref, version in versions.items()}

    @cached_property
    def temporary(self) -> tuple[ObjectRef, ...]:
        """The declared objects that are deleted some time after they finished."""
        return tuple(ref for ref, manifest in self.desired.items() if is_temporary(manifest))

    @cached_property
    def by_kind(self) -> Mapping[tuple[str, str, str], Sequence[ObjectRef]]:
        """The objects by group, version and kind."""
        refs_by_kind = defaultdict[tuple[str, str, str], list[ObjectRef]](list)
        for ref, version in self.versions.items():
            refs_by_kind[ref.group, version, ref.kind].append(ref)
        return refs_by_kind

    @cached_property
    def namespaces(self) -> Mapping[tuple[str, str, str], frozenset[str]]:
        """The namespaces of the objects of each kind."""
        return {kind: frozenset(ref.namespace for ref in refs) for kind, refs in self.by_kind.items()}


def observe(
    selection: Selection, cluster: Cluster, live: LiveCache, unreadable: Mapping[ObjectRef, str] | None = None
) -> Observation:
    """
    Return every live object of a selection; those of an API group that is unavailable are unobserved.

    So are those that are ``unreadable``, with the reason: nothing of them may be shown.

    Raise ClusterUnavailable while another kind has not been listed completely or may be out of date: then an absent
    object may exist.
    """
    selection = _as_served(selection, cluster)
    by_kind = selection.by_kind
    resources = {kind: cluster.find(*kind) for kind in by_kind}
    served = {kind: resource for kind, resource in resources.items() if isinstance(resource, ApiResource)}
    scopes = {(resource, space) for kind, resource in served.items() for space in selection.namespaces[kind]}
    # the health of a workload is that of its Pods, so its parts have to be there as well
    wanted = scopes | _part_scopes(selection.namespaces, WORKLOADS, cluster)
    # an unavailable group hides its own objects only; any other failure raises and ends the observation
    unavailable = live.follow_available(wanted, _CACHE_SYNC_TIMEOUT)
    with suppress(
        ClusterUnavailable
    ):  # parts of a platform are only shown: without the right to read them all else works
        # a timeout of 0: a reconcile must not be delayed by what is only displayed
        live.follow(_part_scopes(selection.namespaces, PARTS, cluster), 0)
    # what is hidden may exist: it is neither created nor pruned nor reported as missing
    hidden = _unobserved(by_kind, resources, unavailable)
    served = {kind: resource for kind, resource in served.items() if resource not in unavailable}
    manifests: dict[ObjectRef, Manifest] = {}
    for kind, resource in served.items():
        try:
            manifests |= live.find(resource, by_kind[kind])
        except GroupUnavailable as error:  # of a read that is a request, which no copy answers
            hidden |= dict.fromkeys(by_kind[kind], str(error))
    if unreadable:
        manifests = {ref: manifest for ref, manifest in manifests.items() if ref not in unreadable}
        hidden |= unreadable
    schemas = cluster.schemas({(resource.group, resource.version) for resource in served.values()})
    return Observation(
        selection.desired,
        manifests,
        selection.versions,
        schemas,
        selection.inventory,
        unobserved=hidden,
        temporary=selection.temporary,
        defined=selection.defined,
    )


def _as_served(selection: Selection, cluster: Cluster) -> Selection:
    """
    Return the selection with objects of a version that is not served at one that is.

    A commit may add a version to a definition, or remove one: the objects exist all the same, and would be created
    again, or never be pruned.
    """
    others = {}
    for group, version, kind in selection.by_kind:
        if cluster.find(group, version, kind) is None:
            served = cluster.any_version(GroupKind(group, kind))
            if served is not None:
                others[group, version, kind] = served.version
    return replace(selection, other_versions=others) if others else selection


def _unobserved(
    by_kind: Mapping[_Kind, Sequence[ObjectRef]],
    resources: Mapping[_Kind, ApiResource | GroupUnavailable | None],
    unavailable: Mapping[ApiResource, GroupUnavailable],
) -> dict[ObjectRef, str]:
    """Return the objects whose API group is unavailable, with the reason; its kinds may not even be discovered."""
    hidden = dict[ObjectRef, str]()
    for kind, refs in by_kind.items():
        resource = resources[kind]
        error = unavailable.get(resource) if isinstance(resource, ApiResource) else resource
        if error is not None:
            hidden |= dict.fromkeys(refs, str(error))
    return hidden


def confirm_missing(observation: Observation, inventory: Inventory, cluster: Cluster) -> Observation:
    """
    Return the observation with objects read from the API server whose write was intended but never observed.

    The response may have been lost, and the watch event may be delayed: taken for absent, the object would be dropped
    from the inventory and never be pruned.
    """
    known_refs = (observation.desired, observation.live, observation.unobserved)
    # the inventory gets a uid with the first observation; without one, an intent was stored and nothing was seen since
    doubtful = [
        ref for ref, held in inventory.entries.items() if not held.uid and not any(ref in known for known in known_refs)
    ]
    answers = {ref: _read(ref, observation.versions[ref], cluster) for ref in doubtful}
    present = {ref: manifest for ref, manifest in answers.items() if manifest is not None}
    return replace(observation, live={**observation.live, **present}) if present else observation


def _read(ref: ObjectRef, version: str, cluster: Cluster) -> Manifest | None:
    is_served = cluster.resource(ref.group, version, ref.kind) is not None
    return cluster.read(ref, version) if is_served else None


def health_of(
    ref: ObjectRef, manifest: Manifest | None, live: LiveCache, app: Application | None = None
) -> HealthStatus:
    """
    Return the health of a live object, with the message of its Pods; an absent one is Missing.

    The Application's own check of a kind precedes any other rule. An Application that declares itself does not wait for
    itself: it would never be Healthy, since it is Progressing until all of its objects are Healthy.
    """
    if manifest is None:
        return HealthStatus(Health.MISSING, "not in the cluster")
    if app is not None and ref == ObjectRef(APPLICATION.group, APPLICATION.kind, app.namespace, app.name):
        return HealthStatus(Health.HEALTHY, "it is as healthy as its other objects")
    checks = app.health_checks if app is not None else ()
    check = next((check for check in checks if (check.group, check.kind) == (ref.group, ref.kind)), None)
    if check is not None:
        return assess_by(check, manifest)
    if ref.of not in WORKLOADS:
        return assess(manifest)
    children = live.dependents(uid_of(manifest))
    # two levels: a Deployment owns ReplicaSets, and these own the Pods that have the message
    grandchildren = [part for child in children for part in live.dependents(uid_of(child))]
    return assess(manifest, related=(*children, *grandchildren))


def _resources(manifests: Iterable[Manifest], cluster: Cluster) -> dict[tuple[str, str], ApiResource]:
    """Return the resource of each apiVersion and kind that the cluster serves."""
    kinds = {(str(manifest.get("apiVersion") or ""), str(manifest.get("kind") or "")) for manifest in manifests}
    resources = {kind: cluster.resource(group_of(kind[0]), _version(kind[0]), kind[1]) for kind in kinds}
    return {kind: resource for kind, resource in resources.items() if resource is not None}


def _scopes(manifests: Iterable[Manifest], resources: Iterable[ApiResource]) -> dict[GroupKind, bool]:
    """Return which kinds are namespaced, from discovery and from the definitions among the manifests."""
    scopes = {}
    for manifest in manifests:
        if (group_of(str(manifest.get("apiVersion") or "")), manifest.get("kind")) == (
            CRD.group,
            CRD.kind,
        ):
            of = GroupKind(
                str(at(manifest, "spec", "group", default="")), str(at(manifest, "spec", "names", "kind", default=""))
            )
            scopes[of] = at(manifest, "spec", "scope") != "Cluster"
    # discovery comes last: what the cluster serves counts where a manifest differs from it
    return scopes | {GroupKind(resource.group, resource.kind): resource.namespaced for resource in resources}


def _part_scopes(
    namespaces: Mapping[tuple[str, str, str], frozenset[str]], owners: Container[GroupKind], cluster: Cluster
) -> set[Scope]:
    """Return the kinds that controllers create for those of ``owners``, in the namespaces of these."""
    scopes: set[Scope] = set()
    for (group, _, kind), spaces in namespaces.items():
        of = GroupKind(group, kind)
        parts = all_parts([of]) if of in owners else ()
        resources = (resource for part in parts if (resource := cluster.resource(*part)) is not None)
        scopes |= {(resource, namespace) for resource in resources for namespace in spaces}
    return scopes


def _version(api_version: str) -> str:
    return api_version.rpartition("/")[2]
