"""Agents of all applications: Agent objects, members of systems, and workloads that are agents by rule. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gitsync.objects.keys import AGENTS_GROUP
from gitsync.objects.manifest import Manifest, annotations_of, at, labels_of, metadata_of, uid_of
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.ports import ApplicationView
from gitsync.server.formatting import visible
from gitsync.server.rows.query import Query
from gitsync.server.rows.text_diff import TextRow, text_diff

NAMES: Final = ("app", "ns", "name", "kind", "model", "phase")
"""The members of a filter that the list of agents accepts."""
MARK: Final = "gitsync.dev/agent"
_WORKLOADS = frozenset({"Deployment", "StatefulSet"})
_MODEL_VARIABLES = ("AGENT_MODEL_ID", "MODEL_ID", "MODEL", "OPENAI_MODEL")
_PLATFORMS = frozenset({("kagent.dev", "Agent"), ("ark.mckinsey.com", "Agent"), ("agents.x-k8s.io", "Sandbox")})
"""Kinds of other projects that are agents."""
_PROMPT_FILE = "prompt.md"
Live = Callable[[str, ObjectRef], Manifest | None]
Owned = Callable[[str], Iterable[Manifest]]


@dataclass(frozen=True, slots=True)
class FoundAgent:
    """An agent: the application that holds it, and its live object."""

    application: str
    live: Manifest

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


@dataclass(frozen=True, slots=True)
class PromptRevision:
    """A prompt that an agent had: since when, and its differences from the one before."""

    name: str
    since: str
    text: str
    is_current: bool
    rows: tuple[TextRow, ...]


def find_agents(views: Iterable[ApplicationView], live: Live, owned: Owned) -> list[FoundAgent]:
    """Return the agents of all applications, by namespace and name; members of systems follow their system."""
    found: dict[ObjectRef, FoundAgent] = {}
    for view in views:
        for item in view.resources:
            manifest = live(view.key, item.ref) if may_be_agent(item.ref) else None
            for agent in _agents_of(manifest, owned) if manifest is not None else ():
                found[ref_of(agent)] = FoundAgent(view.key, agent)
    return [found[ref] for ref in sorted(found, key=lambda ref: (ref.namespace, ref.name, ref.kind))]


def may_be_agent(ref: ObjectRef) -> bool:
    """Return whether an object of this kind may be an agent, or a system with agents."""
    return ref.group == AGENTS_GROUP or (ref.group, ref.kind) in _PLATFORMS or ref.kind in _WORKLOADS


def is_agent(manifest: Manifest) -> bool:
    """
    Return whether an object is an agent.

    That is an Agent, ours or of another platform, and a workload with the annotation ``gitsync.dev/agent: "true"``, the
    label ``app.kubernetes.io/component: agent`` or a container named ``agent``, unless the annotation is ``"false"``.
    """
    ref = ref_of(manifest)
    if ref.kind not in _WORKLOADS:
        return (ref.group, ref.kind) in _PLATFORMS or (ref.group == AGENTS_GROUP and ref.kind == "Agent")
    mark = annotations_of(manifest).get(MARK)
    if mark is not None:
        return mark == "true"
    is_labelled = labels_of(manifest).get("app.kubernetes.io/component") == "agent"
    return is_labelled or any(one.get("name") == "agent" for one in _containers(manifest))


def _agents_of(manifest: Manifest, owned: Owned) -> Iterator[Manifest]:
    if is_agent(manifest):
        yield manifest
    elif ref_of(manifest).kind == "MultiAgentSystem":
        yield from (child for child in owned(uid_of(manifest)) if is_agent(child))


def matching(rows: Iterable[AgentRow], query: Query) -> list[AgentRow]:
    """Return the agents that match a filter."""
    return list(filter(query.matcher(_READ, _text), rows))


def agent_row(found: FoundAgent) -> AgentRow:
    """Return the row of an agent."""
    manifest = found.live
    status = manifest.get("status") or {}
    tools = _tools(manifest)
    owners = metadata_of(manifest).get("ownerReferences") or ()
    system = next((str(one["name"]) for one in owners if one.get("kind") == "MultiAgentSystem"), "")
    return AgentRow(
        application=found.application,
        kind=found.ref.kind,
        namespace=found.ref.namespace,
        name=found.ref.name,
        system=visible(system),
        model=visible(_model(manifest)),
        revision=visible(str(status.get("currentRevision", ""))),
        phase=visible(_phase(manifest)),
        ready=visible(_ready(manifest)),
        reason=visible(str(_condition(manifest, "Ready").get("message", ""))),
        traffic=_traffic(status),
        evaluation=_evaluation(status),
        tools=tuple(visible(one) for one in tools),
        approvals=tuple(visible(one) for one in _approvals(manifest)),
    )


def prompt_history(found: FoundAgent, owned: Owned) -> tuple[PromptRevision, ...]:
    """Return the prompts of an Agent's kept configurations, newest first, each with what changed word by word."""
    configs = [child for child in owned(uid_of(found.live)) if _prompt(child)]
    configs.sort(key=lambda child: (str(metadata_of(child).get("creationTimestamp", "")), ref_of(child).name))
    history: list[PromptRevision] = []
    for child in configs:
        text = _prompt(child)
        if history and history[-1].text == text:
            continue
        before = history[-1].text if history else None
        since = str(metadata_of(child).get("creationTimestamp", ""))
        rows = _differences(before, text) if before is not None else ()
        history.append(PromptRevision(visible(ref_of(child).name), since, visible(text), False, rows))
    newest = history[-1:]
    return tuple(
        PromptRevision(each.name, each.since, each.text, each in newest, each.rows) for each in reversed(history)
    )


def _differences(before: str, after: str) -> tuple[TextRow, ...]:
    return text_diff(f"{before}\n ", f"{after}\n ")  # a text of one line has no rows


def _prompt(manifest: Manifest) -> str:
    is_config = ref_of(manifest).kind == "ConfigMap"
    return str(at(manifest, "data", _PROMPT_FILE, default="")) if is_config else ""


def _containers(manifest: Manifest) -> list[Mapping[str, Any]]:
    return [one for one in at(manifest, "spec", "template", "spec", "containers") or () if isinstance(one, dict)]


def _model(manifest: Manifest) -> str:
    declared = at(manifest, "spec", "model", "id")
    if declared:
        return str(declared)
    variables = {one.get("name"): one.get("value") for each in _containers(manifest) for one in each.get("env") or ()}
    return str(next((variables[name] for name in _MODEL_VARIABLES if variables.get(name)), ""))


def _phase(manifest: Manifest) -> str:
    phase = at(manifest, "status", "phase")
    if phase:
        return str(phase)
    ready = at(manifest, "status", "readyReplicas", default=0)
    wanted = at(manifest, "spec", "replicas", default=1)
    return "Suspended" if not wanted else "Running" if ready >= wanted else "Progressing"


def _ready(manifest: Manifest) -> str:
    given = at(manifest, "status", "ready")
    if isinstance(given, str):
        return given
    return f"{at(manifest, 'status', 'readyReplicas', default=0)}/{at(manifest, 'spec', 'replicas', default=1)}"


def _condition(manifest: Manifest, type: str) -> Mapping[str, Any]:
    conditions = at(manifest, "status", "conditions") or ()
    return next((one for one in conditions if isinstance(one, dict) and one.get("type") == type), {})


def _traffic(status: Mapping[str, Any]) -> str:
    rollout = status.get("rollout")
    if not isinstance(rollout, dict) or status.get("currentRevision") == status.get("updateRevision"):
        return ""
    return f"{rollout.get('weight', 0)} % new, step {rollout.get('step', 0)} of {rollout.get('steps', 0)}"


def _evaluation(status: Mapping[str, Any]) -> str:
    verdict = status.get("evaluation")
    if not isinstance(verdict, dict):
        return ""
    return visible(f"{verdict.get('result', '')} {verdict.get('passed', 0)}/{verdict.get('cases', 0)}")


def _tools(manifest: Manifest) -> list[str]:
    return [str(one.get("name", "")) for one in at(manifest, "spec", "tools") or () if isinstance(one, dict)]


def _approvals(manifest: Manifest) -> list[str]:
    tools = [one for one in at(manifest, "spec", "tools") or () if isinstance(one, dict)]
    return [f"{one.get('name')}: {name}" for one in tools for name in one.get("requireApproval") or ()]


def _text(row: AgentRow) -> str:
    return f"{row.name} {row.system} {row.model} {row.reason}"


_READ: Final[Mapping[str, Callable[[AgentRow], Iterable[str]]]] = {
    "app": lambda row: (row.application, row.application.rpartition("/")[2]),
    "ns": lambda row: (row.namespace,),
    "name": lambda row: (row.name,),
    "kind": lambda row: (row.kind,),
    "model": lambda row: (row.model,),
    "phase": lambda row: (row.phase,),
}
