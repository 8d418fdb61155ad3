"""The prompts of an agent: where Git declares them, and their versions of now, elsewhere and before."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gitsync.kube.field_path import follow
from gitsync.objects.keys import AGENTS_GROUP
from gitsync.objects.manifest import at, metadata_of
from gitsync.objects.record import SyncRecord
from gitsync.objects.ref import ObjectRef
from gitsync.ports import ApplicationView
from gitsync.render.provenance.trace import place
from gitsync.server.backend import Backend
from gitsync.server.formatting import utc, visible
from gitsync.server.queries.agent_changes import prompt_changes, stem
from gitsync.server.queries.agent_settings import AgentPrompt
from gitsync.server.queries.agents import SYNCS, FoundAgent, PromptRevision, prompt_history
from gitsync.services.provenance import TextVersion, text_versions


def declared_prompts(agent: FoundAgent, view: ApplicationView) -> list[AgentPrompt]:
    """
    Return the prompts of an agent as its Application declares them; their texts may not be applied yet.

    A generated ConfigMap may have another hash in its name than the one that the agent reads now.
    """
    declared = {stem(item.ref): item.change for item in view.resources if item.change.desired is not None}
    prompts = []
    for prompt in agent.settings.prompts:
        for ref, path in _places(agent, prompt):
            change = declared.get(stem(ref))
            members, is_there = follow(change.desired, path) if change is not None else ((), False)
            if change is not None and is_there:
                prompts.append(AgentPrompt(prompt.name, str(at(change.desired, *members)), change.ref, path))
    return prompts


def fields_of(prompts: Iterable[AgentPrompt]) -> dict[ObjectRef, list[str]]:
    """Return the fields of the prompts by object."""
    fields: dict[ObjectRef, list[str]] = {}
    for prompt in prompts:
        fields.setdefault(prompt.ref, []).append(prompt.field)
    return fields


def _places(agent: FoundAgent, prompt: AgentPrompt) -> Iterator[tuple[ObjectRef, str]]:
    """Yield the place from which a prompt is read, and for a member of a system its template there."""
    yield prompt.ref, prompt.field
    owners = metadata_of(agent.live).get("ownerReferences") or ()
    for owner in owners if prompt.ref == agent.ref else ():
        if owner.get("kind") == "MultiAgentSystem":
            system = str(owner.get("name"))
            member = agent.ref.name.removeprefix(f"{system}-")
            ref = ObjectRef(AGENTS_GROUP, "MultiAgentSystem", agent.ref.namespace, system)
            yield ref, f'.spec.agents[name="{member}"].template{prompt.field}'


_LINE = re.compile(r":\d+$")
"""The line at the end of a place in a file."""
_MOST: Final = 60
"""Versions that can be selected."""


@dataclass(frozen=True, slots=True)
class PromptVersion:
    """A text that can be compared; ``key`` names it in the URL."""

    key: str
    label: str
    text: str


@dataclass(frozen=True, slots=True)
class PastPrompts:
    """What is known of former prompts: those of kept revisions, the versions in Git by name, and the latest syncs."""

    kept: Sequence[PromptRevision] = ()
    in_git: Mapping[str, Sequence[TextVersion]] = field(default_factory=dict)
    syncs: Sequence[SyncRecord] = ()


def prompt_versions(agent: FoundAgent, known: Iterable[FoundAgent], past: PastPrompts) -> list[PromptVersion]:
    """Return the versions, at most 60: now, in other environments, in Git, then the latest first."""
    place = agent.place
    same = [item for item in known if (item.place.family, item.place.name) == (place.family, place.name)]
    same.sort(key=lambda item: (item.ref != agent.ref, item.place.environment))
    synced = prompt_changes(past.syncs, agent)
    versions = [*_now(same), *_in_git(past.in_git), *_kept(past.kept), *_synced(synced)]
    # of two versions with one key the first counts, and keeps its place
    return list({item.key: item for item in reversed(versions[:_MOST])}.values())[::-1]


def _now(agents: Iterable[FoundAgent]) -> Iterator[PromptVersion]:
    for agent in agents:
        for prompt in agent.settings.prompts:
            key = f"{agent.ref.namespace}/{agent.ref.name}/{prompt.name}"
            label = f"{agent.place.environment}: {prompt.name} of {agent.ref.name}, now"
            yield PromptVersion(visible(key), visible(label), prompt.text)


def _in_git(versions: Mapping[str, Iterable[TextVersion]]) -> Iterator[PromptVersion]:
    for name, texts in versions.items():
        for text in texts:
            commit = text.commit
            key = f"commit-{text.commit.id[:12]}-{name}"
            when = f" of {utc(commit.time)}" if commit.time is not None else ""
            label = f"{name} in commit {commit.id[:12]}{when}, {commit.author}: {commit.subject}"
            yield PromptVersion(visible(key), visible(label), text.text)


def _kept(revisions: Iterable[PromptRevision]) -> Iterator[PromptVersion]:
    for revision in revisions:
        yield PromptVersion(
            revision.name,
            f"{revision.name}, since {utc(revision.since)}, commit {revision.commit[:12] or 'unknown'}",
            revision.text,
        )


def _synced(changes: Iterable[tuple[SyncRecord, str, str, str]]) -> Iterator[PromptVersion]:
    for record, path, old, new in changes:
        name = path.removeprefix(".data").strip('."[]')
        commit = record.commit
        when = f"sync {record.id} of {utc(record.started)}"
        by = f"commit {commit.id[:12]}, {commit.author}: {commit.subject}"
        yield PromptVersion(visible(f"after-{record.id}-{name}"), visible(f"{name} after {when}, {by}"), new)
        yield PromptVersion(visible(f"before-{record.id}-{name}"), visible(f"{name} before {when}"), old)


def versions_of(backend: Backend, agents: Sequence[FoundAgent], agent: FoundAgent) -> list[PromptVersion]:
    """Return the versions of an agent's prompts that can be compared; ``agents`` are those of all environments."""
    syncs = backend.records.history(agent.application, limit=SYNCS)
    kept = prompt_history(agent, backend.view.owned_by, syncs)
    return prompt_versions(agent, agents, PastPrompts(kept, _texts_in_git(backend, agent), syncs))


def _texts_in_git(backend: Backend, agent: FoundAgent) -> Mapping[str, Sequence[TextVersion]]:
    """Return the versions of each prompt in the history of the file that declares it, by the name of the prompt."""
    view = backend.view.application(agent.application)
    app, plan = (view.application, view.plan) if view is not None else (None, None)
    if view is None or app is None or plan is None or not plan.revision:
        return {}
    prompts = declared_prompts(agent, view)
    traces = backend.provenance.trace(app, plan.revision, fields_of(prompts))
    files = {prompt: _LINE.sub("", place(traces.get(prompt.ref, {}).get(prompt.field, ()))) for prompt in prompts}
    versions = backend.provenance.file_versions(app, plan.revision, set(files.values()) - {""})
    texts: dict[str, list[TextVersion]] = {}
    for prompt, file in files.items():
        texts.setdefault(prompt.name, []).extend(text_versions(versions.get(file, ()), prompt.text))
    return texts
