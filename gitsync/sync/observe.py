"""Observe: what Git declares and what lives, side by side, from the shared local copies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gitsync.health.assess import assess
from gitsync.health.expressions import assess_by
from gitsync.kube.kinds import CRD
from gitsync.merge.schema import Schema, Schemas, kind_schema
from gitsync.objects.application import Application, HealthCheck
from gitsync.objects.health import Health, HealthStatus
from gitsync.objects.inventory import Inventory
from gitsync.objects.keys import RECONCILE
from gitsync.objects.manifest import Manifest, at, group_of, uid_of
from gitsync.objects.ref import GroupKind, ObjectRef
from gitsync.plan.normalize import PreparedObject, desired_objects
from gitsync.ports import Cluster, LiveCache, Resource

_WORKLOADS = frozenset({("apps", "Deployment"), ("apps", "StatefulSet"), ("apps", "DaemonSet"), ("batch", "Job")})
_PARTS = (("", "v1", "Pod"), ("apps", "v1", "ReplicaSet"))
_CACHE_SYNC_TIMEOUT = 5.0
"""So long a worker waits for the first list of a kind; later the list itself calls it back."""


@dataclass(frozen=True, slots=True)
class Observation:
    """
    What was seen of one application at one moment.

    ``live`` holds every declared or held object that exists; every kind of it was listed completely.
    """

    desired: Mapping[ObjectRef, Manifest]
    live: Mapping[ObjectRef, Manifest]
    versions: Mapping[ObjectRef, str]
    schemas: Schemas

    def schema_of(self, manifest: Manifest) -> Schema | None:
        """Return the schema of a manifest's kind."""
        return kind_schema(self.schemas, manifest)


def build_desired(
    app: Application, manifests: Sequence[Manifest], cluster: Cluster, before: dict[int, PreparedObject] | None = None
) -> tuple[dict[ObjectRef, Manifest], bool]:
    """
    Return what the application declares, each object placed in its namespace and marked as ours.

    What ``before`` has of an earlier call for the same application is taken over; see ``desired_objects``.

    False beside it says that a kind is not known yet, so that the answer may change without a change in Git.
    """
    scopes = _scopes(manifests, _resources(manifests, cluster).values())
    objects = desired_objects(app, manifests, lambda of: scopes.get(of, True), before)
    return created_namespace(app) | objects, all(ref.of in scopes for ref in objects)


def created_namespace(app: Application) -> dict[ObjectRef, Manifest]:
    """
    Return the destination, when the application asks to have it created, as an object that is only created.

    It bears no owner marks: several applications may ask for it, and nobody prunes it.
    """
    if not app.destination.create_namespace:
        return {}
    ref = ObjectRef("", "Namespace", "", app.destination.namespace)
    metadata = {"name": ref.name, "annotations": {RECONCILE: "once"}}
    return {ref: {"apiVersion": "v1", "kind": ref.kind, "metadata": metadata}}


def observe(
    desired: Mapping[ObjectRef, Manifest], inventory: Inventory, cluster: Cluster, live: LiveCache
) -> Observation:
    """
    Return every live object that is declared or held.

    Raise ClusterUnavailable while a needed kind has not been listed completely or may be out of date: then nothing
    may be concluded from an object's absence.
    """
    versions = {ref: held.version for ref, held in inventory.entries.items()}
    versions |= {ref: _version(str(manifest["apiVersion"])) for ref, manifest in desired.items()}
    found = {ref: cluster.resource(ref.group, version, ref.kind) for ref, version in versions.items()}
    followed = {resource for resource in found.values() if resource is not None}
    live.follow(followed | _pod_kinds(versions, cluster), _CACHE_SYNC_TIMEOUT)
    seen = {
        ref: manifest
        for ref, resource in found.items()
        if resource is not None and (manifest := live.get(resource, ref.namespace, ref.name)) is not None
    }
    return Observation(
        desired, seen, versions, cluster.schemas({(resource.group, resource.version) for resource in followed})
    )


def confirm_missing(observation: Observation, inventory: Inventory, cluster: Cluster) -> Observation:
    """
    Return the observation with objects read anew that were meant to be written but never seen.

    The answer to such a write may have been lost, and its watch event may still be on the way: taken for absent, the
    object would leave the inventory and be nobody's for ever.
    """
    doubtful = [
        ref
        for ref, held in inventory.entries.items()
        if not held.uid and ref not in observation.desired and ref not in observation.live
    ]
    found = {ref: _read(ref, observation.versions[ref], cluster) for ref in doubtful}
    seen = {ref: manifest for ref, manifest in found.items() if manifest is not None}
    return replace(observation, live={**observation.live, **seen}) if seen else observation


def _read(ref: ObjectRef, version: str, cluster: Cluster) -> Manifest | None:
    is_served = cluster.resource(ref.group, version, ref.kind) is not None
    return cluster.read(ref, version) if is_served else None


def health_of(
    ref: ObjectRef, manifest: Manifest | None, live: LiveCache, checks: Sequence[HealthCheck] = ()
) -> HealthStatus:
    """
    Return the health of a live object, with the reason of the pods that belong to it; absent is Missing.

    The application's own check of a kind goes before any other rule.
    """
    if manifest is None:
        return HealthStatus(Health.MISSING, "not in the cluster")
    check = next((check for check in checks if (check.group, check.kind) == (ref.group, ref.kind)), None)
    if check is not None:
        return assess_by(check, manifest)
    if (ref.group, ref.kind) not in _WORKLOADS:
        return assess(manifest)
    children = live.dependents(uid_of(manifest))
    grandchildren = [part for child in children for part in live.dependents(uid_of(child))]
    return assess(manifest, related=(*children, *grandchildren))


def _resources(manifests: Iterable[Manifest], cluster: Cluster) -> dict[tuple[str, str], Resource]:
    """Return the resource of each apiVersion and kind that the cluster serves."""
    kinds = {(str(manifest.get("apiVersion") or ""), str(manifest.get("kind") or "")) for manifest in manifests}
    found = {kind: cluster.resource(group_of(kind[0]), _version(kind[0]), kind[1]) for kind in kinds}
    return {kind: resource for kind, resource in found.items() if resource is not None}


def _scopes(manifests: Iterable[Manifest], resources: Iterable[Resource]) -> dict[GroupKind, bool]:
    """Return which kinds are namespaced, by the cluster and by the definitions among the manifests themselves."""
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
    return scopes | {GroupKind(resource.group, resource.kind): resource.namespaced for resource in resources}


def _pod_kinds(refs: Iterable[ObjectRef], cluster: Cluster) -> set[Resource]:
    """Return the kinds that workloads consist of, when there are workloads."""
    if not any((ref.group, ref.kind) in _WORKLOADS for ref in refs):
        return set()
    return {resource for kind in _PARTS if (resource := cluster.resource(*kind)) is not None}


def _version(api_version: str) -> str:
    return api_version.rpartition("/")[2]
