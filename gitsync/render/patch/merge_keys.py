"""
Which lists of which kinds are merged by key in a strategic merge patch, as Kustomize 5.8 knows them.

The table holds the fields of Kubernetes 1.21 that are merged, or lead to one that is. An ``openapi`` field of a
kustomization replaces it by a schema of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

from gitsync.render.resources.resource import Gvk


class Field(NamedTuple):
    """What is known of a field: the keys its items are merged by, and the type of its value or of its items."""

    keys: tuple[str, ...] = ()
    """Empty for what is replaced; ``("",)`` for a list of plain values that is merged as a set."""
    type: Any = None


UNKNOWN: Final = Field()


class MergeSchema(Protocol):
    """Say how the fields of a kind are merged."""

    def root(self, gvk: Gvk) -> Any:
        """Return the type of a kind, None where it is not known."""
        ...

    def field(self, type_: Any, name: str) -> Field:
        """Return what is known of a field of a type."""
        ...


_BY_NAME: Final = ("name",)
_CONDITIONS: Final = Field(("type",))

_TYPES: Final[dict[str, dict[str, Field]]] = {
    "meta": {"finalizers": Field(("",)), "ownerReferences": Field(("uid",))},
    "object": {},
    "status": {"status": Field((), "status of")},
    "status of": {"conditions": _CONDITIONS},
    "container": {
        "env": Field(_BY_NAME),
        "ports": Field(("containerPort", "protocol")),
        "volumeDevices": Field(("devicePath",)),
        "volumeMounts": Field(("mountPath",)),
    },
    "ephemeral container": {
        "env": Field(_BY_NAME),
        "volumeDevices": Field(("devicePath",)),
        "volumeMounts": Field(("mountPath",)),
    },
    "pod spec": {
        "containers": Field(_BY_NAME, "container"),
        "ephemeralContainers": Field(_BY_NAME, "ephemeral container"),
        "hostAliases": Field(("ip",)),
        "imagePullSecrets": Field(_BY_NAME),
        "initContainers": Field(_BY_NAME, "container"),
        "topologySpreadConstraints": Field(("topologyKey", "whenUnsatisfiable")),
        "volumes": Field(_BY_NAME, "volume"),
    },
    "volume": {"ephemeral": Field((), "ephemeral")},
    "ephemeral": {"volumeClaimTemplate": Field((), "object")},
    "pod template": {"metadata": Field((), "meta"), "spec": Field((), "pod spec")},
    "pod": {"spec": Field((), "pod spec"), "status": Field((), "pod status")},
    "pod status": {"conditions": _CONDITIONS, "podIPs": Field(("ip",))},
    "pod template object": {"template": Field((), "pod template")},
    "workload": {"spec": Field((), "workload spec"), "status": Field((), "status of")},
    "workload spec": {"template": Field((), "pod template")},
    "cron job": {"spec": Field((), "cron job spec")},
    "cron job spec": {"jobTemplate": Field((), "job template")},
    "job template": {"metadata": Field((), "meta"), "spec": Field((), "workload spec")},
    "service": {"spec": Field((), "service spec"), "status": Field((), "status of")},
    "service spec": {"ports": Field(("port", "protocol"))},
    "service account": {"secrets": Field(_BY_NAME)},
    "node": {"spec": Field((), "node spec"), "status": Field((), "node status")},
    "node spec": {"podCIDRs": Field(("",))},
    "node status": {"addresses": Field(("type",)), "conditions": _CONDITIONS},
    "webhooks": {"webhooks": Field(_BY_NAME)},
    "csi node": {"spec": Field((), "csi node spec")},
    "csi node spec": {"drivers": Field(_BY_NAME)},
    "component status": {"conditions": _CONDITIONS},
}
_META: Final = Field((), "meta")

_KINDS: Final = """
workload             apps/v1 DaemonSet Deployment ReplicaSet StatefulSet
workload             batch/v1 Job
workload             v1 ReplicationController
cron job             batch/v1 CronJob
cron job             batch/v1beta1 CronJob
pod                  v1 Pod
pod template object  v1 PodTemplate
service              v1 Service
service account      v1 ServiceAccount
node                 v1 Node
component status     v1 ComponentStatus
status               v1 Namespace PersistentVolumeClaim
status               policy/v1 PodDisruptionBudget
status               policy/v1beta1 PodDisruptionBudget
status               apiregistration.k8s.io/v1 APIService
status               apiregistration.k8s.io/v1beta1 APIService
webhooks             admissionregistration.k8s.io/v1 MutatingWebhookConfiguration ValidatingWebhookConfiguration
webhooks             admissionregistration.k8s.io/v1beta1 MutatingWebhookConfiguration ValidatingWebhookConfiguration
csi node             storage.k8s.io/v1 CSINode
csi node             storage.k8s.io/v1beta1 CSINode
object               v1 Binding ConfigMap Endpoints Event LimitRange PersistentVolume ResourceQuota Secret
object               apps/v1 ControllerRevision
object               autoscaling/v1 HorizontalPodAutoscaler Scale
object               autoscaling/v2beta1 HorizontalPodAutoscaler
object               autoscaling/v2beta2 HorizontalPodAutoscaler
object               certificates.k8s.io/v1 CertificateSigningRequest
object               certificates.k8s.io/v1beta1 CertificateSigningRequest
object               coordination.k8s.io/v1 Lease
object               coordination.k8s.io/v1beta1 Lease
object               discovery.k8s.io/v1 EndpointSlice
object               discovery.k8s.io/v1beta1 EndpointSlice
object               events.k8s.io/v1 Event
object               events.k8s.io/v1beta1 Event
object               extensions/v1beta1 Ingress
object               flowcontrol.apiserver.k8s.io/v1beta1 FlowSchema PriorityLevelConfiguration
object               networking.k8s.io/v1 Ingress IngressClass NetworkPolicy
object               networking.k8s.io/v1beta1 Ingress IngressClass
object               node.k8s.io/v1 RuntimeClass
object               node.k8s.io/v1beta1 RuntimeClass
object               policy/v1beta1 Eviction PodSecurityPolicy
object               rbac.authorization.k8s.io/v1 ClusterRole ClusterRoleBinding Role RoleBinding
object               rbac.authorization.k8s.io/v1beta1 ClusterRole ClusterRoleBinding Role RoleBinding
object               scheduling.k8s.io/v1 PriorityClass
object               scheduling.k8s.io/v1beta1 PriorityClass
object               storage.k8s.io/v1 CSIDriver StorageClass VolumeAttachment
object               storage.k8s.io/v1beta1 CSIDriver CSIStorageCapacity StorageClass VolumeAttachment
object               apiextensions.k8s.io/v1 CustomResourceDefinition
object               apiextensions.k8s.io/v1beta1 CustomResourceDefinition
"""


def _kinds() -> dict[Gvk, str]:
    types = {}
    for line in _KINDS.strip().splitlines():
        api_version, *kinds = line[21:].split()
        group, _, version = api_version.rpartition("/")
        types.update({Gvk(group, version, kind): line[:21].strip() for kind in kinds})
    return types


class BuiltInSchema:
    """The table of this module."""

    _roots = _kinds()

    def root(self, gvk: Gvk) -> str | None:
        """Return the name of a kind's type."""
        return self._roots.get(gvk)

    def field(self, type_: str, name: str) -> Field:
        """Return what is known of a field; every object of the table has metadata."""
        if name == "metadata" and type_ not in ("container", "pod spec"):
            return _META
        return _TYPES[type_].get(name, UNKNOWN)


BUILT_IN: Final = BuiltInSchema()

_CORE: Final = "io.k8s.api.core.v1."
_DEFINITIONS: Final = {
    "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": "meta",
    f"{_CORE}PodTemplateSpec": "pod template",
    f"{_CORE}PodSpec": "pod spec",
    f"{_CORE}Container": "container",
    f"{_CORE}EphemeralContainer": "ephemeral container",
    f"{_CORE}Volume": "volume",
    f"{_CORE}ServiceSpec": "service spec",
    f"{_CORE}PersistentVolumeClaim": "object",
    "io.k8s.api.batch.v1.JobSpec": "workload spec",
    "io.k8s.api.batch.v1.JobTemplateSpec": "job template",
}
"""The types of the table by the names that OpenAPI documents give them."""


class OpenApiSchema:
    """
    The definitions of an OpenAPI v2 document, as an ``openapi`` field names it.

    With a table beneath, the document adds to it: its kinds and the types it refers to are found there.
    """

    def __init__(self, document: Mapping[str, Any], beneath: BuiltInSchema | None = None) -> None:
        self._beneath = beneath
        definitions = document.get("definitions")
        self._definitions: Mapping[str, Any] = definitions if isinstance(definitions, dict) else {}
        self._paths = document.get("paths")
        self._roots = {
            gvk: definition
            for definition in self._definitions.values()
            if isinstance(definition, dict)
            for gvk in _gvks(definition)
        }

    def root(self, gvk: Gvk) -> Any:
        """Return the definition of a kind."""
        definition = self._roots.get(gvk)
        return self._beneath.root(gvk) if definition is None and self._beneath else definition

    def field(self, type_: Any, name: str) -> Field:
        """Return what a definition says of a field."""
        if isinstance(type_, str):
            return BUILT_IN.field(type_, name)
        properties = type_.get("properties")
        additional = type_.get("additionalProperties")
        if isinstance(properties, dict) and name in properties:
            definition = self._resolved(properties[name])
        elif isinstance(additional, dict):
            definition = self._resolved(additional)
        else:
            return UNKNOWN
        if not isinstance(definition, dict):
            return UNKNOWN if definition is None else Field((), definition)
        if definition.get("type") == "array":
            return Field(_keys(definition), self._resolved(definition.get("items")))
        return Field((), definition)

    def scopes(self) -> dict[Gvk, bool]:
        """Return whether each kind that has paths is namespaced."""
        is_namespaced: dict[Gvk, bool] = {}
        for path, item in self._paths.items() if isinstance(self._paths, dict) else ():
            verb = item.get("get") if isinstance(item, dict) else None
            gvk = verb.get("x-kubernetes-group-version-kind") if isinstance(verb, dict) else None
            if isinstance(gvk, dict):
                key = Gvk(str(gvk.get("group", "")), str(gvk.get("version", "")), str(gvk.get("kind", "")))
                is_namespaced[key] = is_namespaced.get(key, False) or "namespaces/{namespace}" in path
        return is_namespaced

    def _resolved(self, definition: Any) -> Any:
        # References may form a circle.
        for _ in range(_MAX_REFERENCES):
            reference = definition.get("$ref") if isinstance(definition, dict) else None
            if not isinstance(reference, str):
                return definition
            name = reference.removeprefix("#/definitions/")
            definition = self._definitions.get(name)
            if definition is None and self._beneath:
                return _DEFINITIONS.get(name)
        return None


_MAX_REFERENCES: Final = 50


def _gvks(definition: Mapping[str, Any]) -> list[Gvk]:
    rows = definition.get("x-kubernetes-group-version-kind")
    return [
        Gvk(str(row.get("group", "")), str(row.get("version", "")), str(row.get("kind", "")))
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, dict)
    ]


def _keys(definition: Mapping[str, Any]) -> tuple[str, ...]:
    # A strategy may be a list such as merge,retainKeys.
    if "merge" not in str(definition.get("x-kubernetes-patch-strategy", "")).split(","):
        return ()
    keys = definition.get("x-kubernetes-list-map-keys")
    if isinstance(keys, list):
        return tuple(str(key) for key in keys)
    return (str(definition.get("x-kubernetes-patch-merge-key", "")),)
