"""What a plan does to the running system: Pods that restart, start or stop, data that is lost. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from gitsync.kube.references import Relation
from gitsync.objects.change import DRIFT, Action, Change, Plan
from gitsync.objects.keys import AGENTS_GROUP
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.ports import ApplicationView
from gitsync.preview.effects import dangling_references
from gitsync.server.formatting import visible
from gitsync.server.queries.object_details import users_of
from gitsync.server.queries.waiting import Owned, mounted_by
from gitsync.services.usage import TokenWeek

_WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")
_REMOVES = (Action.PRUNE, Action.REPLACE)


@dataclass(frozen=True, slots=True)
class ObjectEffect:
    """One effect; ``is_loss`` where it cannot be undone by a revert."""

    text: str
    ref: ObjectRef
    is_loss: bool = False


def effects(
    view: ApplicationView, plan: Plan, owned: Owned, others: Callable[[], Iterable[ApplicationView]] = tuple
) -> list[ObjectEffect]:
    """Return the effects of a plan, losses first; ``others`` are Applications that may declare what it refers to."""
    users = users_of(view.resources)
    written = {step.ref for step in plan.writes}
    not_restarted = {ref: [user for user in references if user.ref not in written] for ref, references in users.items()}
    references = [effect for step in plan.writes for effect in _of_step(view, step, owned, not_restarted)]
    references += _dangling(view, plan, others)
    return sorted(references, key=lambda effect: (not effect.is_loss, effect.ref.kind, effect.ref.name))


def _dangling(
    view: ApplicationView, plan: Plan, others: Callable[[], Iterable[ApplicationView]]
) -> Iterator[ObjectEffect]:
    """Yield what the plan makes objects refer to, and neither Git nor the cluster is known to have."""
    declared = {item.ref: item.change.desired for item in view.resources if item.change.desired is not None}
    # what is known of a drifted object is its repair, which restores what was applied before this plan
    declared |= {step.ref: step.desired for step in plan.writes if step.desired is not None}

    @cache
    def provided() -> frozenset[ObjectRef]:
        # read for a name that this Application does not declare only: there may be thousands of Applications
        return frozenset(item.ref for other in others() for item in other.resources)

    found = dangling_references(plan.writes, declared, lambda ref: ref in provided())
    for ref, text in dict.fromkeys(found):
        yield ObjectEffect(visible(text), ref)


def _of_step(
    view: ApplicationView, step: Change, owned: Owned, users: Mapping[ObjectRef, Sequence[Relation]]
) -> Iterator[ObjectEffect]:
    ref = step.ref
    if ref.kind in _WORKLOADS:
        yield from _of_workload(step)
    elif ref.kind == "PersistentVolumeClaim" and step.action in _REMOVES:
        yield _lost_volume(view, step, owned)
    elif ref.kind in ("Namespace", "CustomResourceDefinition") and step.action in _REMOVES:
        what = "everything in it" if ref.kind == "Namespace" else "every object of its kind, in all namespaces"
        yield ObjectEffect(f"deletes {what}", ref, is_loss=True)
    elif ref.kind in ("ConfigMap", "Secret") and step.action is Action.UPDATE:
        yield from _not_read(step, users.get(ref, ()))


def _of_workload(step: Change) -> Iterator[ObjectEffect]:
    old = _replicas(step.live)
    new = _replicas(step.desired)
    changed = [item.path for item in step.differences if item.kind in DRIFT]
    match step.action:
        case Action.CREATE:
            yield ObjectEffect(f"starts {_pods(new)}", step.ref)
        case Action.PRUNE:
            yield ObjectEffect(f"stops {_pods(old)}", step.ref)
        case Action.REPLACE:
            yield ObjectEffect(f"stops {_pods(old)}, then starts {_pods(new)}: not available in between", step.ref)
        # only a change of the template is a rollout
        case Action.UPDATE if any(path.startswith(".spec.template") for path in changed):
            yield ObjectEffect(f"restarts {_pods(old)}", step.ref)
    if step.action is Action.UPDATE and ".spec.replicas" in changed and old != new:
        yield ObjectEffect(f"scales from {old} to {new}", step.ref)


def _lost_volume(view: ApplicationView, step: Change, owned: Owned) -> ObjectEffect:
    size = str(at(step.live, "spec", "resources", "requests", "storage", default="a volume"))
    item = next((item for item in view.resources if item.ref == step.ref), None)
    users = mounted_by(item, view, owned) if item is not None else ()
    mounts = f"mounted by {', '.join(users)}" if users else "mounted by no Pod of this application"
    return ObjectEffect(visible(f"deletes the data of {size}, {mounts}"), step.ref, is_loss=True)


def _not_read(step: Change, users: Iterable[Relation]) -> Iterator[ObjectEffect]:
    """Yield the workloads, among those the plan does not write, whose running Pods keep old values as environment."""
    for reference in users:
        # the kubelet updates mounted files, but variables only when a container starts
        if reference.relation == "reads":
            yield ObjectEffect(visible(f"{reference.ref} keeps the old values until its Pods restart"), step.ref)


def _replicas(manifest: Manifest | None) -> int:
    replicas = at(manifest or {}, "spec", "replicas", default=1)
    if (manifest or {}).get("kind") == "DaemonSet":
        replicas = at(manifest, "status", "desiredNumberScheduled", default=1)
    return replicas if isinstance(replicas, int) else 1


def _pods(count: int) -> str:
    return f"{count} {'Pod' if count == 1 else 'Pods'}"


_CHARACTERS: Final = 4
"""Characters of a prompt that are about one token of the common tokenizers."""
_NOTEWORTHY: Final = 0.05
"""The share by which tokens have to change for a forecast; a smaller one is within its error."""


def token_forecasts(
    view: ApplicationView, plan: Plan, weeks: Mapping[tuple[str, str], TokenWeek]
) -> list[ObjectEffect]:
    """
    Return how many tokens Agents will use with the prompts of a plan, by the requests of last week.

    Each request has the whole prompt, so that a longer one adds its tokens to each. Agents without figures have none.
    """
    # without figures there is nothing to compute: most installations have no Prometheus
    if not weeks:
        return []
    written = {step.ref for step in plan.writes}
    live = {item.ref: item.change.live for item in view.resources}
    desired = {item.ref: item.change.desired for item in view.resources}
    agents = [item for item in view.resources if (item.ref.group, item.ref.kind) == (AGENTS_GROUP, "Agent")]
    effects = []
    for item in agents:
        week = weeks.get((item.ref.namespace, item.ref.name))
        old, old_source = _prompt(item.change.live, live)
        new, new_source = _prompt(item.change.desired, desired)
        is_written = bool(written & {item.ref, old_source, new_source})
        if is_written and week is not None and old is not None and new is not None:
            text = _forecast(week, (len(new) - len(old)) / _CHARACTERS, item.change.desired)
            effects += [ObjectEffect(text, item.ref)] if text else []
    return effects


def _prompt(
    agent: Manifest | None, objects: Mapping[ObjectRef, Manifest | None]
) -> tuple[str | None, ObjectRef | None]:
    """Return the prompt of an Agent, None where it is not known, and the ConfigMap that it is read from."""
    if agent is None:
        return None, None
    name = at(agent, "spec", "prompt", "configMapKeyRef", "name")
    if not name:
        return str(at(agent, "spec", "prompt", "text", default="")), None
    source = ObjectRef("", "ConfigMap", ref_of(agent).namespace, str(name))
    text = at(objects.get(source), "data", str(at(agent, "spec", "prompt", "configMapKeyRef", "key", default="")))
    return (text if isinstance(text, str) else None), source


def _forecast(week: TokenWeek, added: float, agent: Manifest | None) -> str:
    """Return the tokens of a day with those that each request has more, empty where that is about what it was."""
    before = week.tokens / 7
    after = max((week.tokens + added * week.requests) / 7, 0.0)
    if before <= 0 or abs(after / before - 1) < _NOTEWORTHY:
        return ""
    why = "longer" if added > 0 else "shorter"
    limit = at(agent, "spec", "budget", "agent", "tokensPerDay")
    beyond = f", over its budget of {limit:,}" if isinstance(limit, int) and after > limit else ""
    return (
        f"uses about {after / before:.1f} x the tokens, {before:,.0f} to {after:,.0f} a day{beyond},"
        f" by last week's requests and the {why} prompt"
    )


_LISTED = 20


@dataclass(frozen=True, slots=True)
class PlanChange:
    """One difference between two plans: what happened to a step, and which one."""

    what: str
    text: str


def plan_changes(shown: Plan, now: Plan) -> tuple[PlanChange, ...]:
    """Return what changed from one plan to another, at most 20 steps and then their number."""
    old = _steps(shown)
    new = _steps(now)
    changes = [PlanChange("new step", _label(new[ref])) for ref in new.keys() - old.keys()]
    changes += [PlanChange("no longer planned", _label(old[ref])) for ref in old.keys() - new.keys()]
    changes += [
        PlanChange("changed", _label(new[ref]))
        for ref in new.keys() & old.keys()
        if (old[ref].action, old[ref].desired, old[ref].differences)
        != (new[ref].action, new[ref].desired, new[ref].differences)
    ]
    changes.sort(key=lambda item: (item.what, item.text))
    if shown.revision != now.revision:
        changes.insert(0, PlanChange("other commit", f"{shown.revision[:7]} → {now.revision[:7]}"))
    if not changes:
        return (PlanChange("changed", "an object in the cluster was written since; the steps are the same"),)
    rest = len(changes) - _LISTED
    return (*changes[:_LISTED], *([PlanChange("and", f"{rest} more")] if rest > 0 else []))


def _steps(plan: Plan) -> dict[ObjectRef, Change]:
    return {step.ref: step for step in plan.writes}


def _label(step: Change) -> str:
    return visible(f"{step.action.value} {step.ref} ({step.risk.value})")
