"""
Metrics of an agent, by the GenAI semantic conventions of OpenTelemetry 1.37, with the attributes that they require.

Source: open-telemetry/semantic-conventions v1.37.0, docs/gen-ai/gen-ai-metrics.md.
"""

from __future__ import annotations

from prometheus_client import Counter, Histogram

CHAT, EXECUTE_TOOL = "chat", "execute_tool"
"""Operations: a request to the model, and a call of a tool."""

_OPERATION = ("gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model")
_PROVIDER = "openai"
"""The API that the agent speaks, whatever serves it."""

_DURATION = Histogram(
    "gen_ai_client_operation_duration_seconds",
    "Time of a request to the model, or of a call of a tool.",
    _OPERATION,
    buckets=[0.01 * 2**power for power in range(14)],
)
_TOKENS = Histogram(
    "gen_ai_client_token_usage",
    "Tokens of a request to the model.",
    [*_OPERATION, "gen_ai_token_type"],
    buckets=[4**power for power in range(14)],
)
TOOL_CALLS = Counter("agent_tool_calls_total", "Calls of tools by outcome.", ["tool", "outcome"])


def observe_duration(operation: str, model: str, seconds: float) -> None:
    """Count an operation with its time."""
    _DURATION.labels(operation, _PROVIDER, model).observe(seconds)


def observe_tokens(model: str, kind: str, tokens: int) -> None:
    """Count the tokens of a request to the model; ``kind`` is input or output."""
    _TOKENS.labels(CHAT, _PROVIDER, model, kind).observe(tokens)
