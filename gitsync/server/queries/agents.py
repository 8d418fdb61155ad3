"""Agents of all applications: Agent objects, members of systems, and workloads that are agents by rule. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from gitsync.agents.expansion.revisions import Revision, stored_revision
from gitsync.agents.rollout.state import RevisionRoles
from gitsync.kube.times import timestamp
from gitsync.objects.keys import AGENTS_GROUP
from gitsync.objects.manifest import Manifest, annotations_of, at, labels_of, metadata_of, uid_of
from gitsync.objects.record import SyncRecord
from gitsync.objects.ref import GroupKind, ObjectRef, ref_of
from gitsync.plan.risk.agent_fields import PLATFORM_AGENTS
from gitsync.ports import ApplicationView
from gitsync.server.backend import Backend
from gitsync.server.formatting import visible
from gitsync.server.queries.agent_settings import (
    AgentLocation,
    AgentSettings,
    Read,
    agent_settings,
    asks_a_model,
    containers,
    placement,
)
from gitsync.server.queries.filters import Filter
from gitsync.server.queries.objects import added_settings
from gitsync.server.queries.text_diff import MOST_ROWS, TextRow, text_diff

NAMES: Final = ("app", "ns", "name", "kind", "model", "phase", "env")
"""The members of a filter that the list of agents accepts."""
SYNCS: Final = 200
"""The latest syncs in which changes of agents are found."""
MARK: Final = "gitsync.dev/agent"
_WORKLOADS = frozenset({"Deployment", "StatefulSet"})
_PLATFORMS = PLATFORM_AGENTS | {GroupKind("agents.x-k8s.io", "Sandbox")}
"""Kinds of other projects that are agents."""
_PROMPT_FILE = "prompt.md"
Live = Callable[[str, ObjectRef], Manifest | None]
Owned = Callable[[str], Iterable[Manifest]]


@dataclass(frozen=True, slots=True)
class KeptRevision:
    """A revision of an Agent that the cluster keeps, and when it was created."""

    revision: Revision
    created: str

    @property
    def evaluation(self) -> str:
        """The verdict of its evaluation as text, empty where there is none."""
        return _verdict_text(self.revision.evaluation_verdict)


@dataclass(frozen=True, slots=True)
class FoundAgent:
    """
    An agent: the application that holds it, its live object, its environment, its settings and who added some.

    ``kept`` are the revisions of an Agent that the cluster keeps. ``tokens`` are those of the last day, where a metric
    has them.
    """

    application: str
    live: Manifest
    place: AgentLocation = field(default_factory=AgentLocation)
    settings: AgentSettings = field(default_factory=AgentSettings)
    added: str = ""
    tokens: int | None = None
    kept: tuple[KeptRevision, ...] = ()
    judged: Mapping[str, Any] = field(default_factory=dict)
    """The newest verdict on an agent of another kind, asked before it was applied; see ``object_verdict``."""

    @property
    def roles(self) -> RevisionRoles:
        """Its revisions that serve, are tried, and failed last; those of an Agent only."""
        return RevisionRoles.from_status(self.live.get("status") or {}) if _is_ours(self.ref) else RevisionRoles()

    @property
    def is_served(self) -> bool:
        """Whether requests are answered by the declared settings; those of an Agent are tried first."""
        serving = self.roles.serving
        # without revisions, as of a workload, Kubernetes decides what serves
        if not (serving and self.kept):
            return True
        # after a revert the declared revision is an earlier one, and the newest is the one that failed
        declared = at(self.live, "status", "updateRevision", default="") or self.kept[-1].revision.name
        return bool(declared == serving)

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
    serving: str
    """The revision that gets the requests."""
    candidate: str
    """The revision that is to replace it."""
    failed: str
    """The last revision that was given up or whose checks failed."""
    phase: str
    ready: str
    reason: str
    traffic: str
    """The share of the requests that the candidate gets."""
    evaluation: str
    """The verdict on the revision that serves."""
    candidate_evaluation: str
    failed_evaluation: str
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
    is_served: bool
    """Whether requests are answered by these settings, and not by those of a revision before."""


@dataclass(frozen=True, slots=True)
class PromptRevision:
    """
    A prompt that an agent had: since when, and its differences from the one before.

    ``roles`` are those of its revisions, such as "serves now"; ``commit`` is the one that was applied then, ``verdict``
    that of the evaluation of its newest revision.
    """

    name: str
    since: str
    text: str
    rows: tuple[TextRow, ...]
    commit: str = ""
    verdict: str = ""
    roles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RevisionRow:
    """
    A revision of an Agent that has a role, as its page shows it.

    ``model``, ``since`` and ``commit`` are empty where the cluster does not keep the revision any more.
    """

    role: str
    name: str
    model: str
    since: str
    commit: str
    evaluation: str
    cases: tuple[Mapping[str, Any], ...]


SERVING: Final = "serves now"
CANDIDATE: Final = "being tried"
FAILED: Final = "failed last"


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
                ref = ref_of(agent)
                kept = kept_revisions(owned(uid_of(agent))) if _is_ours(ref) else ()
                place = placement(view, agent)
                judged = object_verdict(view.status, ref)
                agents[ref] = FoundAgent(view.key, agent, place, settings, reason, kept=kept, judged=judged)
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
    return ref.group == AGENTS_GROUP or ref.of in _PLATFORMS or ref.kind in _WORKLOADS


def is_agent(manifest: Manifest, read: Read) -> bool:
    """
    Return whether an object is an agent; ``read`` returns the ConfigMaps that it names.

    That is an Agent, ours or of another platform, and a workload with the annotation ``gitsync.dev/agent: "true"``, the
    label ``app.kubernetes.io/component: agent``, a container named ``agent``, a variable of a model service, or a
    ConfigMap with a prompt; unless the annotation is ``"false"``.
    """
    ref = ref_of(manifest)
    if ref.kind not in _WORKLOADS:
        return ref.of in _PLATFORMS or (ref.group == AGENTS_GROUP and ref.kind == "Agent")
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


def matching(rows: Iterable[AgentRow], query: Filter) -> list[AgentRow]:
    """Return the agents that match a filter."""
    return list(filter(query.matcher(_READ, _text), rows))


def agent_row(agent: FoundAgent) -> AgentRow:
    """Return the row of an agent."""
    manifest = agent.live
    status = manifest.get("status") or {}
    owners = metadata_of(manifest).get("ownerReferences") or ()
    roles = agent.roles
    verdicts = _verdicts(agent)
    is_passed = agent.judged.get("result") == "Passed"
    system = next((str(item["name"]) for item in owners if item.get("kind") == "MultiAgentSystem"), "")
    return AgentRow(
        application=agent.application,
        kind=agent.ref.kind,
        namespace=agent.ref.namespace,
        name=agent.ref.name,
        system=visible(system),
        model=visible(agent.settings.model),
        serving=visible(roles.serving),
        candidate=visible(roles.candidate),
        failed=visible(roles.failed),
        phase=visible(_phase(manifest)),
        ready=visible(_ready(manifest)),
        reason=visible(str(_condition(manifest, "Ready").get("message", ""))),
        traffic=_traffic(status, roles),
        evaluation=_verdict_text(verdicts.get(roles.serving, {}) or (agent.judged if is_passed else {})),
        candidate_evaluation=_verdict_text(verdicts.get(roles.candidate, {})),
        failed_evaluation=_verdict_text(verdicts.get(roles.failed, {}) or ({} if is_passed else agent.judged)),
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
        is_served=agent.is_served,
    )


def kept_revisions(children: Iterable[Manifest]) -> tuple[KeptRevision, ...]:
    """Return the revisions among the children of an Agent, oldest first."""
    kept = [
        KeptRevision(revision, str(metadata_of(child).get("creationTimestamp", "")))
        for child in children
        if (revision := stored_revision(child)) is not None
    ]
    return tuple(sorted(kept, key=lambda item: item.revision.number))


def role_rows(agent: FoundAgent, syncs: Iterable[SyncRecord]) -> tuple[RevisionRow, ...]:
    """
    Return the revisions of an Agent that serve, are tried and failed last; the ones that there are.

    ``syncs`` are those of its Application.
    """
    records = tuple(syncs)
    kept = {item.revision.name: item for item in agent.kept}
    verdicts = _verdicts(agent)
    rows = []
    for role, name in _named_roles(agent.roles):
        item = kept.get(name)
        verdict = verdicts.get(name, {})
        since = item.created if item is not None else ""
        rows.append(
            RevisionRow(
                role=role,
                name=visible(name),
                model=visible(str(at(item.revision.spec, "model", "id", default=""))) if item is not None else "",
                since=since,
                commit=_commit_at(since, records) if since else "",
                evaluation=_verdict_text(verdict),
                cases=_cases(verdict),
            )
        )
    return tuple(rows)


def revision_times(agent: FoundAgent, syncs: Iterable[SyncRecord]) -> list[tuple[str, str]]:
    """Return when each kept revision of an Agent was created (RFC 3339), with the commit that was applied then."""
    records = tuple(syncs)
    return [(item.created, _commit_at(item.created, records)) for item in agent.kept]


def _named_roles(roles: RevisionRoles) -> Iterator[tuple[str, str]]:
    """Yield the roles that a revision has, with its name."""
    for role, name in ((SERVING, roles.serving), (CANDIDATE, roles.candidate), (FAILED, roles.failed)):
        if name:
            yield role, name


def prompt_history(agent: FoundAgent, owned: Owned, syncs: Iterable[SyncRecord]) -> tuple[PromptRevision, ...]:
    """
    Return the prompts of an Agent's kept configurations, each with what changed word by word.

    The one that serves is first, then those with another role, and the others; newest first.

    ``syncs`` are those of its Application.
    """
    records = tuple(syncs)
    configs = [child for child in owned(uid_of(agent.live)) if _prompt(child)]
    roles = _roles_by_config(agent)
    # by number: the newest revision of a configuration is the last one written
    verdicts = {item.revision.config_map: item.evaluation for item in agent.kept if item.evaluation}
    # the API server keeps whole seconds: the name decides between equal ones
    configs.sort(key=lambda child: (str(metadata_of(child).get("creationTimestamp", "")), ref_of(child).name))
    history: list[PromptRevision] = []
    for child in configs:
        text = visible(_prompt(child))
        name = ref_of(child).name
        last = history[-1] if history else None
        # another part of the configuration changed: its revision has the same prompt
        if last is not None and last.text == text:
            history[-1] = replace(last, roles=(*last.roles, *roles.get(name, ())))
            continue
        since = str(metadata_of(child).get("creationTimestamp", ""))
        rows = prompt_diff(last.text, text) if last is not None else ()
        commit = _commit_at(since, records)
        prompt = PromptRevision(visible(name), since, text, rows, commit, verdicts.get(name, ""))
        history.append(replace(prompt, roles=roles.get(name, ())))
    newest_first = history[::-1]
    return tuple(sorted(newest_first, key=lambda prompt: (SERVING not in prompt.roles, not prompt.roles)))


def _roles_by_config(agent: FoundAgent) -> dict[str, tuple[str, ...]]:
    """Return the roles of the revisions that have a configuration, by the name of its ConfigMap."""
    configs = {item.revision.name: item.revision.config_map for item in agent.kept}
    roles: dict[str, tuple[str, ...]] = {}
    for role, name in _named_roles(agent.roles):
        config = configs.get(name, "")
        roles[config] = (*roles.get(config, ()), role)
    return roles


def _verdicts(agent: FoundAgent) -> dict[str, Manifest]:
    """Return the verdicts on the revisions of an Agent by their names."""
    # the status has the newest one before the operator has written it to the revision
    newest = evaluation_verdict(agent.live)
    kept = {item.revision.name: item.revision.evaluation_verdict for item in agent.kept}
    return {**kept, str(newest.get("revision", "")): newest}


def _commit_at(since: str, syncs: Iterable[SyncRecord]) -> str:
    """Return the commit that was applied at a time of whole seconds, empty where no sync was before it."""
    # RFC 3339 of whole seconds in UTC is sorted as text
    began = [sync for sync in syncs if timestamp(sync.started.timestamp()) <= since]
    return max(began, key=lambda sync: sync.started).commit.id if began else ""


def prompt_diff(old_text: str, new_text: str, most: int = MOST_ROWS) -> tuple[TextRow, ...]:
    """Return the rows of two prompts, also of one line."""
    # a text of one line has no rows
    end = "" if "\n" in old_text and "\n" in new_text else "\n "
    return text_diff(f"{old_text}{end}", f"{new_text}{end}", most)


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


def _traffic(status: Mapping[str, Any], roles: RevisionRoles) -> str:
    # without a candidate the rollout that the status keeps has ended
    rollout = at(status, "rollout", default={}) if roles.candidate else {}
    if not rollout:
        return ""
    # absent members are 0
    share = f"{rollout.get('weight', 0)} % new"
    return f"{share}, step {rollout['step']} of {rollout.get('steps', 0)}" if rollout.get("step") else share


@dataclass(frozen=True, slots=True)
class EvaluationRow:
    """
    The newest verdict of the evaluations of an agent: of which revision, as text, why, and its cases.

    ``revision`` is empty where it was asked before the apply.
    """

    revision: str
    text: str
    message: str
    cases: tuple[Mapping[str, Any], ...]

    @classmethod
    def of(cls, verdict: Mapping[str, Any]) -> EvaluationRow | None:
        """Return the row of a verdict in a status, None for an empty one."""
        if not verdict:
            return None
        revision, message = (visible(str(verdict.get(name, ""))) for name in ("revision", "message"))
        return cls(revision, _verdict_text(verdict), message, _cases(verdict))


def evaluation_of(ref: ObjectRef, live: Manifest | None, status: Mapping[str, Any]) -> EvaluationRow | None:
    """Return the newest verdict on an Agent, or on another object of an Application with a status; None without one."""
    return EvaluationRow.of(evaluation_verdict(live or {}) if _is_ours(ref) else object_verdict(status, ref))


def object_verdict(status: Mapping[str, Any], ref: ObjectRef) -> Mapping[str, Any]:
    """Return the newest verdict on an object before it is applied, from the status of its Application."""
    rows = [row for row in status.get("evaluations") or () if row.get("object") == ref.path and row.get("result")]
    return max(rows, key=lambda row: str(row.get("at", "")), default={})


def evaluation_verdict(manifest: Manifest) -> Manifest:
    """Return the newest verdict in the status of an Agent, empty where there is none."""
    verdict = at(manifest, "status", "evaluation")
    return verdict if isinstance(verdict, dict) else {}


def contract_differences(manifest: Manifest) -> tuple[dict[str, str], ...]:
    """Return how what an Agent depends on differs from its lock, as last compared; empty for other kinds."""
    rows = at(manifest, "status", "contract", "differences") if _is_ours(ref_of(manifest)) else ()
    names = ("class", "place", "difference", "details")
    return tuple(
        {name: visible(str(row.get(name, ""))) for name in names} for row in rows or () if isinstance(row, dict)
    )


def budget_rows(manifest: Manifest) -> tuple[dict[str, str], ...]:
    """Return what an Agent used today of each limit of its budget, as last measured; empty for other kinds."""
    rows = at(manifest, "status", "budget", "limits") if _is_ours(ref_of(manifest)) else ()
    names = ("scope", "unit", "used", "limit", "percent")
    return tuple(
        {name: visible(str(row.get(name, ""))) for name in names} for row in rows or () if isinstance(row, dict)
    )


def _is_ours(ref: ObjectRef) -> bool:
    return (ref.group, ref.kind) == (AGENTS_GROUP, "Agent")


def _cases(verdict: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    return tuple(case for case in at(verdict, "results") or () if isinstance(case, dict))


def _verdict_text(verdict: Mapping[str, Any]) -> str:
    if not verdict:
        return ""
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
