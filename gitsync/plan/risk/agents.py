"""Risk rules for AI agents: model endpoint, tool approval, prompt, network, credentials."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from gitsync.objects.change import DRIFT, Change
from gitsync.objects.keys import AGENTS_GROUP, EVALUATION_ANNOTATION
from gitsync.objects.manifest import annotations_of, at
from gitsync.plan.risk.agent_fields import OWN, PLATFORMS, AgentFields, FieldPath, values_at
from gitsync.plan.risk.privileges import secret_refs


def tool_unapproved(change: Change) -> str | None:
    """Match an agent that may now call a tool without approval: it left requireApproval and is still allowed."""
    for name, live, desired in _both(change):
        old = _tools(live)
        new = _tools(desired)
        for tool in sorted(old.keys() & new.keys()):
            freed = set(old[tool].get("requireApproval") or ()) - set(new[tool].get("requireApproval") or ())
            # Without ``allow`` every function of the tool may be called.
            freed &= set(new[tool].get("allow") or freed)
            if freed:
                return f"{name}{tool}: {', '.join(sorted(freed))}"
    for fields, live, desired in _foreign(change):
        removed = values_at(live, fields.approvals) - values_at(desired, fields.approvals)
        # One that may not be called any more needs no approval. Without names every function may be called.
        allowed = values_at(desired, fields.functions)
        has_tools = bool(values_at(desired, fields.tools))
        freed = {function for function in removed if function in allowed or (has_tools and not allowed)}
        if freed:
            return ", ".join(sorted(freed))
    return None


def tool_moved(change: Change) -> str | None:
    """Match an agent with a tool or a peer that is reached elsewhere, or that it did not have before."""
    return _added(change, lambda fields: fields.tools)


def data_moved(change: Change) -> str | None:
    """Match an agent whose conversations go to another database or store, or are recorded elsewhere from now on."""
    store = _added(change, lambda fields: fields.stores)
    if store is None and _added(change, lambda fields: fields.recording) is not None:
        return "prompts and answers are recorded"
    return store


def permissions_changed(change: Change) -> str | None:
    """Match a tool whose program may reach something else."""
    for fields, live, desired in _foreign(change):
        if values_at(live, fields.permissions) != values_at(desired, fields.permissions):
            return ""
    return None


_STRICTNESS: Final = {"Report": 0, "Evaluate": 1, "": 2, "Hold": 3, "Stop": 4}
"""How much is done about contract drift; without a choice Dangerous drift holds, and Moderate one is evaluated."""


_BUDGET_STRICTNESS: Final = {"": 0, "Notify": 0, "Throttle": 1, "Suspend": 2}
"""How much is done beyond a budget."""


_EVALUATION_DEFAULTS: Final[dict[tuple[str, ...], int]] = {
    ("passPercent",): 100,
    ("samples",): 1,
    ("samplePercent",): 100,
    ("noWorseThanServing",): False,
    ("judge", "votes"): 1,
}
"""Settings of an evaluation whose larger value checks more, and what the definition has where they are absent."""


def checks_weakened(change: Change) -> str | None:
    """Match an agent whose evaluation, contract, budget or analysis of canaries is removed or made weaker."""
    named = annotations_of(change.live or {}).get(EVALUATION_ANNOTATION)
    # other cases may be all that a commit needs to pass; what is deleted is judged as a delete
    if named and change.desired is not None and annotations_of(change.desired).get(EVALUATION_ANNOTATION) != named:
        return f"annotation {EVALUATION_ANNOTATION}"
    for name, live, desired in _both(change):
        for part in (("evaluation",), ("evaluation", "judge"), ("contract",), ("budget",)):
            if at(live, *part) and not at(desired, *part):
                return f"{name}{'.'.join(part)} is removed"
        # absent: the default of the definition
        for path, default in _EVALUATION_DEFAULTS.items():
            old, new = (at(spec, "evaluation", *path, default=default) for spec in (live, desired))
            # Of a single answer no share could pass.
            is_meaningless = path == ("samplePercent",) and at(live, "evaluation", "samples", default=1) == 1
            if at(live, "evaluation") and new < old and not is_meaningless:
                return f"{name}evaluation.{'.'.join(path)}"
        required = set(at(live, "evaluation", "mustPass", default=()) or ())
        if lost := required - set(at(desired, "evaluation", "mustPass", default=()) or ()):
            return f"{name}evaluation.mustPass: {', '.join(sorted(lost))}"
        old, new = (at(spec, "contract", "onContractDrift", default="") or "" for spec in (live, desired))
        # What is new is more than none, whatever is done about its drift.
        if at(live, "contract") and _STRICTNESS.get(new, 0) < _STRICTNESS.get(old, 0):
            return f"{name}contract.onContractDrift"
        old, new = (at(spec, "budget", "onExceeded", default="") or "" for spec in (live, desired))
        if _BUDGET_STRICTNESS.get(new, 0) < _BUDGET_STRICTNESS.get(old, 0):
            return f"{name}budget.onExceeded"
        if weakened := _weakened_limits(live, desired):
            return f"{name}update.canary.analysis: {', '.join(weakened)}"
    return None


def _weakened_limits(live: Mapping[str, Any], desired: Mapping[str, Any]) -> list[str]:
    """Return the limits of canaries that are removed, or that count less without data."""
    path = ("update", "canary", "analysis")
    old, new = (
        {limit.get("name"): limit.get("onNoData") == "Ignore" for limit in at(spec, *path, default=()) or ()}
        for spec in (live, desired)
    )
    return sorted(
        name for name, was_ignored in old.items() if new.get(name, True) and not (was_ignored and name in new)
    )


def model_moved(change: Change) -> str | None:
    """Match another model provider or endpoint of an agent, also one where there was none."""
    for name, live, desired in _both(change):
        for field in ("provider", "endpoint"):
            old = at(live, "model", field)
            new = at(desired, "model", field)
            if old != new:
                return f"{name}{field}"
        if _destinations(desired) - _destinations(live):
            return f"{name}fallbacks"
    for fields, live, desired in _foreign(change):
        old_places = values_at(live, fields.destinations)
        new_places = values_at(desired, fields.destinations)
        # Without an address of its own, a model is reached at that of its provider: a removed one is a move too.
        if moved := sorted(new_places - old_places) or sorted(old_places - new_places):
            return moved[0]
    return None


def network_opened(change: Change) -> str | None:
    """Match an agent whose managed network policy is removed or allows more."""
    for name, live, desired in _both(change):
        # absent: the default of the definition
        policy = at(live, "network", "policy", default="Managed")
        if policy == "Managed" and at(desired, "network", "policy", default="Managed") != "Managed":
            return f"{name}Managed to {at(desired, 'network', 'policy')}"
        for direction in ("ingressFrom", "egressTo"):
            known = at(live, "network", direction, default=[]) or []
            if any(peer not in known for peer in at(desired, "network", direction, default=[]) or []):
                return f"{name}{direction}"
    return None


def security_loosened(change: Change) -> str | None:
    """Match an agent that leaves the restricted security profile, or mounts its token."""
    for name, live, desired in _both(change):
        profile = ("runtime", "securityContext", "profile")
        old = at(live, *profile, default="Restricted")
        new = at(desired, *profile, default="Restricted")
        if old == "Restricted" and new != "Restricted":
            return f"{name}{old} to {new}"
        if _mounts_token(desired) and not _mounts_token(live):
            return f"{name}service account token"
    return None


def _mounts_token(spec: Any) -> bool:
    is_wanted = at(spec, "runtime", "serviceAccount", "automountToken") is True
    # an election writes a Lease, for which the pod needs its token
    return is_wanted or at(spec, "leaderElection") is not None


def credentials_moved(change: Change) -> str | None:
    """Match an agent that reads its credentials from a Secret it did not use before."""
    for name, live, desired in _both(change):
        added = sorted(secret_refs(desired) - secret_refs(live))
        if added:
            return f"{name}{added[0]}"
    for fields, live, desired in _foreign(change):
        if others := sorted(values_at(desired, fields.credentials) - values_at(live, fields.credentials)):
            return others[0]
    return None


def volumes_deletable(change: Change) -> str | None:
    """Match a volume that will now be deleted with its agent, and a removed one that is deleted at once."""
    for name, live, desired in _both(change):
        old = _volumes(live)
        new = _volumes(desired)
        removed = sorted(volume for volume in old.keys() - new.keys() if old[volume].get("onDelete") == "Delete")
        if removed:
            return f"{name}{removed[0]}"
        for volume in sorted(old.keys() & new.keys()):
            if new[volume].get("onDelete") == "Delete" and old[volume].get("onDelete", "Retain") == "Retain":
                return f"{name}{volume}"
    return None


def prompt_changed(change: Change) -> str | None:
    """Match a new or changed prompt, in an agent or in a ConfigMap that holds prompts."""
    if any(at(live, "prompt") != at(desired, "prompt") for _, live, desired in _both(change)):
        return ""
    if _differs(change, lambda fields: fields.prompts):
        return ""
    if change.ref.kind != "ConfigMap" or change.ref.group != "" or change.desired is None:
        return None
    if change.live is None:
        # a generator gives a changed prompt a new name, so to the cluster it is a new object
        keys = list(change.desired.get("data") or ())
    else:
        drift = (difference.pointer for difference in change.differences if difference.kind in DRIFT)
        keys = [pointer.rpartition("/")[2] for pointer in drift if pointer.startswith("/data/")]
    changed = sorted(key for key in keys if "prompt" in change.ref.name or "prompt" in key)
    return changed[0] if changed else None


def model_changed(change: Change) -> str | None:
    """Match any other change of the model."""
    if any(at(live, "model") != at(desired, "model") for _, live, desired in _both(change)):
        return ""
    return "" if _differs(change, lambda fields: fields.models) else None


def tools_changed(change: Change) -> str | None:
    """Match any other change of the tools."""
    if any(at(live, "tools") != at(desired, "tools") for _, live, desired in _both(change)):
        return ""
    return "" if _differs(change, lambda fields: (*fields.tools, *fields.functions)) else None


_PathsOf = Callable[[AgentFields], tuple[FieldPath, ...]]


def _added(change: Change, paths_of: _PathsOf) -> str | None:
    """Return a value that an agent of any platform has at some paths and did not have, None where there is none."""
    # nearly all objects: three rules ask for each
    if change.ref.group != AGENTS_GROUP and change.ref.of not in PLATFORMS:
        return None
    own = ((name, OWN, live, desired) for name, live, desired in _both(change))
    foreign = (("", *found) for found in _foreign(change))
    for name, fields, live, desired in (*own, *foreign):
        added = sorted(values_at(desired, paths_of(fields)) - values_at(live, paths_of(fields)))
        if added:
            return f"{name}{added[0]}"
    return None


def _differs(change: Change, paths_of: _PathsOf) -> bool:
    return any(
        values_at(live, paths_of(fields)) != values_at(desired, paths_of(fields))
        for fields, live, desired in _foreign(change)
    )


def _foreign(change: Change) -> Iterator[tuple[AgentFields, dict[str, Any], dict[str, Any]]]:
    """Yield the fields and both specs of an agent, model or tool of another platform that a step changes."""
    fields = PLATFORMS.get(change.ref.of)
    if fields is None or change.live is None or change.desired is None:
        return
    yield fields, change.live.get("spec") or {}, change.desired.get("spec") or {}


def _both(change: Change) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield (label, spec before, spec after) of every agent that a step changes, also those inside a system."""
    if change.ref.group != AGENTS_GROUP or change.live is None or change.desired is None:
        return
    live = change.live.get("spec") or {}
    desired = change.desired.get("spec") or {}
    if change.ref.kind == "Agent":
        yield "", live, desired
        return
    yield "defaults: ", live.get("defaults") or {}, desired.get("defaults") or {}
    old = _members(live)
    new = _members(desired)
    # Only members that both have: a new one has no former state that could be loosened.
    for name in sorted(old.keys() & new.keys()):
        yield f"{name}: ", old[name], new[name]


def _members(system: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        str(agent.get("name")): at(agent, "template", "spec", default={}) or {}
        for agent in system.get("agents") or []
        if isinstance(agent, dict)
    }


def _named(value: Any) -> dict[str, dict[str, Any]]:
    return {str(item.get("name")): item for item in value or [] if isinstance(item, dict)}


def _tools(spec: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return _named(spec.get("tools"))


def _volumes(spec: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return _named(at(spec, "state", "volumes"))


def _destinations(spec: dict[str, Any]) -> frozenset[tuple[str, str]]:
    models = [at(spec, "model", default={}), *(at(spec, "model", "fallbacks", default=[]) or [])]
    return frozenset((str(model.get("provider")), str(model.get("endpoint"))) for model in models if model)
