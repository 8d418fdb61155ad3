"""Risk of changes of agents on every platform: where data leaves, or protection ends."""

from __future__ import annotations

from typing import Any

import pytest

from gitsync.objects.change import Risk
from gitsync.plan.risk.table import classify
from tests.plan.risk.test_table import kind, update, with_

KAGENT = "kagent.dev/v1alpha2"
PLATFORMS = {
    "model": kind(
        KAGENT,
        "ModelConfig",
        spec={
            "provider": "OpenAI",
            "model": "gpt-4o-mini",
            "apiKeySecret": "openai",
            "apiKeySecretKey": "key",
            "openAI": {"baseUrl": "https://api.openai.com/v1"},
        },
    ),
    "tool": kind(KAGENT, "RemoteMCPServer", spec={"url": "http://orders-mcp.lab:8080/mcp"}),
    "kagent": kind(
        KAGENT,
        "Agent",
        spec={
            "type": "Declarative",
            "declarative": {
                "systemMessage": "Sort the tickets.",
                "modelConfig": "gpt",
                "tools": [
                    {
                        "type": "McpServer",
                        "mcpServer": {
                            "kind": "RemoteMCPServer",
                            "name": "orders",
                            "toolNames": ["find", "refund"],
                            "requireApproval": ["refund"],
                        },
                    }
                ],
            },
        },
    ),
    "isolated": kind(
        KAGENT, "SandboxAgent", spec={"declarative": {"systemMessage": "Run the code.", "modelConfig": "gpt"}}
    ),
    "sandbox": kind(
        "agents.x-k8s.io/v1beta1",
        "Sandbox",
        spec={
            "podTemplate": {
                "spec": {
                    "containers": [
                        {"name": "agent", "image": "r.io/coder:1", "env": [{"name": "OPENAI_MODEL", "value": "m"}]}
                    ]
                }
            }
        },
    ),
    "toolhive": kind(
        "toolhive.stacklok.dev/v1beta1", "MCPServer", spec={"image": "ghcr.io/mcp:v1", "transport": "stdio"}
    ),
    "agent": kind(
        "agents.gitsync.dev/v1alpha1",
        "Agent",
        spec={
            "model": {"provider": "OpenAICompatible", "id": "local", "endpoint": "http://model.lab.svc:8000/v1"},
            "prompt": {"text": "Sort into a queue."},
            "state": {"databases": [{"name": "mem", "engine": "Redis", "host": "redis.lab", "port": 6379}]},
            "tools": [
                {
                    "name": "orders",
                    "type": "MCP",
                    "mcp": {"url": "https://tools.example/mcp"},
                    "headersFrom": [{"name": "Authorization", "secretKeyRef": {"name": "tk", "key": "t"}}],
                }
            ],
            "observability": {"tracing": {"endpoint": "http://otel.lab:4317"}},
            "evaluation": {
                "cases": {"name": "c", "key": "c.jsonl"},
                "judge": {"id": "j", "endpoint": "http://judge.lab:8000/v1"},
            },
        },
    ),
}
SERVER = "spec.declarative.tools.0.mcpServer"
CONTAINER = "spec.podTemplate.spec.containers.0"


@pytest.mark.parametrize(
    ("name", "path", "value", "rule"),
    [
        ("model", "spec.openAI.baseUrl", "https://elsewhere.example/v1", "agent-model-moved"),
        ("model", "spec.provider", "Anthropic", "agent-model-moved"),
        ("model", "spec.apiKeySecret", "another", "agent-credentials"),
        ("tool", "spec.url", "http://elsewhere.example/mcp", "agent-tool-moved"),
        ("kagent", "spec.declarative.modelConfig", "another", "agent-model-moved"),
        ("kagent", f"{SERVER}.requireApproval", [], "agent-tool-unapproved"),
        ("kagent", f"{SERVER}.name", "another", "agent-tool-moved"),
        ("isolated", "spec.declarative.modelConfig", "another", "agent-model-moved"),
        ("sandbox", f"{CONTAINER}.env.0", {"name": "OPENAI_BASE_URL", "value": "https://a.example"}, "endpoint-set"),
        ("toolhive", "spec.transport", "sse", "agent-tool-permissions"),
        ("toolhive", "spec.permissionProfile", {"type": "builtin", "name": "network"}, "agent-tool-permissions"),
        ("toolhive", "spec.secrets", [{"name": "s", "key": "k", "targetEnvName": "T"}], "agent-credentials"),
        ("agent", "spec.model.endpoint", "http://elsewhere.example/v1", "agent-model-moved"),
        ("agent", "spec.tools.0.mcp.url", "https://elsewhere.example/mcp", "agent-tool-moved"),
        ("agent", "spec.state.databases.0.host", "elsewhere.example", "agent-data-moved"),
        ("agent", "spec.observability.tracing.endpoint", "http://elsewhere.example:4317", "endpoint-set"),
        ("agent", "spec.observability.tracing.captureContent", True, "agent-data-moved"),
        ("agent", "spec.evaluation.judge.endpoint", "http://elsewhere.example/v1", "endpoint-set"),
        ("agent", "spec.evaluation", None, "agent-checks-weakened"),
    ],
)
def test_what_leaves_or_unprotects_an_agent_is_dangerous(name: str, path: str, value: Any, rule: str) -> None:
    live = PLATFORMS[name]
    step = classify(update(live, with_(live, path, value), f"/{path.replace('.', '/')}"))
    assert (step.rule, step.risk) == (rule, Risk.DANGEROUS), step.reason


@pytest.mark.parametrize(
    ("name", "path", "value", "rule"),
    [
        ("model", "spec.model", "gpt-5", "agent-model"),
        ("kagent", "spec.declarative.systemMessage", "Sort.", "agent-prompt"),
        ("kagent", f"{SERVER}.toolNames", ["find"], "agent-tools"),
        ("isolated", "spec.declarative.systemMessage", "Run.", "agent-prompt"),
        ("agent", "spec.prompt", {"text": "Sort."}, "agent-prompt"),
    ],
)
def test_a_change_of_behaviour_is_told_as_what_it_is(name: str, path: str, value: Any, rule: str) -> None:
    live = PLATFORMS[name]
    step = classify(update(live, with_(live, path, value), f"/{path.replace('.', '/')}"))
    assert step.rule == rule
