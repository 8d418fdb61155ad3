"""
Where agents of each platform have what decides to whom their data goes: one table.

The risk rules read it, and the lists of agents of the dashboard.

Sources: the definitions of kagent v1alpha2, ARK v1alpha1, ToolHive v1beta1, and our own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from gitsync.objects.ref import GroupKind

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


_KAGENT_TOOL: Final = ("declarative", "tools", "*")
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

PLATFORM_AGENTS: Final = frozenset(of for of, fields in PLATFORMS.items() if fields.prompts)
"""The kinds of other platforms that are agents and not their models or tools: those that have a prompt."""


def values_at(spec: Any, paths: tuple[FieldPath, ...]) -> frozenset[str]:
    """Return the values that a spec has at some paths, as text."""
    return frozenset(str(value) for path in paths for value in _values(spec, path))


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
