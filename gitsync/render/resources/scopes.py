"""
Which built-in kinds are cluster-scoped: those of Kubernetes 1.21, which Kustomize 5.8 knows.

A kind that is not listed counts as namespaced, unless the schema of an ``openapi`` field says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from gitsync.render.resources.resource import DEFAULT_NAMESPACE, NOT_NAMESPACED, Gvk, Id, Resource, gvk_of
from gitsync.render.yaml.scalar_types import text_of

_CLUSTER_SCOPED: Final = """
admissionregistration.k8s.io/v1      MutatingWebhookConfiguration ValidatingWebhookConfiguration
admissionregistration.k8s.io/v1beta1 MutatingWebhookConfiguration ValidatingWebhookConfiguration
apiextensions.k8s.io/v1              CustomResourceDefinition
apiextensions.k8s.io/v1beta1         CustomResourceDefinition
apiregistration.k8s.io/v1            APIService
apiregistration.k8s.io/v1beta1       APIService
certificates.k8s.io/v1               CertificateSigningRequest
certificates.k8s.io/v1beta1          CertificateSigningRequest
flowcontrol.apiserver.k8s.io/v1beta1 FlowSchema PriorityLevelConfiguration
networking.k8s.io/v1                 IngressClass
networking.k8s.io/v1beta1            IngressClass
node.k8s.io/v1                       RuntimeClass
node.k8s.io/v1beta1                  RuntimeClass
policy/v1beta1                       PodSecurityPolicy
rbac.authorization.k8s.io/v1         ClusterRole ClusterRoleBinding
rbac.authorization.k8s.io/v1beta1    ClusterRole ClusterRoleBinding
scheduling.k8s.io/v1                 PriorityClass
scheduling.k8s.io/v1beta1            PriorityClass
storage.k8s.io/v1                    CSIDriver CSINode StorageClass VolumeAttachment
storage.k8s.io/v1beta1               CSIDriver CSINode StorageClass VolumeAttachment
v1                                   ComponentStatus Namespace Node PersistentVolume
"""


def _table() -> frozenset[Gvk]:
    rows = (line.split() for line in _CLUSTER_SCOPED.strip().splitlines())
    return frozenset(
        Gvk(api_version.rpartition("/")[0], api_version.rpartition("/")[2], kind)
        for api_version, *kinds in rows
        for kind in kinds
    )


class Scopes:
    """Say which kinds are cluster-scoped, and so what a resource's id is."""

    __slots__ = ("_cluster_scoped",)

    def __init__(self) -> None:
        self._cluster_scoped = _BUILT_IN

    def learn(self, scopes: Mapping[Gvk, bool]) -> None:
        """Take over what a schema says: True for namespaced. Built-in kinds keep their scope."""
        self._cluster_scoped = _BUILT_IN | {gvk for gvk, is_namespaced in scopes.items() if not is_namespaced}

    @property
    def is_built_in(self) -> bool:
        """Whether no schema has added anything."""
        return self._cluster_scoped is _BUILT_IN

    def is_cluster_scoped(self, gvk: Gvk) -> bool:
        """Return whether the kind is known to be cluster-scoped."""
        return gvk in self._cluster_scoped

    def effective(self, gvk: Gvk, namespace: str) -> str:
        """Return the namespace that counts for identity."""
        return NOT_NAMESPACED if gvk in self._cluster_scoped else namespace or DEFAULT_NAMESPACE

    def id_of(self, resource: Resource) -> Id:
        """Return the id that a resource has now."""
        known = resource.known
        # With a schema of its own, another build could compute another id for the same version.
        if known is None or not self.is_built_in:
            return self._id_of(resource)
        if known.id is None:
            known.id = self._id_of(resource)
        return known.id

    def ids_of(self, resources: Sequence[Resource]) -> list[Id]:
        """Return the ids that resources have now."""
        if not self.is_built_in:
            return [self._id_of(resource) for resource in resources]
        return [(resource.known and resource.known.id) or self.id_of(resource) for resource in resources]

    def _id_of(self, resource: Resource) -> Id:
        gvk = gvk_of(resource.manifest)
        meta = resource.manifest.get("metadata") or {}
        name = meta.get("name")
        if type(name) is not str:  # nearly all are; a build computes several ids for each resource
            name = text_of(name)
        if gvk in self._cluster_scoped:
            return Id(gvk, NOT_NAMESPACED, name)
        return Id(gvk, text_of(meta.get("namespace")) or DEFAULT_NAMESPACE, name)

    def previous_ids(self, resource: Resource) -> list[Id]:
        """Return the ids that a resource had, oldest first."""
        if not resource.previous:
            return []
        now = resource.gvk
        return [Id(_of_kind(now, kind), space, name) for kind, space, name in resource.previous]

    def original_id(self, resource: Resource) -> Id:
        """Return the id a resource was read with."""
        if not resource.previous:
            return self.id_of(resource)
        kind, space, name = resource.previous[0]
        return Id(_of_kind(resource.gvk, kind), space, name)

    def all_ids(self, resource: Resource) -> list[Id]:
        """Return the ids that a resource had, oldest first, and the one it has."""
        return [*self.previous_ids(resource), self.id_of(resource)]

    def remember(self, resource: Resource) -> None:
        """Add the id of now to the resource's previous ones, because a transformer is about to change it."""
        resource.remember(self.id_of(resource))


def _of_kind(gvk: Gvk, kind: str) -> Gvk:
    return gvk if kind == gvk.kind else gvk._replace(kind=kind)


_BUILT_IN: Final = _table()
