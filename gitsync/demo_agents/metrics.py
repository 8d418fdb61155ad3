"""Metrics of an agent, named by the GenAI semantic conventions of OpenTelemetry 1.37."""

from __future__ import annotations

from prometheus_client import Counter, Histogram

DURATION = Histogram(
    "gen_ai_client_operation_duration_seconds", "Time of a request to the model.", ["gen_ai_request_model"]
)
TOKENS = Histogram(
    "gen_ai_client_token_usage",
    "Tokens of a request to the model.",
    ["gen_ai_request_model", "gen_ai_token_type"],
    buckets=[1, 4, 16, 64, 256, 1024, 4096, 16384, 65536],
)
TOOL_CALLS = Counter("agent_tool_calls_total", "Calls of tools by outcome.", ["tool", "outcome"])
