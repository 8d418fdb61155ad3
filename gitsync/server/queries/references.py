"""What refers to an object, or selects it, among others. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gitsync.kube.references import Relation, pod_template, references
from gitsync.kube.selectors import matches
from gitsync.objects.manifest import Manifest, at, labels_of
from gitsync.objects.ref import ObjectRef
from gitsync.ports import ResourceView


def selected_by(ref: ObjectRef, manifest: Manifest, others: Iterable[ResourceView]) -> tuple[Relation, ...]:
    """Return the workloads among others whose Pods the selector of a Service, policy or budget matches."""
    selector = _selector(ref, manifest)
    if selector is None:
        return ()
    selected = []
    for other in others:
        template = pod_template(other.change.live or other.change.desired or {})
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
