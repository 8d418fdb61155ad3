"""What the syncs of a period changed of agents: their models, prompts and tools. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gitsync.kube.references import references
from gitsync.objects.keys import AGENTS_GROUP
from gitsync.objects.manifest import at, metadata_of
from gitsync.objects.record import Outcome, Step, SyncRecord
from gitsync.objects.ref import ObjectRef
from gitsync.plan.risk.agent_fields import PLATFORM_AGENTS
from gitsync.server.queries.agents import FoundAgent
from gitsync.server.queries.fields import FieldRow, recorded_field

_FIELDS = 12
"""Fields of one change that are shown."""
_ASPECTS: Final[Mapping[str, re.Pattern[str]]] = {
    "model": re.compile(r"model", re.IGNORECASE),
    "prompt": re.compile(r"prompt|systemMessage|instructions", re.IGNORECASE),
    "tools": re.compile(r"tool", re.IGNORECASE),
}
_VARIABLE = re.compile(r"\.env\[name=\"?([\w.-]+)")
_MEMBER = re.compile(r"\.agents\[name=\"?([\w.-]+)")
# Kustomize's hasher encodes hexadecimal without 0, 1, 3, a and e, which could spell words
_HASH = re.compile(r"-[2456789bcdfghkmt]{10}$", re.ASCII)
"""What a generator of Kustomize appends to a name."""


@dataclass(frozen=True, slots=True)
class AgentChange:
    """What one sync changed of an agent: ``aspects`` are of model, prompt and tools; ``more`` fields are not shown."""

    agent: FoundAgent
    record: SyncRecord
    aspects: tuple[str, ...]
    fields: tuple[FieldRow, ...]
    more: int


def agent_changes(records: Iterable[SyncRecord], agents: Iterable[FoundAgent]) -> list[AgentChange]:
    """Return what these syncs changed of the model, prompt or tools of agents, in the order of the records."""
    known = [(agent, _sources(agent)) for agent in agents]
    changes: list[AgentChange] = []
    for record in records:
        changed = [item for step in record.steps for item in _changed(step)]
        for agent, sources in known if changed else ():
            if agent.application == record.application:
                mine = [(aspect, item) for ref, aspect, item in changed if _concerns(ref, item, agent, sources)]
                changes += [_change(agent, record, mine)] if mine else []
    return changes


def prompt_changes(records: Iterable[SyncRecord], agent: FoundAgent) -> Iterator[tuple[SyncRecord, str, str, str]]:
    """Yield the sync, the field, the text before and the text after of each change of a prompt of an agent."""
    sources = _sources(agent)
    for record in records:
        for ref, aspect, item in (change for step in record.steps for change in _changed(step)):
            old = item.get("live")
            new = item.get("desired")
            if aspect == "prompt" and _concerns(ref, item, agent, sources) and isinstance(new, str):
                yield record, str(item.get("path") or ""), old if isinstance(old, str) else "", new


def prompt_syncs(records: Iterable[SyncRecord], agents: Iterable[FoundAgent]) -> dict[ObjectRef, SyncRecord]:
    """
    Return the newest sync of a commit that wrote a prompt of each agent; without those of which no record has one.

    ``records`` are newest first. A generated ConfigMap is created when its prompt changes, others are updated.
    """
    written: dict[str, SyncRecord] = {}
    for record in records:
        # an Agent is synced to a generation of its spec, which has neither author nor date
        for step in () if record.commit.id.startswith("generation-") else record.steps:
            if step.outcome is Outcome.SUCCEEDED and _writes_prompt(step):
                written.setdefault(step.ref, record)
    syncs = {}
    for agent in agents:
        of_prompts = [written[prompt.ref.path] for prompt in agent.settings.prompts if prompt.ref.path in written]
        if of_prompts:
            syncs[agent.ref] = max(of_prompts, key=lambda record: record.started)
    return syncs


def _writes_prompt(step: Step) -> bool:
    """Return whether a step created an object, which may have a prompt, or changed a prompt of it."""
    return step.action in ("create", "replace") or any(aspect == "prompt" for _, aspect, _ in _changed(step))


def _change(agent: FoundAgent, record: SyncRecord, changed: list[tuple[str, Mapping[str, Any]]]) -> AgentChange:
    named = {aspect for aspect, _ in changed}
    fields = tuple(recorded_field(item, len(changed)) for _, item in changed[:_FIELDS])
    aspects = tuple(aspect for aspect in _ASPECTS if aspect in named)
    return AgentChange(agent, record, aspects, fields, max(len(changed) - _FIELDS, 0))


def _changed(step: Step) -> Iterator[tuple[ObjectRef, str, Mapping[str, Any]]]:
    """Yield the object, the aspect and the recorded difference of each field that a step changed of an agent."""
    ref = ObjectRef.from_path(step.ref)
    # a step that failed changed nothing
    for item in step.differences if step.outcome is Outcome.SUCCEEDED else ():
        aspect = _aspect(ref, str(item.get("path") or ""))
        if aspect:
            yield ref, aspect, item


def _aspect(ref: ObjectRef, path: str) -> str:
    """Return which of model, prompt and tools a field belongs to, empty for none."""
    if ref.kind == "ConfigMap" and not ref.group:
        # labels and annotations of a ConfigMap are not settings
        key = path.removeprefix(".data") if path.startswith(".data") else ""
        name = f"{key} {ref.name if 'prompt' in ref.name else ''}" if key else ""
    elif ref.kind in ("Agent", "MultiAgentSystem") or ref.of in PLATFORM_AGENTS:
        # the name of a member may contain a word such as "tool"
        name = _MEMBER.sub("", path) if path.startswith(".spec") else ""
    else:
        variable = _VARIABLE.search(path)
        name = variable[1] if variable else ""
    return next((aspect for aspect, pattern in _ASPECTS.items() if pattern.search(name)), "")


def _concerns(ref: ObjectRef, item: Mapping[str, Any], agent: FoundAgent, sources: frozenset[ObjectRef]) -> bool:
    """Return whether a changed object is the agent, a source of its settings, or its member of the agent's system."""
    if ref == agent.ref or stem(ref) in sources:
        return True
    owners = metadata_of(agent.live).get("ownerReferences") or ()
    is_member = any(
        owner.get("kind") == ref.kind == "MultiAgentSystem" and owner.get("name") == ref.name for owner in owners
    )
    member = _MEMBER.search(str(item.get("path") or ""))
    # a child is named SYSTEM-MEMBER
    return is_member and (member is None or agent.ref.name in (member[1], f"{ref.name}-{member[1]}"))


def _sources(agent: FoundAgent) -> frozenset[ObjectRef]:
    """Return the ConfigMaps that an agent reads, by their names without the hash of a generator."""
    named = at(agent.live, "spec", "prompt", "configMapKeyRef", "name") if agent.ref.group == AGENTS_GROUP else ""
    prompt = [ObjectRef("", "ConfigMap", agent.ref.namespace, str(named))] if named else []
    refs = (reference.ref for reference in references(agent.ref, agent.live))
    return frozenset(map(stem, [*prompt, *(ref for ref in refs if ref.kind == "ConfigMap")]))


def stem(ref: ObjectRef) -> ObjectRef:
    """Return a reference by the name without the hash of a generator."""
    # the name of a generated ConfigMap changes with its content
    return ref._replace(name=_HASH.sub("", ref.name))
