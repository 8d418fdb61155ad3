"""Parts of a plan that can run without the rest: what a step depends on, and the plan of some of its steps."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from gitsync.errors import InvalidInput
from gitsync.kube.kinds import CRD, NAMESPACE, defined_kind
from gitsync.objects.change import Action, Change, Plan
from gitsync.objects.ref import ObjectRef
from gitsync.plan.explain import explain
from gitsync.plan.hook_needs import grants, needs_of
from gitsync.plan.risk.table import plan_risk


@dataclass(frozen=True, slots=True)
class Choice:
    """
    The objects that a user wants to be synced of the plan of one commit, its ``revision``, and how.

    With ``prune`` those are deleted that Git no longer declares. With ``replace`` those are deleted and created again
    that cannot be changed in place, as the annotation ``gitsync.dev/force`` has it. ``by`` is who requested it.
    """

    refs: frozenset[ObjectRef]
    revision: str = ""
    prune: bool = False
    replace: bool = False
    by: str = ""

    def to_annotation(self) -> str:
        """Return the value of the annotation that keeps it until its sync has ended."""
        objects = sorted(ref.path for ref in self.refs)
        options = {"prune": self.prune, "replace": self.replace}
        return orjson.dumps({"objects": objects, "revision": self.revision, **options, "by": self.by}).decode()

    @classmethod
    def from_annotation(cls, text: str) -> Choice:
        """Return the choice that an annotation keeps; one of another form chooses nothing, and never everything."""
        try:
            members: dict[str, Any] = orjson.loads(text)
            refs = frozenset(ObjectRef.from_path(str(path)) for path in members["objects"])
            options = {name: members.get(name) is True for name in ("prune", "replace")}
            return cls(refs, str(members["revision"]), **options, by=str(members.get("by", "")))
        # a user who may annotate an Application can write any text
        except (ValueError, TypeError, KeyError, AttributeError):
            return cls(frozenset())

    @property
    def options(self) -> tuple[str, ...]:
        """The names of the options that are on."""
        return tuple(name for name, is_on in (("prune", self.prune), ("replace", self.replace)) if is_on)


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


def check_closed(plan: Plan, chosen: Collection[ObjectRef], subject: str) -> None:
    """Raise InvalidInput, about ``subject``, where the steps of some objects depend on steps of others."""
    missing = sorted(closure(chosen, needs_by_step(plan)).difference(chosen))
    if missing:
        names = ", ".join(map(str, missing))
        raise InvalidInput(f"the selected steps depend on {names}", object=subject, hint="select these steps too")


def part_of(plan: Plan, steps: Iterable[str], max_deletes: int, *, has_hooks: bool = True) -> Plan:
    """
    Return the plan of some objects (paths of their refs), under the digest of the whole plan.

    What the whole plan leaves unchanged stays. All hooks are part of it unless ``has_hooks`` is False.
    """
    wanted = frozenset(steps)
    changes = tuple(
        step
        for step in plan.changes
        if not step.is_write or (has_hooks if step.action is Action.HOOK else step.ref.path in wanted)
    )
    return replace(plan, changes=changes, risk=plan_risk(changes, max_deletes), explanation=explain(changes))


def chosen_part(plan: Plan, choice: Choice, max_deletes: int) -> Plan:
    """
    Return the part of a plan that a user chose: without hooks, which are other objects.

    Nothing of a plan for another commit is chosen.
    """
    is_same = choice.revision == plan.revision
    chosen = (
        step.ref.path
        for step in plan.writes
        if is_same and step.ref in choice.refs and (choice.prune or step.action is not Action.PRUNE)
    )
    return part_of(plan, chosen, max_deletes, has_hooks=False)


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
