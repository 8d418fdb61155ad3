"""Real MCP, A2A and OpenAI-compatible servers are observed: their changes are drift, their restarts are not."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from gitsync.agents.contract.dependencies import Dependencies, ModelDependency, PeerDependency, ServerDependency
from gitsync.agents.contract.differences import DriftKind, differences
from gitsync.agents.contract.lock import AgentContract
from gitsync.integrations.contract_probe import ContractObservation, probe
from tests.agents.contract.factories import ALLOW, CHANGES, MODEL, SECONDS, ServerChange, needed, restarted, world
from tests.http_service import serve_http
from tests.integrations.contract_servers import ContractServers, contract_servers

RESTARTS = int(os.environ.get("GITSYNC_CONTRACT_RESTARTS", "2"))
"""Restarts of the servers, each with its answers in another order."""


@pytest.fixture(scope="module")
def servers() -> Iterator[ContractServers]:
    with contract_servers() as running:
        yield running


@pytest.fixture(scope="module")
def locked(servers: ContractServers) -> AgentContract:
    return observe(servers).contract


@pytest.fixture(autouse=True)
def _unchanged(servers: ContractServers) -> None:
    servers.answers = world()
    servers.status = 200


def of(servers: ContractServers) -> Dependencies:
    return needed(servers.mcp, servers.peer, servers.model)


def observe(servers: ContractServers) -> ContractObservation:
    observation = probe(of(servers), {})
    assert observation.unreachable == {}
    return observation


@pytest.mark.parametrize("changed", CHANGES, ids=lambda change: change.id)
def test_a_change_of_a_real_server_is_drift(
    servers: ContractServers, locked: AgentContract, changed: ServerChange
) -> None:
    changed.change(servers.answers)

    wanted = needed(servers.mcp, servers.peer, servers.model, changed.allow)
    drift = differences(locked, observe(servers).contract, wanted)

    assert {difference.kind for difference in drift} == changed.kinds, list(map(str, drift))


def test_restarted_real_servers_are_no_drift(locked: AgentContract, servers: ContractServers) -> None:
    wanted = of(servers)
    for number in range(RESTARTS):
        with contract_servers() as again:
            again.answers = restarted(random.Random(number))
            urls = {"tickets": again.mcp, "reviewer": again.peer, "model": again.model}
            observation = probe(wanted, {}, urls=urls)
        assert observation.unreachable == {}
        assert differences(locked, observation.contract, wanted) == (), number


def test_all_pages_of_tools_are_read(servers: ContractServers) -> None:
    contract = observe(servers).contract.servers["tickets"]
    assert list(contract.tools) == ["close_ticket", "find_order", "purge", "search"]
    assert contract.instructions == "Tools of the support desk."


def test_sse_gives_the_same_contract(servers: ContractServers) -> None:
    by_sse = ServerDependency("tickets", servers.mcp_by_sse, "SSE", {}, ALLOW, SECONDS)
    observation = probe(Dependencies((by_sse,)), {})
    assert observation.unreachable == {}
    assert observation.contract.servers["tickets"].tools == observe(servers).contract.servers["tickets"].tools


def test_another_address_is_asked_but_not_locked(servers: ContractServers) -> None:
    urls = {"tickets": servers.mcp, "reviewer": servers.peer, "model": servers.model}
    observation = probe(needed(), {}, urls=urls)
    assert observation.contract.servers["tickets"].url == "http://tickets:8080/mcp"
    assert differences(observe(servers).contract, observation.contract, of(servers))[0].kind is DriftKind.MOVED


@pytest.mark.parametrize("status", [401, 429, 500, 503])
def test_a_model_that_fails_is_not_another_one(servers: ContractServers, status: int) -> None:
    servers.status = status
    observation = probe(of(servers), {})
    assert list(observation.unreachable) == ["model"]
    assert str(status) in observation.unreachable["model"]
    assert observation.contract.models == {}


def test_a_model_server_may_lack_the_list(servers: ContractServers) -> None:
    servers.status = 404
    assert observe(servers).contract.models["model"].entry == {}


def of_llama_cpp(created: int, parameters: int = 27168) -> dict[str, Any]:
    """Return models and completion as the server of llama.cpp b11549 answers, with a tiny model of random weights."""
    meta = {"vocab_type": 1, "n_vocab": 263, "n_ctx": 256, "n_embd": 32, "n_params": parameters, "size": 4 * parameters}
    entry = {"id": MODEL, "aliases": [MODEL], "object": "model", "owned_by": "llamacpp", "meta": meta}
    choice = {"finish_reason": "length", "index": 0, "message": {"role": "assistant", "content": "&"}}
    known = {"model": MODEL, "system_fingerprint": "b0-unknown", "object": "chat.completion", "choices": [choice]}
    seconds = {"prompt_ms": created % 7, "predicted_ms": created % 5}
    return {
        "models": [{**entry, "created": created}],
        "completion": {**known, "created": created, "id": f"chatcmpl-{created}", "timings": seconds},
    }


def test_the_server_of_llama_cpp_is_compared_by_what_it_says_of_its_model(servers: ContractServers) -> None:
    servers.answers |= of_llama_cpp(1_795_750_601)
    before = observe(servers).contract
    servers.answers |= of_llama_cpp(1_795_750_733)
    assert differences(before, observe(servers).contract, of(servers)) == (), "a restart"
    servers.answers |= of_llama_cpp(1_795_750_801, parameters=62528)
    (larger,) = differences(before, observe(servers).contract, of(servers))
    assert larger.kind is DriftKind.OTHER_MODEL


def test_hosts_that_do_not_answer_are_named() -> None:
    closed = "http://127.0.0.1:9"
    observation = probe(needed(f"{closed}/mcp", f"{closed}/", f"{closed}/v1"), {})
    assert sorted(observation.unreachable) == ["model", "reviewer", "tickets"]
    assert observation.contract.servers == {}


def test_headers_and_keys_come_from_variables() -> None:
    headers: dict[str, str] = {}

    class Recorder(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            headers[self.path] = f"{self.headers['X-Team']} {self.headers['Authorization']}"
            self.send_error(404)

        do_GET = do_POST  # noqa: N815 - a name of http.server

        def log_message(self, *args: object) -> None:
            """Stay quiet."""

    with serve_http(Recorder) as port:
        url = f"http://127.0.0.1:{port}"
        wanted = Dependencies(
            (
                ServerDependency(
                    "tickets", f"{url}/mcp", "StreamableHTTP", {"X-Team": "${TOOL_TICKETS_X_TEAM}"}, None, 5
                ),
            ),
            (PeerDependency("reviewer", url, {"X-Team": "${UNKNOWN}"}, 5),),
            (ModelDependency("model", MODEL, f"{url}/v1", "AGENT_MODEL_API_KEY"),),
        )
        observation = probe(wanted, {"TOOL_TICKETS_X_TEAM": "blue", "AGENT_MODEL_API_KEY": "key"})

    assert headers["/mcp"] == "blue None"
    assert headers["/v1/chat/completions"] == "None Bearer key"
    assert "variable UNKNOWN" in observation.unreachable["reviewer"]


@pytest.mark.parametrize(
    "body", [b"<html>", b"[]", b"[" * 100_000, b'{"jsonrpc": "2.0", "id": 1, "error": {"code": 1}}']
)
def test_odd_answers_are_no_contract(body: bytes) -> None:
    class Odd(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST  # noqa: N815 - a name of http.server

        def log_message(self, *args: object) -> None:
            """Stay quiet."""

    with serve_http(Odd) as port:
        url = f"http://127.0.0.1:{port}"
        wanted = Dependencies((ServerDependency("tickets", url, "StreamableHTTP", {}, None, 5),))
        assert list(probe(wanted, {}).unreachable) == ["tickets"]
