"""
Where agents of each platform have what decides to whom their data goes: one table.

The risk rules read it, the lists of agents of the dashboard, and the evaluation of objects before they are applied.

Sources: the definitions of kagent v1alpha2, ARK v1alpha1, ToolHive v1beta1, agent-sandbox v1alpha1, Argo Rollouts, the
Pods of Kubernetes, and our own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gitsync.objects.ref import GroupKind, ObjectRef

FieldPath = tuple[str, ...]
"""Members of a spec from the outside; ``*`` is each item of a list, or each member of a map."""


@dataclass(frozen=True, slots=True)
class AgentFields:
    """
    The paths of an object's spec by what they decide.

    ``tools`` and ``stores`` are places to which an agent sends data: a new one there is another destination. ``models``
    name models and what they are reached by, ``approvals`` the tools that a person has to approve.
    """

    tools: tuple[FieldPath, ...] = ()
    stores: tuple[FieldPath, ...] = ()
    recording: tuple[FieldPath, ...] = ()
    """Whether prompts and answers are recorded elsewhere."""
    credentials: tuple[FieldPath, ...] = ()
    permissions: tuple[FieldPath, ...] = ()
    """What the program of a tool may reach."""
    destinations: tuple[FieldPath, ...] = ()
    """The model service, or the object that names it."""
    approvals: tuple[FieldPath, ...] = ()
    prompts: tuple[FieldPath, ...] = ()
    models: tuple[FieldPath, ...] = ()
    functions: tuple[FieldPath, ...] = ()
    """The functions of tools that an agent may call."""
    programs: tuple[FieldPath, ...] = ()
    """What runs: images, commands and variables."""
    references: tuple[tuple[FieldPath, GroupKind], ...] = ()
    """Names of objects of the same namespace that the agent reads."""
    template: FieldPath = ()
    """The template of the agent's Pods, empty where another controller makes them."""
    service_port: int = 0
    """The port of the Service that the agent's controller makes under the agent's name, 0 where there is none."""

    @property
    def behaviour(self) -> tuple[FieldPath, ...]:
        """The fields that decide how the agent answers; no Secrets, whose rotation changes no answer."""
        named = (path for path, of in self.references if of != _SECRET)
        decided = (*self.prompts, *self.models, *self.destinations, *self.tools, *self.functions, *self.approvals)
        return (*decided, *self.programs, *named)


_SECRET: Final = GroupKind("", "Secret")
_CONFIG_MAP: Final = GroupKind("", "ConfigMap")
_KAGENT_TOOL: Final = ("declarative", "tools", "*")
_KAGENT_BYO: Final = ("byo", "deployment")
_KAGENT_AGENT: Final = AgentFields(
    tools=(
        (*_KAGENT_TOOL, "mcpServer", "name"),
        (*_KAGENT_TOOL, "mcpServer", "namespace"),
        (*_KAGENT_TOOL, "agent", "name"),
    ),
    credentials=((*_KAGENT_TOOL, "headersFrom", "*", "valueFrom", "name"),),
    destinations=(("declarative", "modelConfig"),),
    approvals=((*_KAGENT_TOOL, "mcpServer", "requireApproval", "*"),),
    prompts=(("declarative", "systemMessage"), ("declarative", "systemMessageFrom")),
    functions=((*_KAGENT_TOOL, "mcpServer", "toolNames", "*"),),
    programs=(
        *((*_KAGENT_BYO, name) for name in ("image", "cmd")),
        (*_KAGENT_BYO, "args", "*"),
        (*_KAGENT_BYO, "env", "*", "name"),
        (*_KAGENT_BYO, "env", "*", "value"),
    ),
    references=(
        (("declarative", "modelConfig"), GroupKind("kagent.dev", "ModelConfig")),
        (("declarative", "systemMessageFrom", "name"), _CONFIG_MAP),
        ((*_KAGENT_TOOL, "mcpServer", "name"), GroupKind("kagent.dev", "RemoteMCPServer")),
    ),
    # kagent's controller serves each agent by A2A at this port, go/internal/controller/translator/agent.
    service_port=8080,
)
_ARK_ADDRESS: Final = AgentFields(
    tools=(("address",),), credentials=(("headers", "*", "value", "valueFrom", "secretKeyRef", "name"),)
)

OWN: Final = AgentFields(
    tools=(
        ("tools", "*", "mcp", "url"),
        ("tools", "*", "mcp", "serviceRef", "name"),
        ("tools", "*", "mcp", "serviceRef", "port"),
        ("tools", "*", "http", "url"),
        ("tools", "*", "http", "serviceRef", "name"),
        ("tools", "*", "http", "serviceRef", "port"),
        ("tools", "*", "agentRef", "name"),
    ),
    stores=(
        ("state", "databases", "*", "host"),
        ("memory", "session", "type"),
        ("memory", "session", "databaseRef"),
        ("memory", "longTerm", "type"),
        ("memory", "longTerm", "databaseRef"),
    ),
    recording=(("observability", "tracing", "captureContent"),),
)
"""Of our Agents: what no other rule compares."""

PLATFORMS: Final = {
    GroupKind("kagent.dev", "Agent"): _KAGENT_AGENT,
    GroupKind("kagent.dev", "SandboxAgent"): _KAGENT_AGENT,
    GroupKind("kagent.dev", "ModelConfig"): AgentFields(
        credentials=(("apiKeySecret",),),
        destinations=(("provider",), ("*", "baseUrl"), ("*", "endpoint"), ("*", "azureEndpoint"), ("*", "host")),
        models=(("model",),),
    ),
    GroupKind("kagent.dev", "RemoteMCPServer"): AgentFields(
        tools=(("url",),), credentials=(("headersFrom", "*", "valueFrom", "name"),)
    ),
    GroupKind("kagent.dev", "ToolServer"): AgentFields(
        tools=(("config", "*", "url"),), credentials=(("config", "*", "headersFrom", "*", "valueFrom", "name"),)
    ),
    GroupKind("ark.mckinsey.com", "Agent"): AgentFields(
        tools=(("tools", "*", "name"),), destinations=(("modelRef",),), prompts=(("prompt",),)
    ),
    GroupKind("ark.mckinsey.com", "Model"): AgentFields(
        credentials=(("config", "*", "apiKey", "valueFrom", "secretKeyRef", "name"),),
        destinations=(("type",), ("config", "*", "baseUrl")),
        models=(("model",),),
    ),
    GroupKind("ark.mckinsey.com", "MCPServer"): _ARK_ADDRESS,
    GroupKind("ark.mckinsey.com", "A2AServer"): _ARK_ADDRESS,
    GroupKind("toolhive.stacklok.dev", "MCPServer"): AgentFields(
        credentials=(("secrets", "*", "name"),), permissions=(("permissionProfile",), ("transport",))
    ),
    GroupKind("toolhive.stacklok.dev", "MCPRemoteProxy"): AgentFields(
        tools=(("remoteURL",), ("remoteUrl",)), credentials=(("externalAuthConfigRef", "name"),)
    ),
}
"""The fields by kind. Sandboxes and ordinary workloads are judged by their Pods."""


def _of_pods(*template: str) -> AgentFields:
    """Return the fields of a workload whose template of Pods is there."""
    pod = (*template, "spec")
    containers = [(*pod, member, "*") for member in ("initContainers", "containers")]
    sources = (("configMap", "name", _CONFIG_MAP), ("secret", "secretName", _SECRET))
    keys = (("configMapKeyRef", _CONFIG_MAP), ("secretKeyRef", _SECRET))
    wholes = (("configMapRef", _CONFIG_MAP), ("secretRef", _SECRET))
    members = (("image",), ("command", "*"), ("args", "*"), ("env", "*", "name"), ("env", "*", "value"))
    volume = (*pod, "volumes", "*")
    return AgentFields(
        programs=tuple((*container, *member) for container in containers for member in members),
        references=(
            *(((*volume, member, name), of) for member, name, of in sources),
            # A projected source names a Secret by ``name``, a volume by ``secretName``.
            *(((*volume, "projected", "sources", "*", member, "name"), of) for member, _, of in sources),
            *(((*path, "env", "*", "valueFrom", member, "name"), of) for path in containers for member, of in keys),
            *(((*path, "envFrom", "*", member, "name"), of) for path in containers for member, of in wholes),
        ),
        template=template,
    )


EVALUATED: Final = {
    **{of: fields for of, fields in PLATFORMS.items() if fields.service_port},
    **dict.fromkeys((GroupKind("apps", "Deployment"), GroupKind("apps", "StatefulSet")), _of_pods("template")),
    GroupKind("argoproj.io", "Rollout"): _of_pods("template"),
    GroupKind("agents.x-k8s.io", "Sandbox"): _of_pods("podTemplate"),
}
"""
The kinds whose objects can be evaluated before they are applied: of their own Pods, or reached by a Service.

Agents of ARK have neither: its controller asks the model itself.
"""

PLATFORM_AGENTS: Final = frozenset(of for of, fields in PLATFORMS.items() if fields.prompts)
"""The kinds of other platforms that are agents and not their models or tools: those that have a prompt."""


def values_at(spec: Any, paths: tuple[FieldPath, ...]) -> frozenset[str]:
    """Return the values that a spec has at some paths, as text."""
    return frozenset(str(value) for path in paths for value in _values(spec, path))


def behaviour_of(spec: Any, fields: AgentFields) -> list[tuple[str, list[str]]]:
    """Return what decides how an agent answers: the values of its spec by path, in their order."""
    named = ((".".join(path), [str(value) for value in _values(spec, path)]) for path in fields.behaviour)
    return [(path, values) for path, values in named if values]


def named_objects(spec: Any, namespace: str, fields: AgentFields) -> frozenset[ObjectRef]:
    """Return the objects that an agent reads, by the references of its spec."""
    return frozenset(
        ObjectRef(of.group, of.kind, namespace, str(name))
        for path, of in fields.references
        for name in _values(spec, path)
    )


def renamed(value: Any, path: FieldPath, names: Mapping[str, str]) -> Any:
    """Return a value with the texts at a path replaced by their new names; the others stay."""
    if not path:
        return names.get(value, value) if isinstance(value, str) else value
    name, *rest = path
    following = tuple(rest)
    if name == "*" and isinstance(value, list):
        return [renamed(item, following, names) for item in value]
    if name == "*" and isinstance(value, dict):
        return {key: renamed(item, following, names) for key, item in value.items()}
    if isinstance(value, dict) and name in value:
        return {**value, name: renamed(value[name], following, names)}
    return value


def _values(value: Any, path: FieldPath) -> Iterator[Any]:
    if not path:
        # false is what absence means too
        if value not in (None, "", False):
            yield value
        return
    name, *rest = path
    members: Any = ()
    if name == "*":
        members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    elif isinstance(value, dict):
        members = (value.get(name),)
    for member in members:
        yield from _values(member, tuple(rest))
