"""Parts of a plan that can run without the rest: what a step depends on, and the plan of some of its steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gitsync.kube.kinds import CRD, NAMESPACE, defined_kind
from gitsync.objects.change import Action, Change, Plan
from gitsync.objects.ref import ObjectRef
from gitsync.plan.explain import explain
from gitsync.plan.hook_needs import grants, needs_of
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
    steps = _Steps.of([step for step in plan.writes if step.action is not Action.HOOK])
    known = {step.ref for step in steps.writes}
    return {
        step.ref: tuple(
            dict.fromkeys(need for need in _needs(step, steps) if need.ref in known and need.ref != step.ref)
        )
        for step in steps.writes
    }


@dataclass(frozen=True, slots=True)
class _Steps:
    """The steps of a plan, arranged so that what each needs is found without a pass over all: a plan has thousands."""

    writes: Sequence[Change]
    granting: Sequence[Change]
    """Those that are applied and define a kind or give rights, which ``needs_of`` searches."""
    waves: Mapping[int, Mapping[int, Sequence[ObjectRef]]]
    """The applied objects by stage and wave."""
    users: Mapping[ObjectRef, Sequence[ObjectRef]]
    """The objects that refer to each object now."""

    @classmethod
    def of(cls, writes: Sequence[Change]) -> _Steps:
        applied = [step for step in writes if step.action is not Action.PRUNE]
        waves: dict[int, dict[int, list[ObjectRef]]] = {}
        for step in applied:
            waves.setdefault(step.stage, {}).setdefault(step.wave, []).append(step.ref)
        users: dict[ObjectRef, list[ObjectRef]] = {}
        # only a delete needs them
        for step in writes if len(applied) < len(writes) else ():
            for ref in dict.fromkeys(needs_of(step.live, step.ref, ())) if step.live is not None else ():
                users.setdefault(ref, []).append(step.ref)
        return cls(writes, [step for step in applied if grants(step.ref)], waves, users)


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


def _needs(step: Change, steps: _Steps) -> Iterator[Need]:
    if step.action is Action.PRUNE:
        yield from _needs_of_delete(step, steps)
        return
    yield from (Need(ref, "is used by it") for ref in needs_of(step.desired or {}, step.ref, steps.granting))
    for wave, refs in steps.waves[step.stage].items():
        if wave < step.wave:
            yield from (Need(ref, "is in an earlier sync wave") for ref in refs)
    if step.follows is not None:
        yield Need(step.follows, "is replaced by it")


def _needs_of_delete(step: Change, steps: _Steps) -> Iterator[Need]:
    of = step.ref.of
    yield from (Need(user, "refers to it until then") for user in steps.users.get(step.ref, ()))
    if of not in (NAMESPACE, CRD):
        return
    for other in steps.writes:
        if other.action is Action.PRUNE and (
            (of == NAMESPACE and other.ref.namespace == step.ref.name)
            or (of == CRD and defined_kind(step.live or {}) == other.ref.of)
        ):
            yield Need(other.ref, "is deleted with it")
