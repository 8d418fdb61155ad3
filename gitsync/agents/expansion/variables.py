"""Environment variables of an Agent's containers."""

from __future__ import annotations

from typing import Any

from gitsync.agents.expansion.election import lease_variables
from gitsync.agents.expansion.facts import Facts, MemberChannel
from gitsync.agents.keys import CARD_PATH, CONFIG_PATH, DATABASES_PATH, TOPOLOGY_PATH, compact
from gitsync.agents.model.agent import Agent
from gitsync.agents.model.base import SecretKeyRef
from gitsync.agents.model.network import Tracing
from gitsync.agents.model.runtime import EnvVar
from gitsync.agents.model.state import Database, DatabaseSecret
from gitsync.agents.model.tools import HeaderFrom, Tool

Variables = list[dict[str, Any]]
COLLECTOR_ENDPOINT = "http://localhost:4317"


def variables(agent: Agent, facts: Facts) -> Variables:
    """Return the variables of the agent's container; the user's own come last and so can refer to the others."""
    own_variables = [
        {"name": "PORT", "value": str(agent.spec.runtime.port)},
        _field("POD_NAME", "metadata.name"),
        _field("POD_NAMESPACE", "metadata.namespace"),
        _field("NODE_NAME", "spec.nodeName"),
        {"name": "AGENT_NAME", "value": agent.name},
        {"name": "AGENT_CONFIG", "value": f"{CONFIG_PATH}/agent.json"},
        *_card(agent),
        *([{"name": "AGENT_TOPOLOGY", "value": f"{TOPOLOGY_PATH}/topology.json"}] if facts.topology else []),
        *_model(agent),
        *[
            _secret(header_variable(tool, header), header.secret_key_ref)
            for tool in agent.spec.tools
            for header in tool.headers_from
        ],
        *[variable for database in databases(agent) for variable in _database(database)],
        *[variable for channel in facts.channels for variable in _channel(channel)],
        *lease_variables(agent),
        *_telemetry(agent),
    ]
    # One name twice in a list keyed by name is refused by server-side apply.
    own = {variable.name for variable in agent.spec.runtime.env}
    return [header for header in own_variables if header["name"] not in own] + user_variables(agent.spec.runtime.env)


def user_variables(env_vars: tuple[EnvVar, ...]) -> Variables:
    """Return variables of the spec as a container has them."""
    return [variable.model_dump(mode="json", by_alias=True, exclude_none=True) for variable in env_vars]


def databases(agent: Agent) -> tuple[Database, ...]:
    """Return the databases of an Agent."""
    return agent.spec.state.databases if agent.spec.state else ()


def database_prefix(name: str) -> str:
    """Return the prefix of the variables of a database."""
    return f"DB_{_upper(name)}"


def header_variable(tool: Tool, header: HeaderFrom) -> str:
    """Return the variable that has the value of a request header."""
    return f"TOOL_{_upper(tool.name)}_{_upper(header.name)}"


def fallback_key(index: int) -> str:
    """Return the variable that has the API key of a fallback."""
    return f"AGENT_MODEL_FALLBACK_{index}_API_KEY"


def _card(agent: Agent) -> Variables:
    if agent.spec.expose.protocol != "A2A":
        return []
    return [{"name": "AGENT_CARD", "value": f"{CARD_PATH}/agent-card.json"}]


def _model(agent: Agent) -> Variables:
    model = agent.spec.model
    env_vars: Variables = [{"name": "AGENT_MODEL_ID", "value": model.id}]
    env_vars += [{"name": "AGENT_MODEL_ENDPOINT", "value": model.endpoint}] if model.endpoint else []
    env_vars += [_secret("AGENT_MODEL_API_KEY", model.credentials.secret_key_ref)] if model.credentials else []
    env_vars += [{"name": "AGENT_MODEL_CACHE", "value": model.cache.mount_path}] if model.cache else []
    for index, fallback in enumerate(model.fallbacks):
        env_vars += [_secret(fallback_key(index), fallback.credentials.secret_key_ref)] if fallback.credentials else []
    return env_vars


def _database(database: Database) -> Variables:
    prefix = database_prefix(database.name)
    credentials = database.credentials
    plain = {"ENGINE": database.engine, "HOST": database.host, "PORT": str(database.port), "NAME": database.database}
    env_vars: Variables = [{"name": f"{prefix}_{key}", "value": value} for key, value in compact(plain).items()]
    env_vars += _sign_in(prefix, credentials.secret_ref if credentials else None)
    if database.tls is not None:
        env_vars.append({"name": f"{prefix}_TLS_MODE", "value": database.tls.mode})
        if database.tls.ca_secret_key_ref:
            env_vars.append({"name": f"{prefix}_TLS_CA", "value": f"{DATABASES_PATH}/{database.name}/ca.crt"})
    return env_vars


def _channel(channel: MemberChannel) -> Variables:
    prefix = f"CHANNEL_{_upper(channel.name)}"
    broker: Variables = [{"name": f"{prefix}_BROKER", "value": channel.broker}] if channel.broker else []
    return broker + _sign_in(prefix, channel.secret)


def _sign_in(prefix: str, secret: DatabaseSecret | None) -> Variables:
    """Return the variables of user name and password."""
    if secret is None:
        return []
    keys = {"USER": secret.username_key, "PASSWORD": secret.password_key}
    return [_secret(f"{prefix}_{name}", SecretKeyRef(name=secret.name, key=key)) for name, key in keys.items() if key]


def _telemetry(agent: Agent) -> Variables:
    """
    Return the variables of logs, metrics and traces.

    Source: OpenTelemetry SDK configuration by environment variables; attributes of the GenAI semantic conventions 1.37.
    """
    observability = agent.spec.observability
    env_vars: Variables = [
        {"name": "LOG_FORMAT", "value": observability.logging.format.lower()},
        {"name": "LOG_LEVEL", "value": observability.logging.level},
    ]
    if observability.metrics is not None:
        env_vars += [
            {"name": "METRICS_PORT", "value": str(observability.metrics.port)},
            {"name": "METRICS_PATH", "value": observability.metrics.path},
        ]
    if observability.tracing is not None:
        env_vars += _tracing(agent, observability.tracing)
    return env_vars


def _tracing(agent: Agent, tracing: Tracing) -> Variables:
    attributes = {
        "service.version": agent.spec.version,
        "gen_ai.agent.name": agent.name,
        "gen_ai.agent.version": agent.spec.version,
        # The kubelet expands $(NAME) of variables before this one.
        "k8s.namespace.name": "$(POD_NAMESPACE)",
        "k8s.pod.name": "$(POD_NAME)",
        "k8s.node.name": "$(NODE_NAME)",
    }
    plain = {
        "OTEL_SERVICE_NAME": agent.name,
        "OTEL_RESOURCE_ATTRIBUTES": ",".join(f"{key}={value}" for key, value in attributes.items()),
        "OTEL_EXPORTER_OTLP_ENDPOINT": COLLECTOR_ENDPOINT if tracing.injection == "Sidecar" else tracing.endpoint,
        # Parent-based: a trace that a caller records is not cut off at this agent.
        "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
        "OTEL_TRACES_SAMPLER_ARG": f"{tracing.sample_ratio:g}",
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": str(tracing.capture_content).lower(),
    }
    return [{"name": name, "value": value} for name, value in plain.items()]


def _field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}


def _secret(name: str, ref: SecretKeyRef) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": ref.name, "key": ref.key}}}


def _upper(name: str) -> str:
    # Names of variables have no hyphens and dots.
    return "".join(char if char.isalnum() else "_" for char in name).upper()
