"""Requests of an evaluation: one message to an agent by the A2A protocol 1.0, and one to the model that judges it."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

from gitsync.agents.evaluation.assertions import Answer, ToolCall
from gitsync.agents.evaluation.verdict import INSTRUCTIONS, decision
from gitsync.agents.model.evaluation import Judge
from gitsync.errors import ClusterUnavailable
from gitsync.integrations.http import open_url

_ANSWER_BYTES = 4 * 1024 * 1024  # a bound for the memory of the Job: an agent may answer without end
_HEADERS = {"Content-Type": "application/json", "A2A-Version": "1.0", "Gitsync-Evaluation": "true"}
"""An agent can tell a question of an evaluation by the last one, and pass it on to tools that then change nothing."""
_COMPLETED = "TASK_STATE_COMPLETED"
"""The only state of a task with an answer (A2A 1.0, TaskState)."""
TOOL_CALLS = "toolCalls"
"""The member of a message's metadata in which an agent lists the tools that it called: names, or name and arguments."""
TOKENS = "totalTokens"
"""The member of a message's metadata with the tokens that the answer took."""


def send(url: str, text: str, seconds: float) -> Answer:
    """Return the answer of an agent; raise ClusterUnavailable where none comes in time or it is not one of A2A."""
    message = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": text}]}
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    try:
        reply = _posted(url, call, _HEADERS, seconds, _ANSWER_BYTES)
    except (OSError, ValueError) as error:
        raise ClusterUnavailable(f"{url} did not answer: {error}") from error
    return _answer(reply, url)


def _posted(url: str, body: Any, headers: Mapping[str, str], seconds: float, limit: int) -> Any:
    """
    Return the JSON that a server answers.

    Raise OSError where it answers with an error, ValueError where that is not JSON, such as the page of a proxy.
    """
    with open_url(urllib.request.Request(url, json.dumps(body).encode(), dict(headers)), seconds) as answer:
        return json.loads(answer.read(limit))


def _answer(reply: Any, url: str) -> Answer:
    result = reply.get("result") if isinstance(reply, dict) else None
    if not isinstance(result, dict):
        raise ClusterUnavailable(f"{url} answered no message: {str(reply)[:200]}")
    # an agent answers with a message, or with a task whose text is in its status and its artifacts (A2A 1.0)
    message = result.get("message") or {}
    task = result.get("task") or {}
    state = str((task.get("status") or {}).get("state", ""))
    if task and state != _COMPLETED:
        # Its text, if any, is about the failure: no assertion about an answer can be judged by it.
        raise ClusterUnavailable(f"{url} did not complete its task: {state or 'without a state'}")
    parts = [*_parts(message), *_parts((task.get("status") or {}).get("message") or {})]
    parts += [part for artifact in task.get("artifacts") or () for part in _parts(artifact)]
    metadata = message.get("metadata") or {}
    calls = metadata.get(TOOL_CALLS)
    tokens = metadata.get(TOKENS)
    return Answer(
        "\n".join(parts),
        # None where the agent does not list its calls: an assertion about them cannot be judged then
        tuple(map(_tool_call, calls)) if isinstance(calls, list) else None,
        int(tokens) if isinstance(tokens, int | float) else 0,
    )


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
