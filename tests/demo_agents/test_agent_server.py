"""What an agent of the demo reports about itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("prometheus_client", reason="the extra agents is not installed")

from prometheus_client import REGISTRY

from gitsync.demo_agents.agent_server import CHAT, EXECUTE_TOOL, TOOL_CALLS, observe_duration, observe_tokens

DOCS = Path(__file__).parents[2] / "docs" / "agents-operate.md"
REQUIRED = {"gen_ai_operation_name", "gen_ai_provider_name"}


def labels(name: str) -> set[str]:
    """Return the labels of the samples of a metric."""
    found = [sample.labels for family in REGISTRY.collect() for sample in family.samples if sample.name == name]
    assert found, name
    return {label for each in found for label in each}


def test_names_and_attributes_are_those_of_the_conventions_and_documented() -> None:
    for operation in (CHAT, EXECUTE_TOOL):
        observe_duration(operation, "local", 0.1)
    observe_tokens("local", "input", 12)
    TOOL_CALLS.labels("tickets__find_order", "ok").inc()
    assert labels("gen_ai_client_operation_duration_seconds_count") >= REQUIRED
    assert labels("gen_ai_client_token_usage_sum") >= REQUIRED | {"gen_ai_token_type"}
    documented = DOCS.read_text(encoding="utf-8").partition("## Telemetry and scaling")[2].partition("\n## ")[0]
    reported = {
        "gen_ai_client_operation_duration_seconds_count",
        "gen_ai_client_token_usage_sum",
        "agent_tool_calls_total",
    }
    assert {re.sub("_(count|sum)$", "", name) for name in reported} <= set(re.findall(r"`(\w+)`", documented))
    assert {label for name in reported for label in labels(name)} <= set(re.findall(r"`(\w+)`", documented))
