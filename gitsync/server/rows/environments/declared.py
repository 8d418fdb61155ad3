"""Where Git declares the prompts of an agent: the objects and fields as the newest commit has them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gitsync.kube.field_path import follow
from gitsync.objects.keys import AGENTS_GROUP
from gitsync.objects.manifest import at, metadata_of
from gitsync.objects.ref import ObjectRef
from gitsync.ports import ApplicationView
from gitsync.server.rows.agent_changes import stem
from gitsync.server.rows.agents import FoundAgent
from gitsync.server.rows.environments.settings import Prompt


def declared_prompts(agent: FoundAgent, view: ApplicationView) -> list[Prompt]:
    """
    Return the prompts of an agent as its Application declares them; their texts may not be applied yet.

    A generated ConfigMap may have another hash in its name than the one that the agent reads now.
    """
    declared = {stem(item.ref): item.change for item in view.resources if item.change.desired is not None}
    found = []
    for prompt in agent.settings.prompts:
        for ref, field in _places(agent, prompt):
            change = declared.get(stem(ref))
            path, is_there = follow(change.desired, field) if change is not None else ((), False)
            if change is not None and is_there:
                found.append(Prompt(prompt.name, str(at(change.desired, *path)), change.ref, field))
    return found


def fields_of(prompts: Iterable[Prompt]) -> dict[ObjectRef, list[str]]:
    """Return the fields of the prompts by object."""
    fields: dict[ObjectRef, list[str]] = {}
    for one in prompts:
        fields.setdefault(one.ref, []).append(one.field)
    return fields


def _places(agent: FoundAgent, prompt: Prompt) -> Iterator[tuple[ObjectRef, str]]:
    """Yield the place from which a prompt is read, and for a member of a system its template there."""
    yield prompt.ref, prompt.field
    owners = metadata_of(agent.live).get("ownerReferences") or ()
    for owner in owners if prompt.ref == agent.ref else ():
        if owner.get("kind") == "MultiAgentSystem":
            system = str(owner.get("name"))
            member = agent.ref.name.removeprefix(f"{system}-")
            ref = ObjectRef(AGENTS_GROUP, "MultiAgentSystem", agent.ref.namespace, system)
            yield ref, f'.spec.agents[name="{member}"].template{prompt.field}'
