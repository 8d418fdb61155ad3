"""The absent objects that PreSync hooks need in order to run: they are created before the hooks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from gitsync.kube.kinds import CRD, NAMESPACE, defined_kind
from gitsync.objects.change import Action, Change
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.plan.order import PRE_SYNC, hook_needs_stage
from gitsync.plan.risk.privileges import containers, pod_spec

_RBAC = "rbac.authorization.k8s.io"
_VOLUMES = (("secret", "secretName", "Secret"), ("configMap", "name", "ConfigMap"))
_CLAIM = ("persistentVolumeClaim", "claimName", "PersistentVolumeClaim")
_ENVIRONMENT = (("secretKeyRef", "Secret"), ("configMapKeyRef", "ConfigMap"))
_ENVIRONMENT_FROM = (("secretRef", "Secret"), ("configMapRef", "ConfigMap"))


def needs_first(steps: Sequence[Change]) -> list[Change]:
    """
    Return the steps, those that create what a PreSync hook needs in the stage before the hooks.

    A hook needs its namespace, the definition of its kind, what its pods refer to, and the rights of their service
    account. Only absent objects are moved: an update before the hook would change what runs although the hook fails.
    """
    creates = {step.ref: step for step in steps if step.action is Action.CREATE and step.desired is not None}
    waiting = [step for step in steps if step.action is Action.HOOK and step.stage == PRE_SYNC]
    if not creates or not waiting:
        return list(steps)
    needed: set[ObjectRef] = set()
    while waiting:
        step = waiting.pop()
        # Without those that were followed already: references may form a cycle.
        refs = {ref for ref in needs_of(step.desired or {}, step.ref, creates.values()) if ref in creates} - needed
        needed |= refs
        waiting += [creates[ref] for ref in refs]
    return [_moved(step) if step.ref in needed else step for step in steps]


def is_needed_by_hooks(step: Change) -> bool:
    """Whether a step is one that ``needs_first`` moved before the PreSync hooks."""
    return step.stage < PRE_SYNC


def _moved(step: Change) -> Change:
    """Return the step in the stage before the hooks; its wave could wait for something that the hook makes healthy."""
    return replace(step, stage=hook_needs_stage(step.ref.of), wave=0, reason=step.reason or "a PreSync hook needs it")


def grants(ref: ObjectRef) -> bool:
    """Whether an object may define a kind or give rights, for which ``needs_of`` reads the others."""
    return ref.of == CRD or ref.group == _RBAC


def needs_of(manifest: Manifest, ref: ObjectRef, others: Iterable[Change]) -> Iterator[ObjectRef]:
    """Yield what one object refers to, and of others what defines its kind or gives it rights; they need not exist."""
    namespace = ref.namespace
    if namespace:
        yield ObjectRef(NAMESPACE.group, NAMESPACE.kind, "", namespace)
    yield from (ObjectRef("", kind, namespace, name) for kind, name in _of_pods(pod_spec(manifest)) if name)
    for other in others:
        is_definition = other.ref.of == CRD and defined_kind(other.desired or {}) == ref.of
        if is_definition or (ref.kind == "ServiceAccount" and ref in _subjects(other.desired or {})):
            yield other.ref
    role = manifest.get("roleRef")
    if ref.group == _RBAC and isinstance(role, dict):
        kind = str(role.get("kind"))
        # a RoleBinding may refer to a ClusterRole, which has no namespace
        yield ObjectRef(_RBAC, kind, namespace if kind == "Role" else "", str(role.get("name")))


def _of_pods(spec: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield kind and name of the namespaced objects that a pod spec refers to."""
    # the second is the deprecated spelling, which is still valid
    yield "ServiceAccount", spec.get("serviceAccountName") or spec.get("serviceAccount")
    yield from (("Secret", secret.get("name")) for secret in _maps(spec.get("imagePullSecrets")))
    for volume in _maps(spec.get("volumes")):
        yield from ((kind, at(volume, member, field)) for member, field, kind in (*_VOLUMES, _CLAIM))
        for source in _maps(at(volume, "projected", "sources")):
            # a projected source names a Secret by ``name``, a volume by ``secretName``
            yield from ((kind, at(source, member, "name")) for member, _, kind in _VOLUMES)
    for container in containers(spec):
        for variable in _maps(container.get("env")):
            yield from ((kind, at(variable, "valueFrom", member, "name")) for member, kind in _ENVIRONMENT)
        for source in _maps(container.get("envFrom")):
            yield from ((kind, at(source, member, "name")) for member, kind in _ENVIRONMENT_FROM)


def _subjects(binding: Manifest) -> Iterator[ObjectRef]:
    """Yield the service accounts that a binding gives rights to."""
    own = ref_of(binding)
    if own.group == _RBAC:
        for subject in _maps(binding.get("subjects")):
            if subject.get("kind") == "ServiceAccount":
                yield ObjectRef(
                    "", "ServiceAccount", str(subject.get("namespace") or own.namespace), str(subject.get("name"))
                )


def _maps(value: Any) -> list[dict[str, Any]]:
    """Return the mappings of a list, none for any other value."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
