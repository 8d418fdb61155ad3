"""``gitsync eval``: the cases of a folder against an agent, its exit code and its report."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from gitsync.cli.main import app

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
    """Answer a message with its own text."""

    def do_POST(self) -> None:
        call = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        message = {"messageId": "2", "role": "ROLE_AGENT", "parts": call["params"]["message"]["parts"]}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"message": message}}).encode()
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


def test_an_agent_that_does_not_answer_fails_its_cases(tmp_path: Path) -> None:
    cases = tmp_path / "cases.jsonl"
    cases.write_text('{"name": "greeting", "input": "hello", "assert": [{"notContains": "morning"}]}\n')
    done = CliRunner().invoke(app, ["eval", "--cases", str(cases), "--url", "http://127.0.0.1:9/"])
    assert done.exit_code == 1
    assert "did not answer" in done.output


def test_what_cannot_be_evaluated_is_refused(tmp_path: Path) -> None:
    assert CliRunner().invoke(app, ["eval"]).exit_code == 2
    (tmp_path / "agents.yaml").write_text(AGENT.replace("name: cases, namespace", "name: others, namespace"))
    done = CliRunner().invoke(app, ["eval", str(tmp_path), "--url", "http://127.0.0.1:9/"])
    assert done.exit_code == 2
    assert "the folder has no ConfigMap cases" in done.output
