"""The cluster-scoped kinds of Kubernetes, for comparisons without the discovery of a cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gitsync.kube.kinds import CRD
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import GroupKind, ref_of

# Kubernetes 1.36, `kubectl api-resources --namespaced=false`; reviews are left out, they are never stored.
_BUILT_IN: Final = """
.                             ComponentStatus Namespace Node PersistentVolume
admissionregistration.k8s.io  MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration
admissionregistration.k8s.io  ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration
apiextensions.k8s.io          CustomResourceDefinition
apiregistration.k8s.io        APIService
certificates.k8s.io           CertificateSigningRequest ClusterTrustBundle
flowcontrol.apiserver.k8s.io  FlowSchema PriorityLevelConfiguration
networking.k8s.io             IPAddress IngressClass ServiceCIDR
node.k8s.io                   RuntimeClass
rbac.authorization.k8s.io     ClusterRole ClusterRoleBinding
resource.k8s.io               DeviceClass DeviceTaintRule ResourceSlice
scheduling.k8s.io             PriorityClass
storage.k8s.io                CSIDriver CSINode StorageClass VolumeAttachment VolumeAttributesClass
"""


def _table() -> frozenset[GroupKind]:
    rows = (line.split() for line in _BUILT_IN.strip().splitlines())
    return frozenset(GroupKind(group.lstrip("."), kind) for group, *kinds in rows for kind in kinds)


_KINDS: Final = _table()


def cluster_scoped_kinds(manifests: Iterable[Manifest]) -> frozenset[GroupKind]:
    """Return the cluster-scoped kinds: those of Kubernetes, and those that definitions among the manifests say are."""
    defined = (
        GroupKind(str(at(manifest, "spec", "group")), str(at(manifest, "spec", "names", "kind")))
        for manifest in manifests
        if manifest.get("kind") == CRD.kind
        and ref_of(manifest).of == CRD
        and at(manifest, "spec", "scope") == "Cluster"
    )
    return _KINDS | frozenset(defined)
