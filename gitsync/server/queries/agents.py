"""Agents of all applications: Agent objects, members of systems, and workloads that are agents by rule. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from gitsync.agents.expansion.revisions import stored_revision
from gitsync.kube.times import timestamp
from gitsync.objects.keys import AGENTS_GROUP
from gitsync.objects.manifest import Manifest, annotations_of, at, labels_of, metadata_of, uid_of
from gitsync.objects.record import SyncRecord
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.ports import ApplicationView
from gitsync.server.backend import Backend
from gitsync.server.formatting import visible
from gitsync.server.queries.agent_settings import (
    AgentSettings,
    Placement,
    Read,
    agent_settings,
    asks_a_model,
    containers,
    placement,
)
from gitsync.server.queries.filters import Query
from gitsync.server.queries.objects import added_settings
from gitsync.server.queries.text_diff import MOST_ROWS, TextRow, text_diff

NAMES: Final = ("app", "ns", "name", "kind", "model", "phase", "env")
"""The members of a filter that the list of agents accepts."""
SYNCS: Final = 200
"""The latest syncs in which changes of agents are found."""
MARK: Final = "gitsync.dev/agent"
_WORKLOADS = frozenset({"Deployment", "StatefulSet"})
_PLATFORMS = frozenset({("kagent.dev", "Agent"), ("ark.mckinsey.com", "Agent"), ("agents.x-k8s.io", "Sandbox")})
"""Kinds of other projects that are agents."""
_PROMPT_FILE = "prompt.md"
Live = Callable[[str, ObjectRef], Manifest | None]
Owned = Callable[[str], Iterable[Manifest]]


@dataclass(frozen=True, slots=True)
class FoundAgent:
    """
    An agent: the application that holds it, its live object, its environment, its settings and who added some.

    ``tokens`` are those of the last day, where a metric has them.
    """

    application: str
    live: Manifest
    place: Placement = field(default_factory=Placement)
    settings: AgentSettings = field(default_factory=AgentSettings)
    added: str = ""
    tokens: int | None = None

    @property
    def ref(self) -> ObjectRef:
        """The reference of the object."""
        return ref_of(self.live)


@dataclass(frozen=True, slots=True)
class AgentRow:
    """One agent as pages and the API show it."""

    application: str
    kind: str
    namespace: str
    name: str
    system: str
    model: str
    revision: str
    phase: str
    ready: str
    reason: str
    traffic: str
    evaluation: str
    tools: tuple[str, ...]
    approvals: tuple[str, ...]
    """The tools that need a person's approval."""
    environment: str
    endpoint: str
    prompt: str
    agent: str
    """The name without that of the environment; with ``family`` it is the same agent in all environments."""
    family: str
    tokens: int | None
    """The tokens of the last day, None where no metric has them."""
    leader: str
    """The replica that holds the Lease of its leader election, empty where there is none."""
    added: str
    """Who added Dangerous settings that Git does not declare, such as a model; for a member those of its system."""


@dataclass(frozen=True, slots=True)
class PromptRevision:
    """
    A prompt that an agent had: since when, and its differences from the one before.

    ``commit`` is the one that was applied then, ``verdict`` that of the evaluation of its newest revision.
    """

    name: str
    since: str
    text: str
    is_current: bool
    rows: tuple[TextRow, ...]
    commit: str = ""
    verdict: str = ""


def find_agents(views: Iterable[ApplicationView], live: Live, owned: Owned) -> list[FoundAgent]:
    """Return the agents of all applications, by namespace and name; members of systems follow their system."""
    agents: dict[ObjectRef, FoundAgent] = {}
    for view in views:
        for item in view.resources:
            # other kinds are not read: an Application may have thousands of objects
            manifest = live(view.key, item.ref) if may_be_agent(item.ref) else None
            added = added_settings(item) if manifest is not None else None
            reason = added.reason if added is not None else ""
            read = partial(live, view.key)
            for agent in _agents_of(manifest, owned, read) if manifest is not None else ():
                settings = agent_settings(agent, read)
                agents[ref_of(agent)] = FoundAgent(view.key, agent, placement(view, agent), settings, reason)
    return [agents[ref] for ref in sorted(agents, key=lambda ref: (ref.namespace, ref.name, ref.kind))]


def agents_of(backend: Backend) -> list[FoundAgent]:
    """Return the agents of all applications."""
    view = backend.view
    tokens = backend.usage.by_service()
    agents = find_agents(view.applications(), view.live, view.owned_by)
    return (
        [replace(agent, tokens=tokens.get((agent.ref.namespace, agent.ref.name))) for agent in agents]
        if tokens
        else agents
    )


def find_agent(agents: Iterable[FoundAgent], namespace: str, name: str) -> FoundAgent | None:
    """Return an agent by its name, None where there is none."""
    return next((agent for agent in agents if (agent.ref.namespace, agent.ref.name) == (namespace, name)), None)


def may_be_agent(ref: ObjectRef) -> bool:
    """Return whether an object of this kind may be an agent, or a system with agents."""
    return ref.group == AGENTS_GROUP or (ref.group, ref.kind) in _PLATFORMS or ref.kind in _WORKLOADS


def is_agent(manifest: Manifest, read: Read) -> bool:
    """
    Return whether an object is an agent; ``read`` returns the ConfigMaps that it names.

    That is an Agent, ours or of another platform, and a workload with the annotation ``gitsync.dev/agent: "true"``, the
    label ``app.kubernetes.io/component: agent``, a container named ``agent``, a variable of a model service, or a
    ConfigMap with a prompt; unless the annotation is ``"false"``.
    """
    ref = ref_of(manifest)
    if ref.kind not in _WORKLOADS:
        return (ref.group, ref.kind) in _PLATFORMS or (ref.group == AGENTS_GROUP and ref.kind == "Agent")
    mark = annotations_of(manifest).get(MARK)
    # explicit, so that it outranks every rule below
    if mark is not None:
        return mark == "true"
    if labels_of(manifest).get("app.kubernetes.io/component") == "agent":
        return True
    return any(container.get("name") == "agent" for container in containers(manifest)) or asks_a_model(manifest, read)


def _agents_of(manifest: Manifest, owned: Owned, read: Read) -> Iterator[Manifest]:
    if is_agent(manifest, read):
        yield manifest
    elif ref_of(manifest).kind == "MultiAgentSystem":
        yield from (child for child in owned(uid_of(manifest)) if is_agent(child, read))


def matching(rows: Iterable[AgentRow], query: Query) -> list[AgentRow]:
    """Return the agents that match a filter."""
    return list(filter(query.matcher(_READ, _text), rows))


def agent_row(agent: FoundAgent) -> AgentRow:
    """Return the row of an agent."""
    manifest = agent.live
    status = manifest.get("status") or {}
    owners = metadata_of(manifest).get("ownerReferences") or ()
    evaluation = evaluation_of(manifest)
    system = next((str(item["name"]) for item in owners if item.get("kind") == "MultiAgentSystem"), "")
    return AgentRow(
        application=agent.application,
        kind=agent.ref.kind,
        namespace=agent.ref.namespace,
        name=agent.ref.name,
        system=visible(system),
        model=visible(agent.settings.model),
        revision=visible(str(status.get("currentRevision", ""))),
        phase=visible(_phase(manifest)),
        ready=visible(_ready(manifest)),
        reason=visible(str(_condition(manifest, "Ready").get("message", ""))),
        traffic=_traffic(status),
        evaluation=evaluation.text if evaluation is not None else "",
        tools=tuple(map(visible, agent.settings.tools)),
        approvals=tuple(visible(item) for item in _approvals(manifest)),
        environment=visible(agent.place.environment),
        endpoint=visible(agent.settings.endpoint),
        prompt=agent.settings.prompt,
        agent=visible(agent.place.name),
        family=agent.place.family,
        tokens=agent.tokens,
        leader=visible(str(status.get("leader", ""))),
        added=visible(agent.added),
    )


def prompt_history(agent: FoundAgent, owned: Owned, syncs: Iterable[SyncRecord]) -> tuple[PromptRevision, ...]:
    """
    Return the prompts of an Agent's kept configurations, newest first, each with what changed word by word.

    ``syncs`` are those of its Application.
    """
    children = tuple(owned(uid_of(agent.live)))
    records = tuple(syncs)
    configs = [child for child in children if _prompt(child)]
    verdicts = _verdicts(children)
    # the API server keeps whole seconds: the name decides between equal ones
    configs.sort(key=lambda child: (str(metadata_of(child).get("creationTimestamp", "")), ref_of(child).name))
    history: list[PromptRevision] = []
    for child in configs:
        text = _prompt(child)
        # another part of the configuration changed
        if history and history[-1].text == text:
            continue
        last = history[-1].text if history else None
        since = str(metadata_of(child).get("creationTimestamp", ""))
        rows = prompt_diff(last, text) if last is not None else ()
        name = visible(ref_of(child).name)
        commit = _commit_at(since, records)
        verdict = verdicts.get(ref_of(child).name, "")
        history.append(PromptRevision(name, since, visible(text), False, rows, commit, verdict))
    newest = history[-1:]
    return tuple(replace(revision, is_current=revision in newest) for revision in reversed(history))


def _verdicts(children: Iterable[Manifest]) -> dict[str, str]:
    """Return the verdicts on kept revisions by the names of their configurations."""
    revisions = [stored for child in children if (stored := stored_revision(child)) is not None and stored.evaluation]
    return {
        str(at(volume, "configMap", "name")): _verdict_text(json.loads(revision.evaluation))
        # by number: the newest revision of a configuration is the last one written
        for revision in sorted(revisions, key=lambda stored: stored.number)
        for volume in at(revision.template, "spec", "volumes", default=())
        if volume.get("name") == "agent-config"
    }


def _commit_at(since: str, syncs: Iterable[SyncRecord]) -> str:
    """Return the commit that was applied at a time of whole seconds, empty where no sync was before it."""
    # RFC 3339 of whole seconds in UTC is sorted as text
    began = [sync for sync in syncs if timestamp(sync.started.timestamp()) <= since]
    return max(began, key=lambda sync: sync.started).commit.id if began else ""


def prompt_diff(old_text: str, new_text: str, most: int = MOST_ROWS) -> tuple[TextRow, ...]:
    """Return the rows of two prompts, also of one line."""
    return text_diff(f"{old_text}\n ", f"{new_text}\n ", most)  # a text of one line has no rows


def _prompt(manifest: Manifest) -> str:
    is_config = ref_of(manifest).kind == "ConfigMap"
    return str(at(manifest, "data", _PROMPT_FILE, default="")) if is_config else ""


def _phase(manifest: Manifest) -> str:
    phase = at(manifest, "status", "phase")
    if phase:
        return str(phase)
    ready = at(manifest, "status", "readyReplicas", default=0)
    # the API server's default
    wanted = at(manifest, "spec", "replicas", default=1)
    return "Suspended" if not wanted else "Running" if ready >= wanted else "Progressing"


def _ready(manifest: Manifest) -> str:
    ready = at(manifest, "status", "ready")
    if isinstance(ready, str):
        return ready
    return f"{at(manifest, 'status', 'readyReplicas', default=0)}/{at(manifest, 'spec', 'replicas', default=1)}"


def _condition(manifest: Manifest, type: str) -> Mapping[str, Any]:
    conditions = at(manifest, "status", "conditions") or ()
    return next(
        (condition for condition in conditions if isinstance(condition, dict) and condition.get("type") == type), {}
    )


def _traffic(status: Mapping[str, Any]) -> str:
    rollout = status.get("rollout")
    if not isinstance(rollout, dict) or status.get("currentRevision") == status.get("updateRevision"):
        return ""
    return f"{rollout.get('weight', 0)} % new, step {rollout.get('step', 0)} of {rollout.get('steps', 0)}"


@dataclass(frozen=True, slots=True)
class EvaluationRow:
    """The newest verdict of the evaluations of an Agent: of which revision, as text, and its cases."""

    revision: str
    text: str
    cases: tuple[Mapping[str, Any], ...]


def evaluation_of(manifest: Manifest) -> EvaluationRow | None:
    """Return the newest verdict on an Agent, None where there is none, and for other kinds."""
    ref = ref_of(manifest)
    verdict = at(manifest, "status", "evaluation") if (ref.group, ref.kind) == (AGENTS_GROUP, "Agent") else None
    if not isinstance(verdict, dict) or not verdict:
        return None
    cases = tuple(case for case in at(verdict, "results") or () if isinstance(case, dict))
    return EvaluationRow(visible(str(verdict.get("revision", ""))), _verdict_text(verdict), cases)


def _verdict_text(verdict: Mapping[str, Any]) -> str:
    return visible(f"{verdict.get('result', '')} {verdict.get('passed', 0)}/{verdict.get('cases', 0)}")


def _approvals(manifest: Manifest) -> list[str]:
    tools = [tool for tool in at(manifest, "spec", "tools") or () if isinstance(tool, dict)]
    return [f"{tool.get('name')}: {name}" for tool in tools for name in tool.get("requireApproval") or ()]


def _text(row: AgentRow) -> str:
    return f"{row.name} {row.system} {row.model} {row.reason}"


_READ: Final[Mapping[str, Callable[[AgentRow], Iterable[str]]]] = {
    "app": lambda row: (row.application, row.application.rpartition("/")[2]),
    "ns": lambda row: (row.namespace,),
    "name": lambda row: (row.name,),
    "kind": lambda row: (row.kind,),
    "model": lambda row: (row.model,),
    "phase": lambda row: (row.phase,),
    "env": lambda row: (row.environment,),
}
