"""Parts of a plan that can run without the rest: what a step depends on, and the plan of some of its steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from gitsync.kube.kinds import CRD, NAMESPACE, defined_kind
from gitsync.objects.change import Action, Change, Plan
from gitsync.objects.ref import ObjectRef
from gitsync.plan.explain import explain
from gitsync.plan.hook_needs import needs_of
from gitsync.plan.risk.table import plan_risk


@dataclass(frozen=True, slots=True)
class Need:
    """Another object whose step has to run too, and why, as the end of a sentence that starts with the object."""

    ref: ObjectRef
    reason: str


def needs_by_step(plan: Plan) -> Mapping[ObjectRef, tuple[Need, ...]]:
    """
    Return what the step of each object directly depends on.

    An applied object needs what it refers to, its namespace and the definition of its kind, steps of an earlier sync
    wave, and the delete of the generated object that it follows. A deleted one needs the steps of all objects that
    refer to it until then. Hooks belong to every part.
    """
    writes = [step for step in plan.writes if step.action is not Action.HOOK]
    known = {step.ref for step in writes}
    return {
        step.ref: tuple(
            dict.fromkeys(need for need in _needs(step, writes) if need.ref in known and need.ref != step.ref)
        )
        for step in writes
    }


def closure(selected: Iterable[ObjectRef], needs: Mapping[ObjectRef, tuple[Need, ...]]) -> frozenset[ObjectRef]:
    """Return the objects with everything that their steps depend on."""
    refs = set[ObjectRef]()
    waiting = [ref for ref in selected if ref in needs]
    while waiting:
        ref = waiting.pop()
        if ref not in refs:
            refs.add(ref)
            waiting += [need.ref for need in needs[ref]]
    return frozenset(refs)


def part_of(plan: Plan, steps: Iterable[str], max_deletes: int) -> Plan:
    """
    Return the plan of some objects (paths of their refs) and all hooks, under the digest of the whole plan.

    What the whole plan leaves unchanged stays.
    """
    wanted = frozenset(steps)
    changes = tuple(
        step for step in plan.changes if not step.is_write or step.action is Action.HOOK or step.ref.path in wanted
    )
    return replace(plan, changes=changes, risk=plan_risk(changes, max_deletes), explanation=explain(changes))


def _needs(step: Change, writes: Iterable[Change]) -> Iterator[Need]:
    if step.action is Action.PRUNE:
        yield from _needs_of_delete(step, writes)
        return
    applied = [other for other in writes if other.action is not Action.PRUNE]
    yield from (Need(ref, "is used by it") for ref in needs_of(step.desired or {}, step.ref, applied))
    yield from (Need(other.ref, "is in an earlier sync wave") for other in applied if _is_earlier(other, step))
    if step.follows is not None:
        yield Need(step.follows, "is replaced by it")


def _is_earlier(other: Change, step: Change) -> bool:
    return other.stage == step.stage and other.wave < step.wave


def _needs_of_delete(step: Change, writes: Iterable[Change]) -> Iterator[Need]:
    of = step.ref.of
    ref = step.ref
    for other in writes:
        if other.live is not None and ref in set(needs_of(other.live, other.ref, ())):
            yield Need(other.ref, "refers to it until then")
        if other.action is Action.PRUNE and (
            (of == NAMESPACE and other.ref.namespace == ref.name)
            or (of == CRD and defined_kind(step.live or {}) == other.ref.of)
        ):
            yield Need(other.ref, "is deleted with it")
