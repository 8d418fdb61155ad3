"""Tokens of agents, of a Prometheus server."""

from __future__ import annotations

from gitsync.integrations.prometheus import Prometheus
from gitsync.runtime.clock import SystemClock
from gitsync.services.token_usage import TokenUsage
from tests.integrations.fake_prometheus import prometheus, vector
from tests.waiting import until


def test_tokens_are_those_of_each_service_and_asked_once_a_minute() -> None:
    with prometheus() as server:
        server.default = vector(
            ({"namespace": "shop", "service": "triage"}, "1234.6"),
            ({"namespace": "shop", "service": "billing"}, "NaN"),
            ({"namespace": "shop", "service": "endless"}, "+Inf"),
            ({}, "7"),
        )
        client = Prometheus(server.url, SystemClock())
        usage = TokenUsage(client)
        assert usage.by_service() == {}, "a page does not wait"
        found = until(usage.by_service)
        assert found == {("shop", "triage"): 1235, ("", ""): 7}
        usage.by_service()
        assert server.queries == ["sum by (namespace, service) (increase(gen_ai_client_token_usage_sum[1d]))"]
        client.close()


def test_without_prometheus_no_tokens_are_known() -> None:
    assert TokenUsage(None).by_service() == {}
