"""The objects that a manifest names: volumes, environment, accounts, roles, targets. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from gitsync.objects.manifest import Manifest, at, group_of
from gitsync.objects.ref import ObjectRef

_TEMPLATES: Final = (("spec", "template"), ("spec", "jobTemplate", "spec", "template"))


@dataclass(frozen=True, slots=True)
class Relation:
    """
    A relation between two objects: ``ref`` is the other one, ``relation`` what it is for, such as ``mounts``.

    ``is_optional``: Pods start without it too.
    """

    relation: str
    ref: ObjectRef
    is_optional: bool = False


def references(ref: ObjectRef, manifest: Manifest) -> tuple[Relation, ...]:
    """Return the objects that a manifest names, each relation once; values of a wrong type are skipped."""
    return tuple(dict.fromkeys((*_of_pods(ref, manifest), *_by_kind(ref, manifest))))


def pod_template(manifest: Manifest) -> Manifest:
    """Return the template of a manifest's Pods, the Pod itself, or an empty one where it has none."""
    if manifest.get("kind") == "Pod":
        return manifest
    templates = (at(manifest, *path) for path in _TEMPLATES)
    return next((template for template in templates if template and isinstance(template, dict)), {})


def _of_pods(ref: ObjectRef, manifest: Manifest) -> Iterator[Relation]:
    spec = at(pod_template(manifest), "spec", default={})

    def named(relation: str, kind: str, name: Any, source: Any = None) -> Iterator[Relation]:
        if name and isinstance(name, str):
            yield Relation(relation, ObjectRef("", kind, ref.namespace, name), at(source, "optional") is True)

    for volume in _items(spec, "volumes"):
        for source in (volume, *_items(volume, "projected", "sources")):
            config = at(source, "configMap")
            secret = at(source, "secret")
            yield from named("mounts", "ConfigMap", at(config, "name"), config)
            # a volume has secretName, a source of a projected one has name
            yield from named("mounts", "Secret", at(secret, "secretName"), secret)
            yield from named("mounts", "Secret", at(secret, "name"), secret)
            yield from named("mounts", "PersistentVolumeClaim", at(source, "persistentVolumeClaim", "claimName"))
    for container in (*_items(spec, "initContainers"), *_items(spec, "containers")):
        for holder in (*_items(container, "envFrom"), *(at(env, "valueFrom") for env in _items(container, "env"))):
            for member, kind in (("configMap", "ConfigMap"), ("secret", "Secret")):
                source = at(holder, f"{member}Ref") or at(holder, f"{member}KeyRef")
                yield from named("reads", kind, at(source, "name"), source)
    yield from named("runs as", "ServiceAccount", at(spec, "serviceAccountName"))
    for pull_secret in _items(spec, "imagePullSecrets"):
        yield from named("pulls images with", "Secret", at(pull_secret, "name"))


def _by_kind(ref: ObjectRef, manifest: Manifest) -> Iterator[Relation]:
    spec = manifest.get("spec")
    match ref.kind:
        case "RoleBinding" | "ClusterRoleBinding":
            role = manifest.get("roleRef")
            namespace = ref.namespace if at(role, "kind") == "Role" else ""
            yield Relation("grants", ObjectRef(ref.group, str(at(role, "kind")), namespace, str(at(role, "name"))))
            for subject in _items(manifest, "subjects"):
                if subject.get("kind") == "ServiceAccount":
                    where = str(subject.get("namespace") or ref.namespace)
                    yield Relation("to", ObjectRef("", "ServiceAccount", where, str(subject.get("name"))))
        case "HorizontalPodAutoscaler":
            target = at(spec, "scaleTargetRef")
            group = group_of(str(at(target, "apiVersion") or ""))
            yield Relation("scales", ObjectRef(group, str(at(target, "kind")), ref.namespace, str(at(target, "name"))))
        case "Ingress":
            for rule in _items(spec, "rules"):
                for path in _items(rule, "http", "paths"):
                    name = at(path, "backend", "service", "name")
                    if name:
                        yield Relation("routes to", ObjectRef("", "Service", ref.namespace, str(name)))


def _items(value: Any, *path: str) -> Iterator[dict[str, Any]]:
    """Yield the objects in the list at a path; a manifest may have anything there."""
    entries = at(value, *path)
    yield from (entry for entry in entries if isinstance(entry, dict)) if isinstance(entries, list) else ()
