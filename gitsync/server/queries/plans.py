"""What a plan does to the running system: Pods that restart, start or stop, data that is lost. Pure."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import orjson

from gitsync.agents.budget import Price, parse_prices
from gitsync.errors import InvalidInput
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
    Return the tokens and the money that Agents will use by a plan, from the requests of last week.

    Each request has the whole prompt, so that a longer one adds its tokens to each; another model, or another table of
    prices, changes what they cost. The number of replicas changes neither, since users decide how many requests there
    are, but an Agent without any uses nothing. Agents without figures have no forecast.
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
        old = _Demand.of(item.change.live, live)
        new = _Demand.of(item.change.desired, desired)
        if week is None or old is None or new is None or not written & {item.ref, *old.sources, *new.sources}:
            continue
        effects += [ObjectEffect(text, item.ref) for text in _forecasts(week, old, new, item.change.desired)]
    return effects


@dataclass(frozen=True, slots=True)
class _Demand:
    """
    What of an Agent decides about its tokens and what they cost; ``price`` is None where it is not known.

    ``sources`` are the ConfigMaps with its prompt and its prices.
    """

    prompt: str
    model: str
    price: Price | None
    is_stopped: bool
    sources: frozenset[ObjectRef]

    @classmethod
    def of(cls, agent: Manifest | None, objects: Mapping[ObjectRef, Manifest | None]) -> _Demand | None:
        """Return the demand of an Agent, None where it or its prompt is not known."""
        if agent is None:
            return None
        spec = agent.get("spec") or {}
        text, prompt_source = _member(agent, objects, "prompt", "configMapKeyRef")
        prices, prices_source = _member(agent, objects, "budget", "prices")
        prompt = text if prompt_source is not None else str(at(spec, "prompt", "text", default=""))
        if prompt is None:
            return None
        model = str(at(spec, "model", "id", default=""))
        sources = frozenset(source for source in (prompt_source, prices_source) if source is not None)
        is_stopped = at(spec, "suspend") is True or (at(spec, "replicas") == 0 and not at(spec, "autoscaling"))
        return cls(prompt, model, _price(prices, model), is_stopped, sources)

    def tokens(self, week: TokenWeek, prompt: str) -> tuple[float, float]:
        """Return the tokens of questions and answers of a day, by a week with another prompt."""
        if self.is_stopped:
            return 0.0, 0.0
        added = (len(self.prompt) - len(prompt)) / _CHARACTERS
        return max((week.tokens - week.answered + added * week.requests) / 7, 0.0), week.answered / 7


def _member(
    agent: Manifest, objects: Mapping[ObjectRef, Manifest | None], *path: str
) -> tuple[str | None, ObjectRef | None]:
    """Return the text of the ConfigMap member that a field of an Agent names, and the ConfigMap."""
    reference = at(agent, "spec", *path) or {}
    if not reference.get("name"):
        return None, None
    source = ObjectRef("", "ConfigMap", ref_of(agent).namespace, str(reference["name"]))
    text = at(objects.get(source), "data", str(reference.get("key", "")))
    return (text if isinstance(text, str) else None), source


def _price(table: str | None, model: str) -> Price | None:
    try:
        return parse_prices(table, "prices").get(model) if table is not None else None
    # the operator reports a table that it cannot read; a page shows all else
    except InvalidInput:
        return None


def _forecasts(week: TokenWeek, old: _Demand, new: _Demand, agent: Manifest | None) -> Iterator[str]:
    """Yield the tokens and the cost of a day with and without a change, as far as they are not about the same."""
    # nothing was measured of one that was stopped, and what it would use is unknown
    if old.is_stopped or week.tokens <= 0:
        return
    before = old.tokens(week, old.prompt)
    after = new.tokens(week, old.prompt)
    longer = "longer" if len(new.prompt) > len(old.prompt) else "shorter"
    reasons = {
        "no replicas": new.is_stopped,
        f"the {longer} prompt": len(new.prompt) != len(old.prompt) and not new.is_stopped,
    }
    limits = at(agent, "spec", "budget", "agent", default={}) or {}
    factor = sum(after) / sum(before)
    if abs(factor - 1) >= _NOTEWORTHY:
        limit = limits.get("tokensPerDay")
        beyond = f", over its budget of {limit:,}" if isinstance(limit, int) and sum(after) > limit else ""
        amounts = f"{sum(before):,.0f} to {sum(after):,.0f} a day"
        yield f"uses about {factor:.1f} x the tokens, {amounts}{beyond}, {_by(reasons)}"
    if old.price is None or new.price is None:
        return
    reasons |= {f"model {visible(new.model)}": new.model != old.model, "the new prices": new.model == old.model}
    cost = old.price.of(*before)
    new_cost = new.price.of(*after)
    # where nothing but the tokens changes, the cost says the same
    is_priced_anew = new.price != old.price
    if is_priced_anew and cost > 0 and abs(new_cost / cost - 1) >= _NOTEWORTHY:
        limit = _amount(limits.get("costPerDay"))
        beyond = f", over its budget of {limit:.2f}" if limit is not None and new_cost > limit else ""
        yield f"costs about {new_cost / cost:.1f} x, {cost:.2f} to {new_cost:.2f} a day{beyond}, {_by(reasons)}"


def _by(reasons: Mapping[str, bool]) -> str:
    named = [reason for reason, holds in reasons.items() if holds]
    return f"by last week's requests{''.join(f', {reason}' for reason in named[:-1])} and {named[-1]}"


def _amount(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


_LISTED = 20


@dataclass(frozen=True, slots=True)
class PlanChange:
    """One difference between two plans: what happened to a step, and which one."""

    what: str
    text: str


@dataclass(frozen=True, slots=True)
class ShownPlan:
    """
    What a form has of the plan that it is about, so that any replica can say what changed since.

    ``steps`` are, by the path of the object, the words for a step and a hash of what it does.
    """

    revision: str
    steps: Mapping[str, tuple[str, str]]

    @classmethod
    def of(cls, plan: Plan) -> ShownPlan:
        """Return what a form needs of a plan."""
        return cls(plan.revision, {step.ref.path: (_label(step), _hash(step)) for step in plan.writes})

    def dump(self) -> str:
        """Return it as text; of a plan of many steps without them, which would double the page."""
        steps = self.steps if len(self.steps) <= _CARRIED else {}
        return base64.b64encode(zlib.compress(orjson.dumps([self.revision, steps]))).decode()

    @classmethod
    def load(cls, text: str) -> ShownPlan | None:
        """Return what ``dump`` wrote, None where it had no steps. The text has to be one that was sealed."""
        revision, steps = orjson.loads(zlib.decompress(base64.b64decode(text)))
        return cls(revision, {path: (label, hash) for path, (label, hash) in steps.items()}) if steps else None


_CARRIED: Final = 200
"""Steps that a form has at most."""


def _hash(step: Change) -> str:
    content = (step.action.value, step.desired, [(item.path, item.live, item.desired) for item in step.differences])
    # not orjson: it refuses integers over 64 bits, which a manifest may have
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:16]


def plan_changes(shown: ShownPlan, now: Plan) -> tuple[PlanChange, ...]:
    """Return what changed from the plan of a form to that of now, at most 20 steps and then their number."""
    old = shown.steps
    new = ShownPlan.of(now).steps
    changes = [PlanChange("new step", new[path][0]) for path in new.keys() - old.keys()]
    changes += [PlanChange("no longer planned", old[path][0]) for path in old.keys() - new.keys()]
    changes += [PlanChange("changed", new[path][0]) for path in new.keys() & old.keys() if old[path][1] != new[path][1]]
    changes.sort(key=lambda item: (item.what, item.text))
    if shown.revision != now.revision:
        changes.insert(0, PlanChange("other commit", f"{shown.revision[:7]} → {now.revision[:7]}"))
    if not changes:
        return (PlanChange("changed", "an object in the cluster was written since; the steps are the same"),)
    rest = len(changes) - _LISTED
    return (*changes[:_LISTED], *([PlanChange("and", f"{rest} more")] if rest > 0 else []))


def _label(step: Change) -> str:
    return visible(f"{step.action.value} {step.ref} ({step.risk.value})")
