"""``gitsync eval``: the cases of a folder against an agent, its exit code and its report."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from gitsync.cli.main import app
from tests.agents.test_traces import document, messages, span
from tests.child_process import child_process

AGENT = """
apiVersion: agents.gitsync.dev/v1alpha1
kind: Agent
metadata: {name: echo, namespace: shop}
spec:
  model: {provider: OpenAI, id: small}
  prompt: {text: Repeat.}
  evaluation: {cases: {name: cases, key: cases.jsonl}}
  runtime: {image: "example.com/echo:1"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: cases, namespace: shop}
data:
  cases.jsonl: |
    {"name": "greeting", "input": "good morning", "assert": [{"contains": "morning"}]}
    {"name": "wrong", "input": "good morning", "assert": [{"contains": "evening"}]}
"""


class Echo(BaseHTTPRequestHandler):
    """Answer a message with its own text; judge that answers about the morning are good."""

    def do_POST(self) -> None:
        call = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/v1/chat/completions":
            self.judge(call)
            return
        message = {"messageId": "2", "role": "ROLE_AGENT", "parts": call["params"]["message"]["parts"]}
        self.reply({"jsonrpc": "2.0", "id": 1, "result": {"message": message}})

    def judge(self, call: dict[str, Any]) -> None:
        asked = json.loads(call["messages"][1]["content"])
        is_good = "morning" in asked["answer"] and self.headers["Authorization"] == "Bearer secret"
        verdict = {"pass": is_good, "reason": f"by {call['model']}"}
        usage = {"total_tokens": 60}
        self.reply({"choices": [{"message": {"content": json.dumps(verdict)}}], "usage": usage})

    def reply(self, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_a_failed_case_is_named_and_reported(url: str, tmp_path: Path) -> None:
    (tmp_path / "agents.yaml").write_text(AGENT)
    report = tmp_path / "report.xml"
    done = CliRunner().invoke(app, ["eval", str(tmp_path), "--url", url, "--junit", str(report)])
    assert done.exit_code == 1, done.output
    assert "echo: 1 of 2 cases passed; failed: wrong" in done.output
    suite = ElementTree.parse(report).getroot()[0]
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == ("echo", "2", "1")
    assert suite[1][0].get("message") == "the answer does not contain 'evening'"


def test_cases_of_a_file_are_compared_with_the_agent_that_serves(url: str, tmp_path: Path) -> None:
    cases, summary = tmp_path / "cases.jsonl", tmp_path / "verdict.json"
    cases.write_text('{"name": "greeting", "input": "good morning", "assert": [{"contains": "morning"}]}\n')
    options = ["--cases", str(cases), "--url", url, "--serving", url, "--summary", str(summary)]
    done = CliRunner().invoke(app, ["eval", *options])
    assert done.exit_code == 0, done.output
    assert json.loads(summary.read_text())["results"] == [{"name": "greeting", "before": "passed", "now": "passed"}]


RUBRIC = '{"name": "%s", "input": "good %s", "assert": [{"rubric": "It is about the morning."}]}\n'


def test_a_model_judges_by_a_rubric_within_limits(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITSYNC_JUDGE_KEY", "secret")
    cases = tmp_path / "cases.jsonl"
    cases.write_text("".join(RUBRIC % (word, word) for word in ("morning", "evening", "night")))

    def run(**settings: Any) -> str:
        given = {"judge": {"id": "grader", "endpoint": f"{url}v1"}, **settings}
        done = CliRunner().invoke(app, ["eval", "--cases", str(cases), "--url", url, "--settings", json.dumps(given)])
        assert done.exit_code == 1
        return done.output

    assert "1 of 3 cases passed; failed: evening, night" in run()
    assert "evening: judged: by grader" in run()
    assert "night: limits: not asked: the limit of 4 calls is reached" in run(limits={"calls": 4})
    assert "evening: limits: not asked: the limit of 60 tokens is reached" in run(limits={"tokens": 60})


def test_the_key_of_a_judge_goes_to_no_endpoint_that_a_folder_names(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = AGENT.replace("{cases:", '{judge: {id: grader, endpoint: "https://attacker.example/v1"}, cases:')
    (tmp_path / "agents.yaml").write_text(text)
    monkeypatch.setenv("GITSYNC_JUDGE_KEY", "secret")
    refused = CliRunner().invoke(app, ["eval", str(tmp_path), "--url", url])
    assert refused.exit_code == 2
    assert "would be sent to https://attacker.example/v1, which the folder names" in refused.output
    named = CliRunner().invoke(app, ["eval", str(tmp_path), "--url", url, "--judge", "https://attacker.example/v1"])
    assert named.exit_code == 1
    monkeypatch.delenv("GITSYNC_JUDGE_KEY")
    assert CliRunner().invoke(app, ["eval", str(tmp_path), "--url", url]).exit_code == 1


def test_a_configuration_of_promptfoo_becomes_cases(tmp_path: Path) -> None:
    config = tmp_path / "promptfooconfig.yaml"
    config.write_text(
        "prompts: ['{{text}}']\ntests:\n- vars: {text: hello}\n  assert: [{type: icontains, value: hello}]\n"
    )
    done = CliRunner().invoke(app, ["eval", "--promptfoo", str(config)])
    assert (done.exit_code, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"name": "test 1", "input": "hello", "assert": [{"contains": "hello"}]}
    config.write_text("tests:\n- vars: {text: hello}\n  assert: [{type: rouge-n, value: hello}]\n")
    done = CliRunner().invoke(app, ["eval", "--promptfoo", str(config)])
    assert done.exit_code == 1
    assert "not imported: test 1: assertion rouge-n" in done.stderr


def test_traces_become_drafts_of_cases(tmp_path: Path) -> None:
    failed = span("a" * 32, input__messages=messages("user", "I am ada@example.com"), status={"code": 2})
    traces = tmp_path / "traces.json"
    traces.write_text(document(failed))
    done = CliRunner().invoke(app, ["eval", "--traces", str(traces)])
    assert (done.exit_code, json.loads(done.stdout)["input"]) == (0, "I am <email>")
    assert "names of people and places are not masked" in done.stderr
    without_content = document(span("b" * 32, status={"code": 2}))
    done = CliRunner().invoke(app, ["eval", "--traces", "-"], input=without_content)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "gen_ai.input.messages" in done.stderr
    done = CliRunner().invoke(app, ["eval", "--traces", "-"], input="[]")
    assert (done.exit_code, "not a document of the OpenTelemetry Protocol" in done.stderr) == (2, True)


def test_traces_that_are_sent_become_drafts_at_the_end() -> None:
    failed = document(span("a" * 32, input__messages=messages("user", "I want a refund"), status={"code": 2}))
    command = [sys.executable, "-m", "gitsync", "eval", "--traces", "otlp://127.0.0.1:0"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with child_process(command, **pipes) as child:
        assert child.stderr is not None
        address = re.search(r"http://\S+", child.stderr.readline())
        assert address is not None
        request = urllib.request.Request(
            f"{address[0]}/v1/traces", failed.encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            assert answer.status == 200
        child.send_signal(signal.SIGINT)
        drafts, warnings = child.communicate(timeout=120)
    assert (child.returncode, json.loads(drafts)["input"]) == (0, "I want a refund"), warnings


NO_PROMISE = '{"name": "no promise", "input": "I want a refund", "assert": [{"notContains": "promise"}]}\n'


def test_an_agent_that_does_not_answer_is_not_judged(tmp_path: Path) -> None:
    cases = tmp_path / "cases.jsonl"
    cases.write_text(NO_PROMISE)
    summary = tmp_path / "verdict.json"
    options = ["--cases", str(cases), "--url", "http://127.0.0.1:9/", "--summary", str(summary)]
    done = CliRunner().invoke(app, ["eval", *options])
    assert done.exit_code == 3
    assert "did not answer" in done.output
    assert json.loads(summary.read_text())["result"] == "Inconclusive"


STATES = ("WORKING", "FAILED", "INPUT_REQUIRED", "SUBMITTED", "REJECTED", "CANCELED", "AUTH_REQUIRED")


@contextmanager
def agent_that_answers(status: int, reply: Any) -> Iterator[str]:
    """Serve one reply to every message."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            body = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def task(state: str, text: str = "") -> dict[str, Any]:
    message = {"message": {"parts": [{"text": text}]}} if text else {}
    return {"result": {"task": {"id": "t", "status": {"state": f"TASK_STATE_{state}", **message}}}}


@pytest.mark.parametrize(
    ("status", "reply"),
    [
        *(pytest.param(200, task(state, "I tried"), id=state) for state in STATES),
        pytest.param(200, {"result": {"task": {"id": "t"}}}, id="no state"),
        pytest.param(200, {"error": {"code": -32601, "message": "Method not found"}}, id="another version"),
        pytest.param(502, {}, id="bad gateway"),
        pytest.param(503, {}, id="unavailable"),
        pytest.param(429, {}, id="quota"),
    ],
)
def test_what_is_not_an_answer_passes_no_case(tmp_path: Path, status: int, reply: Any) -> None:
    cases = tmp_path / "cases.jsonl"
    cases.write_text(NO_PROMISE)
    with agent_that_answers(status, reply) as url:
        options = ["--cases", str(cases), "--url", url, "--settings", '{"timeoutSeconds": 1}']
        done = CliRunner().invoke(app, ["eval", *options])
    assert done.exit_code == 3, done.output
    assert "0 of 1 cases passed; inconclusive: no promise" in done.output


@pytest.mark.parametrize(("text", "exit_code"), [("Queue: billing", 0), ("I promise", 1)])
def test_the_text_of_a_completed_task_is_judged(tmp_path: Path, text: str, exit_code: int) -> None:
    cases = tmp_path / "cases.jsonl"
    cases.write_text(NO_PROMISE)
    with agent_that_answers(200, task("COMPLETED", text)) as url:
        done = CliRunner().invoke(app, ["eval", "--cases", str(cases), "--url", url])
    assert done.exit_code == exit_code, done.output


def test_what_cannot_be_evaluated_is_refused(tmp_path: Path) -> None:
    assert CliRunner().invoke(app, ["eval"]).exit_code == 2
    (tmp_path / "agents.yaml").write_text(AGENT.replace("name: cases, namespace", "name: others, namespace"))
    done = CliRunner().invoke(app, ["eval", str(tmp_path), "--url", "http://127.0.0.1:9/"])
    assert done.exit_code == 2
    assert "the folder has no ConfigMap cases" in done.output
