"""What an object refers to, and what refers to it: volumes, environment, accounts, selectors, roles. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gitsync.kube.selectors import matches
from gitsync.objects.manifest import Manifest, at, group_of, labels_of
from gitsync.objects.ref import ObjectRef
from gitsync.ports import ResourceView

_TEMPLATES = (("spec", "template"), ("spec", "jobTemplate", "spec", "template"))


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation between two objects: ``ref`` is the other one, ``relation`` what it is for, such as ``mounts``."""

    relation: str
    ref: ObjectRef


def references(ref: ObjectRef, manifest: Manifest) -> tuple[Relation, ...]:
    """Return the objects that a manifest names, each relation once."""
    return tuple(dict.fromkeys((*_of_pods(ref, manifest), *_by_kind(ref, manifest))))


def selected_by(ref: ObjectRef, manifest: Manifest, others: Iterable[ResourceView]) -> tuple[Relation, ...]:
    """Return the workloads among others whose Pods the selector of a Service, policy or budget matches."""
    selector = _selector(ref, manifest)
    if selector is None:
        return ()
    selected = []
    for other in others:
        template = _template(other.change.live or other.change.desired or {})
        if template and other.ref.namespace == ref.namespace and matches(selector, labels_of(template)):
            selected.append(Relation("selects", other.ref))
    return tuple(selected)


def users_of(objects: Iterable[ResourceView]) -> dict[ObjectRef, list[Relation]]:
    """Return the objects that refer to each object, read once for all: a page may ask for a thousand of them."""
    users: dict[ObjectRef, list[Relation]] = {}
    for user in objects:
        for reference in references(user.ref, user.change.live or user.change.desired or {}):
            if reference.ref != user.ref:
                users.setdefault(reference.ref, []).append(Relation(reference.relation, user.ref))
    return users


def _selector(ref: ObjectRef, manifest: Manifest) -> Mapping[str, Any] | None:
    match ref.kind:
        case "Service":
            selector = at(manifest, "spec", "selector", default=None)
            # without a selector a Service has Endpoints that others write
            return {"matchLabels": selector} if selector else None
        case "NetworkPolicy":
            selector = at(manifest, "spec", "podSelector", default=None)
            # an empty selector selects every Pod of the namespace
            return selector if isinstance(selector, dict) else None
        case "PodDisruptionBudget":
            selector = at(manifest, "spec", "selector", default=None)
            return selector if isinstance(selector, dict) else None
    return None


def _template(manifest: Manifest) -> Manifest:
    if manifest.get("kind") == "Pod":
        return manifest
    return next((template for path in _TEMPLATES if (template := at(manifest, *path, default=None))), {})


def _of_pods(ref: ObjectRef, manifest: Manifest) -> Iterator[Relation]:
    spec = _template(manifest).get("spec") or {}

    def core(relation: str, kind: str, name: Any) -> Iterator[Relation]:
        if name:
            yield Relation(relation, ObjectRef("", kind, ref.namespace, str(name)))

    for volume in spec.get("volumes") or ():
        for source in (volume, *(at(volume, "projected", "sources", default=()) or ())):
            yield from core("mounts", "ConfigMap", at(source, "configMap", "name", default=""))
            # a volume has secretName, a source of a projected one has name
            yield from core("mounts", "Secret", at(source, "secret", "secretName", default=""))
            yield from core("mounts", "Secret", at(source, "secret", "name", default=""))
            yield from core(
                "mounts", "PersistentVolumeClaim", at(source, "persistentVolumeClaim", "claimName", default="")
            )
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        for source in (
            *(container.get("envFrom") or ()),
            *(at(env, "valueFrom", default={}) for env in container.get("env") or ()),
        ):
            for member, kind in (("configMap", "ConfigMap"), ("secret", "Secret")):
                name = at(source or {}, f"{member}Ref", "name", default="") or at(
                    source or {}, f"{member}KeyRef", "name", default=""
                )
                yield from core("reads", kind, name)
    yield from core("runs as", "ServiceAccount", spec.get("serviceAccountName"))
    for secret in spec.get("imagePullSecrets") or ():
        yield from core("pulls images with", "Secret", secret.get("name"))


def _by_kind(ref: ObjectRef, manifest: Manifest) -> Iterator[Relation]:
    spec = manifest.get("spec") or {}
    match ref.kind:
        case "RoleBinding" | "ClusterRoleBinding":
            role = manifest.get("roleRef") or {}
            namespace = ref.namespace if role.get("kind") == "Role" else ""
            yield Relation("grants", ObjectRef(ref.group, str(role.get("kind")), namespace, str(role.get("name"))))
            for subject in manifest.get("subjects") or ():
                if subject.get("kind") == "ServiceAccount":
                    where = str(subject.get("namespace") or ref.namespace)
                    yield Relation("to", ObjectRef("", "ServiceAccount", where, str(subject.get("name"))))
        case "HorizontalPodAutoscaler":
            target = spec.get("scaleTargetRef") or {}
            group = group_of(str(target.get("apiVersion") or ""))
            yield Relation("scales", ObjectRef(group, str(target.get("kind")), ref.namespace, str(target.get("name"))))
        case "Ingress":
            for rule in spec.get("rules") or ():
                for path in at(rule, "http", "paths", default=()) or ():
                    name = at(path, "backend", "service", "name", default="")
                    if name:
                        yield Relation("routes to", ObjectRef("", "Service", ref.namespace, str(name)))
