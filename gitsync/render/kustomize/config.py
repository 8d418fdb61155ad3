"""
TransformerConfig: the fields that each transformer changes, built in and added by configuration files.

The built-in part lists which fields of the Kubernetes kinds hold labels, names, images and so on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from gitsync.errors import InvalidInput
from gitsync.render.kustomize.kustomization import Kustomization
from gitsync.render.kustomize.loader import Loader
from gitsync.render.resources.field_spec import FieldSpec, NameReference, gvk_order, merge_specs
from gitsync.render.resources.resource import Gvk
from gitsync.render.yaml.reader import read_all


class TransformerConfig(NamedTuple):
    """The field specs of each transformer, ordered by kind as Kustomize orders them."""

    name_prefix: tuple[FieldSpec, ...] = ()
    name_suffix: tuple[FieldSpec, ...] = ()
    namespace: tuple[FieldSpec, ...] = ()
    common_labels: tuple[FieldSpec, ...] = ()
    labels: tuple[FieldSpec, ...] = ()
    template_labels: tuple[FieldSpec, ...] = ()
    common_annotations: tuple[FieldSpec, ...] = ()
    name_reference: tuple[NameReference, ...] = ()
    var_reference: tuple[FieldSpec, ...] = ()
    images: tuple[FieldSpec, ...] = ()
    replicas: tuple[FieldSpec, ...] = ()

    def merge(self, other: TransformerConfig) -> TransformerConfig:
        """Return this with what the other adds; refuse two that contradict each other."""
        # Nearly all kustomizations configure nothing, and bases share the defaults.
        if other is self or other == EMPTY:
            return self
        # the defaults are sorted and without repetitions, which takes half of the time of a small build
        if self is EMPTY and other is DEFAULTS:
            return other
        merged: dict[str, Any] = {
            member: _sorted_specs(merge_specs(getattr(self, member), getattr(other, member)))
            for member in self._fields
            if member != "name_reference"
        }
        references = _merge_references(self.name_reference, other.name_reference)
        return self._replace(**merged, name_reference=references)


EMPTY: Final = TransformerConfig()

MEMBERS: Final = {
    "namePrefix": "name_prefix",
    "nameSuffix": "name_suffix",
    "namespace": "namespace",
    "commonLabels": "common_labels",
    "labels": "labels",
    "templateLabels": "template_labels",
    "commonAnnotations": "common_annotations",
    "nameReference": "name_reference",
    "varReference": "var_reference",
    "images": "images",
    "replicas": "replicas",
}
"""The members of a configuration file."""


def spec_from(value: dict[str, Any]) -> FieldSpec:
    """Return the field spec that a mapping of a configuration describes."""
    gvk = Gvk(value.get("group") or "", value.get("version") or "", value.get("kind") or "")
    return FieldSpec(gvk, value.get("path") or "", bool(value.get("create")))


def config_from(document: dict[str, Any]) -> TransformerConfig:
    """Return what one configuration file adds; its shape was checked before."""
    members: dict[str, Any] = {}
    for member, attribute in MEMBERS.items():
        rows = document.get(member) or ()
        if attribute == "name_reference":
            references = (NameReference(spec_from(row).gvk, _specs(row.get("fieldSpecs"))) for row in rows)
            members[attribute] = _merge_references((), references)
        else:
            members[attribute] = _sorted_specs(_specs(rows))
    return TransformerConfig(**members)


def _specs(rows: Sequence[dict[str, Any]] | None) -> tuple[FieldSpec, ...]:
    return tuple(spec_from(row) for row in rows or ())


def _sorted_specs(specs: Iterable[FieldSpec]) -> tuple[FieldSpec, ...]:
    return tuple(sorted(specs, key=lambda spec: gvk_order(spec.gvk)))


def _merge_references(
    present: tuple[NameReference, ...], incoming: Iterable[NameReference]
) -> tuple[NameReference, ...]:
    merged = {reference.target: reference for reference in present}
    for target, referrers in incoming:
        known = merged[target].referrers if target in merged else ()
        merged[target] = NameReference(target, merge_specs(known, referrers))
    return tuple(sorted(merged.values(), key=lambda reference: gvk_order(reference.target)))


_ANNOTATION: Final = "x-kubernetes-annotation"
_LABEL_SELECTOR: Final = "x-kubernetes-label-selector"
_IDENTITY: Final = "x-kubernetes-identity"
_REF_VERSION: Final = "x-kubernetes-object-ref-api-version"
_REF_KIND: Final = "x-kubernetes-object-ref-kind"
_REF_NAME: Final = "x-kubernetes-object-ref-name-key"
_MAX_DEPTH: Final = 50


def config_from_crds(loader: Loader, kustomization: Kustomization) -> TransformerConfig:
    """Return the configuration that the files of the ``crds`` field add."""
    config = EMPTY
    for index, path in enumerate(kustomization.get("crds")):
        definitions = _definitions(loader.read(path, kustomization.where("crds", index)), path)
        for name, definition in sorted(definitions.items()):
            properties = _properties(definition)
            if {"kind", "apiVersion", "metadata"} <= properties.keys():
                gvk = Gvk("", "", name.rpartition(".")[2])
                for addition in _configs(gvk, definitions, properties, ()):
                    config = config.merge(addition)
    return config


def _definitions(text: bytes, path: str) -> dict[str, dict[str, Any]]:
    documents = read_all(text, path)
    definitions = documents[0] if documents else None
    if not isinstance(definitions, dict) or not all(
        isinstance(definition, dict) for definition in definitions.values()
    ):
        what = (
            "a CustomResourceDefinition"
            if isinstance(definitions, dict) and "kind" in definitions
            else "something else"
        )
        raise InvalidInput(
            f"crds takes a file of OpenAPI definitions, and this is {what}",
            location=path,
            hint="list the object under resources, or write a mapping of definitions with Schema and properties",
        )
    return definitions


def _properties(definition: Any) -> Mapping[str, Any]:
    schema = definition.get("Schema") or definition.get("schema") if isinstance(definition, dict) else None
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return properties if isinstance(properties, dict) else {}


def _configs(
    gvk: Gvk, definitions: Mapping[str, Any], properties: Mapping[str, Any], path: tuple[str, ...]
) -> Iterator[TransformerConfig]:
    # Definitions may refer to themselves.
    if len(path) > _MAX_DEPTH:
        return
    for name, schema in properties.items():
        if not isinstance(schema, dict):
            continue
        here = (*path, name)
        spec = (FieldSpec(gvk, "/".join(here)),)
        if _ANNOTATION in schema:
            yield TransformerConfig(common_annotations=spec)
        if _LABEL_SELECTOR in schema:
            yield TransformerConfig(common_labels=spec)
        if _IDENTITY in schema:
            yield TransformerConfig(name_prefix=spec)
        if _REF_VERSION in schema and _REF_KIND in schema:
            key = str(schema.get(_REF_NAME) or "name")
            target = Gvk("", str(schema[_REF_VERSION]), str(schema[_REF_KIND]))
            reference = NameReference(target, (FieldSpec(gvk, "/".join((*here, key))),))
            yield TransformerConfig(name_reference=(reference,))
        reference_name = schema.get("$ref")
        if isinstance(reference_name, str):
            yield from _configs(gvk, definitions, _properties(definitions.get(reference_name)), here)


_TEMPLATE: Final = "spec/template/spec"
_CRON_TEMPLATE: Final = "spec/jobTemplate/spec/template/spec"
_RBAC: Final = "rbac.authorization.k8s.io"
_ADMISSION: Final = "admissionregistration.k8s.io"

_WORKLOADS: Final = ("Deployment", "ReplicaSet", "DaemonSet", "StatefulSet", "Job")
_OWNERS: Final = ("StatefulSet", "Deployment", "ReplicationController", "Job", "DaemonSet")


def _kind(kind: str, group: str = "", version: str = "") -> Gvk:
    return Gvk(group, version, kind)


def _in_pods(*paths: str) -> Iterator[FieldSpec]:
    """Yield the paths inside the pod spec of each kind that has one."""
    for path in paths:
        yield FieldSpec(_kind("Pod", version="v1"), f"spec/{path}")
        yield FieldSpec(_kind("PodTemplate"), f"template/spec/{path}")
        for kind in _WORKLOADS:
            yield FieldSpec(_kind(kind), f"{_TEMPLATE}/{path}")
        yield FieldSpec(_kind("CronJob"), f"{_CRON_TEMPLATE}/{path}")


def _in_owned_pods(path: str) -> Iterator[FieldSpec]:
    yield FieldSpec(_kind("Pod"), f"spec/{path}")
    for kind in _OWNERS:
        yield FieldSpec(_kind(kind), f"{_TEMPLATE}/{path}")
    yield FieldSpec(_kind("CronJob"), f"{_CRON_TEMPLATE}/{path}")


def _in_containers(*paths: str) -> tuple[str, ...]:
    return tuple(f"{list_name}/{path}" for path in paths for list_name in ("containers", "initContainers"))


_RESOURCE_NAMES: Final = tuple(FieldSpec(_kind(kind), "rules/resourceNames") for kind in ("Role", "ClusterRole"))


def _ingress_annotations(*names: str) -> Iterator[FieldSpec]:
    for name in names:
        yield FieldSpec(_kind("Ingress"), "metadata/annotations/" + name.replace("/", "\\/"))


def _name_references() -> Iterator[tuple[Gvk, Iterable[FieldSpec]]]:
    for kind in ("Deployment", "ReplicationController", "ReplicaSet", "StatefulSet"):
        yield _kind(kind), (FieldSpec(_kind("HorizontalPodAutoscaler"), "spec/scaleTargetRef/name"),)
    yield (
        _kind("ConfigMap", version="v1"),
        (
            *_in_pods(
                "volumes/configMap/name",
                *_in_containers("env/valueFrom/configMapKeyRef/name", "envFrom/configMapRef/name"),
                "volumes/projected/sources/configMap/name",
            ),
            FieldSpec(_kind("Node"), "spec/configSource/configMap"),
            *_RESOURCE_NAMES,
            *_ingress_annotations("nginx.ingress.kubernetes.io/fastcgi-params-configmap"),
        ),
    )
    yield (
        _kind("Secret", version="v1"),
        (
            *_in_pods(
                "volumes/secret/secretName",
                *_in_containers("env/valueFrom/secretKeyRef/name", "envFrom/secretRef/name"),
                "imagePullSecrets/name",
                "volumes/projected/sources/secret/name",
            ),
            FieldSpec(_kind("Ingress"), "spec/tls/secretName"),
            *_ingress_annotations(
                "ingress.kubernetes.io/auth-secret",
                "nginx.ingress.kubernetes.io/auth-secret",
                "nginx.ingress.kubernetes.io/auth-tls-secret",
            ),
            FieldSpec(_kind("ServiceAccount"), "imagePullSecrets/name"),
            *(
                FieldSpec(_kind("StorageClass"), f"parameters/{key}")
                for key in ("secretName", "adminSecretName", "userSecretName", "secretRef")
            ),
            *_RESOURCE_NAMES,
            FieldSpec(
                _kind("Service", "serving.knative.dev", "v1"),
                f"{_TEMPLATE}/containers/env/valueFrom/secretKeyRef/name",
            ),
            FieldSpec(_kind("PersistentVolume"), "spec/azureFile/secretName"),
        ),
    )
    yield (
        _kind("Service", version="v1"),
        (
            FieldSpec(_kind("StatefulSet", "apps"), "spec/serviceName"),
            *(
                FieldSpec(_kind("Ingress"), f"spec/{path}")
                for path in (
                    "rules/http/paths/backend/serviceName",
                    "backend/serviceName",
                    "rules/http/paths/backend/service/name",
                    "defaultBackend/service/name",
                )
            ),
            FieldSpec(_kind("APIService", "apiregistration.k8s.io"), "spec/service/name"),
            FieldSpec(_kind("ValidatingWebhookConfiguration", _ADMISSION), "webhooks/clientConfig/service"),
            FieldSpec(_kind("MutatingWebhookConfiguration", _ADMISSION), "webhooks/clientConfig/service"),
        ),
    )
    role_binding = FieldSpec(_kind("RoleBinding", _RBAC), "roleRef/name")
    yield _kind("Role", _RBAC), (role_binding,)
    yield (
        _kind("ClusterRole", _RBAC),
        (role_binding, FieldSpec(_kind("ClusterRoleBinding", _RBAC), "roleRef/name")),
    )
    yield (
        _kind("ServiceAccount", version="v1"),
        (
            FieldSpec(_kind("RoleBinding", _RBAC), "subjects"),
            FieldSpec(_kind("ClusterRoleBinding", _RBAC), "subjects"),
            *_in_owned_pods("serviceAccountName"),
        ),
    )
    yield (
        _kind("PersistentVolumeClaim", version="v1"),
        _in_owned_pods("volumes/persistentVolumeClaim/claimName"),
    )
    yield (
        _kind("PersistentVolume", version="v1"),
        (
            FieldSpec(_kind("PersistentVolumeClaim"), "spec/volumeName"),
            FieldSpec(_kind("ClusterRole"), "rules/resourceNames"),
        ),
    )
    yield (
        _kind("StorageClass", "storage.k8s.io", "v1"),
        (
            FieldSpec(_kind("PersistentVolume"), "spec/storageClassName"),
            FieldSpec(_kind("PersistentVolumeClaim"), "spec/storageClassName"),
            FieldSpec(_kind("StatefulSet"), "spec/volumeClaimTemplates/spec/storageClassName"),
        ),
    )
    yield (
        _kind("ValidatingAdmissionPolicy", _ADMISSION),
        (FieldSpec(_kind("ValidatingAdmissionPolicyBinding", _ADMISSION), "spec/policyName"),),
    )
    yield _kind("PriorityClass", "scheduling.k8s.io", "v1"), _in_owned_pods("priorityClassName")
    yield (
        _kind("IngressClass", "networking.k8s.io/v1", "v1"),
        (FieldSpec(_kind("Ingress"), "spec/ingressClassName"),),
    )


def _metadata(member: str, *, all_stateful_sets: bool) -> Iterator[FieldSpec]:
    """Yield the paths of labels or annotations in objects and in their pod templates."""
    yield FieldSpec(Gvk("", "", ""), f"metadata/{member}", create=True)
    template = f"spec/template/metadata/{member}"
    yield FieldSpec(_kind("ReplicationController", version="v1"), template, create=True)
    for kind in ("Deployment", "ReplicaSet", "DaemonSet"):
        yield FieldSpec(_kind(kind), template, create=True)
    yield FieldSpec(_kind("StatefulSet", "" if all_stateful_sets else "apps"), template, create=True)
    yield FieldSpec(_kind("Job", "batch"), template, create=True)
    yield FieldSpec(_kind("CronJob", "batch"), f"spec/jobTemplate/metadata/{member}", create=True)
    yield FieldSpec(_kind("CronJob", "batch"), f"spec/jobTemplate/{template}", create=True)


def _template_labels() -> Iterator[FieldSpec]:
    yield from _metadata("labels", all_stateful_sets=False)
    yield FieldSpec(_kind("StatefulSet", "apps"), "spec/volumeClaimTemplates[]/metadata/labels", create=True)


def _selectors() -> Iterator[FieldSpec]:
    yield FieldSpec(_kind("Service", version="v1"), "spec/selector", create=True)
    yield FieldSpec(_kind("ReplicationController", version="v1"), "spec/selector", create=True)
    for kind in ("Deployment", "ReplicaSet", "DaemonSet"):
        yield FieldSpec(_kind(kind), "spec/selector/matchLabels", create=True)
    yield FieldSpec(_kind("StatefulSet", "apps"), "spec/selector/matchLabels", create=True)
    for kind in ("Deployment", "StatefulSet"):
        for affinity in ("podAffinity", "podAntiAffinity"):
            for path in (
                "preferredDuringSchedulingIgnoredDuringExecution/podAffinityTerm",
                "requiredDuringSchedulingIgnoredDuringExecution",
            ):
                yield FieldSpec(
                    _kind(kind, "apps"), f"{_TEMPLATE}/affinity/{affinity}/{path}/labelSelector/matchLabels"
                )
        yield FieldSpec(_kind(kind, "apps"), f"{_TEMPLATE}/topologySpreadConstraints/labelSelector/matchLabels")
    yield FieldSpec(_kind("Job", "batch"), "spec/selector/matchLabels")
    yield FieldSpec(_kind("CronJob", "batch"), "spec/jobTemplate/spec/selector/matchLabels")
    yield FieldSpec(_kind("PodDisruptionBudget", "policy"), "spec/selector/matchLabels")
    for path in ("podSelector", "ingress/from/podSelector", "egress/to/podSelector"):
        yield FieldSpec(_kind("NetworkPolicy", "networking.k8s.io"), f"spec/{path}/matchLabels")


def _var_references() -> Iterator[FieldSpec]:
    in_pod = (*_in_containers("args", "command", "env/value", "volumeMounts/mountPath"), "volumes/nfs/server")
    for kind, prefix in (
        ("CronJob", _CRON_TEMPLATE),
        *((kind, _TEMPLATE) for kind in _WORKLOADS),
        ("Pod", "spec"),
    ):
        for path in in_pod:
            if kind not in ("StatefulSet", "CronJob") or path != "volumes/nfs/server":
                yield FieldSpec(_kind(kind), f"{prefix}/{path}")
    yield FieldSpec(_kind("CronJob"), "spec/jobTemplate/spec/template/volumes/nfs/server")  # without spec, as there
    yield FieldSpec(_kind("Deployment"), "spec/template/metadata/annotations")
    for path in ("rules/host", "tls/hosts", "tls/secretName"):
        yield FieldSpec(_kind("Ingress"), f"spec/{path}")
    for path in ("port", "targetPort"):
        yield FieldSpec(_kind("Service"), f"spec/ports/{path}")
    yield FieldSpec(_kind("StatefulSet"), "spec/volumeClaimTemplates/spec/nfs/server")
    yield FieldSpec(_kind("PersistentVolume"), "spec/nfs/server")
    yield FieldSpec(Gvk("", "", ""), "metadata/labels")
    yield FieldSpec(Gvk("", "", ""), "metadata/annotations")


def _namespaces() -> Iterator[FieldSpec]:
    yield FieldSpec(_kind("Namespace"), "metadata/name", create=True)
    yield FieldSpec(_kind("APIService", "apiregistration.k8s.io"), "spec/service/namespace", create=True)
    yield FieldSpec(
        _kind("CustomResourceDefinition", "apiextensions.k8s.io"),
        "spec/conversion/webhook/clientConfig/service/namespace",
    )


def _images() -> Iterator[FieldSpec]:
    for prefix in ("spec", _TEMPLATE):
        for path in _in_containers("image"):
            yield FieldSpec(Gvk("", "", ""), f"{prefix}/{path.replace('/', '[]/')}", create=True)
        yield FieldSpec(Gvk("", "", ""), f"{prefix}/volumes[]/image/reference", create=True)


def _by_kind(specs: Iterable[FieldSpec]) -> tuple[FieldSpec, ...]:
    return tuple(sorted(specs, key=lambda spec: gvk_order(spec.gvk)))


_NAME: Final = (FieldSpec(Gvk("", "", ""), "metadata/name"),)

DEFAULTS: Final = TransformerConfig(
    name_prefix=_NAME,
    name_suffix=_NAME,
    namespace=_by_kind(_namespaces()),
    common_labels=_by_kind((*_selectors(), *_template_labels())),
    template_labels=_by_kind(_template_labels()),
    common_annotations=_by_kind(_metadata("annotations", all_stateful_sets=True)),
    name_reference=tuple(
        sorted(
            (NameReference(target, _by_kind(referrers)) for target, referrers in _name_references()),
            key=lambda reference: gvk_order(reference.target),
        )
    ),
    var_reference=_by_kind(_var_references()),
    images=tuple(_images()),
    replicas=_by_kind(
        FieldSpec(_kind(kind), "spec/replicas", create=True)
        for kind in ("Deployment", "ReplicationController", "ReplicaSet", "StatefulSet")
    ),
)
