"""
Objects that hold something of which the cluster has one, such as a node port.

Where a commit renames such an object, the API server refuses the new one as long as the old one exists, and a prune
waits for all applies: neither would ever happen. So this pair is ordered the other way round.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from gitsync.kube.kinds import SERVICE
from gitsync.objects.change import Action, Change
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import GroupKind, ObjectRef

PRIORITY_CLASS: Final = GroupKind("scheduling.k8s.io", "PriorityClass")


def with_room(steps: Iterable[Change], rejections: Mapping[ObjectRef, str] | None = None) -> list[Change]:
    """
    Return the steps, with each prune before the creation that needs what the pruned object holds.

    A creation names the prune that it waits for, and both say what the order costs: for a moment neither exists. What
    else is exclusive is known once a creation was rejected: ``rejections`` has the messages of the last attempt, which
    name the holder.
    """
    changes = list(steps)
    creations = [step for step in changes if step.action is Action.CREATE and step.live is None]
    holders = dict(_holders(changes)) if creations else {}
    pairs = {
        step.ref: (holders[thing], thing)
        for step in creations
        for thing in _things(step.ref, step.desired or {})
        if thing in holders
    }
    if rejections:
        pruned = [step.ref for step in changes if step.action is Action.PRUNE]
        for step in creations:
            message = rejections.get(step.ref, "")
            holder = next((ref for ref in pruned if ref.of == step.ref.of and _names(message, ref)), None)
            if holder is not None and step.ref not in pairs:
                pairs[step.ref] = (holder, "what it needs")
    if not pairs:
        return changes
    stages = {pruned: step.stage for step in changes if step.ref in pairs for pruned in (pairs[step.ref][0],)}
    names = {pruned: ref for ref, (pruned, _) in pairs.items()}
    return [
        _first(step, stages[step.ref], names[step.ref]) if step.ref in stages else _waiting(step, pairs.get(step.ref))
        for step in changes
    ]


def _names(message: str, ref: ObjectRef) -> bool:
    """
    Whether a rejection is about another object, by its namespace and name.

    Of an Ingress: ``host "a" and path "/" is already defined in ingress shop/web`` (kubernetes/ingress-nginx,
    internal/ingress/controller/controller.go: checkOverlap).
    """
    named = re.escape(f"{ref.namespace}/{ref.name}" if ref.namespace else ref.name)
    return re.search(rf"(?<![\w.-]){named}(?![\w-]|\.\w)", message) is not None


def _first(prune: Change, stage: int, successor: ObjectRef) -> Change:
    """Return a prune in the stage before that of its successor."""
    reason = f"before {successor} is created, which needs what it holds"
    return replace(prune, stage=stage - 1, wave=0, reason=_joined(reason, prune.reason))


def _joined(reason: str, risk: str) -> str:
    """Return the reason of the order before that of the class."""
    return f"{reason}; {risk}" if risk else reason


def _waiting(step: Change, pair: tuple[ObjectRef, str] | None) -> Change:
    if pair is None:
        return step
    pruned, thing = pair
    reason = f"once {pruned} is deleted, which holds {thing}: for a moment neither exists"
    return replace(step, waits_for=pruned, reason=_joined(reason, step.reason))


def _holders(steps: Iterable[Change]) -> Iterator[tuple[str, ObjectRef]]:
    for step in steps:
        if step.action is Action.PRUNE:
            for thing in _things(step.ref, step.live or {}):
                yield thing, step.ref


def _things(ref: ObjectRef, manifest: Manifest) -> Iterator[str]:
    """Yield what an object holds alone."""
    holds = _KINDS.get(ref.of)
    if holds is not None:
        yield from holds(manifest)


def _service(service: Manifest) -> Iterator[str]:
    """Yield the ports of nodes and the addresses of a Service (pkg/registry/core/service: "already allocated")."""
    spec = service.get("spec")
    ports = at(spec, "ports", default=[])
    for port in ports if isinstance(ports, list) else ():
        if at(port, "nodePort"):
            yield f"node port {port['nodePort']}/{port.get('protocol', 'TCP')}"
    if at(spec, "healthCheckNodePort"):
        yield f"node port {at(spec, 'healthCheckNodePort')}/TCP"
    for address in {at(spec, "clusterIP"), *(at(spec, "clusterIPs") or ())} - {None, "", "None"}:
        yield f"address {address}"
    if at(spec, "loadBalancerIP"):
        yield f"address {at(spec, 'loadBalancerIP')} of a load balancer"


def _priority_class(made: Manifest) -> Iterator[str]:
    """Yield the default of the cluster (plugin/pkg/admission/priority: "already marked as default")."""
    if made.get("globalDefault") is True:
        yield "the default priority"


_KINDS: Final[Mapping[GroupKind, Callable[[Manifest], Iterator[str]]]] = {
    SERVICE: _service,
    PRIORITY_CLASS: _priority_class,
}
