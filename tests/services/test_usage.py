"""Tokens of agents, of a Prometheus server; CPU time and memory of Pods, of a metrics server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from gitsync.agents.budget import Price
from gitsync.errors import ClusterUnavailable
from gitsync.integrations.prometheus import Prometheus
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ObjectRef
from gitsync.runtime.clock import SystemClock
from gitsync.services.usage import _WEEK, PodUsage, TokenUsage, TokenWeek, UsageHistory, UsageSample, cost_query
from tests.fakes.ports import FakeClock
from tests.integrations.fake_prometheus import prometheus, success, vector
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


def test_a_week_has_tokens_and_requests_of_each_service() -> None:
    triage = {"namespace": "shop", "service": "triage"}
    with prometheus() as server:
        tokens, requests, answered = _WEEK
        server.by_query[tokens] = vector(
            ({**triage, "gen_ai_token_type": "input"}, "600"),
            ({**triage, "gen_ai_token_type": "output"}, "100"),
            ({"namespace": "shop", "service": "uncounted"}, "5"),
        )
        server.by_query[requests] = vector((triage, "7"))
        server.by_query[answered] = vector((triage, "100"))
        client = Prometheus(server.url, SystemClock())
        usage = TokenUsage(client)
        assert until(usage.last_week) == {("shop", "triage"): TokenWeek(700.0, 7.0, 100.0)}
        client.close()


def test_without_prometheus_no_tokens_are_known() -> None:
    assert TokenUsage(None).by_service() == {}


class MetricsServer:
    """A list of PodMetrics that counts, fails, or waits until it may answer."""

    def __init__(self) -> None:
        self.lists = 0
        self.failures = 0
        self.error: Exception | None = None
        self.may_answer = threading.Event()
        self.may_answer.set()

    def read(self) -> Iterator[Manifest]:
        self.lists += 1
        self.may_answer.wait(60)
        if self.error is not None:
            self.failures += 1
            raise self.error
        yield {"metadata": {"namespace": "shop", "name": "web"}, "list": self.lists}


@pytest.fixture
def server() -> MetricsServer:
    return MetricsServer()


@pytest.fixture
def usage(server: MetricsServer, clock: FakeClock) -> Iterator[PodUsage]:
    made = PodUsage(server.read, clock)
    yield made
    server.may_answer.set()
    made.close()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def read(usage: PodUsage) -> int:
    """Return which list the metrics of the Pod are of."""
    return int(until(usage.by_pod)["shop", "web"]["list"])


def test_pods_are_listed_once_a_minute(usage: PodUsage, server: MetricsServer, clock: FakeClock) -> None:
    assert (read(usage), read(usage)) == (1, 1)
    clock.seconds += 59
    assert read(usage) == 1
    clock.seconds += 1
    assert until(lambda: read(usage) == 2)
    assert server.lists == 2


def test_a_page_does_not_wait_for_a_server_that_hangs(usage: PodUsage, server: MetricsServer) -> None:
    server.may_answer.clear()
    assert usage.by_pod() == {}
    assert usage.by_pod() == {}
    server.may_answer.set()
    assert read(usage) == 1
    assert server.lists == 1


def test_a_server_that_fails_is_asked_again_a_minute_later(
    usage: PodUsage, server: MetricsServer, clock: FakeClock
) -> None:
    server.error = ClusterUnavailable("503")
    assert usage.by_pod() == {}
    until(lambda: server.failures)
    server.error = None
    assert usage.by_pod() == {}
    clock.seconds += 60
    assert read(usage) == 2


def test_an_hour_of_samples_is_kept_of_what_is_shown() -> None:
    history = UsageHistory()
    web = ObjectRef("apps", "Deployment", "shop", "web")
    start = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def add(seconds: float, cpu: int) -> list[int | None]:
        samples = history.add(web, UsageSample(start + timedelta(seconds=seconds), cpu, None, 0))
        return [sample.millicores for sample in samples]

    assert add(0, 10) == [10]
    assert add(1, 11) == [10, 11], "two make a chart at once"
    assert add(2, 12) == [10, 12], "what is loaded again within half a minute replaces the newest"
    assert add(60, 13) == [10, 12, 13]
    assert add(3599, 14) == [10, 12, 13, 14]
    assert add(3700, 15) == [14, 15], "older ones are left out"


def test_samples_are_kept_of_the_objects_shown_last() -> None:
    history = UsageHistory()
    start = datetime(2026, 3, 1, 12, tzinfo=UTC)
    for number in range(501):
        history.add(ObjectRef("", "Pod", "shop", f"web-{number}"), UsageSample(start, 1, 1, 0))
    later = UsageSample(start + timedelta(minutes=1), 2, 2, 0)
    assert len(history.add(ObjectRef("", "Pod", "shop", "web-500"), later)) == 2
    assert len(history.add(ObjectRef("", "Pod", "shop", "web-0"), later)) == 1


def test_figures_of_an_agent_over_time_are_asked_once_a_minute() -> None:
    ref = ObjectRef("agents.gitsync.dev", "Agent", "shop", "triage")
    with prometheus() as server:
        server.default = success("matrix", [{"metric": {}, "values": [[100, "1"], [160, "NaN"], [220, "3.5"]]}])
        client = Prometheus(server.url, SystemClock())
        usage = TokenUsage(client, client)
        until(lambda: len(usage.over_time(ref, timedelta(hours=1), {})) == 5)
        assert usage.over_time(ref, timedelta(hours=1), {})["latency"].points == ((100.0, 1.0), (220.0, 3.5))
        assert len(server.queries) == 5
        assert all("[300s]" in query for query in server.queries), "several scrapes are in each step"
        client.close()


def test_figures_that_prometheus_does_not_have_are_left_out() -> None:
    ref = ObjectRef("agents.gitsync.dev", "Agent", "shop", "triage")
    assert TokenUsage(None).over_time(ref, timedelta(hours=1), {}) == {}
    with prometheus() as server:
        server.default = success("matrix", [])
        client = Prometheus(server.url, SystemClock())
        usage = TokenUsage(client, client)
        usage.over_time(ref, timedelta(hours=1), {})
        until(lambda: len(server.queries) == 5)
        assert usage.over_time(ref, timedelta(hours=1), {}) == {}
        client.close()


def test_the_cost_of_an_agent_is_asked_by_the_prices_of_its_models() -> None:
    ref = ObjectRef("agents.gitsync.dev", "Agent", "shop", "triage")
    labels = 'namespace="shop", service="triage", gen_ai_token_type'
    metric = "gen_ai_client_token_usage_sum"
    assert cost_query(ref, "[60s]", {'a "b"': Price(2.0, 8.0)}) == (
        f'(sum(increase({metric}{{{labels}="input", gen_ai_request_model="a \\"b\\""}}[60s])) or vector(0)) * 2e-06 + '
        f'(sum(increase({metric}{{{labels}="output", gen_ai_request_model="a \\"b\\""}}[60s])) or vector(0)) * 8e-06'
    )
