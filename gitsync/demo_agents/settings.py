"""What a Pod of the demo is configured with, and how it serves."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp


@dataclass(frozen=True, slots=True)
class McpServer:
    """An MCP server whose tools the agent may call."""

    name: str
    url: str
    allow: tuple[str, ...] | None
    require_approval: frozenset[str]
    headers: tuple[tuple[str, str], ...]

    def is_offered(self, function: str) -> bool:
        """Return whether the model may call a tool without a person's approval."""
        # an absent list allows all tools, an empty one none
        return (self.allow is None or function in self.allow) and function not in self.require_approval


@dataclass(frozen=True, slots=True)
class DemoAgentSettings:
    """An agent: its model, its prompt and its tools."""

    name: str
    version: str
    model: str
    endpoint: str
    api_key: str
    prompt: str
    tools: tuple[McpServer, ...]
    card: dict[str, Any]


def load_settings() -> DemoAgentSettings:
    """Return the settings of this Pod; the endpoint and key of the model are in its environment."""
    path = Path(os.environ["AGENT_CONFIG"])
    config = json.loads(path.read_text(encoding="utf-8"))
    prompt = path.with_name("prompt.md")
    card = Path(os.environ["AGENT_CARD"])
    return DemoAgentSettings(
        config["name"],
        config.get("version", ""),
        config["model"]["id"],
        config["model"].get("endpoint", "").rstrip("/"),
        os.environ.get("AGENT_MODEL_API_KEY", ""),
        prompt.read_text(encoding="utf-8") if prompt.exists() else "",
        tuple(_tool(tool) for tool in config.get("tools") or () if tool["type"] == "MCP"),
        json.loads(card.read_text(encoding="utf-8")),
    )


def _tool(tool: dict[str, Any]) -> McpServer:
    # the configuration names variables, since their values are in a Secret
    headers = tuple((name, os.path.expandvars(value)) for name, value in tool.get("headers", {}).items())
    allow = tool.get("allow")
    needs_approval = frozenset(tool.get("requireApproval") or ())
    return McpServer(tool["name"], tool["url"], None if allow is None else tuple(allow), needs_approval, headers)


_DRAIN_SECONDS = 20  # below the grace period of a Pod, which is 30 by default


def serve(app: ASGIApp) -> None:
    """Answer requests until SIGTERM, and finish those in flight."""
    uvicorn.run(
        app,
        # the address of the Pod: in the sandbox all Pods share the loopback device, and each has its own address
        host=os.environ.get("POD_IP", "127.0.0.1"),
        port=int(os.environ.get("PORT", "8080")),
        log_level=os.environ.get("LOG_LEVEL", "info"),
        timeout_graceful_shutdown=_DRAIN_SECONDS,
    )
