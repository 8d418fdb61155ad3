"""What a change does to running Pods, data and requests for resources, as far as manifests tell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from gitsync.errors import GitsyncError
from gitsync.kube import quantity
from gitsync.kube.kinds import CRD, NAMESPACE, PERSISTENT_VOLUME_CLAIM
from gitsync.kube.references import references
from gitsync.kube.selectors import matches
from gitsync.objects.change import DRIFT, Action, Change
from gitsync.objects.manifest import Manifest, at, labels_of
from gitsync.objects.ref import ObjectRef

_WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")
_NANO = 10**9
_REQUESTS = (("cpu", "CPU"), ("memory", "memory"))
_EVERYWHERE = (("ServiceAccount", "default"), ("ConfigMap", "kube-root-ca.crt"))
"""What the control plane creates in each namespace."""


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect; ``is_loss`` where a revert cannot undo it."""

    text: str
    is_loss: bool = False


def effects_of(steps: Sequence[Change], declared: Mapping[ObjectRef, Manifest]) -> tuple[Effect, ...]:
    """
    Return the effects of steps, losses first.

    ``declared`` is everything that the folder declares after the change, such as disruption budgets.
    """
    effects = [effect for step in steps for effect in _of_step(step, declared)]
    effects += [Effect(text) for text in _request_changes(steps)]
    return tuple(sorted(effects, key=lambda effect: not effect.is_loss))


def missing_references(
    steps: Sequence[Change], declared: Mapping[ObjectRef, Manifest], is_provided: Callable[[ObjectRef], bool]
) -> tuple[Effect, ...]:
    """Return the dangling references of a change as effects, each once."""
    dangling = dangling_references(steps, declared, is_provided)
    return tuple(dict.fromkeys(Effect(f"{ref}: {text}") for ref, text in dangling))


def dangling_references(
    steps: Sequence[Change], declared: Mapping[ObjectRef, Manifest], is_provided: Callable[[ObjectRef], bool]
) -> Iterator[tuple[ObjectRef, str]]:
    """
    Yield what objects name and nothing provides after the change: new names, and names of what the change removes.

    ``declared`` is everything that the folder declares after the change; ``is_provided`` tells whether something else
    does. What was named before the change already is not reported.
    """
    removed = {step.ref for step in steps if step.action is Action.PRUNE}
    changed = {step.ref: {item.ref for item in references(step.ref, step.live or {})} for step in steps}
    made = {secret for ref, manifest in declared.items() for secret in made_secrets(ref, manifest)}
    for ref, manifest in declared.items():
        for relation in references(ref, manifest):
            target = relation.ref
            if (
                relation.is_optional
                or target in declared
                or target in made
                or (target.kind, target.name) in _EVERYWHERE
            ):
                continue
            if target in removed:
                yield ref, f"{relation.relation} {target}, which the change removes"
            elif ref in changed and target not in changed[ref] and not is_provided(target):
                yield ref, f"{relation.relation} {target}, which nothing in Git declares"


def made_secrets(ref: ObjectRef, manifest: Manifest) -> Iterator[ObjectRef]:
    """Yield the Secret that a controller makes of an object: of cert-manager, External Secrets or Sealed Secrets."""
    match ref.kind:
        case "Certificate":
            name = at(manifest, "spec", "secretName", default=None)
        case "ExternalSecret":
            name = at(manifest, "spec", "target", "name", default=ref.name)
        case "SealedSecret":
            name = ref.name
        case _:
            return
    if name:
        yield ObjectRef("", "Secret", ref.namespace, str(name))


def _of_step(step: Change, declared: Mapping[ObjectRef, Manifest]) -> Iterator[Effect]:
    if step.ref.kind in _WORKLOADS:
        yield from _of_workload(step, declared)
    elif step.action is Action.PRUNE and step.ref.of == PERSISTENT_VOLUME_CLAIM:
        size = at(step.live or {}, "spec", "resources", "requests", "storage", default="a volume")
        yield Effect(f"{step.ref}: the data of {size} is deleted", is_loss=True)
    elif step.action is Action.PRUNE and step.ref.of == NAMESPACE:
        yield Effect(f"{step.ref}: everything in the namespace is deleted", is_loss=True)
    elif step.action is Action.PRUNE and step.ref.of == CRD:
        yield Effect(f"{step.ref}: every object of the kind is deleted, in all namespaces", is_loss=True)


def _of_workload(step: Change, declared: Mapping[ObjectRef, Manifest]) -> Iterator[Effect]:
    old = _replicas(step.live)
    new = _replicas(step.desired)
    if step.action is Action.CREATE:
        yield Effect(f"{step.ref}: starts {_pods(new)}")
    elif step.action is Action.PRUNE:
        yield Effect(f"{step.ref}: stops {_pods(old)}")
    elif any(item.path.startswith(".spec.template") for item in step.differences if item.kind in DRIFT):
        yield Effect(f"{step.ref}: restarts {_pods(old)}")
        yield from (Effect(text) for text in _blocking_budgets(step, declared))
    if step.action is Action.UPDATE and old != new:
        yield Effect(f"{step.ref}: scales from {old} to {new}")


def _blocking_budgets(step: Change, declared: Mapping[ObjectRef, Manifest]) -> Iterator[str]:
    """
    Yield the disruption budgets that allow no eviction of the Pods of a workload.

    They do not hold the rollout itself, which deletes Pods without the eviction API, but the node drains beside it.
    """
    labels = labels_of(at(step.desired or {}, "spec", "template", default={}) or {})
    replicas = _replicas(step.desired)
    for ref, manifest in declared.items():
        selector = at(manifest, "spec", "selector", default=None)
        if ref.kind != "PodDisruptionBudget" or ref.namespace != step.ref.namespace or not selector:
            continue
        available = at(manifest, "spec", "minAvailable", default=None)
        blocks = at(manifest, "spec", "maxUnavailable", default=None) in (0, "0%")
        blocks = blocks or available == "100%" or (isinstance(available, int) and available >= replicas > 0)
        if blocks and matches(selector, labels):
            yield f"{step.ref}: {ref} allows no eviction of its Pods, so nodes cannot be drained"


def _request_changes(steps: Iterable[Change]) -> Iterator[str]:
    """Yield how the sum of requested CPU and memory changes over all workloads of the steps."""
    workloads = [step for step in steps if step.ref.kind in _WORKLOADS]
    for resource, title in _REQUESTS:
        # Fractions: a sum of floats could differ by rounding where nothing changes.
        old = sum((_requested(step.live, resource) for step in workloads), Fraction())
        new = sum((_requested(step.desired, resource) for step in workloads), Fraction())
        if old != new:
            yield f"requests {_amount(old, resource)} → {_amount(new, resource)} {title}"


def _requested(manifest: Manifest | None, resource: str) -> Fraction:
    """Return what all Pods of a workload request, in cores or bytes; a value that is not a quantity counts as none."""
    containers = at(manifest or {}, "spec", "template", "spec", "containers", default=()) or ()
    total = Fraction()
    for container in containers:
        amount = at(container, "resources", "requests", resource, default=None)
        if isinstance(amount, str | int):
            try:
                total += Fraction(quantity.parse(str(amount)).nanos, _NANO)
            except (ValueError, GitsyncError):  # the API server reports it
                continue
    return total * _replicas(manifest)


def _amount(total: Fraction, resource: str) -> str:
    form = quantity.Form.BINARY if resource == "memory" else quantity.Form.DECIMAL
    return str(quantity.Quantity(int(total * _NANO), form))


def _replicas(manifest: Manifest | None) -> int:
    """Return the declared number of Pods: 1 by default, and for a DaemonSet, whose number the nodes decide."""
    replicas = at(manifest or {}, "spec", "replicas", default=1)
    return replicas if isinstance(replicas, int) else 1


def _pods(count: int) -> str:
    return f"{count} {'Pod' if count == 1 else 'Pods'}"
