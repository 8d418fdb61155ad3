"""Budgets by a real Prometheus: it scrapes an exporter of the test, and the operator decides by what it answers."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gitsync.agents.budget import usage_query
from gitsync.integrations.prometheus import Prometheus
from gitsync.ports import MetricResult
from gitsync.runtime.clock import SystemClock
from tests.operator.agent_world import config_map
from tests.operator.fake_operator import Operator
from tests.waiting import until

PROGRAM = shutil.which("prometheus")
pytestmark = [
    pytest.mark.skipif(PROGRAM is None, reason="prometheus is not installed"),
    pytest.mark.timeout(180),
]
CONFIG = """global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: agents
    static_configs:
      - targets: ["{target}"]
        labels: {{namespace: shop, service: helper}}
"""


class Exporter:
    """An agent's page of metrics, with counters of tokens by model and direction, and nothing else."""

    def __init__(self) -> None:
        self.tokens: dict[tuple[str, str], int] = {("small", "input"): 0, ("small", "output"): 0}

    def text(self) -> str:
        lines = [
            f'gen_ai_client_token_usage_sum{{gen_ai_request_model="{model}",gen_ai_token_type="{kind}"}} {count}'
            for (model, kind), count in self.tokens.items()
        ]
        return "\n".join(["# TYPE gen_ai_client_token_usage_sum counter", *lines, ""])


class Answered:
    """Prometheus as the operator asks it, but each question waits for its answer, and none is a minute old."""

    def __init__(self, client: Prometheus) -> None:
        self._client = client

    def read(self, query: str, max_age: float) -> MetricResult | None:
        # the first call of a question begins it, and a later one has its answer
        self._client.read(query, 0.0)
        result: MetricResult = until(lambda: self._client.read(query, 5.0))
        return result


@pytest.fixture
def exporter() -> Iterator[tuple[Exporter, str]]:
    made = Exporter()

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = made.text().encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield made, f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@pytest.fixture
def prometheus(exporter: tuple[Exporter, str], tmp_path: Path) -> Iterator[Answered]:
    """A Prometheus that scrapes the exporter each second."""
    config = tmp_path / "prometheus.yml"
    config.write_text(CONFIG.format(target=exporter[1]), encoding="utf-8")
    address = f"127.0.0.1:{free_port()}"
    arguments = [
        f"--config.file={config}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address={address}",
    ]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([str(PROGRAM), *arguments], stdout=log, stderr=log)
    client = Prometheus(f"http://{address}", SystemClock())
    try:
        yield Answered(client)
    finally:
        client.close()
        process.terminate()
        process.wait(30)


def measured(prometheus: Answered, operator: Operator) -> float:
    """Return the tokens of the day, as the operator asks for them."""
    result = prometheus.read(usage_query("shop", operator.clock.now()), 0.0)
    return sum(sample.value for sample in result.samples) if result is not None else 0.0


def settled(operator: Operator) -> None:
    operator.run(60)
    operator.run()


def test_a_budget_follows_what_prometheus_scraped(exporter: tuple[Exporter, str], prometheus: Answered) -> None:
    counters, _ = exporter
    budget = {"agent": {"tokensPerDay": 1000}, "onExceeded": "Suspend"}
    operator = Operator(metrics=prometheus, budget=budget, replicas=3)
    operator.settle()
    # of a counter that was never scraped nothing is known, and nothing is stopped for it
    until(lambda: prometheus.read(usage_query("shop", operator.clock.now()), 0.0).samples)  # type: ignore[union-attr]
    settled(operator)
    assert operator.condition("BudgetExceeded")["reason"] == "Within"
    counters.tokens = {("small", "input"): 600, ("small", "output"): 250}
    until(lambda: 800 <= measured(prometheus, operator) < 1000)
    settled(operator)
    assert operator.condition("BudgetExceeded")["reason"] == "NearLimit"
    assert operator.deployment()["spec"]["replicas"] == 3
    counters.tokens = {("small", "input"): 2000, ("small", "output"): 500}
    until(lambda: measured(prometheus, operator) > 2000)
    settled(operator)
    assert operator.condition("BudgetExceeded")["reason"] == "Suspended"
    assert operator.deployment()["spec"]["replicas"] == 0


def test_money_counts_by_model_and_direction(exporter: tuple[Exporter, str], prometheus: Answered) -> None:
    counters, _ = exporter
    prices = config_map("prices", **{"prices.json": '{"small": {"input": 100, "output": 1000}}'})
    budget = {
        "agent": {"costPerDay": "1"},
        "prices": {"name": "prices", "key": "prices.json"},
        "onExceeded": "Throttle",
    }
    operator = Operator(metrics=prometheus, budget=budget, replicas=3)
    operator.cluster.put(prices)
    operator.settle()
    until(lambda: prometheus.read(usage_query("shop", operator.clock.now()), 0.0).samples)  # type: ignore[union-attr]
    # 3,000 tokens of questions cost 0.30, and as many of answers would cost 3
    counters.tokens = {("small", "input"): 3000, ("small", "output"): 0}
    until(lambda: measured(prometheus, operator) > 2500)
    settled(operator)
    assert operator.condition("BudgetExceeded")["reason"] == "Within"
    counters.tokens = {("small", "input"): 3000, ("small", "output"): 3000}
    until(lambda: measured(prometheus, operator) > 5000)
    settled(operator)
    assert operator.condition("BudgetExceeded")["reason"] == "Throttled"
    assert operator.deployment()["spec"]["replicas"] == 1
