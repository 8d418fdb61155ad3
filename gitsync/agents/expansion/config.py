"""Configuration of an Agent: ``agent.json`` without Secret values, and its A2A card."""

from __future__ import annotations

import json
from typing import Any, Final

from gitsync.agents.expansion.facts import Facts
from gitsync.agents.expansion.variables import database_prefix, fallback_key, header_variable
from gitsync.agents.keys import child, compact, service_url
from gitsync.agents.model.agent import Agent
from gitsync.agents.model.tools import Fallback, Tool
from gitsync.objects.manifest import Manifest, content_hash

PROMPT_FILE: Final = "prompt.md"
"""The member of a configuration that is the system prompt."""

_DEFAULT_PORT = 8080


def config_data(agent: Agent, facts: Facts) -> dict[str, str]:
    """Return the data of the configuration: the prompt as a file too, so that its changes are shown as text."""
    # compact: what is not set is absent, so that a member which a newer version adds changes no older configuration.
    document = compact(
        {
            "name": agent.name,
            "version": agent.spec.version,
            "description": agent.spec.description,
            "model": _model(agent),
            "tools": [_tool(agent, tool, facts) for tool in agent.spec.tools],
            "memory": _memory(agent),
        }
    )
    prompt = prompt_of(agent, facts)
    # Indented: people and pages read and compare it line by line.
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    return {"agent.json": text, **({PROMPT_FILE: prompt} if prompt else {})}


def prompt_of(agent: Agent, facts: Facts) -> str:
    """Return the text of the system prompt."""
    prompt = agent.spec.prompt
    if prompt is None:
        return ""
    return prompt.text if prompt.text is not None else facts.prompt


def prompt_is_missing(agent: Agent, facts: Facts) -> bool:
    """Whether the ConfigMap or the member that the prompt refers to does not exist."""
    return agent.spec.prompt is not None and not prompt_of(agent, facts)


def config_name(agent: Agent, data: dict[str, str]) -> str:
    """Return the name of the configuration with this content."""
    return f"{agent.name}-config-{content_hash(data)[:10]}"


def config_map(agent: Agent, data: dict[str, str]) -> Manifest:
    """Return the configuration as an immutable ConfigMap."""
    # Immutable: Pods of a revision never see another configuration, and kubelets do not watch it.
    return child(agent, "v1", "ConfigMap", config_name(agent, data), immutable=True, data=data)


def card(agent: Agent) -> list[Manifest]:
    """
    Return the A2A card, which the runtime serves as ``/.well-known/agent-card.json``, where the spec exposes A2A.

    Source: the AgentCard of A2A 1.0.
    """
    if agent.spec.expose.protocol != "A2A":
        return []
    described = agent.spec.expose.card
    url = url_of(agent)
    document = {
        "name": agent.name,
        "description": agent.spec.description,
        "version": agent.spec.version,
        "supportedInterfaces": [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        "capabilities": {"streaming": described.streaming},
        "defaultInputModes": list(described.input_modes),
        "defaultOutputModes": list(described.output_modes),
        "skills": [compact(skill.model_dump(mode="json", by_alias=True)) for skill in described.skills],
    }
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    return [child(agent, "v1", "ConfigMap", f"{agent.name}-card", data={"agent-card.json": text})]


def url_of(agent: Agent) -> str:
    """Return the URL of the Agent's Service."""
    return service_url(agent.name, agent.namespace, agent.spec.runtime.port)


def tool_url(agent: Agent, tool: Tool, facts: Facts) -> str:
    """Return where a tool is reached."""
    if tool.agent_ref is not None:
        name = tool.agent_ref.name
        # An Agent that does not exist yet has no port; the default is corrected when it is created.
        return service_url(name, agent.namespace, facts.ports.get(name, _DEFAULT_PORT))
    target = tool.mcp or tool.http
    if target is None:
        return ""
    service = target.service_ref
    return service_url(service.name, agent.namespace, service.port, service.path) if service else target.url or ""


def _model(agent: Agent) -> dict[str, Any]:
    model = agent.spec.model
    fallbacks = [_service(fallback, fallback_key(index)) for index, fallback in enumerate(model.fallbacks)]
    return _service(model, "AGENT_MODEL_API_KEY") | ({"fallbacks": fallbacks} if fallbacks else {})


def _service(model: Fallback, variable: str) -> dict[str, Any]:
    return compact(
        {
            "provider": model.provider,
            "id": model.id,
            "endpoint": model.endpoint,
            "parameters": dict(model.parameters),
            "apiKeyVariable": variable if model.credentials else None,
        }
    )


def _tool(agent: Agent, tool: Tool, facts: Facts) -> dict[str, Any]:
    return compact(
        {
            "name": tool.name,
            "type": tool.type,
            "url": tool_url(agent, tool, facts),
            "transport": tool.mcp.transport if tool.mcp else None,
            # An empty list allows nothing; an absent one allows all.
            "allow": list(tool.allow) if tool.allow is not None else None,
            "requireApproval": list(tool.require_approval or ()),
            # The value is in a variable: a ConfigMap is readable for more users than a Secret.
            "headers": {header.name: f"${{{header_variable(tool, header)}}}" for header in tool.headers_from},
            "timeoutSeconds": tool.timeout_seconds,
        }
    )


def _memory(agent: Agent) -> dict[str, Any]:
    memory = agent.spec.memory
    if memory is None:
        return {}
    session = memory.session
    knowledge = memory.long_term
    return compact(
        {
            "session": session
            and compact(
                {
                    "type": session.type,
                    "database": session.database_ref and database_prefix(session.database_ref),
                    "ttlSeconds": session.ttl_seconds,
                }
            ),
            "longTerm": knowledge
            and compact(
                {
                    "type": knowledge.type,
                    "database": database_prefix(knowledge.database_ref),
                    "collection": knowledge.collection,
                    "embeddingModel": knowledge.embedding_model,
                }
            ),
        }
    )
