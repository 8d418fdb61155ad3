"""
Requests of an evaluation: one message to an agent, and one to the model that judges it.

Agents are asked by the A2A protocol, 1.0 or 0.3, or by HTTP as the evaluation describes, such as OpenAI's API.
"""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urljoin

from gitsync.agents.evaluation.assertions import AgentAnswer, ToolCall
from gitsync.agents.evaluation.verdict import INSTRUCTIONS, decision
from gitsync.agents.model.evaluation import HttpQuestion, Judge
from gitsync.errors import ClusterUnavailable
from gitsync.integrations.http import open_url
from gitsync.objects.manifest import pointer_parts

_ANSWER_BYTES = 4 * 1024 * 1024  # a bound for the memory of the Job: an agent may answer without end
_HEADERS = {"Content-Type": "application/json", "Gitsync-Evaluation": "true"}
"""An agent can tell a question of an evaluation by the last one, and pass it on to tools that then change nothing."""
TOOL_CALLS = "toolCalls"
"""The member of a message's metadata in which an agent lists the tools that it called: names, or name and arguments."""
TOKENS = "totalTokens"
"""The member of a message's metadata with the tokens that the answer took."""


@dataclass(frozen=True, slots=True)
class _Dialect:
    """The names of one version of A2A: methods, headers, members of a message and of its part, and states of tasks."""

    send: str
    get: str
    headers: Mapping[str, str]
    message: Mapping[str, str]
    part: Mapping[str, str]
    completed: str
    unfinished: frozenset[str]


_DIALECTS = (
    _Dialect(
        "SendMessage",
        "GetTask",
        {"A2A-Version": "1.0"},
        {"role": "ROLE_USER"},
        {},
        "TASK_STATE_COMPLETED",
        frozenset({"TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"}),
    ),
    _Dialect(
        "message/send",
        "tasks/get",
        {},
        {"role": "user", "kind": "message"},
        {"kind": "text"},
        "completed",
        frozenset({"submitted", "working"}),
    ),
)
"""The newest first. Sources: A2A 1.0, sections 9.4 and 4.1; A2A 0.3, sections 6 and 7."""
_METHOD_NOT_FOUND = -32601  # JSON-RPC 2.0, "Error object"
_TASK_PERIOD = 0.5  # seconds between two questions for a task that is worked on


def send(url: str, text: str, seconds: float, http: HttpQuestion | None = None) -> AgentAnswer:
    """
    Return the answer of an agent, with the time that it took.

    Raise ClusterUnavailable where none comes in time, or where it is not one of A2A or of the HTTP that is described.
    """
    began = time.monotonic()
    try:
        answer = _by_http(url, text, seconds, http) if http else _by_a2a(url, text, seconds)
    except (OSError, ValueError) as error:
        raise ClusterUnavailable(f"{url} did not answer: {error}") from error
    return replace(answer, seconds=time.monotonic() - began)


def _by_a2a(url: str, text: str, seconds: float) -> AgentAnswer:
    deadline = time.monotonic() + seconds
    reply: Any = None
    for dialect in _DIALECTS:
        message = {"messageId": "1", **dialect.message, "parts": [{**dialect.part, "text": text}]}
        reply = _called(url, dialect, dialect.send, {"message": message}, seconds)
        if not _is_unknown_method(reply):
            break
    # In 1.0 the result names what it is, in 0.3 it is the message or the task itself.
    result = _result(reply, url)
    message = result.get("message") or (result if "parts" in result else {})
    task = result.get("task") or (result if "status" in result else {})
    while task and _state(task) in dialect.unfinished and (remaining := deadline - time.monotonic()) > 0:
        time.sleep(min(_TASK_PERIOD, remaining))
        polled = _result(_called(url, dialect, dialect.get, {"id": task.get("id")}, seconds), url)
        task = polled.get("task") or polled
    if task and _state(task) != dialect.completed:
        # Its text, if any, is about the failure: no assertion about an answer can be judged by it.
        raise ClusterUnavailable(f"{url} did not complete its task: {_state(task) or 'without a state'}")
    return _answer(message, task)


def _called(url: str, dialect: _Dialect, method: str, parameters: Mapping[str, Any], seconds: float) -> Any:
    call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
    return _posted(url, call, {**_HEADERS, **dialect.headers}, seconds, _ANSWER_BYTES)


def _is_unknown_method(reply: Any) -> bool:
    error = reply.get("error") if isinstance(reply, dict) else None
    return isinstance(error, dict) and error.get("code") == _METHOD_NOT_FOUND


def _result(reply: Any, url: str) -> dict[str, Any]:
    result = reply.get("result") if isinstance(reply, dict) else None
    if not isinstance(result, dict):
        raise ClusterUnavailable(f"{url} answered no message: {str(reply)[:200]}")
    return result


def _state(task: Mapping[str, Any]) -> str:
    return str((task.get("status") or {}).get("state", ""))


def _answer(message: Mapping[str, Any], task: Mapping[str, Any]) -> AgentAnswer:
    """Return the text of a message, or of a task, which has it in its status and its artifacts."""
    reported = (task.get("status") or {}).get("message") or {}
    parts = [*_parts(message), *_parts(reported)]
    parts += [part for artifact in task.get("artifacts") or () for part in _parts(artifact)]
    metadata = message.get("metadata") or reported.get("metadata") or task.get("metadata") or {}
    calls = metadata.get(TOOL_CALLS)
    return AgentAnswer(
        "\n".join(parts),
        # None where the agent does not list its calls: an assertion about them cannot be judged then
        tuple(map(_tool_call, calls)) if isinstance(calls, list) else None,
        _count(metadata.get(TOKENS)),
    )


def _by_http(url: str, text: str, seconds: float, http: HttpQuestion) -> AgentAnswer:
    reply = _posted(urljoin(url, http.path), _filled(http.body, text), _HEADERS, seconds, _ANSWER_BYTES)
    answer = _member(reply, http.answer)
    if not isinstance(answer, str):
        raise ClusterUnavailable(f"{url} answered without a text at {http.answer}: {str(reply)[:200]}")
    return AgentAnswer(answer, tokens=_count(_member(reply, http.tokens)) if http.tokens else 0)


def _filled(template: Any, text: str) -> Any:
    """Return a template with the question in place of ``$input``."""
    if isinstance(template, dict):
        return {name: _filled(value, text) for name, value in template.items()}
    if isinstance(template, list):
        return [_filled(value, text) for value in template]
    return template.replace("$input", text) if isinstance(template, str) else template


def _member(value: Any, pointer: str) -> Any:
    """Return what a JSON Pointer names, None where there is nothing."""
    for part in pointer_parts(pointer):
        if isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        elif isinstance(value, dict):
            value = value.get(part)
        else:
            return None
    return value


def _count(value: Any) -> int:
    return int(value) if isinstance(value, int | float) else 0


def _posted(url: str, body: Any, headers: Mapping[str, str], seconds: float, limit: int) -> Any:
    """
    Return the JSON that a server answers.

    Raise OSError where it answers with an error, ValueError where that is not JSON, such as the page of a proxy.
    """
    with open_url(urllib.request.Request(url, json.dumps(body).encode(), dict(headers)), seconds) as answer:
        return json.loads(answer.read(limit))


def _tool_call(call: Any) -> ToolCall:
    if not isinstance(call, dict):
        return ToolCall(str(call))
    arguments = call.get("arguments")
    return ToolCall(str(call.get("name", "")), arguments if isinstance(arguments, dict) else {})


def _parts(holder: Mapping[str, Any]) -> Iterator[str]:
    return (str(part["text"]) for part in holder.get("parts") or () if "text" in part)


_VERDICT_BYTES = 256 << 10
_VERDICT_TOKENS = 200  # an answer has a verdict and one sentence


def ask_judge(judge: Judge, key: str, question: str, seconds: float) -> tuple[str, int]:
    """
    Return why the model rejects an answer, empty where it passes, and the tokens that judging took.

    Raise ClusterUnavailable where no answer comes in time, InvalidInput where it is not a verdict.
    """
    messages = [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": question}]
    body = {
        "model": judge.id,
        "messages": messages,
        "temperature": 0,
        "max_tokens": _VERDICT_TOKENS,
        "response_format": {"type": "json_object"},
    }
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
    url = f"{judge.endpoint.rstrip('/')}/chat/completions"
    try:
        completion = _posted(url, body, headers, seconds, _VERDICT_BYTES)
    except (OSError, ValueError) as error:
        raise ClusterUnavailable(f"the model that judges did not answer: {error}") from error
    return decision(completion)
