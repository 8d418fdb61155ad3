"""Agents of two versions of A2A and of other APIs are asked; the key of a judge is for its host alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from gitsync.agents.evaluation.assertions import ToolCall
from gitsync.agents.model.evaluation import HttpQuestion, Judge
from gitsync.errors import ClusterUnavailable
from gitsync.integrations.agent_evaluation import ask_judge, send
from tests.http_service import serve_http


def test_a_redirect_is_not_followed_with_the_key() -> None:
    seen: list[str] = []

    class Thief(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(str(self.headers["Authorization"]))
            self.send_response(200)
            self.end_headers()

        do_POST = do_GET  # noqa: N815 - a name of http.server

        def log_message(self, *args: object) -> None:
            """Stay quiet."""

    with serve_http(Thief) as port:

        class Redirecting(Thief):
            def do_POST(self) -> None:
                self.send_response(302)
                self.send_header("Location", f"http://127.0.0.1:{port}/")
                self.end_headers()

        with serve_http(Redirecting) as redirecting:
            url = f"http://127.0.0.1:{redirecting}"
            judge = Judge.model_validate({"id": "m", "endpoint": url})
            with pytest.raises(ClusterUnavailable, match="HTTP Error 302"):
                ask_judge(judge, "canary-key", "question", 5)
            with pytest.raises(ClusterUnavailable, match="HTTP Error 302"):
                send(url, "question", 5)
    assert seen == []


@contextmanager
def agent_server(reply: Callable[[str, dict[str, Any]], Any]) -> Iterator[str]:
    """Serve what a function replies to a path and a request."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            # Every request of an evaluation: agents and tools that know it change nothing.
            assert self.headers["Gitsync-Evaluation"] == "true"
            call = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body = json.dumps(reply(self.path, call)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Stay quiet."""

    with serve_http(Handler) as port:
        yield f"http://127.0.0.1:{port}/"


def replies(result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "result": result}


UNKNOWN = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "Method not found"}}


def test_an_agent_of_an_older_a2a_is_asked_in_its_words() -> None:
    def old(path: str, call: dict[str, Any]) -> Any:
        if call["method"] != "message/send":
            return UNKNOWN
        (part,) = call["params"]["message"]["parts"]
        assert (part["kind"], call["params"]["message"]["role"]) == ("text", "user")
        parts = [{"kind": "text", "text": f"{part['text']}!"}]
        metadata = {"toolCalls": ["find_order"], "totalTokens": 7}
        return replies({"kind": "message", "role": "agent", "messageId": "2", "parts": parts, "metadata": metadata})

    with agent_server(old) as url:
        answer = send(url, "hello", 5)
    assert (answer.text, answer.tools, answer.tokens) == ("hello!", (ToolCall("find_order"),), 7)
    assert answer.seconds > 0


@pytest.mark.parametrize(
    ("send_method", "get_method", "working", "completed"),
    [
        ("SendMessage", "GetTask", "TASK_STATE_WORKING", "TASK_STATE_COMPLETED"),
        ("message/send", "tasks/get", "working", "completed"),
    ],
)
def test_a_task_is_followed_until_it_has_ended(send_method: str, get_method: str, working: str, completed: str) -> None:
    asked: list[str] = []

    def slow(path: str, call: dict[str, Any]) -> Any:
        asked.append(call["method"])
        task = {"id": "t7", "kind": "task", "status": {"state": working}}
        if call["method"] == send_method:
            # Only 1.0 wraps the result of a message.
            return replies({"task": task} if send_method == "SendMessage" else task)
        if call["method"] != get_method:
            return UNKNOWN
        assert call["params"]["id"] == "t7"
        ended = {"status": {"state": completed}, "artifacts": [{"parts": [{"kind": "text", "text": "done"}]}]}
        return replies({**task, **ended})

    with agent_server(slow) as url:
        assert send(url, "hello", 30).text == "done"
    assert asked[-2:] == [send_method, get_method]


def test_an_agent_is_asked_by_http_as_described() -> None:
    def chat(path: str, call: dict[str, Any]) -> Any:
        assert (path, call["model"], call["n"]) == ("/v1/chat/completions", "agent", 1)
        text = call["messages"][1]["content"]
        return {"choices": [{"message": {"content": f"[{text}]"}}], "usage": {"total_tokens": 11}}

    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Q: $input"}]
    described = {
        "path": "/v1/chat/completions",
        "body": {"model": "agent", "n": 1, "messages": messages},
        "answer": "/choices/0/message/content",
        "tokens": "/usage/total_tokens",
    }
    with agent_server(chat) as url:
        answer = send(url, "hello", 5, HttpQuestion.model_validate(described))
        assert (answer.text, answer.tokens, answer.tools) == ("[Q: hello]", 11, None)
        elsewhere = HttpQuestion.model_validate({**described, "answer": "/choices/1/text"})
        with pytest.raises(ClusterUnavailable, match="answered without a text at /choices/1/text"):
            send(url, "hello", 5, elsewhere)
