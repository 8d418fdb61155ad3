"""What an agent depends on, as its configuration ``agent.json`` names it: what a probe asks, and what it may call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_ENDPOINTS: Final = {"OpenAI": "https://api.openai.com/v1"}
"""Where a provider is reached whose endpoint is not declared."""
_LISTING: Final = frozenset({"OpenAI", "OpenAICompatible"})
"""The providers that have ``/v1/models`` and ``system_fingerprint``."""


@dataclass(frozen=True, slots=True)
class ServerDependency:
    """An MCP server, and which of its tools the model may call: all where ``allow`` is None."""

    name: str
    url: str
    transport: str
    headers: Mapping[str, str]
    allow: frozenset[str] | None
    seconds: float

    def allows(self, tool: str) -> bool:
        """Whether the model may call a tool of this server."""
        return self.allow is None or tool in self.allow


@dataclass(frozen=True, slots=True)
class PeerDependency:
    """Another agent that is asked by A2A."""

    name: str
    url: str
    headers: Mapping[str, str]
    seconds: float


@dataclass(frozen=True, slots=True)
class ModelDependency:
    """A model; ``endpoint`` is empty where its provider has nothing to ask for an identity."""

    name: str
    id: str
    endpoint: str
    key_variable: str


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What one agent depends on."""

    servers: tuple[ServerDependency, ...] = ()
    peers: tuple[PeerDependency, ...] = ()
    models: tuple[ModelDependency, ...] = ()


def dependencies(config: Mapping[str, Any]) -> Dependencies:
    """Return what a configuration names; values of headers and keys are names of variables."""
    tools = config.get("tools") or ()
    model = config.get("model") or {}
    models = {"model": model, **{f"fallback-{index}": item for index, item in enumerate(model.get("fallbacks") or ())}}
    return Dependencies(
        tuple(_server(tool) for tool in tools if tool["type"] == "MCP"),
        tuple(_peer(tool) for tool in tools if tool["type"] == "Agent"),
        tuple(_model(name, item) for name, item in models.items() if item),
    )


def _server(tool: Mapping[str, Any]) -> ServerDependency:
    allow = tool.get("allow")
    return ServerDependency(
        name=tool["name"],
        url=tool["url"],
        transport=tool.get("transport") or "StreamableHTTP",
        headers=tool.get("headers") or {},
        allow=None if allow is None else frozenset(allow),
        seconds=float(tool.get("timeoutSeconds") or 30),
    )


def _peer(tool: Mapping[str, Any]) -> PeerDependency:
    return PeerDependency(tool["name"], tool["url"], tool.get("headers") or {}, float(tool.get("timeoutSeconds") or 30))


def _model(name: str, model: Mapping[str, Any]) -> ModelDependency:
    provider = model.get("provider", "")
    endpoint = model.get("endpoint") or _ENDPOINTS.get(provider, "")
    return ModelDependency(
        name, model["id"], endpoint.rstrip("/") if provider in _LISTING else "", model.get("apiKeyVariable") or ""
    )
